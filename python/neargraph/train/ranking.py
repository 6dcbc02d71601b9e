"""Links ranked among all nodes of the type that they lead to, not among a few that are drawn.

What must not live here: how scores are ranked (`neargraph.metrics.all_items`). The rows of all
nodes and the known links are files beside the store, so memory does not grow with them. The
invariant: rows come from the edges of training alone, and a link competes only with pairs that are
no links of the store.
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
from neargraph.store import Store

from .holdout import edge_blocks

# Scores and the known links of some sources may take this part of the store's memory, each.
_MEMORY_SHARE = 8

Ids = NDArray[np.int64]
Rows = Callable[[Any, str], Tensor]
"""The rows of the seeds of a batch, of a node type."""


class Ranking:
    """Ranks the links of a split; a context manager, whose files go at its end.

    Args:
        store: The store.
        edge_type: Which links.
        links: Those to rank, int64 [2, n].
        undirected: Whether a link is one of both its ends.
        loader: Makes the batches around nodes of a type.
        rows: What the model makes of them.
        width: The columns of a row.
    """

    def __init__(
        self,
        store: Store,
        edge_type: EdgeType,
        links: Ids,
        undirected: bool,
        loader: Callable[[str, Any], EpochLoader],
        rows: Rows,
        width: int,
    ) -> None:
        self._store, self._type = store, edge_type
        self._links = np.hstack([links, links[::-1]]) if undirected else links
        self._sources = np.unique(self._links[0])
        self._dead = store.snapshot().dead_nodes(edge_type.destination)
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
        live = self._store.schema.node_type(self._type.destination).num_nodes - len(self._dead)
        for node_type, nodes, count, place in (
            (self._type.source, self._sources, len(self._sources), self._places),
            (self._type.destination, None, live, self._items),
        ):
            table = self._file(f"{len(self._found)}.f32", np.float32, (count, self._width))
            self._found.append(table)
            yield node_type, self._loader(node_type, nodes), self._writer(table, node_type, place)

    def _writer(
        self, table: Any, node_type: str, place: Callable[[Ids], Ids]
    ) -> Callable[..., int]:
        def write(batch: Any) -> int:
            rows = self._rows(batch, node_type)
            owner = batch[node_type] if node_type in getattr(batch, "node_types", ()) else batch
            table[place(owner.n_id[: len(rows)].cpu().numpy())] = rows.cpu().numpy()
            return len(rows)

        return write

    def _places(self, sources: Ids) -> Ids:
        """Which of the ranked sources these are; they must be some."""
        return np.searchsorted(self._sources, sources)

    def _items(self, targets: Ids) -> Ids:
        """The places of targets among the nodes that are not deleted."""
        return targets - np.searchsorted(self._dead, targets)

    def compute(self, metrics: tuple[str, ...]) -> dict[str, float]:
        """The metrics by name, means over the nodes that the links come from."""
        owners = self._places(self._links[0])
        wanted = RankingTable.of_pairs(owners, self._items(self._links[1]), len(self._sources))
        sources, items = self._found
        memory = self._store.core.memory_bytes // _MEMORY_SHARE
        return rank_all_items(sources, items, wanted, self._known(), metrics=metrics, memory=memory)

    def _known(self) -> RankingTable:
        """What is not ranked: all links from these nodes (those that are asked about are ranked all
        the same), and in one type the nodes themselves. A file, since they may be many."""
        counts = np.zeros(len(self._sources) + 1, np.int64)
        for places, _ in self._known_links():
            counts[1:] += np.bincount(places, minlength=len(self._sources))
        indptr = counts.cumsum()
        items = self._file("known.i64", np.int64, (max(1, int(indptr[-1])),))
        next_free = indptr[:-1].copy()
        for places, targets in self._known_links():
            order = np.argsort(places, kind="stable")
            owners, lengths = np.unique(places, return_counts=True)
            begins = np.repeat(next_free[owners] - (lengths.cumsum() - lengths), lengths)
            items[begins + np.arange(len(places))] = targets[order]
            next_free[owners] += lengths
        return RankingTable(indptr, items[: indptr[-1]])

    def _known_links(self) -> Iterator[tuple[Ids, Ids]]:
        """(places of sources, places of targets) of what is not ranked, in pieces."""
        if self._type.source == self._type.destination:
            yield np.arange(len(self._sources)), self._items(self._sources)
        for sources, targets, _ in edge_blocks(self._store, self._type):
            is_ranked = np.isin(sources, self._sources)
            yield self._places(sources[is_ranked]), self._items(targets[is_ranked])

    def _file(self, name: str, kind: Any, shape: tuple[int, ...]) -> Any:
        assert self._folder is not None
        return np.memmap(Path(self._folder.name) / name, kind, "w+", shape=shape)
