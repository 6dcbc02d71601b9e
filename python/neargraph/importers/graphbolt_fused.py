"""The topology of a preprocessed OnDiskDataset: one file of all edges, by destination.

The file is what torch.save makes of a FusedCSCSamplingGraph; only its tensors are read
(`torch_file.py`). Node types are ranges of ids, edge types are numbers beside the edges. Memory is
that of one chunk; the edges are passed over once for each edge type.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .arrays import drop_pages
from .check import fail, node_ids
from .chunks import spans
from .csr import rows_of_entries
from .graphbolt import (
    Folder,
    Inline,
    Triple,
    Types,
    add_tensor,
    parse_triple,
    set_inline,
)
from .notes import left_out
from .plan import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE, Array, EdgeChunk, EdgePlan, NodePlan
from .torch_file import TorchObject, contents, load_torch

_EDGE_ID = "_ORIGINAL_EDGE_ID"
_ROWS = 1 << 17
_AGAIN = "preprocess the data set again, or give its raw folder"


class _Fused:
    """The tensors of the file, checked as far as that is cheap; ``where`` names it."""

    def __init__(self, state: dict[str, Any], where: str) -> None:
        self.where = where
        tensors = state.get("independent_tensors")
        if not isinstance(tensors, dict):
            fail(where, "has no dictionary 'independent_tensors'", _AGAIN)
        self.indptr = self._column(tensors, "indptr")
        self.indices = self._column(tensors, "indices")
        if not len(self.indptr) or self.indptr[0] != 0 or self.indptr[-1] != len(self.indices):
            what = "the tensor indptr does not start at 0, or does not end at the number of edges"
            fail(where, what, _AGAIN)
        self.offsets = self._optional(tensors, "node_type_offset")
        self.kinds = self._optional(tensors, "type_per_edge")
        self.node_types = _numbers(state.get("node_type_to_id"))
        self.edge_types = _numbers(state.get("edge_type_to_id"))
        self.attributes: dict[str, dict[str, Any]] = {
            domain: state.get(f"{domain}_attributes") or {} for domain in ("node", "edge")
        }

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    def _column(self, tensors: dict[str, Any], name: str) -> Array:
        found = tensors.get(name)
        if not isinstance(found, np.ndarray) or found.ndim != 1 or found.dtype.kind not in "iu":
            fail(self.where, f"the tensor {name} is missing, or is not a list of integers", _AGAIN)
        return found

    def _optional(self, tensors: dict[str, Any], name: str) -> Array | None:
        return None if tensors.get(name) is None else self._column(tensors, name)

    def entries(self) -> Iterator[tuple[slice, Array, Array]]:
        """(places, sources, destinations) of all edges, in ids of all node types together."""
        for first in range(0, self.num_nodes, _ROWS):
            block = np.asarray(self.indptr[first : first + _ROWS + 1], dtype=np.int64)
            if (np.diff(block) < 0).any() or block[0] < 0 or block[-1] > len(self.indices):
                what = (
                    f"the tensor indptr decreases or exceeds the number of edges near row {first}"
                )
                fail(self.where, what, _AGAIN)
            for start, end, rows in rows_of_entries(first, block):
                sources = np.asarray(self.indices[start:end], dtype=np.int64)
                node_ids(sources, self.where, start, self.num_nodes)
                yield slice(start, end), sources, rows
                for mapped in (self.indptr, self.indices, self.kinds):
                    drop_pages(mapped)


def fused_types(folder: Folder, topology: dict[str, Any]) -> Types:
    """Node and edge types of the file that ``graph_topology`` names."""
    what = "the entry 'graph_topology'"
    if topology.get("type") != "FusedCSCSamplingGraph":
        found = f"{what} has type {topology.get('type')!r}, expected 'FusedCSCSamplingGraph'"
        fail(folder.file, found, "import the raw data set, before preprocessing")
    file = folder.place(topology, what)
    fused = _Fused(_state(load_torch(file), str(file)), str(file))
    types = Types(by_row=False)
    if fused.offsets is None or not fused.node_types:
        types.nodes[HOMOGENEOUS_NODE] = NodePlan(num_nodes=fused.num_nodes)
        _add_type(types, fused, HOMOGENEOUS_EDGE, None, len(fused.indices))
    else:
        _add_types(folder, types, fused, fused.offsets)
    for name, values in fused.attributes["node"].items():
        _add_node_attribute(types, fused, name, contents(values))
    _add_edge_attributes(folder, types, fused)
    return types


def _state(found: Any, where: str) -> dict[str, Any]:
    """The tensors of a FusedCSCSamplingGraph, with the numbers of its types."""
    if not isinstance(found, TorchObject) or not found.name.endswith("FusedCSCSamplingGraph"):
        fail(where, "holds no FusedCSCSamplingGraph", _AGAIN)
    outer = found.state if isinstance(found.state, dict) else {}
    script = outer.get("_c_csc_graph")
    inner = script.state if isinstance(script, TorchObject) else None
    inner = inner[0] if isinstance(inner, tuple) and inner else inner
    if not isinstance(inner, dict):
        fail(where, "holds a FusedCSCSamplingGraph without its tensors", _AGAIN)
    # Older releases keep the types beside the tensors.
    beside = outer.get("_metadata")
    more = beside.state if isinstance(beside, TorchObject) else {}
    return {**(more if isinstance(more, dict) else {}), **inner}


def _numbers(found: Any) -> dict[str, int]:
    """{name: number} of integers or tensors of one; empty for anything else."""
    if not isinstance(found, dict):
        return {}
    flat = {name: np.asarray(contents(value)) for name, value in found.items()}
    sound = all(
        v.size == 1 and v.dtype.kind in "iu" and isinstance(k, str) for k, v in flat.items()
    )
    return {name: int(value.reshape(())) for name, value in flat.items()} if sound else {}


def _add_types(folder: Folder, types: Types, fused: _Fused, offsets: Array) -> None:
    starts = offsets.astype(np.int64)
    numbered = sorted(fused.node_types.items(), key=lambda pair: pair[1])
    if (
        [number for _, number in numbered] != list(range(len(starts) - 1))
        or starts[0] != 0
        or starts[-1] != fused.num_nodes
        or (np.diff(starts) < 0).any()
    ):
        what = "the tensor node_type_offset contradicts node_type_to_id or the number of nodes"
        fail(fused.where, what, _AGAIN)
    for name, number in numbered:
        types.nodes[name] = NodePlan(name, int(starts[number + 1] - starts[number]))
    if fused.kinds is None or len(fused.kinds) != len(fused.indices):
        what = "the tensor type_per_edge does not have one edge type for each edge"
        fail(fused.where, what, _AGAIN)
    known = len(fused.edge_types)
    if sorted(fused.edge_types.values()) != list(range(known)):
        what = f"edge_type_to_id does not number its edge types from 0 to {known - 1}"
        fail(fused.where, what, _AGAIN)
    counts = np.zeros(known, dtype=np.int64)
    for span in spans(len(fused.kinds)):
        kinds = np.asarray(fused.kinds[span])
        for kind in (int(kinds.min()), int(kinds.max())):
            if not 0 <= kind < known:
                what = f"an edge has the edge type {kind}, expected 0 to {known - 1}"
                fail(fused.where, what, _AGAIN)
        counts += np.bincount(kinds.astype(np.int64), minlength=known)
        drop_pages(fused.kinds)
    for name, number in sorted(fused.edge_types.items(), key=lambda pair: pair[1]):
        triple = parse_triple(name)
        if triple is None or triple[0] not in types.nodes or triple[2] not in types.nodes:
            what = f"the edge type {name!r} does not name two node types of the file"
            fail(fused.where, what, _AGAIN)
        _add_type(types, fused, triple, number, int(counts[number]))


def _add_type(types: Types, fused: _Fused, triple: Triple, number: int | None, count: int) -> None:
    """The edges of one type; ``number`` None stands for all of them."""
    inline = Inline()
    names = list(types.nodes)
    starts = np.concatenate([[0], np.cumsum([n.num_nodes or 0 for n in types.nodes.values()])])
    low = [int(starts[names.index(end)]) for end in triple[::2]] if number is not None else [0, 0]
    bounds = [types.nodes[end].num_nodes or 0 for end in triple[::2]]

    def chunks() -> Iterator[EdgeChunk]:
        for span, sources, destinations in fused.entries():
            columns = inline.of(span)
            if number is not None:
                assert fused.kinds is not None
                mine = np.asarray(fused.kinds[span]) == number
                sources, destinations = sources[mine] - low[0], destinations[mine] - low[1]
                columns = {name: values[mine] for name, values in columns.items()}
            _check_edge_ids(columns.get("edge_ids"), count, fused.where)
            yield EdgeChunk(
                node_ids(sources, fused.where, span.start, bounds[0]),
                node_ids(destinations, fused.where, span.start, bounds[1]),
                **columns,
            )

    types.edges[triple] = EdgePlan(*triple, chunks=chunks, num_edges=count)
    types.inline[triple] = inline


def _check_edge_ids(ids: Array | None, count: int, where: str) -> None:
    if ids is not None and ids.size and (int(ids.min()) < 0 or int(ids.max()) >= count):
        bad = int(ids[(ids < 0) | (ids >= count)][0])
        fail(where, f"has edge id {bad}, but there are {count} edges (0 to {count - 1})", _AGAIN)


def _add_edge_attributes(folder: Folder, types: Types, fused: _Fused) -> None:
    """Weights, times and edge ids, which all edge types share; a note of anything else."""
    given = {name: contents(values) for name, values in fused.attributes["edge"].items()}
    total, shared = len(fused.indices), Inline()
    every = EdgePlan(num_edges=total)
    ids = given.pop(_EDGE_ID, None)
    if isinstance(ids, np.ndarray) and ids.shape == (total,) and ids.dtype.kind in "iu":
        shared.edge_ids, every.has_edge_ids = ids, True
    for name, values in given.items():
        if not set_inline(every, shared, name, values, f"{fused.where} [{name}]"):
            why = "of the edge attributes in a preprocessed graph, only weights and times are read"
            folder.notes += left_out("attributes-dropped", [name], fused.where, why)
    for triple, edge in types.edges.items():
        inline = types.inline[triple]
        inline.times, inline.times_where = shared.times, shared.times_where
        inline.weights, inline.edge_ids = shared.weights, shared.edge_ids
        edge.has_time, edge.has_weight = every.has_time, every.has_weight
        edge.has_edge_ids = every.has_edge_ids


def _add_node_attribute(types: Types, fused: _Fused, name: str, values: Any) -> None:
    """An attribute of all nodes, cut into those of the types."""
    start, where = 0, f"{fused.where} [{name}]"
    if not isinstance(values, np.ndarray) or values.shape[:1] != (fused.num_nodes,):
        fail(where, "does not have one row for each node", _AGAIN)
    for node in types.nodes.values():
        end = start + (node.num_nodes or 0)
        add_tensor(node, name, values[start:end], where, end - start)
        start = end
