"""Tables: Parquet, Arrow and CSV. One edge file, or a folder of edge and node files.

Edge columns: source and destination (src, source, from, ...), optional time, weight and edge_id;
every other numeric column is an edge tensor by row. A folder holds `edges.parquet` and
`nodes.parquet`, or `edges_SRC__REL__DST.parquet` and `nodes_TYPE.parquet` (also .arrow, .feather,
.csv). `node_table.py` says what node columns become. Where the ends of edges are text, or a node
table has ids other than 0, 1, 2, ..., edges name nodes by keys; the store keeps the keys.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .check import fail, fail_row, node_ids, whole_times
from .node_table import column_tensors, has_keys, node_plan
from .notes import Note, unused_files
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan
from .table_file import ROWS, TABLE_ENDINGS, TEXT_ROWS, Table
from .text import COLUMN_NAMES, TextHints

__all__ = ["TABLE_ENDINGS", "plan_table", "table_folder"]

_COLUMN_NAMES = {**COLUMN_NAMES, "edge_id": ("edge_id", "eid")}


def plan_table(path: Path | str, hints: TextHints | None = None) -> GraphPlan:
    """The plan of an edge table, or of a folder of them."""
    given = Path(path)
    if given.is_dir():
        return _plan_folder(given, hints)
    table, notes = Table.open(given), list[Note]()
    named = _are_named([], [table], hints)
    edge = _edge_plan(table, hints, ("node", "to", "node"), (None, None), named, notes)
    return GraphPlan(str(given), "table", [NodePlan(strings=named)], [edge], notes)


def table_folder(folder: Path) -> bool:
    """Whether a folder holds edge tables."""
    return any(file.stem.startswith("edges") for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix in (*TABLE_ENDINGS, ".csv"))


def _plan_folder(folder: Path, hints: TextHints | None) -> GraphPlan:
    nodes: dict[str, Table] = {}
    edges: dict[tuple[str, str, str], Table] = {}
    for file in _files(folder):
        kind = next((kind for kind in ("nodes", "edges") if file.stem.startswith(kind)), None)
        typed = file.stem.removeprefix(kind or "").lstrip("_")
        if kind == "nodes":
            known = nodes.setdefault(typed or "node", Table.open(file))
        elif kind == "edges":
            parts = tuple(typed.split("__")) if typed else ("node", "to", "node")
            if len(parts) != 3:
                fail(file, "its name does not tell the edge type", "use edges_SRC__REL__DST")
            known = edges.setdefault((parts[0], parts[1], parts[2]), Table.open(file))
        if kind is not None and known.path != file:
            fail(file, f"holds the same type as {known.path.name}", "remove one of them")
    if not edges:
        fail(folder, "holds no edge table", "name it edges.parquet or edges_A__rel__B.parquet")
    notes = list[Note]()
    named = _are_named(nodes.values(), edges.values(), hints)
    plans = {name: node_plan(table, name, named, notes) for name, table in nodes.items()}
    edge_plans = []
    for parts, table in edges.items():
        for end in (parts[0], parts[2]):
            plans.setdefault(end, NodePlan(end, strings=named))
        ends = (None, None) if named else (plans[parts[0]].num_nodes, plans[parts[2]].num_nodes)
        edge_plans.append(_edge_plan(table, hints, parts, ends, named, notes))
    used = [table.path for table in (*nodes.values(), *edges.values())]
    notes += unused_files(folder, used)
    return GraphPlan(str(folder), "table folder", list(plans.values()), edge_plans, notes)


def _are_named(nodes: Iterable[Table], edges: Iterable[Table], hints: TextHints | None) -> bool:
    """Whether edges name nodes by keys: by text, or by integers other than 0, 1, 2, ..."""
    ends = ((table, _names(table, hints)[key]) for table in edges for key in ("src", "dst"))
    return any(table.is_text(name) for table, name in ends) or any(map(has_keys, nodes))


def _names(table: Table, hints: TextHints | None) -> dict[str, str]:
    columns = {name.lower(): name for name in table.schema.names}
    found = {}
    for key, known in _COLUMN_NAMES.items():
        match = next((columns[name] for name in known if name in columns), None)
        if match is not None:
            found[key] = match
    for key, value in ((hints.columns or {}) if hints else {}).items():
        is_place = value.isdigit() and int(value) < len(table.schema.names)
        name = table.schema.names[int(value)] if is_place else columns.get(value.lower())
        if name is None:
            fail(table.path, f"no column {value!r}", f"columns: {table.schema.names}")
        found[key] = name
    for key in ("src", "dst"):
        if key not in found:
            fail(
                table.path,
                f"no {key} column (columns: {', '.join(table.schema.names)})",
                "name it with --columns src=NAME,dst=NAME",
            )
    return found


def _edge_plan(
    table: Table,
    hints: TextHints | None,
    names: tuple[str, str, str],
    ends: tuple[int | None, int | None],
    named: bool,
    notes: list[Note],
) -> EdgePlan:
    """The edges of a table; with ``named`` their ends are names, integers as decimal text."""
    columns = _names(table, hints)
    where = str(table.path)

    def end(batch: Any, key: str, row: int, bound: int | None) -> Array | list[str]:
        column = batch.column(columns[key])
        if named:
            return table.texts(column, columns[key], row)
        return node_ids(table.numbers(column, columns[key], row), where, row, bound)

    def chunks() -> Iterator[EdgeChunk]:
        rows = TEXT_ROWS if named else ROWS
        for row, batch in table.batches(list(dict.fromkeys(columns.values())), rows):
            got = {
                key: table.numbers(batch.column(name), name, row)
                for key, name in columns.items()
                if key not in ("src", "dst")
            }
            yield EdgeChunk(
                end(batch, "src", row, ends[0]),
                end(batch, "dst", row, ends[1]),
                edge_ids=_edge_ids(got.get("edge_id"), where, row, table.num_rows),
                times=None if "time" not in got else whole_times(got["time"], where, row),
                weights=got.get("weight"),
            )

    if named and "edge_id" in columns:
        fail(where, "edges between named nodes are numbered by row", "drop the column edge_id")
    rest = {name: name for name in table.schema.names if name not in columns.values()}
    tensors = column_tensors(table, rest, notes)
    return EdgePlan(
        *names,
        chunks=chunks,
        num_edges=table.num_rows,
        has_edge_ids=bool(tensors) or "edge_id" in columns,
        has_time="time" in columns,
        has_weight="weight" in columns,
        tensors=tensors,
    )


def _edge_ids(values: Array | None, where: str, first: int, num_edges: int) -> Array | None:
    if values is None:
        return None
    if values.dtype.kind not in "iu":
        fail(where, f"edge ids have dtype {values.dtype}", "store them as integers")
    outside = (values < 0) | (values >= num_edges)
    if outside.any():
        has = f"edge id {{}}, but there are {num_edges} edges (0 to {num_edges - 1})"
        fail_row(outside, values, where, first, has, "edge ids are row numbers; renumber them")
    return values.astype(np.int64)
