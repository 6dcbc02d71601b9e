"""Folders of the Open Graph Benchmark, as its package downloads them: raw/ beside split/.

A graph is CSV files (edge, node-feat, node-label, ...) or one data.npz. `node-feat` is `x`,
`edge-feat` is `edge_attr`, `node-label` is `y`, `edge_weight` is the inline weight, and other
`node_*` and `edge_*` files are tensors by their names. Several graphs are one block-diagonal graph
(`blocks.py`), their labels `graph_y`. `ogb_splits.py` says what splits become, `ogb_hetero.py`
reads typed graphs. Edges are stored as the files have them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import ImportFailed

from .arrays import NpzFile
from .blocks import block_edges, block_fact, by_graph, graph_ids
from .check import fail, need_file, node_ids, part_beside, same_rows
from .chunks import CHUNK_EDGES
from .csr import member_tensor
from .labels import class_tensor, number_labels
from .lines import text_lines
from .memory import hold
from .notes import Note, left_out, shown
from .npz_pairs import pair_columns
from .number_csv import NumberCsv
from .ogb_splits import graph_splits, is_link_set, link_note, node_splits
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

_AGAIN = "download the data set again"
_BINARY = "data.npz"
_NAMES = {"node-feat": "x", "edge-feat": "edge_attr", "species": "node_species"}
_COUNTS = ("edge", "num-node-list", "num-edge-list")
_LABELS = ("node-label", "graph-label")
INVERSE_FACT = (
    "edges are stored as in the files; for some data sets, the package ogb adds the inverse of "
    "each edge, as undirected=True does"
)

Pieces = Callable[[], Iterator[Array]]


@dataclass(slots=True)
class _Graphs:
    """What raw/ holds of untyped graphs, in either form."""

    where: str
    node_ptr: Array
    edge_ptr: Array
    pairs: Callable[[], Iterator[tuple[int, Array, Array]]]
    weights: Pieces | None = None
    node_tensors: list[TensorPlan] = field(default_factory=list)
    edge_tensors: list[TensorPlan] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def num_nodes(self) -> int:
        return int(self.node_ptr[-1])

    @property
    def num_edges(self) -> int:
        return int(self.edge_ptr[-1])

    @property
    def are_many(self) -> bool:
        return len(self.node_ptr) != 2


def ogb_root(path: Path) -> Path | None:
    """The folder of an OGB set, given itself or its raw/; None where it is not one."""
    for root in (path, path.parent) if path.name == "raw" else (path,):
        raw = root / "raw"
        known = ("num-node-list.csv", "triplet-type-list.csv", "num-node-dict.csv")
        if any((raw / f"{name}{end}").is_file() for name in known for end in ("", ".gz")):
            return root
        if (raw / _BINARY).is_file() and _is_binary(raw / _BINARY):
            return root
    return None


def _is_binary(file: Path) -> bool:
    try:
        return "num_nodes_list" in NpzFile(file)
    except ImportFailed:
        return False


def plan_ogb(path: Path | str) -> GraphPlan:
    """The plan of an OGB folder: for nodes, links or graphs, as CSV or binary.

    Raises `ImportFailed` for files that do not fit each other, and ids out of range.
    """
    from .ogb_hetero import plan_ogb_typed

    root = ogb_root(Path(path))
    if root is None:
        fail(
            path,
            "is not the folder of an OGB data set",
            "give the folder that holds raw/ and split/",
        )
    raw = root / "raw"
    if part_beside(raw / "triplet-type-list.csv"):
        return plan_ogb_typed(root)
    binary = (raw / _BINARY).is_file()
    graphs = _binary_graphs(raw) if binary else _csv_graphs(raw)
    node = NodePlan(num_nodes=graphs.num_nodes, tensors=graphs.node_tensors)
    facts = [INVERSE_FACT]
    if graphs.are_many:
        node.tensors.append(graph_ids(graphs.node_ptr))
        facts.append(block_fact(graphs.node_ptr))
        tensors, named = graph_splits(root, graphs.node_ptr)
    elif is_link_set(root):
        tensors, named = [], []
        graphs.notes.append(link_note(root))
    else:
        tensors, named = node_splits(root, graphs.num_nodes)
    node.tensors += tensors
    facts += [
        f"the tensor split_{k} is the split {name!r} of the data set"
        for k, name in enumerate(named)
    ]
    edge = EdgePlan(
        chunks=lambda: _edges(graphs),
        num_edges=graphs.num_edges,
        has_edge_ids=bool(graphs.edge_tensors),
        has_weight=graphs.weights is not None,
        tensors=graphs.edge_tensors,
    )
    form = "ogb binary" if binary else "ogb"
    notes = [*graphs.notes, *mapping_note(root)]
    return GraphPlan(str(root), form, [node], [edge], notes, facts)


def mapping_note(root: Path) -> list[Note]:
    """A note of mapping/, which says what the nodes are called elsewhere."""
    names = sorted(file.name for file in (root / "mapping").glob("*"))
    return left_out("files-unused", names, str(root / "mapping"), "names of nodes are not stored")


def csv_part(folder: Path, name: str) -> NumberCsv | None:
    """A table of raw/ that may be missing."""
    file = part_beside(folder / f"{name}.csv")
    return None if file is None else NumberCsv.open(file)


def pointers(counts: Array, where: str) -> Array:
    """Where each graph begins, of how much each has."""
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        fail(where, "is not a list of counts", _AGAIN)
    if len(counts) == 0 or float(counts.astype(np.float64).sum()) >= 2**62:
        fail(where, "has no entry, or its entries add up to 2^62 or more", _AGAIN)
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def csv_pairs(table: NumberCsv) -> Iterator[tuple[int, Array, Array]]:
    """(first edge, sources, destinations) of a table of two columns."""
    row = 0
    for part in table.rows(CHUNK_EDGES):
        yield row, np.ascontiguousarray(part[:, 0]), np.ascontiguousarray(part[:, 1])
        row += len(part)


def need_csv(folder: Path, name: str) -> NumberCsv:
    """A table of raw/ that must be there."""
    file = part_beside(folder / f"{name}.csv")
    return NumberCsv.open(need_file(file or folder / f"{name}.csv.gz"))


def edge_table(folder: Path, num_edges: int) -> NumberCsv:
    """The table of edges, two columns of ids."""
    table = need_csv(folder, "edge")
    if table.num_rows and (table.num_columns != 2 or not table.whole or table.num_missing):
        fail(table.path, "does not have two columns of node ids", _AGAIN)
    same_rows(table.num_rows, num_edges, str(table.path), "the file")
    return table


def _csv_graphs(raw: Path) -> _Graphs:
    counts = [need_csv(raw, name) for name in ("num-node-list", "num-edge-list")]
    node_ptr, edge_ptr = (pointers(one.column(), str(one.path)) for one in counts)
    _same_graphs(str(raw), node_ptr, edge_ptr)
    table = edge_table(raw, int(edge_ptr[-1]))
    graphs = _Graphs(str(table.path), node_ptr, edge_ptr, lambda: csv_pairs(table))
    found = {f.name.removesuffix(".gz").removesuffix(".csv") for f in raw.glob("*.csv*")}
    rest = []
    for name in sorted(found - {*_COUNTS, *_LABELS}):
        if name == "edge_weight":
            weights = need_csv(raw, name)
            same_rows(weights.num_rows, graphs.num_edges, str(weights.path), "the file")
            if weights.num_columns != 1 or weights.num_missing:
                fail(weights.path, "does not have one weight for each edge", _AGAIN)
            graphs.weights = lambda weights=weights: (p[:, 0] for p in weights.rows(CHUNK_EDGES))
        elif name in _NAMES or name.startswith(("node_", "edge_")):
            of_edges = name.startswith("edge")
            count = graphs.num_edges if of_edges else graphs.num_nodes
            tensor = need_csv(raw, name).tensor(_NAMES.get(name, name), count)
            (graphs.edge_tensors if of_edges else graphs.node_tensors).append(tensor)
        else:
            rest.append(f"{name}.csv")
    graphs.notes += left_out(
        "files-unused", rest, str(raw), "the format has no files with these names"
    )
    _csv_labels(raw, graphs)
    return graphs


def _same_graphs(where: str, node_ptr: Array, edge_ptr: Array) -> None:
    if len(node_ptr) != len(edge_ptr):
        fail(
            where,
            f"has node counts of {len(node_ptr) - 1} graphs, but edge counts of "
            f"{len(edge_ptr) - 1}",
            _AGAIN,
        )


def _csv_labels(raw: Path, graphs: _Graphs) -> None:
    for part, name in zip(_LABELS, ("y", "graph_y"), strict=True):
        file = part_beside(raw / f"{part}.csv")
        if file is None:
            continue
        if part == "graph-label" and _is_text(file):
            graphs.node_tensors += _text_labels(file, graphs)
            continue
        table, count = NumberCsv.open(file), graphs.num_nodes
        if name == "y":
            graphs.node_tensors.append(csv_labels(table, name, count, graphs.notes))
            continue
        labels = csv_labels(table, name, len(graphs.node_ptr) - 1, graphs.notes)
        graphs.node_tensors.append(_repeated(labels, graphs, str(file)))


def csv_labels(table: NumberCsv, name: str, count: int, notes: list[Note]) -> TensorPlan:
    """Labels: one column of numbers is classes where it can be, several are as they are."""
    where = str(table.path)
    same_rows(table.num_rows, count, where, "the file")
    if table.num_columns == 1:
        return number_labels(name, lambda: _floats(table), count, where, notes)
    if not table.num_missing:
        return table.tensor(name, count)

    def chunks() -> Iterator[Array]:
        # A whole number that is missing among several tasks has no better stand-in than NaN.
        for part in table.rows(CHUNK_EDGES, _GAP):
            yield np.where(part == _GAP, np.nan, part).astype(np.float32)

    return TensorPlan(name, "f32", (table.num_columns,), chunks, count)


# No label of OGB is the smallest number of 64 bits.
_GAP = -(1 << 63)


def _floats(table: NumberCsv) -> Iterator[Array]:
    for part in table.rows(CHUNK_EDGES, _GAP):
        column = part[:, 0]
        gaps = column == _GAP
        yield np.where(gaps, np.nan, column) if table.whole and gaps.any() else column


def _repeated(labels: TensorPlan, graphs: _Graphs, where: str) -> TensorPlan:
    """Labels of graphs, whole, on each node of its graph."""
    hold(where, labels.row_bytes * (labels.num_rows or 0))
    rows = np.concatenate([np.zeros((0, *labels.shape)), *labels.chunks()])
    kind = np.int64 if labels.dtype == "i64" else np.float32
    return by_graph(labels.name, labels.dtype, rows.astype(kind), graphs.node_ptr)


def _is_text(file: Path) -> bool:
    """Whether the first label is not a number, as in sets whose labels are words."""
    for _, line in text_lines(file):
        try:
            _ = [float(field or "nan") for field in line.split(",")]
        except ValueError:
            return True
        return False
    return False


def _text_labels(file: Path, graphs: _Graphs) -> list[TensorPlan]:
    """Labels of graphs as text: classes with names, or a note where they are too many."""
    count = len(graphs.node_ptr) - 1
    texts = [line.strip('"') for _, line in text_lines(file)]
    hold(str(file), sum(map(len, texts)) + 100 * len(texts))
    same_rows(len(texts), count, str(file), "the file")
    if len(set(texts)) > min(1 << 16, max(2, count // 2)):
        why = "its labels have too many different values to be classes"
        graphs.notes += left_out("labels-dropped", [file.name], str(file), why)
        return []
    labels = class_tensor("graph_y", lambda: iter([texts]), count, str(file), graphs.notes)
    tensor = _repeated(labels, graphs, str(file))
    tensor.class_names = labels.class_names
    return [tensor]


def _edges(graphs: _Graphs) -> Iterator[EdgeChunk]:
    weights = graphs.weights() if graphs.weights is not None else None
    for row, left, right in graphs.pairs():
        part: Any = None if weights is None else next(weights).astype(np.float32)
        if graphs.are_many:
            ends = block_edges(graphs.where, row, left, right, graphs.node_ptr, graphs.edge_ptr)
            left, right = np.asarray(ends.sources), np.asarray(ends.destinations)
        yield EdgeChunk(
            node_ids(left, graphs.where, row, graphs.num_nodes),
            node_ids(right, graphs.where, row, graphs.num_nodes),
            weights=part,
        )


def _binary_graphs(raw: Path) -> _Graphs:
    npz = NpzFile(raw / _BINARY)
    lists = ("num_nodes_list", "num_edges_list")
    node_ptr, edge_ptr = (pointers(npz.small(name), npz.where(name)) for name in lists)
    _same_graphs(str(npz.path), node_ptr, edge_ptr)
    graphs = _Graphs(
        npz.where("edge_index"), node_ptr, edge_ptr, lambda: pair_columns(npz, "edge_index")
    )
    if npz.shape("edge_index") != (2, graphs.num_edges):
        shape = list(npz.shape("edge_index"))
        what = f"has shape {shape}, but num_edges_list adds up to {graphs.num_edges} edges"
        fail(graphs.where, what, _AGAIN)
    better = {"node_feat": "x", "edge_feat": "edge_attr"}
    unknown = [n for n in npz.names if not n.startswith(("node_", "edge_")) and n not in lists]
    if unknown:
        fail(
            npz.path,
            f"has the unknown members {shown(unknown)}",
            "rename them to node_NAME or edge_NAME",
        )
    for name in npz.names:
        if name in ("edge_index", *lists):
            continue
        if name == "edge_weight" and npz.dtype(name).kind == "f":
            same_rows(npz.length(name), graphs.num_edges, npz.where(name), name)
            graphs.weights = lambda: (
                p.reshape(-1) for p in npz.open("edge_weight").chunks(CHUNK_EDGES)
            )
            continue
        of_edges = name.startswith("edge_")
        count = graphs.num_edges if of_edges else graphs.num_nodes
        tensor = member_tensor(npz, name, better.get(name, name), count)
        (graphs.edge_tensors if of_edges else graphs.node_tensors).append(tensor)
    for part, count in (("node", graphs.num_nodes), ("graph", len(node_ptr) - 1)):
        file = raw / f"{part}-label.npz"
        if file.is_file():
            labels = _binary_labels(NpzFile(file), part, count, graphs.notes)
            many = part == "graph"
            graphs.node_tensors.append(_repeated(labels, graphs, str(file)) if many else labels)
    return graphs


def _binary_labels(npz: NpzFile, part: str, count: int, notes: list[Note]) -> TensorPlan:
    member, name = f"{part}_label", "y" if part == "node" else "graph_y"
    where, shape = npz.where(member), npz.shape(member)
    if not shape or shape[0] != count:
        fail(where, f"has shape {list(shape)}, expected {count} rows", _AGAIN)
    if len(shape) == 1 or shape[1:] == (1,):

        def pieces() -> Iterator[Array]:
            return (part.reshape(-1) for part in npz.open(member).chunks())

        return number_labels(name, pieces, count, where, notes)
    return member_tensor(npz, member, name, count)
