"""Ranking of links among all nodes of their destination type, not among drawn negatives.

Ranking by scores must not live here: `neargraph.metrics.all_items` does it. The rows of all nodes
and the known links are in files beside the store, so memory does not grow with them. The invariant:
rows are computed from training edges only, and a link competes only with pairs that are not links
of the store.
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

# Scores, and the known links of some sources, may each use this part of the store's memory.
_MEMORY_SHARE = 8

Ids = NDArray[np.int64]
Rows = Callable[[Any, str], Tensor]
"""A function that returns the rows of a batch's seeds of a node type."""


class Ranking:
    """Ranks the links of a split. It is a context manager that removes its files on exit.

    Args:
        store: The store.
        edge_type: The edge type of the links.
        links: The links to rank, int64 [2, n].
        undirected: Whether to rank each link from both of its ends.
        loader: Function that returns the batches around nodes of a type.
        rows: Function that returns the model's rows for the seeds of a batch.
        width: Number of columns of a row.
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
        # A mapped file keeps its disk space until the last array over it is freed.
        self._found.clear()
        self._folder.cleanup()

    def passes(self) -> Iterator[tuple[str, EpochLoader, Callable[[Any], int]]]:
        """Yields (name, batches, function) of each pass. The function stores the rows of a batch
        and returns their number."""
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
        """Returns the indices of sources among the ranked ones, which must contain them."""
        return np.searchsorted(self._sources, sources)

    def _items(self, targets: Ids) -> Ids:
        """Returns the indices of targets among the nodes that are not deleted."""
        return targets - np.searchsorted(self._dead, targets)

    def compute(self, metrics: tuple[str, ...]) -> dict[str, float]:
        """Returns the metrics by name, as means over the sources of the links."""
        owners = self._places(self._links[0])
        wanted = RankingTable.of_pairs(owners, self._items(self._links[1]), len(self._sources))
        sources, items = self._found
        memory = self._store.core.memory_bytes // _MEMORY_SHARE
        return rank_all_items(sources, items, wanted, self._known(), metrics=metrics, memory=memory)

    def _known(self) -> RankingTable:
        """Returns the pairs to leave out, in a file: all links from these nodes and, within one
        node type, the nodes themselves. `rank_all_items` still ranks the links in question."""
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
        """Yields (indices of sources, indices of targets) of the pairs to leave out, in parts."""
        if self._type.source == self._type.destination:
            yield np.arange(len(self._sources)), self._items(self._sources)
        for sources, targets, _ in edge_blocks(self._store, self._type):
            is_ranked = np.isin(sources, self._sources)
            yield self._places(sources[is_ranked]), self._items(targets[is_ranked])

    def _file(self, name: str, kind: Any, shape: tuple[int, ...]) -> Any:
        assert self._folder is not None
        return np.memmap(Path(self._folder.name) / name, kind, "w+", shape=shape)
