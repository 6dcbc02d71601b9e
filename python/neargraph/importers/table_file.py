"""One table in one file or several: its schema, and its rows in batches.

Parquet by row group, Arrow memory-mapped, CSV in blocks; the first block of a CSV tells the types
of its columns, and a later row that does not fit them is an error. Memory is that of one batch.
Invariant: all files of a table have the same columns, and rows stand in the order of the files.
"""

import mmap
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .check import fail
from .csv_file import CsvFile
from .inputs import Input, expanded, listed
from .memory import hold_shared
from .plan import Array

TABLE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TABLE_MAGIC = (b"PAR1", b"ARROW1")
"""How Parquet and Arrow files begin."""
ROWS = 1 << 16
TEXT_ROWS = 1 << 15
"""Rows at once of text, which becomes Python strings: several times the room of numbers."""

_PARQUET = (".parquet", ".pq")
_BUFFER_BYTES = 1 << 20
_NAME_BYTES_MAX = 1024
_PYARROW_BYTES = 48 << 20
_CSV_BYTES = 40 << 20
# Pages of Parquet as they were packed and unpacked, and a buffer for each column.
_PARQUET_BYTES = 24 << 20
_PARQUET_COLUMN_BYTES = _BUFFER_BYTES + (256 << 10)
_READER_BYTES = {"csv": _CSV_BYTES, "parquet": _PARQUET_BYTES, "arrow": 0}
_DAMAGED = "is damaged, or has another format than its name says"

