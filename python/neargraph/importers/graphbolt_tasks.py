"""What the tasks of an OnDiskDataset become: splits and labels of nodes, and link splits.

The seeds of a node task are a split: 1 for its training set, 2 validation, 3 test. The labels
beside them become `y` of the nodes (`y_NAME` where `y` is taken), -1 or NaN where a node has none.
Seeds that are pairs are supervision for a loader, not content of the graph: they are left out with
a note, and `link_splits` reads them. Memory is a split and the labels of one node type.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .check import fail, node_ids, same_rows
from .chunks import chunk_rows, spans
from .graphbolt import Folder, Types, are_texts, open_folder
from .labels import UNLABELLED, missing_labels
from .memory import hold
from .notes import Note
from .plan import Array, NodePlan, TensorPlan
from .torch_file import BrainFloats

SETS = {"train_set": 1, "validation_set": 2, "test_set": 3}
"""The sets of a task, and what stands for them in a split."""

_NAMES = {"train_set": "train", "validation_set": "valid", "test_set": "test"}
_PAIRS = ("node_pairs", "negative_srcs", "negative_dsts", "indexes")
_ORDER = ("seeds", "labels")


def _columns(folder: Folder, entry: dict[str, Any], what: str) -> dict[str, tuple[Array, str]]:
    """{name: (array, file)} of one set of one type; without names the first are the seeds."""
    found: dict[str, tuple[Array, str]] = {}
    for place, data in enumerate(folder.entries(entry, "data")):
        name = data.get("name") or (_ORDER[place] if place < len(_ORDER) else f"data_{place}")
        name = "seeds" if name in ("seed_nodes", "node_pairs") else name
        if not isinstance(name, str) or name in found:
            fail(
                folder.file,
                f"{what}: the name {name!r} of an array is not a string, or occurs twice",
                "give each array a different name",
            )
        values = folder.array(data, f"{name} of {what}")
        where = str(folder.place(data, what))
        if isinstance(values, BrainFloats) or values.ndim == 0:
            is_brain = isinstance(values, BrainFloats)
            has = "has dtype bfloat16" if is_brain else "is a single number"
            todo = "store a list of integers or float32"
            fail(where, f"the array {name} of {what} {has}", todo)
        found[name] = values, where
    if found and "seeds" not in found:
        listed = ", ".join(found)
        fail(
            folder.file, f"{what} has no entry 'seeds' (entries: {listed})", "add the entry 'seeds'"
        )
    for name, (values, where) in found.items():
        same_rows(len(values), len(found["seeds"][0]), where, f"the array {name} of {what}")
    return found


def add_tasks(folder: Folder, types: Types) -> None:
    """Adds the splits and labels of all tasks to the node types."""
    tasks = [(task, _is_link(folder, task)) for task in folder.entries(folder.meta, "tasks")]
    links = [str(task.get("name") or place) for place, (task, link) in enumerate(tasks) if link]
    node_tasks = [task for task, link in tasks if not link]
    if links:
        message = (
            f"left out the pairs of the link tasks {', '.join(links)}: pairs to predict are not "
            "edges of the graph; read them with neargraph.datasets.link_splits"
        )
        folder.notes.append(Note("link-splits-left-out", len(links), str(folder.file), message))
    for number, task in enumerate(node_tasks):
        width = len(node_tasks) if len(node_tasks) > 1 else None
        _add_node_task(folder, types, task, number, width)


def _is_link(folder: Folder, task: dict[str, Any]) -> bool:
    for key in SETS:
        for entry in folder.entries(task, key):
            names = {data.get("name") for data in folder.entries(entry, "data")}
            seeds = _columns(folder, entry, key).get("seeds")
            if names & set(_PAIRS) or (seeds is not None and seeds[0].ndim == 2):
                return True
    return False


def _add_node_task(
    folder: Folder, types: Types, task: dict[str, Any], number: int, width: int | None
) -> None:
    name = str(task.get("name") or number)
    parts: dict[str, list[tuple[int, dict[str, tuple[Array, str]]]]] = {}
    for key, code in SETS.items():
        for entry in folder.entries(task, key):
            what = f"the {key} of task {name}"
            node = types.node(folder, entry.get("type"), what)
            columns = _columns(folder, entry, what)
            parts.setdefault(node.name, []).append((code, columns))
            rest = [one for one in columns if one not in ("seeds", "labels")]
            if rest:
                message = f"left out {', '.join(rest)} of {what}: only seeds and labels are stored"
                note = Note("columns-dropped", len(rest), str(folder.file), message)
                folder.notes.append(note)
    for node_type, sets in parts.items():
        node = types.nodes[node_type]
        node.tensors.append(_split(folder, node, sets, number, width))
        if labels := _labels(folder, node, sets, name):
            classes = task.get("class_names")
            if labels.dtype == "i64" and are_texts(classes):
                labels.class_names = classes
            node.tensors.append(labels)


def _split(folder: Folder, node: NodePlan, sets: Any, number: int, width: int | None) -> TensorPlan:
    """The split of a task as codes, one byte for each node."""
    count = node.num_nodes or 0
    hold(str(folder.file), count)
    codes = np.zeros(count, dtype=np.uint8)
    for code, columns in sets:
        for ids, where, _ in _seeds(columns, count):
            other = np.flatnonzero((codes[ids] != 0) & (codes[ids] != code))
            if other.size:
                bad = int(ids[other[0]])
                fail(where, f"node {bad} is in two sets of the same task", "make the sets disjoint")
            codes[ids] = code
    return TensorPlan(f"split_{number}", "u8", (), lambda: iter([codes]), count, width)


def _seeds(columns: dict[str, tuple[Array, str]], count: int) -> Iterator[tuple[Array, str, slice]]:
    """(ids, file, places) of the seeds of a set, in pieces."""
    if "seeds" not in columns:
        return
    values, where = columns["seeds"]
    for span in spans(len(values)):
        ids = node_ids(np.asarray(values[span]), where, span.start, count)
        yield ids.astype(np.int64), where, span


def _labels(folder: Folder, node: NodePlan, sets: Any, task: str) -> TensorPlan | None:
    """Labels of the seeds as a tensor of all nodes; None where the task has none."""
    given = [columns["labels"] for _, columns in sets if "labels" in columns]
    if not given:
        return None
    count, shape = node.num_nodes or 0, given[0][0].shape[1:]
    shape = () if shape == (1,) else shape
    kinds = {values.dtype.kind for values, _ in given}
    if not kinds <= set("iufb") or any(_size(v.shape[1:]) != _size(shape) for v, _ in given):
        what = "labels of a task are not numbers, or their rows have different shapes"
        fail(given[0][1], what, "store them as int64 or float32, with rows of one shape")
    whole = not shape and all(_is_whole(values) for values, _ in given)
    hold(str(folder.file), (8 if whole else 4 * _size(shape)) * count)
    empty: Any = UNLABELLED if whole else np.nan
    rows = np.full((count, *shape), empty, dtype=np.int64 if whole else np.float32)
    for _, columns in sets:
        if "labels" not in columns:
            continue
        for ids, _, span in _seeds(columns, count):
            part = np.asarray(columns["labels"][0][span]).reshape(len(ids), *shape)
            if whole and part.dtype.kind == "f":
                part = np.where(np.isnan(part), UNLABELLED, part)
            rows[ids] = part
    taken = {tensor.name: tensor for tensor in node.tensors}
    if "y" in taken and _agree(taken["y"], rows, empty):
        return None
    name = "y" if "y" not in taken else f"y_{task}"
    if name in taken:
        what = f"labels of task {task} need the name {name!r}, which another tensor already has"
        fail(folder.file, what, "rename the task")
    if whole:
        missing = int((rows == UNLABELLED).sum())
        folder.notes += missing_labels(missing, f"{folder.file} [{task}]")
    return TensorPlan(name, "i64" if whole else "f32", shape, lambda: _pieces(rows), count)


def _agree(column: TensorPlan, rows: Array, empty: Any) -> bool:
    """Whether a tensor has the labels of a task wherever the task has one."""
    row = 0
    for chunk in column.chunks():
        mine = rows[row : row + len(chunk)]
        known = (mine != empty) & (mine == mine)
        if chunk.shape != mine.shape or (known & (chunk != mine)).any():
            return False
        row += len(chunk)
    return True


def _pieces(rows: Array) -> Iterator[Array]:
    for span in spans(len(rows), chunk_rows(rows[:1].nbytes)):
        yield rows[span]


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _is_whole(values: Array) -> bool:
    """Whether labels are classes: integers, or floats of which all known ones are whole."""
    if values.dtype.kind != "f":
        return True
    for span in spans(len(values)):
        part = np.asarray(values[span])
        if not (np.isnan(part) | (part == np.floor(part)) & (np.abs(part) < 2**62)).all():
            return False
    return True


def graphbolt_links(path: Path | str) -> dict[str, dict[str, Any]]:
    """The pairs of the link tasks of a folder; see `neargraph.datasets.link_splits`."""
    folder = open_folder(path)
    found: dict[str, dict[str, Any]] = {}
    for task in folder.entries(folder.meta, "tasks"):
        if not _is_link(folder, task):
            continue
        for key, name in _NAMES.items():
            for entry in folder.entries(task, key):
                columns = _columns(folder, entry, f"the {key}")
                arrays = {one: values for one, (values, _) in columns.items()}
                into = found.setdefault(name, {})
                if isinstance(entry.get("type"), str):
                    into = into.setdefault(entry["type"], {})
                if set(into) & set(arrays):
                    what = "has several link tasks, of which link_splits reads only one"
                    fail(folder.file, what, "read the arrays of the tasks with NumPy or torch")
                into |= {"edge" if one == "seeds" else one: v for one, v in arrays.items()}
    return found
