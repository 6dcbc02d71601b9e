"""What a store holds in figures: degrees, labels, splits, value ranges; one pass over everything.

Degrees and values are counted in pieces; what grows with the number of nodes (edges that start at
each node) is counted where it fits into a quarter of the memory budget. The invariant: figures are
exact, of nodes and edges that were not deleted; rows of edge tensors are read by edge id, those of
deleted edges among them.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._lists import lists_of
from neargraph.datasets.node_rows import node_pieces, widened
from neargraph.importers.chunks import chunk_rows, spans
from neargraph.schema import EdgeType, NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.splits import SPLITS
from neargraph.store import Store

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

_SPAN = 1 << 20
# Of the memory budget, what counters of nodes may take.
_SHARE = 4
_LABELS_MAX = 1 << 16


def store_stats(store: Store, *, progress: Progress | None = None) -> dict[str, Any]:
    """Counts, degrees, labels, splits and value ranges of the newest version of a store.

    Args:
        store: The store; its memory budget bounds the counters.
        progress: Called with (phase, how much is done, of how much).

    Returns:
        ``node_types`` and ``edge_types``, each a list of dictionaries. Degrees have ``min``,
        ``median``, ``mean``, ``p99``, ``max``, and ``histogram``: pairs of the lower end of a range
        (0, 1, 2, 4, 8, ...) and how many nodes are in it. ``isolated`` counts nodes without any
        edge; None where the counters do not fit into memory.

    Example:
        >>> store_stats(store)["edge_types"][0]["in_degree"]["p99"]          # doctest: +SKIP
        131
    """
    snap, tell = store.snapshot(), progress or (lambda *_: None)
    counters = _Counters(snap, store.core.memory_bytes // _SHARE)
    edges = [_edge_stats(snap, edge, counters, tell) for edge in snap.schema.edge_types]
    nodes = [_node_stats(snap, node, counters, tell) for node in snap.schema.node_types]
    return {"path": store.path, "lsn": snap.lsn, "node_types": nodes, "edge_types": edges}


class _Counters:
    """Which nodes have an edge, by type, and edges that start at each node of one type."""

    def __init__(self, snap: Snapshot, limit: int) -> None:
        self._limit = limit
        total = sum(node.num_nodes for node in snap.schema.node_types)
        self.touched: dict[str, Array] | None = None
        if total <= limit:
            self._limit -= total
            self.touched = {
                node.name: np.zeros(node.num_nodes, bool) for node in snap.schema.node_types
            }

    def touch(self, node_type: str, ids: Array) -> None:
        """These nodes have an edge."""
        if self.touched is not None:
            self.touched[node_type][ids] = True

    def starts(self, nodes: int) -> Array | None:
        """A counter for each node; None if they do not fit."""
        return np.zeros(nodes, np.int64) if 8 * nodes <= self._limit else None


def _edge_stats(
    snap: Snapshot, edge: EdgeType, counters: _Counters, tell: Progress
) -> dict[str, Any]:
    phase = f"edges {edge.relation}"
    sources = snap.schema.node_type(edge.source)
    destinations = snap.schema.node_type(edge.destination)
    starts, into, done, loops = counters.starts(sources.num_nodes), _Degrees(), 0, 0
    inline = {"time": _Range(), "weight": _Range()}
    dead = snap.dead_nodes(edge.destination)
    for ids, found in lists_of(snap, edge):
        degrees = np.diff(found.indptr)
        # Ids of one piece follow each other.
        low, high = np.searchsorted(dead, (ids[0], ids[-1] + 1))
        into.add(np.delete(degrees, dead[low:high] - ids[0]))
        counters.touch(edge.destination, ids[degrees > 0])
        counters.touch(edge.source, found.indices)
        if starts is not None:
            np.add.at(starts, found.indices, 1)
        if edge.source == edge.destination:
            loops += int((np.repeat(ids, degrees) == found.indices).sum())
        for name, column in (("time", found.times), ("weight", found.weights)):
            if column is not None:
                inline[name].add(column)
        done += len(found.indices)
        tell(phase, done, edge.num_edges)
    out = None
    if starts is not None:
        out = _Degrees()
        out.add(np.delete(starts, snap.dead_nodes(edge.source)))
    facts: dict[str, Any] = {
        "type": list(edge.triple),
        "num_edges": edge.num_edges,
        "self_loops": loops if edge.source == edge.destination else None,
        "in_degree": into.plain(),
        "out_degree": None if out is None else out.plain(),
        "nodes": [sources.num_nodes_live, destinations.num_nodes_live],
    }
    facts |= {name: found.plain() for name, found in inline.items() if found.count}
    facts["tensors"] = {t.name: _edge_range(snap, edge, t, tell) for t in edge.tensors}
    return facts


def _node_stats(
    snap: Snapshot, node: NodeType, counters: _Counters, tell: Progress
) -> dict[str, Any]:
    dead = snap.dead_nodes(node.name)
    isolated = None
    if counters.touched is not None:
        alone = ~counters.touched[node.name]
        alone[dead] = False
        isolated = int(alone.sum())
    facts: dict[str, Any] = {
        "type": node.name,
        "num_nodes": node.num_nodes_live,
        "deleted": node.num_nodes - node.num_nodes_live,
        "isolated": isolated,
        "splits": {},
        "labels": {},
        "tensors": {},
    }
    for tensor in node.tensors:
        pieces = _live_pieces(snap, node, tensor, dead, tell)
        if tensor.is_split:
            facts["splits"][tensor.name] = _parts(pieces)
        elif _is_label(tensor):
            facts["labels"][tensor.name] = _classes(pieces, tensor)
        else:
            found = _Range()
            for rows in pieces:
                found.add(rows)
            facts["tensors"][tensor.name] = {**_shape(tensor), **found.plain()}
    return facts


def _live_pieces(
    snap: Snapshot, node: NodeType, tensor: TensorMeta, dead: Array, tell: Progress
) -> Iterator[Array]:
    for first, rows in node_pieces(snap, node, tensor):
        low, high = np.searchsorted(dead, (first, first + len(rows)))
        yield np.delete(rows, dead[low:high] - first, axis=0)
        tell(f"{node.name} {tensor.name}", first + len(rows), node.num_nodes)


def _edge_range(
    snap: Snapshot, edge: EdgeType, tensor: TensorMeta, tell: Progress
) -> dict[str, Any]:
    found = _Range()
    step = chunk_rows(4 * tensor.num_columns)
    for span in spans(edge.num_edge_ids, step):
        ids = np.arange(span.start, span.stop)
        found.add(widened(snap.edge_features(edge.triple, ids, tensor.name), tensor))
        tell(f"{edge.relation} {tensor.name}", span.stop, edge.num_edge_ids)
    return {**_shape(tensor), **found.plain()}


def _shape(tensor: TensorMeta) -> dict[str, Any]:
    return {"dtype": tensor.dtype, "shape": list(tensor.shape)}


def _is_label(tensor: TensorMeta) -> bool:
    is_class = bool(tensor.class_names) or tensor.name in ("y", "graph_y")
    return is_class and not tensor.shape and tensor.numpy_dtype.kind in "iu"


def _parts(pieces: Iterator[Array]) -> dict[str, int]:
    counts = np.zeros(256, np.int64)
    for codes in pieces:
        counts += np.bincount(codes, minlength=256)
    named = {part: int(counts[code]) for part, code in SPLITS.items()}
    return {**named, "none": int(counts[0])}


def _classes(pieces: Iterator[Array], tensor: TensorMeta) -> dict[str, Any]:
    """How many nodes each class has, the largest first; more classes than 65,536 are a range."""
    counts: dict[int, int] = {}
    values = _Range()
    for rows in pieces:
        values.add(rows)
        if len(counts) <= _LABELS_MAX:
            known, found = np.unique(rows, return_counts=True)
            for kind, count in zip(known.tolist(), found.tolist(), strict=True):
                counts[kind] = counts.get(kind, 0) + count
    if len(counts) > _LABELS_MAX:
        return {"classes": None, **values.plain()}
    listed = []
    for kind, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        entry: dict[str, Any] = {"class": kind, "count": count}
        if 0 <= kind < len(tensor.class_names):
            entry["name"] = tensor.class_names[kind]
        if kind >= 0:
            listed.append(entry)
    unlabelled = sum(count for kind, count in counts.items() if kind < 0)
    return {"classes": listed, "unlabelled": unlabelled}


class _Degrees:
    """How many nodes have each degree."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, degrees: Array) -> None:
        """Counts the degrees of some nodes."""
        known, found = np.unique(degrees, return_counts=True)
        for degree, count in zip(known.tolist(), found.tolist(), strict=True):
            self._counts[degree] = self._counts.get(degree, 0) + count

    def plain(self) -> dict[str, Any] | None:
        """The figures; None without nodes."""
        if not self._counts:
            return None
        degrees = np.array(sorted(self._counts), np.int64)
        counts = np.array([self._counts[degree] for degree in degrees.tolist()], np.int64)
        sums = np.cumsum(counts)
        total = int(sums[-1])

        def quantile(share: float) -> int:
            return int(degrees[np.searchsorted(sums, max(1, math.ceil(share * total)))])

        low = [0 if d == 0 else 1 << (int(d).bit_length() - 1) for d in degrees]
        histogram: dict[int, int] = {}
        for start, count in zip(low, counts.tolist(), strict=True):
            histogram[start] = histogram.get(start, 0) + count
        return {
            "min": int(degrees[0]),
            "median": quantile(0.5),
            "mean": float(degrees @ counts / total),
            "p99": quantile(0.99),
            "max": int(degrees[-1]),
            "histogram": [list(entry) for entry in histogram.items()],
        }


class _Range:
    """The range of some values, their mean, and how many are 0 or not finite."""

    def __init__(self) -> None:
        self.count = 0
        self._zeros = self._nan = self._infinite = 0
        self._sum, self._low, self._high = 0.0, math.inf, -math.inf

    def add(self, rows: Array) -> None:
        """Counts all values of some rows."""
        values = rows.reshape(-1)
        self.count += len(values)
        if values.dtype == bool:
            values = values.view(np.uint8)
        self._zeros += int((values == 0).sum())
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            nan = int(np.isnan(values).sum())
            self._nan += nan
            self._infinite += len(values) - int(finite.sum()) - nan
            values = values[finite]
        if len(values):
            self._low = min(self._low, values.min().item())
            self._high = max(self._high, values.max().item())
            self._sum += float(values.sum(dtype=np.float64))

    def plain(self) -> dict[str, Any]:
        """The figures; min, max and mean are None without finite values."""
        finite = self.count - self._nan - self._infinite
        return {
            "min": self._low if finite else None,
            "max": self._high if finite else None,
            "mean": self._sum / finite if finite else None,
            "zero_share": self._zeros / self.count if self.count else None,
            "nan": self._nan,
            "infinite": self._infinite,
        }