TableSource = Path | str | Sequence[Path | str]
"""A file, a folder of part files, a pattern such as "part-*.parquet", or several of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a table; ``csv`` says how a CSV is written."""

    path: Path
    shown: str
    kind: str
    num_rows: int = 0
    csv: CsvFile | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one or several files with the same columns."""

    parts: tuple[Part, ...]
    schema: Any
    shown: str

    def __post_init__(self) -> None:
        twice = [name for name, count in Counter(self.schema.names).items() if count > 1]
        if twice:
            fail(self.shown, f"two columns are called {twice[0]!r}", "rename one of them")

    @staticmethod
    def open(sources: Sequence[Input], delimiter: str | None = None) -> "Table":
        """Reads what tells the schema; refuses damaged files, and says how to install pyarrow."""
        need_pyarrow(sources[0].shown)
        hold_readers(sources)
        table, empty = None, list[Input]()
        for source in sources:
            kind = _kind_of(source)
            if kind == "csv" and len(sources) > 1 and _is_empty(source.path):
                empty.append(source)
                continue
            part, schema = _opened(source, kind, delimiter)
            if table is None:
                table = Table((part,), schema, listed(sources))
                continue
            schema = _common_schema(table, part, schema)
            table = replace(table, parts=(*table.parts, part), schema=schema)
        if table is None:
            fail(listed(sources), "is empty: it has no header and no rows", "check the path")
        return table

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return sum(part.num_rows for part in self.parts)

    @property
    def paths(self) -> list[Path]:
        """The files."""
        return [part.path for part in self.parts]

    def place(self, row: int) -> tuple[str, int]:
        """The file of a row, and the row's number in it."""
        for part in self.parts[:-1]:
            if row < part.num_rows:
                return part.shown, row
            row -= part.num_rows
        return self.parts[-1].shown, row

    def where(self, name: str, row: int | None = None) -> str:
        """What messages call a column, of the file of a row."""
        return f"{self.shown if row is None else self.place(row)[0]} [{name}]"

    def as_text(self, names: Collection[str]) -> "Table":
        """The table with columns of its CSV files taken as text: ids like 007 keep their zeros."""
        import pyarrow as pa

        if any(part.kind != "csv" for part in self.parts):
            return self
        kinds = [pa.string() if f.name in names else f.type for f in self.schema]
        return replace(self, schema=pa.schema(zip(self.schema.names, kinds, strict=True)))

    def batches(self, columns: Sequence[str], rows: int = ROWS) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of the given columns, in order; none spans two files."""
        import pyarrow as pa

        row = 0
        for part in self.parts:
            start = row
            try:
                for whole in self._batches(part, list(columns), rows):
                    for at in range(0, whole.num_rows, rows):
                        batch = whole.slice(at, rows)
                        yield row, batch
                        row += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                what = f"is damaged after row {row - start} ({error})"
                fail(part.shown, what, "correct the file, or write it again")

    def _batches(self, part: Part, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        if part.kind == "parquet":
            # By default, the columns of a row group are read whole.
            texts = [name for name in columns if self.is_text(name)]
            with pq.ParquetFile(
                part.path, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=texts
            ) as file:
                yield from file.iter_batches(rows, columns=columns, use_threads=False)
        elif part.csv is not None:
            yield from part.csv.batches({name: self.schema.field(name).type for name in columns})
        else:
            with _mapped(part) as (pages, reader):
                for k in range(reader.num_record_batches):
                    whole = reader.get_batch(k).select(columns)
                    for start in range(0, whole.num_rows, rows):
                        yield whole.slice(start, rows)
                        pages.madvise(mmap.MADV_DONTNEED)

    def kind(self, name: str) -> Any:
        """The Arrow type of a column; of a dictionary, that of its values."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def is_text(self, name: str) -> bool:
        """Whether a column holds text."""
        import pyarrow as pa

        kind = self.kind(name)
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def mean_values(self, column: str) -> int:
        """Values of a list column in a mean row, as the footer of a Parquet file tells."""
        import pyarrow.parquet as pq

        part = self.parts[0]
        if part.kind != "parquet" or part.num_rows == 0:
            return 0
        with pq.ParquetFile(part.path) as file:
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        chunks = [group.column(k) for group in groups for k in range(group.num_columns)]
        found = (c.num_values for c in chunks if c.path_in_schema.split(".")[0] == column)
        return int(sum(found) // part.num_rows)

    def labels(self, column: Any, name: str) -> list[str | None]:
        """A column of text of a batch; nulls are None."""
        known: list[str | None] = self._decoded(column, name).to_pylist()
        return known

    def _decoded(self, column: Any, name: str) -> Any:
        """A column without its dictionary; long names are refused before each row gets a copy."""
        import pyarrow as pa
        import pyarrow.compute as pc

        packed = pa.types.is_dictionary(column.type)
        names = column.dictionary if packed else column
        if self.is_text(name) and len(names):
            longest = pc.max(pc.binary_length(names)).as_py() or 0
            if longest > _NAME_BYTES_MAX:
                what = f"a string has {longest} bytes, expected at most {_NAME_BYTES_MAX}"
                fail(self.where(name), what, "shorten the string")
        return column.dictionary_decode() if packed else column

    def numbers(self, column: Any, name: str, first: int, missing: int | None = None) -> Array:
        """A column of a batch as NumPy; timestamps become integers.

        Nulls of floats become NaN, those of integers ``missing``; without it they are refused by
        row.
        """
        import pyarrow as pa

        column = self._decoded(column, name)
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int64())
        if column.null_count:
            is_float = pa.types.is_floating(column.type)
            if missing is None and not is_float:
                self._null(column, name, first)
            column = column.fill_null(float("nan") if is_float else missing)
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def texts(self, column: Any, name: str, first: int) -> list[str]:
        """A column of names as text, integers as decimals; nulls are refused by row."""
        import pyarrow as pa

        column = self._decoded(column, name)
        if column.null_count:
            self._null(column, name, first)
        kind = column.type
        if not (pa.types.is_integer(kind) or self.is_text(name)):
            fail(self.where(name), f"node ids have type {kind}", "use strings or integers")
        known: list[str] = column.cast(pa.string()).to_pylist()
        return known

    def _null(self, column: Any, name: str, first: int) -> None:
        row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        file, place = self.place(row)
        fail(f"{file} [{name}]", f"row {place} is null", "fill or drop the row")


def table_inputs(source: TableSource, encoding: str | None = None) -> list[Input]:
    """The files of one table, in order; a folder stands for its part files by name."""
    sources = [source] if isinstance(source, Path | str) else list(source)
    files = [
        file
        for path in expanded(sources)
        if isinstance(path, Path)
        for file in (part_files(path) if path.is_dir() else [path])
    ]
    if not files:
        fail(
            "tables", "the list of files of a table is empty", "give a file, a folder or a pattern"
        )
    return [Input.of(file, encoding) for file in files]


def part_files(folder: Path) -> list[Path]:
    """The tables in a folder in the order of their names; `ImportFailed` where others are there."""
    files = visible(folder)
    others = [file for file in files if not is_table(file)]
    if others or not files:
        what = f"holds {others[0].name}, which is not a table" if others else "holds no table"
        fail(folder, what, "give a folder that holds only CSV, Parquet or Arrow files")
    return files


def visible(folder: Path) -> list[Path]:
    """What a folder holds without hidden files and the marks that writers leave (_SUCCESS)."""
    return sorted(one for one in folder.iterdir() if not one.name.startswith((".", "_")))


def is_table(path: Path) -> bool:
    """Whether a name is that of a table; what is no file is refused when it is opened."""
    return not path.is_dir() and path.name.endswith((*TABLE_ENDINGS, *CSV_ENDINGS))


