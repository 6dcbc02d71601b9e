"""Adjacency lists as text: each line is `user item item ...`, blank-separated, also .gz.

The graph is bipartite: node types `user` and `item`, edge type (user, visits, item), one edge per
listed item, repeats kept. A second file of the same shape may hold the time of each visit.
"""

from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from .check import fail, file_beside, need_file, node_ids
from .chunks import CHUNK_EDGES
from .lines import text_lines
from .notes import Note
from .plan import EdgeChunk, EdgePlan, GraphPlan, NodePlan


def times_beside(path: Path) -> Path | None:
    """NAME_time_PART.txt beside NAME_PART.txt, with the same ending, where it exists."""
    stem, _, rest = path.name.partition("_")
    if not rest or rest.startswith("time_"):
        return None
    return file_beside(path.with_name(f"{stem}_time_{rest}"))


def plan_lists(path: Path | str) -> GraphPlan:
    """The plan of an adjacency list file, with the times of the matching file beside it."""
    file = need_file(path)
    time_file = times_beside(file)
    chunks = partial(_edges, file, time_file)
    edges = sum(len(chunk.sources) for chunk in chunks())
    idle = sum(len(line.split()) == 1 for _, line in text_lines(file))
    notes = []
    if idle:
        message = f"{idle} lines have a user but no items, so these users get no edges"
        notes.append(Note("users-without-items", idle, str(file), message))
    has_time = time_file is not None
    edge = EdgePlan("user", "visits", "item", chunks, num_edges=edges, has_time=has_time)
    facts = [f"times of edges are read from {time_file}"] if time_file else []
    nodes = [NodePlan("user"), NodePlan("item")]
    return GraphPlan(str(file), "adjacency lists", nodes, [edge], notes, facts)


def _numbers(line: str, file: Path, number: int) -> list[int]:
    try:
        return [int(field) for field in line.split()]
    except ValueError:
        what = f"{line[:60]!r} is not a list of integers"
        fail(f"{file}:{number}", what, "write each line as integers: user item item ...")


def _edges(file: Path, time_file: Path | None) -> Iterator[EdgeChunk]:
    columns = _empty()
    time_lines = text_lines(time_file) if time_file else None
    for number, line in text_lines(file):
        row = _numbers(line, file, number)
        stamp_line = next(time_lines, (number, ""))[1] if time_lines and time_file else ""
        _extend(columns[:2], (row[:1] * (len(row) - 1), row[1:]), file, number)
        if time_file is not None:
            stamps = _numbers(stamp_line, time_file, number)
            if len(stamps) != len(row) or stamps[:1] != row[:1]:
                same, other = len(stamps) == len(row), f"line {number} of {file.name}"
                what = f"has {len(stamps)} numbers, but {other} has {len(row)}"
                if same:
                    what = f"begins with user {stamps[0]}, but {other} with user {row[0]}"
                todo = "give both files the same users, and as many times as items"
                fail(f"{time_file}:{number}", what, todo)
            _extend(columns[2:], (stamps[1:],), time_file, number)
        if len(columns[0]) >= CHUNK_EDGES:
            yield _chunk(columns, f"{file} (up to line {number})")
            columns = _empty()
    if columns[0]:
        yield _chunk(columns, str(file))


def _empty() -> "list[array[int]]":
    return [array("q") for _ in range(3)]


def _extend(
    columns: "list[array[int]]", rows: tuple[list[int], ...], file: Path, number: int
) -> None:
    try:
        for column, row in zip(columns, rows, strict=True):
            column.extend(row)
    except OverflowError:
        fail(f"{file}:{number}", "a number in the line does not fit into int64", "check the file")


def _chunk(columns: "list[array[int]]", where: str) -> EdgeChunk:
    users, items, times = (np.frombuffer(column, dtype=np.int64) for column in columns)
    return EdgeChunk(
        node_ids(users, where, 0),
        node_ids(items, where, 0),
        times=times if times.size else None,
    )
