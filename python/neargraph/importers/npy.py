"""NumPy files: one .npy edge list, or a folder of arrays named as in PyG.

A file holds [E, 2] or [2, E] integers. A folder holds `edge_index.npy`, or `indptr.npy` and
`indices.npy` (rows are sources), and any of x, y, edge_attr, edge_time, edge_weight,
{train,val,test}_mask and other node arrays. Everything is memory-mapped and streamed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .arrays import drop_pages, open_npy, streamed_tensor
from .check import fail, node_ids, same_rows, whole_times
from .chunks import spans
from .csr import rows_of_entries
from .labels import class_tensor, text_rows
from .memory import hold, need
from .notes import Note, unused_files
from .npz import split_tensors
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, NpyFile, TensorPlan

_EDGE_FILES = ("edge_index", "indptr", "indices", "edge_attr", "edge_time", "edge_weight")
# What the extension reads itself; other widths and byte orders are converted in chunks.
_CORE_DTYPES = ("<i4", "<i8", "<u4", "<u8")
_ROWS = 1 << 17
# The kernel maps up to 64 KiB around a page that is read.
_MAPPED_COLUMNS = 64
_MAPPED_ROWS = 512
_MASKS = ("train_mask", "val_mask", "test_mask")


def pair_layout(array: Array, where: str) -> str:
    """The layout: "pairs" for [E, 2], "rows" for [2, E]; [2, 2] counts as [2, E], as in PyG."""
    if array.ndim != 2 or 2 not in array.shape:
        fail(
            where, f"has shape {list(array.shape)}, expected [E, 2] or [2, E]", "reshape the array"
        )
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
    for span in spans(columns.shape[1]):
        left, right = (np.ascontiguousarray(column[span]) for column in columns)
        yield EdgeChunk(
            node_ids(left, where, span.start, num_nodes),
            node_ids(right, where, span.start, num_nodes),
            **_inline(span, times, weights, Path(where).parent),
        )
        for mapped in (array, times, weights):
            drop_pages(mapped)


def array_tensor(
    array: Array,
    name: str,
    where: str,
    num_rows: int | None = None,
    as_labels: bool = False,
    order: Array | None = None,
) -> TensorPlan:
    """A mapped or resident array as a tensor, streamed in pieces of 4 MiB.

    With ``order`` [n] the tensor has n rows: ``order[i]`` of the array, or zeros where that is -1.
    """
    if num_rows is not None:
        same_rows(len(array), num_rows, where, "the array")

    count = len(array) if order is None else len(order)

    def pieces(step: int) -> Iterator[Array]:
        for span in spans(count, step):
            yield _rows(array, span) if order is None else _rows_at(array, order[span])
            drop_pages(array)

    shape = (count, *array.shape[1:])
    return streamed_tensor(name, where, shape, array.dtype, pieces, as_labels)


def _rows_at(array: Array, places: Array) -> Array:
    """Rows at any places, zeros at -1, read in the order of the file. Each may map pages of its
    own, so few are read at once."""
    rows = np.zeros((len(places), *array.shape[1:]), dtype=array.dtype.newbyteorder("="))
    forward = np.argsort(places)
    forward = forward[places[forward] >= 0]
    for span in spans(len(forward), _MAPPED_ROWS):
        some = forward[span]
        rows[some] = array[places[some]]
        drop_pages(array)
    return rows


def _rows(array: Array, span: slice) -> Array:
    """Some rows in C order. Where they lie in columns, few columns' pages are mapped at once."""
    dtype = array.dtype.newbyteorder("=")
    if array.ndim < 2 or array.flags.c_contiguous:
        return np.ascontiguousarray(array[span], dtype=dtype)
    rows = np.empty(array[span].shape, dtype=dtype)
    for column in range(0, array.shape[1], _MAPPED_COLUMNS):
        part = slice(column, column + _MAPPED_COLUMNS)
        rows[:, part] = array[span, part]
        drop_pages(array)
    return rows


def plan_npy(path: Path | str) -> GraphPlan:
    """The plan of a .npy edge list, or of a folder of .npy files."""
    file = Path(path)
    if file.is_dir():
        return _plan_folder(file)
    array = open_npy(file)
    layout = pair_layout(array, str(file))
    edge = EdgePlan(num_edges=array.shape[0 if layout == "pairs" else 1])
    if array.flags.c_contiguous and array.dtype.str in _CORE_DTYPES:
        edge.files = [NpyFile(str(file), layout)]
    else:
        edge.chunks = lambda: array_edges(array, str(file), None)
    notes = []
    if array.shape == (2, 2):
        message = "shape [2, 2] is read as [2, E]: row 0 has the sources, row 1 the destinations"
        notes.append(Note("layout-guessed", 2, str(file), message))
    return GraphPlan(str(file), "npy", [NodePlan()], [edge], notes)


