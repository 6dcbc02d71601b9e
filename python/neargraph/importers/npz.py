"""The .npz layouts: adj/attr matrices, heterophilous sets, plain CSR, typed graphs, molecules.

`plan_npz` looks at the member names and picks the layout. Node tensors are `x` (features), `y`
(labels) and `split_k`; whatever else a file holds keeps its own name.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from neargraph.exceptions import ImportFailed

from .arrays import NpzFile
from .blocks import block_edges, block_fact, graph_ids, graph_labels
from .check import fail
from .csr import csr_edges, csr_tensor, member_tensor
from .labels import class_tensor, text_rows
from .notes import Note, left_out
from .npz_pairs import pair_chunks, pair_columns
from .npz_typed import plan_typed
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

_ADJACENCY = ("adj_indptr", "adj_indices", "adj_data", "adj_shape", "labels")
_ATTRIBUTES = ("attr_indptr", "attr_indices", "attr_data", "attr_shape")

# The names of the heterophilous sets, then those of MUSAE's embedded ones.
_FEATURES = ("node_features", "features")
_LABELS = ("node_labels", "target")

_LAYOUTS = """adj_indptr and adj_indices (adjacency matrix), edges and node_features (heterophilous
graph), indptr and indices (CSR), SOURCE__RELATION__DESTINATION (typed graph), or node_ptr, edge_ptr
and edge_index (molecules)"""


def plan_npz(path: Path | str) -> GraphPlan:
    """The plan of an .npz file whose layout its member names tell."""
    npz = NpzFile(path)
    if "adj_indptr" in npz:
        return _plan_matrices(npz)
    if "edges" in npz and _member(npz, _FEATURES):
        return _plan_heterophilous(npz)
    if "node_ptr" in npz and "edge_ptr" in npz and "edge_index" in npz:
        return _plan_blocks(npz)
    if any(name.count("__") == 2 for name in npz.names):
        return plan_typed(npz)
    if "indptr" in npz and "indices" in npz:
        return _plan_csr(npz)
    known = " ".join(_LAYOUTS.split())
    return fail(
        npz.path,
        f"is not an npz file of a known layout (members: {npz.listed})",
        f"use the members of one layout: {known}",
    )


def _member(npz: NpzFile, names: Sequence[str]) -> str:
    """The first of some members that a file has; "" where it has none."""
    return next((name for name in names if name in npz), "")


def _all_ones(npz: NpzFile, name: str) -> bool:
    return all(bool((chunk == 1).all()) for chunk in npz.open(name).chunks())


def _two(npz: NpzFile, name: str) -> tuple[int, int]:
    """A member that holds the shape of a matrix."""
    values = npz.small(name)
    if values.shape != (2,) or values.dtype.kind not in "iu" or (values < 0).any():
        fail(
            npz.where(name),
            "is not valid: expected two numbers of at least 0",
            "give the numbers of rows and columns",
        )
    return int(values[0]), int(values[1])


def _square(npz: NpzFile) -> int:
    num_nodes = npz.length("adj_indptr") - 1
    if "adj_shape" in npz:
        shape = _two(npz, "adj_shape")
        if shape != (num_nodes, num_nodes):
            fail(
                npz.where("adj_shape"),
                f"is {list(shape)}, expected {[num_nodes] * 2}, "
                f"since adj_indptr describes {num_nodes} rows",
                "store a square matrix, or a typed graph with two node types",
            )
    return num_nodes


def _plan_matrices(npz: NpzFile) -> GraphPlan:
    num_nodes = _square(npz)
    node, notes, used = NodePlan(num_nodes=num_nodes), list[Note](), [*_ADJACENCY]
    if "attr_indptr" in npz:
        used += _ATTRIBUTES
        rows, width = _two(npz, "attr_shape")
        if rows != num_nodes:
            fail(
                npz.where("attr_shape"),
                f"has {rows} rows, but there are {num_nodes} nodes",
                "the file is inconsistent; write it again",
            )
        values = "attr_data" if "attr_data" in npz else None
        x = csr_tensor(npz, "attr_indptr", "attr_indices", values, width, num_nodes)
        node.tensors.append(x)
    elif "attr_data" in npz and len(npz.shape("attr_data")) == 2:
        used.append("attr_data")
        node.tensors.append(member_tensor(npz, "attr_data", "x", num_nodes))
    if "labels" in npz:
        node.tensors.append(label_tensor(npz, "labels", num_nodes, notes))
    weighted = "adj_data" in npz and not _all_ones(npz, "adj_data")
    weights = "adj_data" if weighted else None
    edge = _csr_plan(npz, "adj_indptr", "adj_indices", num_nodes, weights)
    if any(tensor.class_names for tensor in node.tensors):
        used.append("class_names")
    notes += unused_members(npz, used)
    return GraphPlan(str(npz.path), "npz adj/attr", [node], [edge], notes)


def _plan_csr(npz: NpzFile) -> GraphPlan:
    num_nodes = npz.length("indptr") - 1
    weights = "data" if "data" in npz else None
    edge = _csr_plan(npz, "indptr", "indices", num_nodes, weights)
    notes = unused_members(npz, ("indptr", "indices", "data"))
    return GraphPlan(str(npz.path), "npz CSR", [NodePlan(num_nodes=num_nodes)], [edge], notes)


def _csr_plan(
    npz: NpzFile, indptr: str, indices: str, num_nodes: int, weights: str | None
) -> EdgePlan:
    return EdgePlan(
        chunks=lambda: csr_edges(npz, indptr, indices, num_nodes, weights),
        num_edges=npz.length(indices),
        has_weight=weights is not None,
    )


def _plan_heterophilous(npz: NpzFile) -> GraphPlan:
    features, labels = _member(npz, _FEATURES), _member(npz, _LABELS)
    num_nodes = npz.length(features)
    node, notes = NodePlan(num_nodes=num_nodes), list[Note]()
    node.tensors.append(member_tensor(npz, features, "x", num_nodes))
    if labels:
        node.tensors.append(label_tensor(npz, labels, num_nodes, notes))
    names = ("train_masks", "val_masks", "test_masks")
    masks = [npz.small(name).astype(bool) if name in npz else None for name in names]
    node.tensors.extend(split_tensors(masks, num_nodes, str(npz.path)))
    edge = EdgePlan(
        chunks=lambda: pair_chunks(npz, "edges", num_nodes, num_nodes, prefer_rows=True),
        num_edges=npz.length("edges"),
    )
    used = (features, labels, "edges", *names)
    notes += unused_members(npz, used)
    return GraphPlan(str(npz.path), "npz heterophilous", [node], [edge], notes)


def label_tensor(npz: NpzFile, member: str, num_nodes: int, notes: list[Note]) -> TensorPlan:
    """Labels as tensor ``y``; text becomes classes with names."""
    if npz.dtype(member).kind != "U" or npz.shape(member) != (num_nodes,):
        labels = member_tensor(npz, member, "y", num_nodes, as_labels=True)
        if labels.dtype == "i64" and not labels.shape and (known := _class_names(npz)):
            labels.class_names = known
        return labels

    def texts() -> Iterator[list[str]]:
        for chunk in npz.open(member).chunks(text_rows(npz.dtype(member))):
            yield chunk.tolist()

    return class_tensor("y", texts, num_nodes, npz.where(member), notes)


def _class_names(npz: NpzFile) -> list[str]:
    """The names of classes, where the file has them as text."""
    if "class_names" not in npz:
        return []
    try:
        return npz.texts("class_names")
    except ImportFailed:
        # Names that need pickle are not read; the labels are numbers anyway.
        return []


def unused_members(npz: NpzFile, used: Sequence[str]) -> list[Note]:
    """A note of the members that nothing is made of."""
    rest = [name for name in npz.names if name not in used]
    return left_out(
        "members-unused", rest, str(npz.path), "the layout has no members with these names"
    )


def split_tensors(given: Sequence[Array | None], num_nodes: int, where: str) -> list[TensorPlan]:
    """`split_k` tensors of (train, val, test) masks, each bool [k, num_nodes] or [num_nodes].

    Masks of one dimension give `split_0` without a mask width; k masks give `split_0` to
    `split_{k-1}` with mask width k. A mask that is not there is empty; without any there are no
    tensors. A node in two parts of one split is an error.
    """
    first = next((mask for mask in given if mask is not None), None)
    if first is None:
        return []
    none = np.broadcast_to(np.False_, first.shape)
    masks = [none if mask is None else mask for mask in given]
    if any(mask.ndim not in (1, 2) for mask in masks):
        shapes = [list(mask.shape) for mask in masks]
        what = f"masks have the shapes {shapes}, expected one or two dimensions"
        fail(where, what, "store one mask, or k masks, of all nodes")
    flat = masks[0].ndim == 1
    stacks = [np.atleast_2d(mask) for mask in masks]
    if any(s.shape != stacks[0].shape for s in stacks) or stacks[0].shape[1] != num_nodes:
        fail(
            where,
            f"masks have the shapes {[list(m.shape) for m in masks]}, expected equal shapes for "
            f"{num_nodes} nodes",
            "store masks of equal shapes, of all nodes",
        )
    plans = []
    width = None if flat else int(stacks[0].shape[0])
    for k, parts in enumerate(zip(*stacks, strict=True)):
        codes = np.zeros(num_nodes, dtype=np.uint8)
        for code, part in enumerate(parts, start=1):
            twice = np.logical_and(part, codes)
            if twice.any():
                fail(
                    where,
                    f"node {int(twice.argmax())} is in two parts of split {k}",
                    "make train, val and test disjoint",
                )
            codes[part] = code
        plans.append(_split(k, codes, width))
    return plans


def _split(k: int, codes: Array, width: int | None) -> TensorPlan:
    return TensorPlan(f"split_{k}", "u8", (), lambda: iter([codes]), len(codes), width)


def _plan_blocks(npz: NpzFile) -> GraphPlan:
    node_ptr, edge_ptr = _pointers(npz, "node_ptr"), _pointers(npz, "edge_ptr")
    num_nodes, num_edges = int(node_ptr[-1]), int(edge_ptr[-1])
    node = NodePlan(num_nodes=num_nodes)
    if "x" in npz:
        node.tensors.append(member_tensor(npz, "x", "x", num_nodes))
    node.tensors.append(graph_ids(node_ptr))
    if "y" in npz:
        node.tensors.append(graph_labels(npz.small("y"), node_ptr, npz.where("y")))
    edge = EdgePlan(chunks=lambda: _block_edges(npz, node_ptr, edge_ptr), num_edges=num_edges)
    if "edge_attr" in npz:
        edge.has_edge_ids = True
        edge.tensors.append(member_tensor(npz, "edge_attr", "edge_attr", num_edges))
    facts = [block_fact(node_ptr)]
    used = ("node_ptr", "edge_ptr", "edge_index", "x", "y", "edge_attr")
    notes = unused_members(npz, used)
    return GraphPlan(str(npz.path), "npz graphs", [node], [edge], notes, facts)


def _pointers(npz: NpzFile, name: str) -> Array:
    values = npz.small(name)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        fail(npz.where(name), "is not a list of integers", "check the layout of the file")
    pointers = values.astype(np.int64)
    if len(pointers) < 1 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
        what = "is not a pointer array: it must start at 0 and never decrease"
        fail(npz.where(name), what, "the file is inconsistent; write it again")
    return pointers


def _block_edges(npz: NpzFile, node_ptr: Array, edge_ptr: Array) -> Iterator[EdgeChunk]:
    where = npz.where("edge_index")
    if npz.shape("edge_index") != (2, int(edge_ptr[-1])):
        fail(
            where,
            f"has shape {list(npz.shape('edge_index'))}, expected {[2, int(edge_ptr[-1])]}, since "
            f"edge_ptr ends at {edge_ptr[-1]}",
            "the file is inconsistent; write it again",
        )
    for row, sources, destinations in pair_columns(npz, "edge_index"):
        yield block_edges(where, row, sources, destinations, node_ptr, edge_ptr)
