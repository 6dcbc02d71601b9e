"""PyG `Data` and `HeteroData` as graph plans: views of the tensors, never a second copy.

What becomes what: node attributes are node tensors by their own names; `train_mask`, `val_mask`
and `test_mask`, [N] or [N, k], become `split_0` .. `split_{k-1}` and are given back as masks;
`edge_weight` (f32) and `edge_time`, or else `time` (whole numbers), become inline columns of the
neighbour lists; every other edge attribute is an edge tensor by edge id, so `e_id` keeps its
meaning. Left out, with a note: `edge_label` and `edge_label_index` (supervision of a link split,
pass them to the loader), graph-level values, and all that are not tensors. A sparse `x` (COO or
CSR) is imported; any other sparse tensor is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from neargraph._optional import torch_for

with torch_for("from_pyg"):
    import torch
    from torch_geometric.data import Data, HeteroData

from .check import fail, node_ids, store_dtype
from .chunks import chunk_rows, spans
from .csr import sparse_tensor
from .notes import Note, left_out
from .plan import (
    HOMOGENEOUS_EDGE,
    Array,
    CsrChunk,
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    NodePlan,
    TensorPlan,
)
from .pyg_times import time_name, time_notes

_MASKS = ("train_mask", "val_mask", "test_mask")
_SUPERVISION = ("edge_label", "edge_label_index")
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def plan_pyg(data: Any) -> GraphPlan:
    """The plan of a `torch_geometric.data.Data` or `HeteroData`.

    Raises `ImportFailed` for ids out of range, columns of the wrong length, or a graph without
    `edge_index`.
    """
    if isinstance(data, HeteroData):
        return _plan_hetero(data)
    if isinstance(data, Data):
        return _plan_homogeneous(data)
    return fail("from_pyg", f"the data has type {type(data).__name__}", "give a Data or HeteroData")


def _plan_homogeneous(data: Any) -> GraphPlan:
    notes: list[Note] = []
    num_nodes = _num_nodes(data, "data")
    node = NodePlan(num_nodes=num_nodes)
    edge = _edge_plan(HOMOGENEOUS_EDGE, data, num_nodes, num_nodes, "data")
    masks = {}
    inline = _inline(data)
    notes += time_notes(inline.get("times"), edge.num_edges, "data")
    known = ("edge_index", "num_nodes", *inline.values())
    for key, value in _tensors_of(data.to_dict(), known, "data", notes):
        if key in _MASKS:
            masks[key] = value
        elif data.is_edge_attr(key):
            edge.tensors.append(_tensor(value, key, f"data.{key}", edge.num_edges))
        elif data.is_node_attr(key):
            node.tensors.append(_tensor(value, key, f"data.{key}", num_nodes))
        else:
            why = f"its shape {list(value.shape)} is neither [num_nodes, ...] nor [num_edges, ...]"
            notes += left_out("attributes-dropped", [key], f"data.{key}", why)
    node.tensors.extend(_masks(masks, num_nodes, "data", notes))
    if not node.tensors and "num_nodes" not in data:
        # PyG took it from the ids of edges, and so does the importer, which notes gaps.
        node.num_nodes = None
    return GraphPlan("data", "PyG Data", [node], [edge], notes)


def _plan_hetero(data: Any) -> GraphPlan:
    notes: list[Note] = []
    nodes, edges = [], []
    counts: dict[str, int] = {}
    for name in data.node_types:
        store, where = data[name], f"data[{name!r}]"
        counts[name] = _num_nodes(store, where)
        node = NodePlan(name, counts[name])
        masks = {}
        for key, value in _tensors_of(store, ("num_nodes",), where, notes):
            if key in _MASKS:
                masks[key] = value
            elif value.dim() > 0 and value.size(0) == counts[name]:
                node.tensors.append(_tensor(value, key, f"{where}.{key}", counts[name]))
            else:
                why = f"its shape {list(value.shape)} is not [num_nodes, ...]"
                notes += left_out("attributes-dropped", [key], f"{where}.{key}", why)
        node.tensors.extend(_masks(masks, counts[name], where, notes))
        nodes.append(node)
    for names in data.edge_types:
        store, where = data[names], f"data[{names!r}]"
        for end in (names[0], names[2]):
            if end not in counts:
                what = f"the edge type names the node type {end!r}, which does not exist"
                fail(where, what, f"set data[{end!r}].num_nodes, or add features of this node type")
        edge = _edge_plan(names, store, counts[names[0]], counts[names[2]], where)
        inline = _inline(store)
        notes += time_notes(inline.get("times"), edge.num_edges, where)
        known = ("edge_index", *inline.values())
        for key, value in _tensors_of(store, known, where, notes):
            edge.tensors.append(_tensor(value, key, f"{where}.{key}", edge.num_edges))
        edges.append(edge)
    if not edges:
        fail("data", "has no edge types", "add an edge type with an edge_index")
    return GraphPlan("data", "PyG HeteroData", nodes, edges, notes)


def _num_nodes(store: Any, where: str) -> int:
    count = store.num_nodes
    if count is None:
        fail(where, "the number of nodes is unknown", f"set {where}.num_nodes")
    return int(count)


def _edge_index(store: Any, where: str) -> Any:
    index = store.get("edge_index")
    if index is None:
        has_other = store.get("adj_t") is not None
        what = "has adj_t, not edge_index" if has_other else "has no edge_index"
        fail(where, what, "store edges as edge_index, int64 [2, E]")
    if index.dim() != 2 or index.size(0) != 2 or index.dtype not in (torch.int64, torch.int32):
        fail(
            f"{where}.edge_index",
            f"has dtype {index.dtype} and shape {list(index.shape)}",
            "store edges as int64 [2, E]",
        )
    return index


def _tensors_of(
    store: Any, known: Sequence[str], of: str, notes: list[Note]
) -> Iterator[tuple[str, Any]]:
    """The attributes that can be stored, but those that are ``known`` already."""
    for key, value in store.items():
        where = f"{of}.{key}"
        if key in known:
            continue
        if key in _SUPERVISION:
            why = "it supervises link prediction and is not stored; give it to the loader"
        elif not isinstance(value, torch.Tensor):
            why = f"its type is {type(value).__name__}, but only tensors are stored"
        elif value.layout != torch.strided and not _is_sparse_x(key, value):
            what = "is a sparse tensor, which is supported only for a float x in COO or CSR layout"
            fail(where, what, "call .to_dense() on the tensor first")
        else:
            yield key, value
            continue
        notes += left_out("attributes-dropped", [key], where, why)


def _is_sparse_x(key: str, value: Any) -> bool:
    known = value.layout in (torch.sparse_coo, torch.sparse_csr)
    return key == "x" and known and value.dim() == 2 and value.is_floating_point()


def _inline(store: Any) -> dict[str, str]:
    """The edge attributes that become inline columns, by their name in `EdgeChunk`: those of the
    fitting shape and dtype."""
    wanted = {
        "weights": ("edge_weight", (torch.float32,)),
        "times": (time_name(store.keys()), _WHOLE),
    }
    return {
        column: key for column, (key, dtypes) in wanted.items() if _is_column(store, key, dtypes)
    }


def _is_column(store: Any, key: str, dtypes: tuple[Any, ...]) -> bool:
    value = store.get(key)
    plain = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dim() == 1
    return plain and value.dtype in dtypes and bool(store.is_edge_attr(key))


def _edge_plan(
    names: tuple[str, str, str], store: Any, num_sources: int, num_destinations: int, where: str
) -> EdgePlan:
    index = _edge_index(store, where)
    total = int(index.size(1))
    inline = {column: store[key] for column, key in _inline(store).items()}

    def columns(span: slice) -> dict[str, Array]:
        found = {
            column: value[span].detach().cpu().contiguous().numpy()
            for column, value in inline.items()
        }
        if "times" in found:
            found["times"] = found["times"].astype(np.int64, copy=False)
        return found

    def chunks() -> Iterator[EdgeChunk]:
        name = f"{where}.edge_index"
        for span in spans(total):
            left, right = map(np.ascontiguousarray, index[:, span].detach().cpu().numpy())
            yield EdgeChunk(
                node_ids(left, name, span.start, num_sources),
                node_ids(right, name, span.start, num_destinations),
                **columns(span),
            )

    return EdgePlan(
        *names,
        chunks=chunks,
        num_edges=total,
        has_edge_ids=True,
        has_time="times" in inline,
        has_weight="weights" in inline,
    )


def _tensor(value: Any, name: str, where: str, num_rows: int | None) -> TensorPlan:
    if value.dim() == 0 or (num_rows is not None and value.size(0) != num_rows):
        fail(
            where,
            f"has shape {list(value.shape)}, expected {num_rows} rows",
            "give the tensor one row for each node or edge",
        )
    if value.layout != torch.strided:
        return _sparse_tensor(value, name)
    shape = tuple(int(n) for n in value.shape[1:])
    step = chunk_rows(value.element_size() * int(np.prod(shape)))
    brain = value.dtype == torch.bfloat16
    if brain:
        dtype: str = "bf16"
        wide: np.dtype[Any] = np.dtype(np.uint16)
    else:
        empty = torch.empty(0, dtype=value.dtype)
        try:
            dtype, wide = store_dtype(empty.numpy().dtype, where)
        except TypeError:
            what = f"has dtype {value.dtype}, which cannot be stored"
            fail(where, what, "convert the tensor, e.g. to float32")

    def chunks() -> Iterator[Array]:
        for span in spans(value.size(0), step):
            part = value[span].detach().cpu().contiguous()
            array = (part.view(torch.uint16) if brain else part).numpy()
            yield array.astype(wide, copy=False)

    return TensorPlan(name, dtype, shape, chunks, int(value.size(0)))


def _sparse_tensor(value: Any, name: str) -> TensorPlan:
    matrix = value.detach().cpu().to_sparse_csr()
    indptr = matrix.crow_indices().numpy().astype(np.int64)
    columns, values = matrix.col_indices().numpy(), matrix.values()
    num_rows, width = (int(n) for n in value.shape)

    def csr() -> Iterator[CsrChunk]:
        for rows in spans(num_rows, chunk_rows(4 * max(1, width))):
            part = indptr[rows.start : rows.stop + 1]
            span = slice(int(part[0]), int(part[-1]))
            filled = values[span].float().numpy()
            yield CsrChunk(part - part[0], np.ascontiguousarray(columns[span]), filled)

    return sparse_tensor(name, width, csr, num_rows, len(columns))


def _masks(
    masks: dict[str, Any], num_nodes: int, where: str, notes: list[Note]
) -> list[TensorPlan]:
    if not masks:
        return []
    for key, mask in masks.items():
        if mask.dtype != torch.bool or mask.dim() not in (1, 2) or mask.size(0) != num_nodes:
            fail(
                f"{where}.{key}",
                f"has dtype {mask.dtype} and shape {list(mask.shape)}",
                f"store masks as bool [{num_nodes}] or [{num_nodes}, k]",
            )
    width = max((int(m.size(1)) for m in masks.values() if m.dim() == 2), default=0)
    columns = {
        key: (mask if mask.dim() == 2 else mask.unsqueeze(1).expand(-1, max(1, width)))
        for key, mask in masks.items()
    }
    if any(mask.size(1) != max(1, width) for mask in columns.values()):
        fail(
            where,
            f"masks have different numbers of columns: {[m.size(1) for m in columns.values()]}",
            "give every mask the same number of columns",
        )
    present = list(columns.values())
    for at, mask in enumerate(present):
        if any(bool((mask & other).any()) for other in present[:at]):
            twice = sum(mask.to(torch.uint8) for mask in present) > 1
            count = int(twice.any(dim=1).sum())
            message = (
                f"{count} nodes are in two masks, so the masks are stored as bool tensors, not as "
                "splits"
            )
            notes.append(Note("masks-overlap", count, where, message))
            return [_tensor(m, key, f"{where}.{key}", num_nodes) for key, m in masks.items()]
    return [_split(columns, k, num_nodes, width) for k in range(max(1, width))]


def _split(columns: dict[str, Any], k: int, num_nodes: int, width: int) -> TensorPlan:
    def chunks() -> Iterator[Array]:
        for span in spans(num_nodes, chunk_rows(1)):
            codes = np.zeros(span.stop - span.start, dtype=np.uint8)
            for code, key in enumerate(_MASKS, start=1):
                if key in columns:
                    codes[columns[key][span, k].cpu().numpy()] = code
            yield codes

    return TensorPlan(f"split_{k}", "u8", (), chunks, num_nodes, width or None)
