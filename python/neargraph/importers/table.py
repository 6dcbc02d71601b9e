"""Parquet and Arrow tables: one edge file, or a folder of edge and node files.

Edge columns: source and destination (src, source, from, ...), optional time, weight and edge_id;
every other numeric column is an edge tensor by row. A folder holds `edges.parquet` and
`nodes.parquet`, or `edges_SRC__REL__DST.parquet` and `nodes_TYPE.parquet` (also .arrow, .feather).
Node columns: an optional `id` that must count 0, 1, 2, ...; `y` or `label` (classes); list columns
and plain numbers become tensors by name; float columns x_0, x_1, ... become one tensor x. pyarrow
is imported only here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .check import fail, integer_labels, need_file, node_ids, same_rows, store_dtype
from .plan import (
    CHUNK_BYTES,
    CHUNK_EDGES,
    Array,
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    NodePlan,
    TensorPlan,
)
from .text import _DESTINATION, _SOURCE, _TIME, _WEIGHT, TextHints

_EDGE_ID = ("edge_id", "eid")
_LABEL = ("y", "label")
TABLE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


@dataclass(frozen=True, slots=True)
class Table:
    """One Parquet or Arrow file: its schema, and its rows in batches."""

    path: Path
    schema: Any
    num_rows: int
    parquet: bool

    @staticmethod
    def open(path: Path) -> Table:
        """Reads the footer; refuses damaged files, and says how to install pyarrow."""
        need_file(path)
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependency(
                f"{path}: reading Parquet and Arrow needs pyarrow; "
                "install it with: pip install pyarrow"
            ) from error
        try:
            if path.suffix in (".parquet", ".pq"):
                file = pq.ParquetFile(path)
                return Table(path, file.schema_arrow, file.metadata.num_rows, True)
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                rows = sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))
                return Table(path, reader.schema, rows, False)
        except (pa.ArrowException, OSError) as error:
            fail(str(path), f"damaged or of another format ({error})", "write the file again")

    def batches(self, columns: Sequence[str], rows: int = CHUNK_EDGES) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of the given columns, in order."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        row = 0
        try:
            if self.parquet:
                with pq.ParquetFile(self.path) as file:
                    for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
                        yield row, batch
                        row += batch.num_rows
                return
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as reader:
                for k in range(reader.num_record_batches):
                    whole = reader.get_batch(k).select(list(columns))
                    for start in range(0, whole.num_rows, rows):
                        batch = whole.slice(start, rows)
                        yield row, batch
                        row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            fail(str(self.path), f"damaged after row {row} ({error})", "write the file again")

    def numbers(self, column: Any, name: str, first: int) -> Array:
        """A column of a batch as NumPy; nulls are refused by row, timestamps become integers."""
        import pyarrow as pa

        if column.null_count:
            row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0])
            if not pa.types.is_floating(column.type):
                fail(f"{self.path} [{name}]", f"row {row} is null", "fill or drop the row")
            column = column.fill_null(float("nan"))
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int64())
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return np.asarray(column.to_numpy(zero_copy_only=False))


def plan_table(path: Path | str, hints: TextHints | None = None) -> GraphPlan:
    """The plan of a Parquet or Arrow edge file, or of a folder of them."""
    given = Path(path)
    if given.is_dir():
        return _plan_folder(given, hints)
    table = Table.open(given)
    edge = _edge_plan(table, hints, ("node", "to", "node"), None, None)
    strings = _is_text(table, _names(table, hints)["src"])
    return GraphPlan(str(given), "table", [NodePlan(strings=strings)], [edge])


def table_folder(folder: Path) -> bool:
    """Whether a folder holds edge tables."""
    return any(f.suffix in TABLE_ENDINGS and f.stem.startswith("edges") for f in folder.iterdir())


def _plan_folder(folder: Path, hints: TextHints | None) -> GraphPlan:
    nodes: dict[str, NodePlan] = {}
    edges = []
    files = sorted(f for f in folder.iterdir() if f.suffix in TABLE_ENDINGS)
    for file in files:
        if file.stem.startswith("nodes"):
            name = file.stem.removeprefix("nodes").lstrip("_") or "node"
            nodes[name] = _node_plan(Table.open(file), name)
    for file in files:
        if not file.stem.startswith("edges"):
            continue
        typed = file.stem.removeprefix("edges").lstrip("_")
        parts = tuple(typed.split("__")) if typed else ("node", "to", "node")
        if len(parts) != 3:
            fail(str(file), "its name does not tell the edge type", "use edges_SRC__REL__DST")
        table = Table.open(file)
        columns = _names(table, hints)
        for name, column in ((parts[0], "src"), (parts[2], "dst")):
            nodes.setdefault(name, NodePlan(name, strings=_is_text(table, columns[column])))
        bounds = nodes[parts[0]].num_nodes, nodes[parts[2]].num_nodes
        edges.append(_edge_plan(table, hints, (parts[0], parts[1], parts[2]), *bounds))
    if not edges:
        fail(str(folder), "holds no edge table", "name it edges.parquet or edges_A__rel__B.parquet")
    return GraphPlan(str(folder), "table folder", list(nodes.values()), edges)


def _names(table: Table, hints: TextHints | None) -> dict[str, str]:
    columns = {name.lower(): name for name in table.schema.names}
    found = {}
    for key, known in (
        ("src", _SOURCE),
        ("dst", _DESTINATION),
        ("time", _TIME),
        ("weight", _WEIGHT),
        ("edge_id", _EDGE_ID),
    ):
        match = next((columns[name] for name in known if name in columns), None)
        if match is not None:
            found[key] = match
    for key, value in ((hints.columns or {}) if hints else {}).items():
        name = (
            table.schema.names[int(value)]
            if value.isdigit() and int(value) < len(table.schema.names)
            else columns.get(value.lower())
        )
        if name is None:
            fail(str(table.path), f"no column {value!r}", f"columns: {table.schema.names}")
        found[key] = name
    for key in ("src", "dst"):
        if key not in found:
            fail(
                str(table.path),
                f"no {key} column (columns: {', '.join(table.schema.names)})",
                "name it with --columns src=NAME,dst=NAME",
            )
    return found


def _is_text(table: Table, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _edge_plan(
    table: Table,
    hints: TextHints | None,
    names: tuple[str, str, str],
    num_sources: int | None,
    num_destinations: int | None,
) -> EdgePlan:
    columns = _names(table, hints)
    text = _is_text(table, columns["src"])
    where = str(table.path)

    def chunks() -> Iterator[EdgeChunk]:
        for row, batch in table.batches(list(dict.fromkeys(columns.values()))):
            got = {
                key: table.numbers(batch.column(name), name, row) for key, name in columns.items()
            }
            if not text:
                node_ids(got["src"], where, row, num_sources)
                node_ids(got["dst"], where, row, num_destinations)
            yield EdgeChunk(
                got["src"].tolist() if text else got["src"],
                got["dst"].tolist() if text else got["dst"],
                edge_ids=_edge_ids(got.get("edge_id"), where, row, table.num_rows),
                times=_times(got.get("time"), where, row),
                weights=None if "weight" not in got else got["weight"].astype(np.float32),
            )

    rest = [name for name in table.schema.names if name not in columns.values()]
    tensors = [t for name in rest if (t := _column_tensor(table, name, name)) is not None]
    return EdgePlan(
        *names,
        chunks=chunks,
        num_edges=table.num_rows,
        has_edge_ids=bool(tensors) or "edge_id" in columns,
        has_time="time" in columns,
        has_weight="weight" in columns,
        tensors=tensors,
    )


def _times(values: Array | None, where: str, first: int) -> Array | None:
    if values is None or values.dtype.kind in "iu":
        return None if values is None else values.astype(np.int64)
    return integer_labels(values, f"{where} [time]", first)


def _edge_ids(values: Array | None, where: str, first: int, num_edges: int) -> Array | None:
    if values is None:
        return None
    if values.dtype.kind not in "iu":
        fail(where, f"edge ids have dtype {values.dtype}", "store them as integers")
    outside = np.flatnonzero((values < 0) | (values >= num_edges))
    if outside.size:
        row = int(outside[0])
        fail(
            where,
            f"row {first + row} has edge id {int(values[row])}, "
            f"but there are {num_edges} edges (0 to {num_edges - 1})",
            "edge ids are row numbers; renumber them",
        )
    return values.astype(np.int64)


def _node_plan(table: Table, name: str) -> NodePlan:
    node = NodePlan(name, table.num_rows)
    names = list(table.schema.names)
    if "id" in names:
        _check_ids(table)
        names.remove("id")
    wide = _wide_columns(names)
    if wide:
        node.tensors.append(_stacked(table, wide))
    for column in names:
        if column in wide:
            continue
        tensor = _column_tensor(table, column, "y" if column in _LABEL else column)
        if tensor is not None:
            node.tensors.append(tensor)
    return node


def _wide_columns(names: list[str]) -> list[str]:
    numbered = {int(m[1]): name for name in names if (m := re.fullmatch(r"x_?(\d+)", name))}
    return (
        [numbered[k] for k in range(len(numbered))]
        if set(numbered) == set(range(len(numbered)))
        else []
    )


def _check_ids(table: Table) -> None:
    for row, batch in table.batches(["id"]):
        ids = table.numbers(batch.column("id"), "id", row)
        wrong = np.flatnonzero(ids != np.arange(row, row + len(ids)))
        if wrong.size:
            at = row + int(wrong[0])
            fail(
                f"{table.path} [id]",
                f"row {at} has id {ids[int(wrong[0])]}",
                "node tables are ordered by id 0, 1, 2, ...; sort and fill the table",
            )


def _stacked(table: Table, names: list[str]) -> TensorPlan:
    step = max(1, CHUNK_BYTES // (4 * len(names)))

    def chunks() -> Iterator[Array]:
        for row, batch in table.batches(names, step):
            parts = [table.numbers(batch.column(n), n, row).astype(np.float32) for n in names]
            yield np.stack(parts, axis=1)

    return TensorPlan("x", "f32", (len(names),), chunks, table.num_rows)


def _column_tensor(table: Table, column: str, name: str) -> TensorPlan | None:
    """A numeric or list column as a tensor; None for text and nested columns."""
    import pyarrow as pa

    kind = table.schema.field(column).type
    where = f"{table.path} [{column}]"
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    fixed = pa.types.is_fixed_size_list(kind)
    element = kind.value_type if nested or fixed else kind
    plain = pa.types.is_integer(element) or pa.types.is_floating(element)
    if not (plain or pa.types.is_boolean(element) or pa.types.is_temporal(element)):
        return None
    numpy_kind = (
        np.dtype(np.int64) if pa.types.is_temporal(element) else np.dtype(element.to_pandas_dtype())
    )
    if name == "y" and numpy_kind.kind in "iu":
        numpy_kind = np.dtype(np.int64)
    dtype, wide = store_dtype(numpy_kind, where)
    width = _list_width(table, column, kind) if nested or fixed else None
    step = max(1, CHUNK_BYTES // (wide.itemsize * (width or 1)))

    def chunks() -> Iterator[Array]:
        for row, batch in table.batches([column], step):
            values = batch.column(0)
            if width is None:
                yield table.numbers(values, column, row).astype(wide)
                continue
            flat = table.numbers(values.flatten(), column, row)
            lengths = np.asarray(values.value_lengths()) if nested else None
            if values.null_count or (lengths is not None and (lengths != width).any()):
                bad = 0 if lengths is None else int(np.flatnonzero(lengths != width)[0])
                fail(where, f"row {row + bad} is null or not {width} long", "make rows equal")
            same_rows(len(flat), len(values) * width, where, "the column")
            yield flat.astype(wide).reshape(-1, width)

    return TensorPlan(name, dtype, (width,) if width else (), chunks, table.num_rows)


def _list_width(table: Table, column: str, kind: Any) -> int:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for _, batch in table.batches([column], 1):
        return len(batch.column(0)[0])
    return 1