def _plan_folder(folder: Path) -> GraphPlan:
    arrays = {f.stem: open_npy(f) for f in sorted(folder.glob("*.npy"))}

    def where(name: str) -> str:
        return str(folder / f"{name}.npy")

    for name, array in arrays.items():
        if array.ndim == 0 or (name == "indptr" and len(array) == 0):
            what = f"has shape {list(array.shape)}, which has no rows"
            fail(where(name), what, "store an array with rows")
    num_nodes = _folder_nodes(arrays, folder)
    node, notes = NodePlan(num_nodes=num_nodes), list[Note]()
    for name, array in arrays.items():
        if name in _EDGE_FILES or name in _MASKS:
            continue
        if name == "y" and array.dtype.kind == "U" and array.ndim == 1:
            texts = _texts(array, where(name))
            node.tensors.append(class_tensor("y", texts, len(array), where(name), notes))
            continue
        plan = array_tensor(array, name, where(name), num_nodes, as_labels=name == "y")
        node.tensors.append(plan)
    given = [arrays.get(name) for name in _MASKS]
    # The masks in memory, copies of those in columns, and the codes of their splits.
    hold(str(folder), 3 * sum(mask.nbytes for mask in given if mask is not None))
    if num_nodes is not None:
        masks = [None if mask is None else _mask(mask) for mask in given]
        node.tensors.extend(split_tensors(masks, num_nodes, str(folder)))
    edge = _folder_edges(arrays, folder, num_nodes)
    if "edge_attr" in arrays:
        edge.has_edge_ids = True
        attr = array_tensor(arrays["edge_attr"], "edge_attr", where("edge_attr"), edge.num_edges)
        edge.tensors.append(attr)
    notes += unused_files(folder, folder.glob("*.npy"))
    return GraphPlan(str(folder), "npy folder", [node], [edge], notes)


def _mask(array: Array) -> Array:
    return np.asarray(array.T if array.ndim == 2 else array, dtype=bool)


def _texts(array: Array, where: str) -> Callable[[], Iterator[list[str]]]:
    step = text_rows(array.dtype)

    def texts() -> Iterator[list[str]]:
        need(where, 3 * step * array.itemsize)
        for span in spans(len(array), step):
            yield array[span].tolist()
            drop_pages(array)

    return texts


def _folder_nodes(arrays: dict[str, Array], folder: Path) -> int | None:
    """The number of nodes that all node arrays agree on; None where there are none."""
    rows = {name: len(array) for name, array in arrays.items() if name in ("x", "y", *_MASKS)}
    if "indptr" in arrays:
        rows["indptr"] = len(arrays["indptr"]) - 1
    if len(set(rows.values())) > 1:
        each = ", ".join(f"{name}.npy has {count}" for name, count in rows.items())
        fail(folder, f"files have different numbers of nodes: {each}", "make the numbers equal")
    return next(iter(rows.values()), None)


def _folder_edges(arrays: dict[str, Array], folder: Path, num_nodes: int | None) -> EdgePlan:
    times, weights = arrays.get("edge_time"), arrays.get("edge_weight")
    if "edge_index" in arrays:
        index, where = arrays["edge_index"], str(folder / "edge_index.npy")
        total = int(index.shape[1 if pair_layout(index, where) == "rows" else 0])

        def chunks() -> Iterator[EdgeChunk]:
            return array_edges(index, where, num_nodes, times, weights)

    elif "indptr" in arrays and "indices" in arrays and num_nodes is not None:
        bound = num_nodes
        total = len(arrays["indices"])

        def chunks() -> Iterator[EdgeChunk]:
            return _csr(arrays, str(folder), bound)

    else:
        what = "has no edges: neither edge_index.npy, nor both indptr.npy and indices.npy"
        fail(folder, what, "add edge_index.npy, or indptr.npy and indices.npy")
    for name, column in (("edge_time", times), ("edge_weight", weights)):
        if column is not None:
            same_rows(len(column), total, str(folder / f"{name}.npy"), "the array")
    return EdgePlan(
        chunks=chunks, num_edges=total, has_time=times is not None, has_weight=weights is not None
    )


def _csr(arrays: dict[str, Array], where: str, num_nodes: int) -> Iterator[EdgeChunk]:
    indptr, indices = arrays["indptr"], arrays["indices"]
    times, weights = arrays.get("edge_time"), arrays.get("edge_weight")
    sound = (
        indptr.dtype.kind in "iu"
        and indptr.ndim == indices.ndim == 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
    )
    if not sound:
        fail(
            where,
            "indptr.npy does not hold integers from 0 to the length of indices.npy",
            "write both files again",
        )
    for first in range(0, num_nodes, _ROWS):
        block = np.asarray(indptr[first : first + _ROWS + 1], dtype=np.int64)
        if (np.diff(block) < 0).any() or block[0] < 0 or block[-1] > len(indices):
            what = f"indptr.npy decreases, or exceeds the length of indices.npy, near row {first}"
            fail(where, what, "write both files again")
        for row, end, sources in rows_of_entries(first, block):
            destinations = node_ids(np.asarray(indices[row:end]), where, row, num_nodes)
            columns = _inline(slice(row, end), times, weights, Path(where))
            yield EdgeChunk(sources, destinations, **columns)
            for mapped in (indptr, indices, times, weights):
                drop_pages(mapped)


def _inline(
    span: slice, times: Array | None, weights: Array | None, folder: Path
) -> dict[str, Array]:
    """Times and weights of a chunk, of those that there are."""
    found = {}
    if times is not None:
        where = str(folder / "edge_time.npy")
        found["times"] = whole_times(np.asarray(times[span]), where, span.start)
    if weights is not None:
        found["weights"] = np.asarray(weights[span])
    return found
