"""The raw files of the Planetoid release: ind.NAME.{x,tx,allx,y,ty,ally,graph,test.index}.

Nodes keep their published numbers, the public split becomes `split_0` (the first len(y) nodes
train, the next 500 val, the listed ones test), and gaps of the test range (CiteSeer's isolated
nodes) are zero rows with label 0 and no split, as in every other reader of these files.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from .check import fail, need_file, node_ids, wider_than_f32
from .chunks import CHUNK_EDGES, chunk_rows, spans
from .memory import hold
from .notes import Note, shown, unused_files
from .npz import split_tensors
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan
from .safe_pickle import CsrParts, load_plain_pickle

_VAL_NODES = 500
# What a byte of a list of numbers becomes: text, Python integers, an array.
_TEXT_BYTES = 40


def planetoid_name(path: Path) -> str | None:
    """The set's name where ``path`` is a file ind.NAME.* or a folder with exactly one set."""
    if path.is_dir():
        names = {m[1] for f in path.glob("ind.*.graph") if (m := _match(f.name))}
        return names.pop() if len(names) == 1 else None
    match = _match(path.name)
    return match[1] if match else None


def _match(name: str) -> re.Match[str] | None:
    return re.fullmatch(r"ind\.([\w-]+)\.(x|tx|allx|y|ty|ally|graph|test\.index)", name)


def plan_planetoid(path: Path | str) -> GraphPlan:
    """The plan of a set given by any one of its files, or by a folder that holds only it."""
    given = Path(path)
    name = planetoid_name(given)
    if name is None:
        sets = sorted(f.name for f in given.glob("ind.*.graph")) if given.is_dir() else []
        known = shown(sets) or "for example ind.cora.graph"
        what = "does not hold exactly one Planetoid data set"
        fail(given, what, f"give a file of one data set: {known}")
    folder = given if given.is_dir() else given.parent
    parts = {p: folder / f"ind.{name}.{p}" for p in ("x", "tx", "allx", "y", "ty", "ally", "graph")}
    for file in parts.values():
        need_file(file)
    test = _test_index(folder / f"ind.{name}.test.index")
    allx, tx = _matrix(parts["allx"]), _matrix(parts["tx"])
    labels, test_labels = _labels(parts["ally"]), _labels(parts["ty"])
    num_train = len(_labels(parts["y"]))
    graph = _graph(parts["graph"])
    num_nodes = max(int(test.max()) + 1, int(allx.shape[0]), max(graph, default=-1) + 1)
    _check(parts, allx, tx, labels, test_labels, test)
    # Labels, masks, the split, and which row of the test matrix a node has.
    hold(str(folder), 24 * num_nodes)
    all_labels = np.zeros(num_nodes, dtype=np.int64)
    all_labels[: len(labels)] = labels
    all_labels[np.sort(test)] = 0
    all_labels[test] = test_labels
    masks = [np.zeros(num_nodes, dtype=bool) for _ in range(3)]
    masks[0][:num_train] = True
    masks[1][num_train : num_train + _VAL_NODES] = True
    masks[2][test] = True
    rows = partial(_feature_rows, allx, tx, test, num_nodes)
    x = TensorPlan("x", "f32", (int(allx.shape[1]),), rows, num_nodes)
    x.num_values = len(allx.data) + len(tx.data)
    x.narrowed_from = wider_than_f32(allx.data.dtype)
    y = TensorPlan("y", "i64", (), lambda: iter([all_labels]), num_nodes)
    splits = split_tensors(masks, num_nodes, str(folder))
    node = NodePlan(num_nodes=num_nodes, tensors=[x, y, *splits])
    edge = EdgePlan(
        chunks=lambda: _graph_edges(graph, num_nodes, str(parts["graph"])),
        num_edges=sum(len(targets) for targets in graph.values()),
    )
    origin = str(folder / f"ind.{name}.*")
    notes = list[Note]()
    gaps = num_nodes - len(labels) - len(test)
    if gaps > 0:
        message = f"{gaps} nodes have no features, so they get rows of zeros, label 0 and no split"
        notes.append(Note("rows-filled", gaps, origin, message))
    if given.is_dir():
        notes += unused_files(given, [*parts.values(), folder / f"ind.{name}.test.index"])
    return GraphPlan(origin, "planetoid", [node], [edge], notes)


