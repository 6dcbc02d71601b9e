"""MUSAE sets: NAME_edges.csv, NAME.json (or NAME_features.json) and NAME_target.csv, also .gz.

Features are lists of word numbers by node and become the dense binary f32 tensor `x`; the target
(integers, floats where a value is not whole, or names of classes) becomes `y`. The
JSON is parsed in one piece: it is tens of MB at most in this collection, and refused beyond 1 GiB.
"""

import csv
import json
import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .check import fail, need_file, node_ids, part_beside
from .csr import bag_rows
from .labels import parsed_labels
from .lines import pair_tables, text_bytes, text_lines
from .memory import hold, hold_to
from .notes import Note, left_out
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

_MAX_JSON = 1 << 30
_MAX_LINE = 16 << 20
# What a character becomes: text twice, and lists of Python integers, then arrays.
_BYTES_FOR_JSON = 16
# A target: its text, its places in lists and arrays, and the number that it is.
_BYTES_FOR_TARGET = 200
# Where edges name nodes by another number than the site did, that one is new_id.
_IDS = ("new_id", "id")
_NO_WORDS = np.zeros(0, dtype=np.int64)
_LABELS = ("target", "ml_target", "page_type", "mature")


def musae_parts(path: Path) -> tuple[Path, Path, Path | None] | None:
    """(edges, features, target) where ``path`` is the edge file of a MUSAE set."""
    for end in ("_edges.csv.gz", "_edges.csv"):
        if not path.name.endswith(end):
            continue
        stem = path.name.removesuffix(end)
        ends = (".json", "_features.json", "_target.csv")
        words, features, target = (path.with_name(stem + end) for end in ends)
        if found := part_beside(words) or part_beside(features):
            return path, found, part_beside(target)
    return None


def plan_musae(path: Path | str) -> GraphPlan:
    """The plan of a set given by its edge file."""
    parts = musae_parts(need_file(path))
    if parts is None:
        what = "there is no NAME.json beside the edge file of a MUSAE data set"
        fail(path, what, "give NAME_edges.csv of a complete data set")
    edges, features, target = parts
    words = _features(features)
    num_nodes = max(words, default=-1) + 1
    node, notes = NodePlan(num_nodes=num_nodes), list[Note]()
    if target is not None:
        labels = _target(target, num_nodes, notes)
        num_nodes = node.num_nodes = labels.num_rows or 0
        node.tensors.append(labels)
    if len(words) < num_nodes:
        count = num_nodes - len(words)
        message = f"{count} nodes have no words, so their rows of x are zeros"
        notes.append(Note("rows-filled", count, str(features), message))

    def bags() -> Iterator[Array]:
        return (words.get(node, _NO_WORDS) for node in range(num_nodes))

    width = 1 + max((int(w.max()) for w in words.values() if w.size), default=-1)
    x = TensorPlan("x", "f32", (width,), lambda: bag_rows(bags(), width), num_nodes)
    x.num_values = sum(len(ids) for ids in words.values())
    node.tensors.insert(0, x)
    count = sum(len(pairs) for _, pairs in pair_tables(edges, has_header=True))
    edge = EdgePlan(chunks=lambda: _edges(edges, num_nodes), num_edges=count)
    return GraphPlan(str(edges), "musae", [node], [edge], notes)


def _features(file: Path) -> dict[int, Array]:
    lines: list[str] = []
    left = size = text_bytes(file)
    hold(str(file), _BYTES_FOR_JSON * size)
    for _, line in text_lines(file, _MAX_LINE):
        lines.append(line)
        left -= len(line)
        if left < 0:
            # It was packed more tightly than guessed.
            hold(str(file), _BYTES_FOR_JSON * min(len(line), -left))
        if size - left > _MAX_JSON:
            fail(file, "is larger than 1 GiB", "convert the file to Parquet or npz first")
    text = "\n".join(lines)
    try:
        pairs = json.loads(text, object_pairs_hook=list)
        words = {int(node): np.array(ids, dtype=np.int64) for node, ids in pairs}
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        fail(file, f"is not JSON of the form {{node: [word, ...]}} ({error})", "check the file")
    if len(words) != len(pairs):
        fail(file, "a node has two lists of words", "give each node one list")
    for node, ids in words.items():
        if node < 0 or node >= 1 << 32 or ids.ndim != 1 or (ids.size and ids.min() < 0):
            what = f"node {node}: the id is not valid, or the words are not numbers of at least 0"
            fail(file, what, "check the file")
        if ids.size and ids.max() >= 1 << 24:
            what = f"node {node} has word number {int(ids.max())}, expected less than 2^24"
            fail(file, what, "check the file")
    return words


def _target(file: Path, num_nodes: int, notes: list[Note]) -> TensorPlan:
    where = str(file)
    rows = _fields(file)
    header = [name.strip() for name in next(rows, [])]
    id_column = _column(header, _IDS, where)
    label_column = header.index(header[1]) if len(header) == 2 else _column(header, _LABELS, where)
    rest = [name for at, name in enumerate(header) if at not in (id_column, label_column)]
    notes.extend(
        left_out("columns-dropped", rest, where, "only the columns of ids and labels are read")
    )
    nodes, texts = array("q"), list[str]()
    read, letters, held, size = 0, 0, 0, max(1, text_bytes(file))
    for number, row in enumerate((row for row in rows if row), start=2):
        if len(row) != len(header):
            what = f"has {len(row)} columns, expected {len(header)}"
            fail(f"{file}:{number}", what, "check the file")
        if not re.fullmatch(r"\d{1,18}", row[id_column].strip()):
            fail(f"{file}:{number}", f"{row[id_column][:60]!r} is not a node id", "check the file")
        nodes.append(int(row[id_column]))
        texts.append(row[label_column].strip())
        read += sum(map(len, row)) + len(row)
        letters += len(texts[-1])
        wanted = _BYTES_FOR_TARGET * len(texts) + 4 * letters
        held = hold_to(where, wanted, held, read / size)
    ids = node_ids(np.frombuffer(nodes, dtype=np.int64), where, 1)
    if len(np.unique(ids)) != len(ids) or len(ids) < num_nodes or ids.max(initial=-1) >= len(ids):
        what = f"its {len(ids)} rows are not one for each node from 0 to the largest id"
        fail(where, what, "give each node one row")
    labels = [""] * len(ids)
    for node, text in zip(nodes, texts, strict=True):
        labels[node] = text
    return parsed_labels("y", labels, where, notes)


def _fields(file: Path) -> Iterator[list[str]]:
    try:
        yield from csv.reader(line for _, line in text_lines(file))
    except csv.Error as error:
        fail(file, f"is not a table of comma-separated values ({error})", "check the file")


def _column(header: list[str], known: tuple[str, ...], where: str) -> int:
    found = next((header.index(name) for name in known if name in header), None)
    if found is None:
        fail(
            where,
            f"has no column {' or '.join(known)} (columns: {', '.join(header)})",
            "rename one of the columns",
        )
    return found


def _edges(file: Path, num_nodes: int) -> Iterator[EdgeChunk]:
    for first, pairs in pair_tables(file, has_header=True):
        left, right = np.ascontiguousarray(pairs.T)
        where = str(file)
        yield EdgeChunk(
            node_ids(left, where, first, num_nodes), node_ids(right, where, first, num_nodes)
        )