def table_stem(path: Path) -> str:
    """The name of a table without its ending."""
    endings = (*CSV_ENDINGS, *TABLE_ENDINGS)
    known = [ending for ending in endings if path.name.endswith(ending)]
    return path.name.removesuffix(max(known, key=len, default=""))


def need_pyarrow(shown: str) -> None:
    """Refuses a table where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"{shown}: reading tables needs pyarrow; install it with: "
            "pip install 'neargraph[parquet]'"
        ) from error


def _kind_of(source: Input) -> str:
    name = source.name
    if name.endswith(_PARQUET):
        return "parquet"
    if name.endswith(TABLE_ENDINGS):
        return "arrow"
    if name.endswith((*CSV_ENDINGS, ".txt", ".txt.gz")):
        return "csv"
    with source.path.open("rb") as file:
        head = file.read(8)
    if head.startswith(TABLE_MAGIC):
        return "parquet" if head.startswith(TABLE_MAGIC[0]) else "arrow"
    if name:
        known = ", ".join((*CSV_ENDINGS, *TABLE_ENDINGS))
        fail(
            source.shown,
            "its name is not that of a table",
            f"rename it to end in one of {known}",
        )
    return "csv"


def _is_empty(path: Path) -> bool:
    return path.stat().st_size == 0


def hold_readers(sources: Sequence[Input]) -> None:
    """Counts the memory of pyarrow, and of its readers of all kinds of files at once."""
    kinds = {kind: _READER_BYTES[kind] for kind in map(_kind_of, sources)}
    hold_shared(listed(sources), {"pyarrow": _PYARROW_BYTES, **kinds})


def _opened(source: Input, kind: str, delimiter: str | None) -> tuple[Part, Any]:
    """A file of a table, and its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = Part(source.path, source.shown, kind)
    try:
        if kind == "parquet":
            with pq.ParquetFile(source.path) as file:
                buffers = _PARQUET_BYTES + _column_bytes(file.metadata)
                hold_shared(source.shown, {"parquet": buffers})
                return replace(part, num_rows=file.metadata.num_rows), file.schema_arrow
        if kind == "csv":
            csv = CsvFile.open(source, delimiter)
            schema, rows = csv.read_through()
            return replace(part, num_rows=rows, csv=csv), schema
        with _mapped(part) as (_, reader):
            rows = sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))
            return replace(part, num_rows=rows), reader.schema
    except (pa.ArrowException, OSError) as error:
        fail(source.shown, f"{_DAMAGED} ({error})", "write the file again")


def _common_schema(table: Table, part: Part, schema: Any) -> Any:
    """The types of a table with one more file; refuses a file with other columns."""
    import pyarrow as pa

    lead = table.parts[0].shown
    if sorted(schema.names) != sorted(table.schema.names):
        ours, theirs = (", ".join(names[:20]) for names in (schema.names, table.schema.names))
        what = f"has the columns {ours}, but {lead} has {theirs}"
        fail(part.shown, what, "import files with the same columns")
    if part.kind == table.parts[0].kind == "csv":
        kinds = [_common_type(f.type, schema.field(f.name).type) for f in table.schema]
        return pa.schema(zip(table.schema.names, kinds, strict=True))
    for name in schema.names:
        ours, theirs = schema.field(name).type, table.schema.field(name).type
        if ours != theirs:
            what = f"column {name!r} is {ours}, but in {lead} it is {theirs}"
            fail(part.shown, what, "write the files with the same types")
    return table.schema


def _common_type(first: Any, second: Any) -> Any:
    """The type of a column of two CSV files, whose first rows may look different."""
    import pyarrow as pa

    if pa.types.is_null(first):
        return second
    if pa.types.is_integer(first) and pa.types.is_floating(second):
        return second
    return second if pa.types.is_string(second) else first


def _column_bytes(footer: Any) -> int:
    """What reading all columns of the largest row group at once takes for their buffers."""
    groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
    sizes = [[g.column(k).total_uncompressed_size for k in range(g.num_columns)] for g in groups]
    return max((sum(min(_PARQUET_COLUMN_BYTES, n) for n in group) for group in sizes), default=0)


@contextmanager
def _mapped(part: Part) -> Iterator[tuple[mmap.mmap, Any]]:
    """The mapping of an Arrow file, whose pages can be given back, and its reader."""
    import pyarrow as pa

    if _is_empty(part.path):
        fail(part.shown, "is empty", "write the file again")
    with part.path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with pa.ipc.open_file(pa.py_buffer(pages)) as reader:
        yield pages, reader
