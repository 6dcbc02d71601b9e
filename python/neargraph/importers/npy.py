"""NumPy files: one .npy edge list, or a folder of arrays named as in PyG.

A file holds [E, 2] or [2, E] integers. A folder holds `edge_index.npy`, or `indptr.npy` and
`indices.npy` (rows are sources), and any of x, y, edge_attr, edge_time, edge_weight,
{train,val,test}_mask and other node arrays. Everything is memory-mapped and streamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .arrays import open_npy
from .check import fail, node_ids, same_rows, store_dtype
from .npz import split_tensors
from .plan import (
    CHUNK_BYTES,
    CHUNK_EDGES,
    Array,
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    NodePlan,
    NpyFile,
    TensorPlan,
)

_EDGE_FILES = ("edge_index", "indptr", "indices", "edge_attr", "edge_time", "edge_weight")
# What the extension reads itself; other widths and byte orders are converted in chunks.
_CORE_DTYPES = ("<i4", "<i8", "<u4", "<u8")
_MASKS = ("train_mask", "val_mask", "test_mask")


def pair_layout(array: Array, where: str) -> str:
    """The layout: "pairs" for [E, 2], "rows" for [2, E]; [2, 2] counts as [2, E], as in PyG."""
    if array.ndim != 2 or 2 not in array.shape:
        fail(where, f"has shape {list(array.shape)}, expected [E, 2] or [2, E]", "reshape it")
    if array.dtype.kind not in "iu":
        fail(where, f"node ids have dtype {array.dtype}", "store them as integers")
    return "rows" if array.shape[0] == 2 else "pairs"


def array_edges(
    array: Array,
    where: str,
    num_nodes: int | None,
    times: Array | None = None,
    weights: Array | None = None,
) -> Iterator[EdgeChunk]:
    """Streams a mapped [E, 2] or [2, E] array as edges, with optional columns of E rows."""
    columns = array if pair_layout(array, where) == "rows" else array.T
    total = columns.shape[1]
    for row in range(0, total, CHUNK_EDGES):
        span = slice(row, min(row + CHUNK_EDGES, total))
        yield EdgeChunk(
            node_ids(np.ascontiguousarray(columns[0, span]), where, row, num_nodes),
            node_ids(np.ascontiguousarray(columns[1, span]), where, row, num_nodes),
            times=None if times is None else np.asarray(times[span], dtype=np.int64),
            weights=None if weights is None else np.asarray(weights[span], dtype=np.float32),
        )


def array_tensor(
    array: Array, name: str, where: str, num_rows: int | None = None, as_labels: bool = False
) -> TensorPlan:
    """A mapped or resident array as a tensor, streamed in pieces of 4 MiB."""
    if num_rows is not None:
        same_rows(len(array), num_rows, where, name)
    labels = as_labels and array.dtype.kind in "iu"
    stored, wide = store_dtype(np.dtype(np.int64) if labels else array.dtype, where)
    row_bytes = max(1, array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64)))
    step = max(1, CHUNK_BYTES // row_bytes)

    def chunks() -> Iterator[Array]:
        for row in range(0, len(array), step):
            yield np.ascontiguousarray(array[row : row + step], dtype=wide)

    return TensorPlan(name, stored, tuple(int(n) for n in array.shape[1:]), chunks, len(array))


def plan_npy(path: Path | str) -> GraphPlan:
    """The plan of a .npy edge list, or of a folder of .npy files."""
    file = Path(path)
    if file.is_dir():
        return _plan_folder(file)
    array = open_npy(file)
    layout = pair_layout(array, str(file))
    edge = EdgePlan(num_edges=array.shape[0 if layout == "pairs" else 1])
    if array.flags.c_contiguous and array.dtype.str in _CORE_DTYPES:
        edge.npy = NpyFile(str(file), layout)
    else:
        edge.chunks = lambda: array_edges(array, str(file), None)
    return GraphPlan(str(file), "npy", [NodePlan()], [edge])


def _plan_folder(folder: Path) -> GraphPlan:
    arrays = {f.stem: open_npy(f) for f in sorted(folder.glob("*.npy"))}

    def where(name: str) -> str:
        return str(folder / f"{name}.npy")

    num_nodes = next((len(arrays[n]) for n in ("x", "y") if n in arrays), None)
    if "indptr" in arrays:
        num_nodes = len(arrays["indptr"]) - 1
    node = NodePlan(num_nodes=num_nodes)
    masks = [arrays[name] for name in _MASKS if name in arrays]
    if masks and len(masks) < 3:
        fail(str(folder), f"has {len(masks)} of the three mask files", "give all or none")
    for name, array in arrays.items():
        if name in _EDGE_FILES or name in _MASKS:
            continue
        plan = array_tensor(array, name, where(name), num_nodes, as_labels=name == "y")
        node.tensors.append(plan)
    if masks and num_nodes is not None:
        flat = [np.asarray(m.T if m.ndim == 2 else m, dtype=bool) for m in masks]
        node.tensors.extend(split_tensors(flat, num_nodes, str(folder)))
    edge = _folder_edges(arrays, folder, num_nodes)
    if "edge_attr" in arrays:
        edge.has_edge_ids = True
        edge.tensors.append(
            array_tensor(arrays["edge_attr"], "edge_attr", where("edge_attr"), edge.num_edges)
        )
    return GraphPlan(str(folder), "npy folder", [node], [edge])


def _folder_edges(arrays: dict[str, Array], folder: Path, num_nodes: int | None) -> EdgePlan:
    times, weights = arrays.get("edge_time"), arrays.get("edge_weight")
    if "edge_index" in arrays:
        index, name = arrays["edge_index"], str(folder / "edge_index.npy")
        pair_layout(index, name)
        total = max(index.shape)

        def chunks() -> Iterator[EdgeChunk]:
            return array_edges(index, name, num_nodes, times, weights)

    elif "indptr" in arrays and "indices" in arrays and num_nodes is not None:
        bound = num_nodes
        total = len(arrays["indices"])

        def chunks() -> Iterator[EdgeChunk]:
            return _csr(arrays, str(folder), bound, times, weights)

    else:
        fail(
            str(folder),
            "holds no edge_index.npy, and no indptr.npy with indices.npy",
            "add one of them",
        )
    for name, column in (("edge_time", times), ("edge_weight", weights)):
        if column is not None:
            same_rows(len(column), total, str(folder / f"{name}.npy"), name)
    return EdgePlan(
        chunks=chunks, num_edges=total, has_time=times is not None, has_weight=weights is not None
    )


def _csr(
    arrays: dict[str, Array],
    where: str,
    num_nodes: int,
    times: Array | None,
    weights: Array | None,
) -> Iterator[EdgeChunk]:
    indptr, indices = arrays["indptr"], arrays["indices"]
    sound = (
        indptr.dtype.kind in "iu"
        and indptr.ndim == 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
    )
    if not sound:
        fail(
            where,
            "indptr.npy does not start at 0 and end at the length of indices.npy",
            "write the matrix again",
        )
    for row in range(0, len(indices), CHUNK_EDGES):
        end = min(row + CHUNK_EDGES, len(indices))
        first = int(np.searchsorted(indptr, row, side="right")) - 1
        last = int(np.searchsorted(indptr, end, side="left"))
        lengths: Array = np.diff(np.clip(indptr[first : last + 1].astype(np.int64), row, end))
        if (lengths < 0).any() or lengths.sum() != end - row:
            fail(where, f"indptr.npy falls near row {first}", "write the matrix again")
        yield EdgeChunk(
            np.repeat(np.arange(first, first + len(lengths), dtype=np.int64), lengths),
            node_ids(np.asarray(indices[row:end]), where, row, num_nodes),
            times=None if times is None else np.asarray(times[row:end], dtype=np.int64),
            weights=None if weights is None else np.asarray(weights[row:end], dtype=np.float32),
        )