def _test_index(file: Path) -> Array:
    hold(str(file), _TEXT_BYTES * need_file(file).stat().st_size)
    try:
        ids = np.array([int(line) for line in file.read_text().split()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        fail(file, f"is not a list of node ids ({error})", "download the data set again")
    node_ids(ids, str(file), 0)
    if len(ids) == 0 or len(np.unique(ids)) < len(ids):
        fail(file, "lists no node at all, or lists a node twice", "download the data set again")
    return ids


def _matrix(file: Path) -> CsrParts:
    matrix = load_plain_pickle(file)
    if not isinstance(matrix, CsrParts):
        fail(file, "holds no sparse matrix", "download the data set again")
    rows, width = matrix.shape
    integers = matrix.indptr.dtype.kind in "iu" and matrix.indices.dtype.kind in "iu"
    # Differences of unsigned pointers would never be negative.
    pointers, columns = matrix.indptr.astype(np.int64), matrix.indices
    sound = (
        integers
        and len(pointers) == rows + 1
        and pointers[0] == 0
        and pointers[-1] == len(columns)
        and len(columns) == len(matrix.data)
        and not (np.diff(pointers) < 0).any()
        and (columns.size == 0 or (columns.min() >= 0 and columns.max() < width))
    )
    if not sound:
        fail(file, "holds an inconsistent sparse matrix", "download the data set again")
    return matrix


def _labels(file: Path) -> Array:
    one_hot = load_plain_pickle(file)
    if not isinstance(one_hot, np.ndarray) or one_hot.ndim != 2 or one_hot.shape[1] == 0:
        fail(file, "holds no one-hot labels", "download the data set again")
    return np.asarray(one_hot.argmax(axis=1), dtype=np.int64)


def _graph(file: Path) -> dict[int, list[int]]:
    graph = load_plain_pickle(file)
    plain = type(graph) is dict and all(
        type(node) is int and type(targets) is list for node, targets in graph.items()
    )
    # One list can stand for many nodes, so that a short file has endless edges.
    if not plain or sum(map(len, graph.values())) > file.stat().st_size:
        fail(
            file,
            "does not hold a dictionary with a list of neighbours for each node",
            "download the data set again",
        )
    node_ids(_ids(list(graph), str(file)), str(file), 0)
    return graph  # type: ignore[no-any-return]


def _check(
    parts: dict[str, Path],
    allx: CsrParts,
    tx: CsrParts,
    labels: Array,
    test_labels: Array,
    test: Array,
) -> None:
    if len(labels) != allx.shape[0]:
        fail(
            parts["ally"],
            f"has {len(labels)} labels, but {parts['allx'].name} has {allx.shape[0]} rows",
            "use files of the same data set",
        )
    if not len(test_labels) == tx.shape[0] == len(test) or tx.shape[1] != allx.shape[1]:
        fail(
            parts["tx"],
            f"has shape {list(tx.shape)}, but the data set has {len(test)} test nodes with "
            f"{len(test_labels)} labels, and rows of {allx.shape[1]} features",
            "use files of the same data set",
        )


def _dense(matrix: CsrParts, rows: Array) -> Array:
    out = np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
    for at, row in enumerate(rows):
        span = slice(int(matrix.indptr[row]), int(matrix.indptr[row + 1]))
        np.add.at(out[at], matrix.indices[span], matrix.data[span].astype(np.float32))
    return out


def _feature_rows(allx: CsrParts, tx: CsrParts, test: Array, num_nodes: int) -> Iterator[Array]:
    of_test = np.full(num_nodes, -1, dtype=np.int64)
    of_test[test] = np.arange(len(test))
    for span in spans(num_nodes, chunk_rows(4 * max(1, allx.shape[1]))):
        ids = np.arange(span.start, span.stop)
        rows = np.zeros((len(ids), allx.shape[1]), dtype=np.float32)
        known = (ids < allx.shape[0]) & (of_test[ids] < 0)
        rows[known] = _dense(allx, ids[known])
        listed = of_test[ids] >= 0
        rows[listed] = _dense(tx, of_test[ids[listed]])
        yield rows


def _graph_edges(graph: dict[int, list[int]], num_nodes: int, where: str) -> Iterator[EdgeChunk]:
    sources: list[int] = []
    destinations: list[int] = []
    for source, targets in graph.items():
        sources.extend([source] * len(targets))
        destinations.extend(targets)
        if len(sources) >= CHUNK_EDGES:
            yield _chunk(sources, destinations, num_nodes, where)
            sources, destinations = [], []
    if sources:
        yield _chunk(sources, destinations, num_nodes, where)


def _chunk(sources: list[int], destinations: list[int], num_nodes: int, where: str) -> EdgeChunk:
    left, right = _ids(sources, where), _ids(destinations, where)
    return EdgeChunk(node_ids(left, where, 0, num_nodes), node_ids(right, where, 0, num_nodes))


def _ids(ids: list[int], where: str) -> Array:
    if not all(type(node) is int and abs(node) < 1 << 63 for node in ids):
        fail(where, "holds a node id that is not an integer", "download the data set again")
    return np.array(ids, dtype=np.int64)
