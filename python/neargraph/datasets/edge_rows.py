"""The edges of a type as rows of a table: sources, destinations, and the values of each edge.

If edges have ids, row i is the edge with the i-th id, so that the rows of edge tensors keep their
order. Edges are sorted through temporary files for that. Otherwise rows have the order of the
in-neighbour lists. An undirected edge is two entries of the lists, and one row with ``once``. The
invariant: a piece has a few megabytes, independent of the number of edges.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._lists import lists_of
from neargraph.importers.chunks import chunk_rows, spans
from neargraph.reader import Neighbors
from neargraph.schema import EdgeType, TensorMeta
from neargraph.snapshot import Snapshot

from .node_rows import widened

Array = NDArray[Any]

_INLINE: dict[str, Any] = {"time": np.int64, "weight": np.float32}


@dataclass(frozen=True)
class EdgeRows:
    """Some rows. A column that the edge type does not have is None."""

    sources: Array
    destinations: Array
    ids: Array | None
    times: Array | None
    weights: Array | None
    tensors: dict[str, Array]

    def __len__(self) -> int:
        return len(self.sources)

    @staticmethod
    def none(edge: EdgeType) -> "EdgeRows":
        """Returns zero rows with the columns of an edge type."""
        ids = np.empty(0, np.int64)
        return EdgeRows(
            ids,
            ids,
            ids if edge.has_edge_ids else None,
            ids if edge.has_time else None,
            np.empty(0, np.float32) if edge.has_weight else None,
            {t.name: np.empty((0, *t.shape), _kind(t)) for t in edge.tensors},
        )


class EdgeTable:
    """All edges of one type.

    Args:
        snap: The version to read.
        edge: The type.
        folder: The folder for temporary files.
        once: Whether an undirected edge is one row.
        most: Largest number of rows in a piece.

    Attributes:
        num_rows: Number of rows.
        renumbered: Whether edge ids have gaps, so that row i need not have id i.
    """

    def __init__(
        self,
        snap: Snapshot,
        edge: EdgeType,
        folder: Path,
        once: bool = False,
        most: int = 1 << 20,
    ) -> None:
        self._snap, self.edge = snap, edge
        self._once = once and edge.undirected
        self._by_id: dict[str, Any] | None = None
        self.renumbered = False
        self._step = min(most, chunk_rows(max([24, *(_row_bytes(t) for t in edge.tensors)])))
        if edge.has_edge_ids and (self._once or not edge.undirected):
            self._by_id = self._scattered(folder)
            self.num_rows = sum(len(ids) for ids in self._present())
            self.renumbered = self.num_rows != edge.num_edge_ids
        elif self._once:
            self.num_rows = sum(len(rows) for rows in self.rows(with_tensors=False))
        else:
            self.num_rows = edge.num_edges

    def rows(self, with_tensors: bool = True) -> Iterator[EdgeRows]:
        """Yields the rows in order. Each call yields the same rows."""
        pieces = self._of_lists() if self._by_id is None else self._of_ids()
        for sources, destinations, ids, times, weights in pieces:
            for span in spans(len(sources), self._step):
                part = None if ids is None else ids[span]
                yield EdgeRows(
                    sources[span],
                    destinations[span],
                    part,
                    None if times is None else times[span],
                    None if weights is None else weights[span],
                    self._tensors(part) if with_tensors and part is not None else {},
                )

    def _tensors(self, ids: Array) -> dict[str, Array]:
        triple = self.edge.triple
        return {
            tensor.name: widened(self._snap.edge_features(triple, ids, tensor.name), tensor)
            for tensor in self.edge.tensors
        }

    def _entries(self) -> Iterator[tuple[Array, Neighbors]]:
        """Yields (destination of each entry, some lists)."""
        for ids, found in lists_of(self._snap, self.edge):
            yield np.repeat(ids, np.diff(found.indptr)), found

    def _of_lists(self) -> Iterator[tuple[Array, Array, Any, Any, Any]]:
        for destinations, found in self._entries():
            keep = found.indices <= destinations if self._once else slice(None)
            inline = (found.edge_ids, found.times, found.weights)
            ids, times, weights = (None if c is None else c[keep] for c in inline)
            yield found.indices[keep], destinations[keep], ids, times, weights

    def _scattered(self, folder: Path) -> dict[str, Any]:
        """Writes the columns by edge id to files. Sources count from 1; 0 marks a free id."""
        edge = self.edge
        there = {"time": edge.has_time, "weight": edge.has_weight}
        kinds = {name: _INLINE[name] for name in _INLINE if there[name]}
        kinds |= {"source": np.int64, "destination": np.int64}
        files: dict[str, Any] = {}
        for name, kind in kinds.items():
            path = folder / f"passing-{edge.index}-{name}"
            # An empty file cannot be mapped.
            files[name] = np.memmap(path, kind, "w+", shape=(max(1, edge.num_edge_ids),))
            path.unlink()
        for destinations, found in self._entries():
            keep = found.indices <= destinations if self._once else slice(None)
            assert found.edge_ids is not None
            ids = found.edge_ids[keep]
            files["source"][ids] = found.indices[keep] + 1
            files["destination"][ids] = destinations[keep]
            for name, column in (("time", found.times), ("weight", found.weights)):
                if column is not None:
                    files[name][ids] = column[keep]
        return files

    def _present(self) -> Iterator[Array]:
        """Yields the edge ids in use, ascending, in pieces."""
        assert self._by_id is not None
        for span in spans(self.edge.num_edge_ids):
            yield span.start + np.flatnonzero(self._by_id["source"][span])

    def _of_ids(self) -> Iterator[tuple[Array, Array, Any, Any, Any]]:
        files = self._by_id
        assert files is not None
        for ids in self._present():
            times, weights = (files[n][ids] if n in files else None for n in ("time", "weight"))
            yield files["source"][ids] - 1, files["destination"][ids], ids, times, weights


def _kind(tensor: TensorMeta) -> np.dtype[Any]:
    """The dtype of the rows that `widened` returns for an edge tensor."""
    return np.dtype(np.float32) if tensor.dtype == "bf16" else tensor.numpy_dtype


def _row_bytes(tensor: TensorMeta) -> int:
    return _kind(tensor).itemsize * tensor.num_columns
