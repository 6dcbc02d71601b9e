"""Links ranked among all nodes of the type that they lead to, not among a few that are drawn.

What must not live here: how scores are ranked (`neargraph.metrics.all_items`). The rows of all
nodes are a file beside the store, so memory does not grow with them. The invariant: rows come from
the edges of training alone, and links of training are not ranked.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from neargraph._room import scratch_folder
from neargraph.loader.epochs import EpochLoader
from neargraph.metrics import RankingTable, rank_all_items
from neargraph.schema import EdgeType
from neargraph.splits import SPLITS
from neargraph.store import Store

from .holdout import Holdout, edge_blocks

Ids = NDArray[np.int64]
Rows = Callable[[Any, str], Tensor]
"""The rows of the seeds of a batch, of a node type."""


class Ranking:
    """Ranks the links of a split; a context manager, whose files go at its end.

    Args:
        store: The store.
        edge_type: Which links.
        links: Those to rank, int64 [2, n].
        holdout: Which edges are of training.
        loader: Makes the batches around nodes of a type.
        rows: What the model makes of them.
        width: The columns of a row.
    """

    def __init__(
        self,
        store: Store,
        edge_type: EdgeType,
        links: Ids,
        holdout: Holdout,
        loader: Callable[[str, Any], EpochLoader],
        rows: Rows,
        width: int,
    ) -> None:
        self._store, self._type, self._holdout = store, edge_type, holdout
        # A link of an undirected graph is one of both its ends.
        self._links = np.hstack([links, links[::-1]]) if holdout.undirected else links
        self._sources = np.unique(self._links[0])
        self._loader, self._rows, self._width = loader, rows, width
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._found: list[Any] = []

    def __enter__(self) -> "Ranking":
        self._folder = scratch_folder(self._store.path)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._folder is not None
        # Mapped files stay until the last array over them is gone.
        self._found.clear()
        self._folder.cleanup()

    def passes(self) -> Iterator[tuple[str, EpochLoader, Callable[[Any], int]]]:
        """What is to be gone through: its name, its batches, and what takes each of them and gives
        how many rows it was."""
        sides = ((self._type.source, self._sources), (self._type.destination, None))
        for place, (node_type, nodes) in enumerate(sides):
            count = self._store.schema.node_type(node_type).num_nodes
            shape = (count if nodes is None else len(nodes), self._width)
            assert self._folder is not None
            path = Path(self._folder.name) / f"{place}.f32"
            table = np.memmap(path, np.float32, "w+", shape=shape)
            self._found.append(table)
            yield node_type, self._loader(node_type, nodes), self._writer(table, node_type)

    def _writer(self, table: Any, node_type: str) -> Callable[[Any], int]:
        done = 0

        def write(batch: Any) -> int:
            nonlocal done
            rows = self._rows(batch, node_type)
            table[done : done + len(rows)] = rows.cpu().numpy()
            done += len(rows)
            return len(rows)

        return write

    def compute(self, metrics: tuple[str, ...]) -> dict[str, float]:
        """The metrics by name, means over the nodes that the links come from."""
        owners = np.searchsorted(self._sources, self._links[0])
        wanted = RankingTable.of_pairs(owners, self._links[1], len(self._sources))
        sources, items = self._found
        return rank_all_items(sources, items, wanted, self._known(), metrics=metrics)

    def _known(self) -> RankingTable:
        """What is not ranked: links of training from these nodes, and in one type the nodes
        themselves."""
        parts = []
        if self._type.source == self._type.destination:
            parts.append(np.stack([np.arange(len(self._sources)), self._sources]))
        for sources, targets, times in edge_blocks(self._store, self._type):
            place = np.searchsorted(self._sources, sources)
            place[place == len(self._sources)] = 0
            is_training = self._holdout.codes(sources, targets, times) == SPLITS["train"]
            kept = is_training & (self._sources[place] == sources)
            parts.append(np.stack([place[kept], targets[kept]]))
        known = np.hstack(parts)
        return RankingTable.of_pairs(known[0], known[1], len(self._sources))
