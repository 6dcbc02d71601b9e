"""TUDataset folders: NAME_A.txt, NAME_graph_indicator.txt and what else the set has, also .gz.

Ids count from 1 in the files and from 0 in the store. All graphs become one block-diagonal graph:
node tensors `graph_id`, `graph_y` (label of the node's graph), `x` (node attributes, f32, or else
node labels, one-hot) and `node_label`; edge tensors `edge_label` and `edge_attr` by edge id.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from .blocks import block_fact, graph_ids, graph_labels
from .check import fail, need_file, node_ids, part_beside, same_rows
from .lines import number_table, pair_tables, text_lines
from .memory import hold
from .notes import shown, unused_files
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

# Optional parts, in the order of their tensors.
_Parts = dict[str, tuple[str, type[np.generic]]]
_NODE_PARTS: _Parts = {
    "node_attributes": ("x", np.float32),
    "node_labels": ("node_label", np.int64),
}
_EDGE_PARTS: _Parts = {
    "edge_labels": ("edge_label", np.int64),
    "edge_attributes": ("edge_attr", np.float32),
}
# Columns of one-hot labels, at most; beyond that they are ids rather than classes.
_LABELS_MAX = 1024
_TOGETHER = 1 << 14
_PARTS = ("A", "graph_indicator", "graph_labels", *_NODE_PARTS, *_EDGE_PARTS)


def tu_name(folder: Path) -> str | None:
    """The set's name where ``folder`` holds exactly one NAME_A.txt[.gz]."""
    names = {f.name.removesuffix(".gz").removesuffix("_A.txt") for f in folder.glob("*_A.txt*")}
    return names.pop() if len(names) == 1 else None


def _part(folder: Path, name: str, part: str) -> Path | None:
    return part_beside(folder / f"{name}_{part}.txt")


def plan_tudataset(path: Path | str) -> GraphPlan:
    """The plan of a TUDataset folder."""
    folder = Path(path)
    if not folder.exists():
        fail(folder, "no such folder", "check the path")
    name = tu_name(folder) if folder.is_dir() else None
    if name is None:
        sets = sorted(f.parent.name for f in folder.glob("*/*_A.txt*")) if folder.is_dir() else []
        todo = (
            f"give one of its folders {shown(sets)}"
            if sets
            else "give a folder with exactly one NAME_A.txt"
        )
        fail(folder, "is not a TUDataset folder", todo)
    found = _part(folder, name, "graph_indicator")
    indicator = need_file(found or folder / f"{name}_graph_indicator.txt")
    graph_of = number_table(indicator, None, np.int64) - 1
    if graph_of.shape[1] != 1:
        fail(indicator, f"has {graph_of.shape[1]} columns, expected one", "check the file")
    graph_of = graph_of[:, 0]
    if graph_of.size == 0 or (np.diff(graph_of) < 0).any() or graph_of[0] != 0:
        fail(indicator, "graphs are not numbered 1, 2, ... in order", "sort the file")
    hold(str(indicator), 24 * (int(graph_of[-1]) + 1))
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of))])
    node = NodePlan(num_nodes=len(graph_of))
    node.tensors = _node_tensors(folder, name, graph_of, node_ptr)
    adjacency = _part(folder, name, "A")
    assert adjacency is not None
    num_edges = sum(1 for _, line in text_lines(adjacency) if line.strip())
    tensors = _tensors(folder, name, _EDGE_PARTS, num_edges)
    chunks = partial(_edges, adjacency, graph_of)
    has_ids = bool(tensors)
    edge = EdgePlan(chunks=chunks, num_edges=num_edges, has_edge_ids=has_ids, tensors=tensors)
    facts = [block_fact(node_ptr)]
    facts += [
        f"graph labels {', '.join(t.class_names)} are stored as classes 0 to "
        f"{len(t.class_names) - 1}"
        for t in node.tensors
        if t.name == "graph_y" and t.class_names
    ]
    if not _part(folder, name, "node_attributes"):
        facts += [
            "the data set has no node attributes, so x has the node labels, one-hot in "
            f"{t.shape[0]} columns"
            for t in node.tensors
            if t.name == "x"
        ]
    used = [file for part in _PARTS if (file := _part(folder, name, part))]
    notes = unused_files(folder, used)
    return GraphPlan(str(folder), "tudataset", [node], [edge], notes, facts)


def _column(name: str, values: Array) -> TensorPlan:
    dtype = "i64" if values.dtype.kind == "i" else "f32"
    return TensorPlan(name, dtype, tuple(values.shape[1:]), lambda: iter([values]), len(values))


def _node_tensors(folder: Path, name: str, graph_of: Array, node_ptr: Array) -> list[TensorPlan]:
    plans = _tensors(folder, name, _NODE_PARTS, len(graph_of))
    label_file = _part(folder, name, "node_labels")
    if label_file and not _part(folder, name, "node_attributes"):
        plans += _one_hot(_squeeze(number_table(label_file, ",", np.int64)))
    plans.append(graph_ids(node_ptr))
    if file := _part(folder, name, "graph_labels"):
        plans.append(
            _graph_labels(_squeeze(number_table(file, ",", np.int64)), node_ptr, str(file))
        )
    return plans


def _one_hot(labels: Array) -> list[TensorPlan]:
    """``x`` of labels, from the smallest to the largest of them, as PyG's TUDataset has it."""
    if labels.ndim > 1 or not labels.size:
        return []
    numbers = labels - labels.min()
    width = int(numbers.max()) + 1
    if width > _LABELS_MAX:
        return []

    def rows() -> Iterator[Array]:
        for first in range(0, len(numbers), _TOGETHER):
            some = numbers[first : first + _TOGETHER]
            yield (some[:, None] == np.arange(width)).astype(np.float32)

    return [TensorPlan("x", "f32", (width,), rows, len(numbers))]


def _graph_labels(labels: Array, node_ptr: Array, where: str) -> TensorPlan:
    """Labels of graphs; one column of them becomes classes 0, 1, ... as in PyG's TUDataset, with
    the numbers of the file as the names of the classes."""
    if labels.ndim > 1:
        return graph_labels(labels, node_ptr, where)
    names, classes = np.unique(labels, return_inverse=True)
    plan = graph_labels(classes, node_ptr, where)
    plan.class_names = [str(name) for name in names]
    return plan


def _squeeze(values: Array) -> Array:
    return values[:, 0] if values.shape[1] == 1 else values


def _tensors(folder: Path, name: str, parts: _Parts, num_rows: int) -> list[TensorPlan]:
    plans = []
    for part, (tensor, dtype) in parts.items():
        if file := _part(folder, name, part):
            values = number_table(file, ",", dtype)
            same_rows(len(values), num_rows, str(file), "the file")
            plans.append(_column(tensor, values if tensor == "x" else _squeeze(values)))
    return plans


def _edges(file: Path, graph_of: Array) -> Iterator[EdgeChunk]:
    where, bound = str(file), len(graph_of)
    for first, pairs in pair_tables(file):
        left, right = np.ascontiguousarray(pairs.T) - 1
        left, right = node_ids(left, where, first, bound), node_ids(right, where, first, bound)
        across = np.flatnonzero(graph_of[left] != graph_of[right])
        if across.size:
            fail(f"{file}:{first + int(across[0])}", "the edge joins two graphs", "check the file")
        yield EdgeChunk(left, right)
