"""Temporal edge lists with labels: `source target time` lines and node2label.txt beside them.

Times are stored as i64. Where the file has fractions (some sets scale time to [0, 1]) they are
stored in millionths, which the plan's notes say.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from neargraph.remedies import remedy

from .check import fail, need_file, node_ids, part_beside
from .chunks import CHUNK_EDGES
from .labels import missing_labels
from .lines import number_table, text_lines
from .memory import hold
from .notes import Note
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

_MILLION = 1_000_000


def labels_beside(path: Path) -> Path | None:
    """node2label.txt[.gz] in the folder of an edge file, where it exists."""
    if path.name.startswith("node2label"):
        return None
    return part_beside(path.with_name("node2label.txt"))


def plan_temporal(path: Path | str) -> GraphPlan:
    """The plan of a temporal edge list."""
    file = need_file(path)
    label_file = labels_beside(file)
    edges, top, fractions = 0, -1, False
    for left, right, times in _rows(file):
        edges += len(times)
        top = max(top, int(left.max()), int(right.max()))
        fractions = fractions or bool((times != np.floor(times)).any())
    scale = _MILLION if fractions else 1
    node, notes = NodePlan(), list[Note]()
    if label_file is not None:
        table = number_table(label_file, None, np.int64)
        where = str(label_file)
        if table.shape[1] != 2:
            fail(
                where, f"has {table.shape[1]} columns, expected 2: node and label", "check the file"
            )
        ids = node_ids(table[:, 0], where, 1)
        top = max(top, int(ids.max(initial=-1)))
        node.num_nodes = top + 1
        # The labels, and the ids in order.
        hold(where, 8 * node.num_nodes + 16 * len(ids))
        if len(np.unique(ids)) != len(ids):
            fail(where, "a node has two labels", "give each node one label")
        notes.extend(missing_labels(node.num_nodes - len(ids), where))
        labels = np.full(node.num_nodes, -1, dtype=np.int64)
        labels[ids] = table[:, 1]
        node.tensors.append(TensorPlan("y", "i64", (), lambda: iter([labels]), node.num_nodes))

    def chunks() -> Iterator[EdgeChunk]:
        for left, right, times in _rows(file):
            yield EdgeChunk(left, right, times=np.rint(times * scale).astype(np.int64))

    if fractions:
        message = "times are fractions, so they are stored as whole numbers of millionths"
        notes.append(Note("times-scaled", edges, str(file), message))
    edge = EdgePlan(chunks=chunks, num_edges=edges, has_time=True)
    return GraphPlan(str(file), "temporal", [node], [edge], notes)


def _rows(file: Path) -> Iterator[tuple[Array, Array, Array]]:
    ids, times, first = array("q"), array("d"), 1
    for number, line in text_lines(file):
        if not line.strip() or line[0] in "#%":
            continue
        try:
            source, destination, time = line.replace(",", " ").split()
            ids.extend((int(source), int(destination)))
            times.append(float(time))
        except (ValueError, OverflowError):
            fail(
                f"{file}:{number}",
                f"{line[:60]!r} is not two node ids and a time",
                remedy("ReadAsText"),
            )
        if not abs(times[-1]) < 2**53:
            what = f"the time {time} is out of range: this format reads times below 2^53"
            fail(f"{file}:{number}", what, remedy("ReadAsText"))
        if len(times) >= CHUNK_EDGES:
            yield _columns(ids, times, str(file), first)
            ids, times, first = array("q"), array("d"), number + 1
    if times:
        yield _columns(ids, times, str(file), first)


def _columns(
    ids: "array[int]", times: "array[float]", where: str, first: int
) -> tuple[Array, Array, Array]:
    left, right = np.ascontiguousarray(np.frombuffer(ids, dtype=np.int64).reshape(-1, 2).T)
    stamps = np.frombuffer(times, dtype=np.float64)
    return node_ids(left, where, first), node_ids(right, where, first), stamps
