"""The updates that update_rate.py plays: a git history, and random edges.

A trace is an initial graph and batches of operations; ids of new nodes are given out in order, as
every system here does. Edges are undirected and may be parallel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

WIDTH = 64
BATCH = 100


@dataclass
class Batch:
    """Operations in an order that keeps their meaning: adds, rows, edges, deletions."""

    added: int = 0
    row_ids: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)

    def operations(self) -> int:
        return self.added + len(self.row_ids) + len(self.edges) + len(self.deleted)

    def payload_bytes(self) -> int:
        """8 for an id, and the rows."""
        rows = len(self.row_ids) * (8 + 4 * WIDTH)
        return 8 * self.added + rows + 16 * len(self.edges) + 8 * len(self.deleted)


def rows_of(ids: list[int], step: int) -> np.ndarray:
    """The rows that batch `step` gives to nodes: any numbers will do, but the same for all."""
    base = np.arange(WIDTH, dtype=np.float32)
    return base + (np.asarray(ids, np.float32) % 977)[:, None] + np.float32(step % 31)


def git_trace() -> Iterator[Batch]:
    """AddVertex and AddEdge, UpdateEmbed and AddEdge, DeleteVertex: files and their authors."""
    folder = os.environ.get("NEARGRAPH_DATA")
    if folder is None:
        raise SystemExit("set NEARGRAPH_DATA to the folder with git_trace/git_trace.npz")
    data = np.load(Path(folder) / "git_trace" / "git_trace.npz")
    columns = [data[name].tolist() for name in ("op", "author_id", "file_id")]
    nodes: dict[tuple[str, int], int] = {}
    count = 0
    batch = Batch()
    for op, author, file in zip(*columns, strict=True):
        for key in (("author", author), ("file", file)):
            wanted = key[0] == "author" or op == 0
            if wanted and key not in nodes:
                nodes[key] = count
                count += 1
                batch.added += 1
                batch.row_ids.append(nodes[key])
        node = nodes.get(("file", file))
        if node is not None:
            if op == 1:
                batch.row_ids.append(node)
            if op == 2:
                batch.deleted.append(nodes.pop(("file", file)))
            else:
                batch.edges.append((nodes["author", author], node))
        if batch.operations() >= BATCH:
            yield batch
            batch = Batch()
    if batch.operations():
        yield batch


def random_edges(nodes: int, edges: int, seed: int) -> Iterator[Batch]:
    """Edges between random nodes."""
    rng = np.random.default_rng(seed)
    for first in range(0, edges, BATCH):
        ends = rng.integers(0, nodes, (min(BATCH, edges - first), 2))
        yield Batch(edges=[(a, b) for a, b in ends.tolist()])
