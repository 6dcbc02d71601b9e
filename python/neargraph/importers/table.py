"""Edge tables: Parquet, Arrow and CSV, in one file or several.

Edge columns: source and destination (src, source, from, ...), optional time, weight and edge_id;
every other numeric column is an edge tensor by row. Between two node types, the columns of the ends
may also have the names of the types or of their keys. Where the ends of edges are text, or a node
table has ids other than 0, 1, 2, ..., edges name nodes by keys; the store keeps the keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.remedies import remedy

from .check import fail, fail_row, node_ids, whole_times
from .hints import COLUMN_NAMES, TextHints, Triple, named_delimiter
from .inputs import Input
from .node_table import column_tensors
from .notes import Note
from .plan import HOMOGENEOUS_EDGE, Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan
from .table_file import ROWS, TEXT_ROWS, Table, table_inputs

_COLUMN_NAMES = {**COLUMN_NAMES, "edge_id": ("edge_id", "eid")}


def plan_edge_table(
    given: Path | str | Sequence[Input], hints: TextHints | None = None
) -> GraphPlan:
    """The plan of one edge table, in one file or several."""
    hints = hints or TextHints()
    inputs = table_inputs(given, hints.encoding) if isinstance(given, Path | str) else given
    table, notes = Table.open(inputs, table_delimiter(hints)), list[Note]()
    names = hints.types() or HOMOGENEOUS_EDGE
    edges = EdgeTable(table, names, hints.columns or {})
    named = hints.strings or edges.has_text_ends()
    edge = edges.plan((None, None), named, notes)
    nodes = [NodePlan(name, strings=named) for name in dict.fromkeys(names[::2])]
    facts = (
        [f"edges are read from {len(table.parts)} files, in the order given"]
        if len(table.parts) > 1
        else []
    )
    return GraphPlan(table.shown, "table", nodes, [edge], notes, facts)


def table_delimiter(hints: TextHints) -> str | None:
    """The delimiter of CSV tables; None stands for what their first line tells."""
    return None if hints.delimiter is None else named_delimiter(hints.delimiter) or " "


@dataclass(slots=True)
class EdgeTable:
    """The edges of one type. ``given`` names columns, ``keys`` are those of the node tables."""

    table: Table
    names: Triple
    given: Mapping[str, str]
    keys: Mapping[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = self._columns()

    def has_text_ends(self) -> bool:
        """Whether an end of an edge is text."""
        return any(self.table.is_text(self.columns[key]) for key in ("src", "dst"))

    def _columns(self) -> dict[str, str]:
        """The column of each of src, dst, time, ... that the table has."""
        names = self.table.schema.names
        columns = {name.lower(): name for name in names}
        found = {}
        for key, known in _COLUMN_NAMES.items():
            match = next((columns[name] for name in known if name in columns), None)
            if match is not None:
                found[key] = match
        found |= self._named_by_types(columns)
        for key, value in self.given.items():
            is_place = value.isdigit() and int(value) < len(names)
            name = names[int(value)] if is_place else columns.get(value.lower())
            if name is None:
                what = f"has no column {value!r} for {key}="
                fail(self.table.shown, what, f"use one of its columns: {', '.join(names[:20])}")
            found[key] = name
        for key in ("src", "dst"):
            if key not in found:
                what = f"has no column with a name like {key!r} (columns: {', '.join(names[:20])})"
                fail(self.table.shown, what, remedy("NameEnds"))
        return found

    def _named_by_types(self, columns: dict[str, str]) -> dict[str, str]:
        """The ends by the keys or names of two node types, where both are there."""
        source, _, destination = self.names
        if source == destination:
            return {}
        ends = {}
        for key, kind in (("src", source), ("dst", destination)):
            for name in (self.keys.get(kind, ""), kind, f"{kind}_id"):
                if name.lower() in columns:
                    ends[key] = columns[name.lower()]
                    break
        return ends if len(ends) == 2 and ends["src"] != ends["dst"] else {}

    def plan(self, ends: tuple[int | None, int | None], named: bool, notes: list[Note]) -> EdgePlan:
        """The edges; with ``named`` their ends are names, integers as decimal text."""
        columns = self.columns
        if named and "edge_id" in columns:
            what = "edge ids are not supported between nodes with string ids"
            fail(self.table.where(columns["edge_id"]), what, "drop the column of edge ids")
        rest = [name for name in self.table.schema.names if name not in columns.values()]
        tensors = column_tensors(self.table, {name: name for name in rest}, notes)
        return EdgePlan(
            *self.names,
            chunks=lambda: self._chunks(ends, named),
            num_edges=self.table.num_rows,
            has_edge_ids=bool(tensors) or "edge_id" in columns,
            has_time="time" in columns,
            has_weight="weight" in columns,
            tensors=tensors,
        )

    def _chunks(self, ends: tuple[int | None, int | None], named: bool) -> Iterator[EdgeChunk]:
        columns = self.columns
        table = self.table.as_text([columns[key] for key in ("src", "dst")] if named else [])

        def end(batch: Any, key: str, row: int, bound: int | None) -> Array | list[str]:
            column = batch.column(columns[key])
            if named:
                return table.texts(column, columns[key], row)
            numbers = table.numbers(column, columns[key], row)
            return node_ids(numbers, *table.place(row), bound)

        rows = TEXT_ROWS if named else ROWS
        for row, batch in table.batches(list(dict.fromkeys(columns.values())), rows):
            got = {
                key: table.numbers(batch.column(name), name, row)
                for key, name in columns.items()
                if key not in ("src", "dst")
            }
            where, first = table.place(row)
            yield EdgeChunk(
                end(batch, "src", row, ends[0]),
                end(batch, "dst", row, ends[1]),
                edge_ids=_edge_ids(got.get("edge_id"), where, first, table.num_rows),
                times=None if "time" not in got else whole_times(got["time"], where, first),
                weights=got.get("weight"),
            )


def _edge_ids(values: Array | None, where: str, first: int, num_edges: int) -> Array | None:
    if values is None:
        return None
    if values.dtype.kind not in "iu":
        fail(where, f"edge ids have dtype {values.dtype}", "store them as integers")
    outside = (values < 0) | (values >= num_edges)
    if outside.any():
        has = f"edge id {{}}, but there are {num_edges} edges (0 to {num_edges - 1})"
        fail_row(outside, values, where, first, has, "number the edges by row, from 0")
    return values.astype(np.int64)
