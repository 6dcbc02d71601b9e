"""One table file: its schema, and its rows in batches. pyarrow is imported only here.

Parquet by row group, Arrow memory-mapped, CSV in blocks; the first block of a CSV tells the types
of its columns, and a later row that does not fit them is an error. Memory is that of one batch.
"""

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .check import fail, need_file
from .memory import current, hold
from .plan import Array

TABLE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
ROWS = 1 << 16
TEXT_ROWS = 1 << 15
"""Rows at once of text, which becomes Python strings: several times the room of numbers."""

_PARQUET = (".parquet", ".pq")
_BUFFER_BYTES = 1 << 20
_NAME_BYTES_MAX = 1024
_PYARROW_BYTES = 48 << 20
# Its reader of CSV keeps dozens of blocks, as text and as columns.
_CSV_BLOCK_BYTES = 256 << 10
_CSV_BYTES = 32 << 20
# Pages of Parquet as they were packed and unpacked, and a buffer for each column.
_PARQUET_BYTES = 24 << 20
_PARQUET_COLUMN_BYTES = _BUFFER_BYTES + (256 << 10)


@dataclass(frozen=True, slots=True)
class Table:
    """One Parquet, Arrow or CSV file."""

    path: Path
    schema: Any
    num_rows: int

    def __post_init__(self) -> None:
        twice = [name for name, count in Counter(self.schema.names).items() if count > 1]
        if twice:
            fail(self.path, f"two columns are called {twice[0]!r}", "rename one of them")

    @staticmethod
    def open(path: Path) -> "Table":
        """Reads what tells the schema; refuses damaged files, and says how to install pyarrow."""
        need_file(path)
        try:
            import pyarrow as pa
            import pyarrow.csv as pc
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependency(
                f"{path}: reading tables needs pyarrow: pip install 'neargraph[parquet]'"
            ) from error
        # The library itself, once; tables are opened before anything else is held.
        reader = _CSV_BYTES if path.suffix == ".csv" else 0
        reader = _PARQUET_BYTES if path.suffix in _PARQUET else reader
        hold(str(path), max(0, _PYARROW_BYTES + reader - current().held))
        try:
            if path.suffix in _PARQUET:
                with pq.ParquetFile(path) as file:
                    columns = _column_bytes(file.metadata)
                    hold(str(path), max(0, _PYARROW_BYTES + reader + columns - current().held))
                    return Table(path, file.schema_arrow, file.metadata.num_rows)
            if path.suffix == ".csv":
                blocks = pc.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES)
                with pc.open_csv(path, read_options=blocks) as lines:
                    return Table(path, lines.schema, sum(batch.num_rows for batch in lines))
            with _mapped(path) as (_, reader):
                rows = sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))
                return Table(path, reader.schema, rows)
        except (pa.ArrowException, OSError) as error:
            fail(path, f"damaged or of another format ({error})", "write the file again")

    def batches(self, columns: Sequence[str], rows: int = ROWS) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of the given columns, in order."""
        import pyarrow as pa

        row = 0
        try:
            for whole in self._batches(list(columns), rows):
                for start in range(0, whole.num_rows, rows):
                    batch = whole.slice(start, rows)
                    yield row, batch
                    row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            fail(self.path, f"damaged after row {row} ({error})", "write the file again")

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow.csv as pc
        import pyarrow.parquet as pq

        if self.path.suffix in _PARQUET:
            # By default, the columns of a row group are read whole.
            texts = [name for name in columns if self.is_text(name)]
            with pq.ParquetFile(
                self.path, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=texts
            ) as file:
                yield from file.iter_batches(rows, columns=columns, use_threads=False)
        elif self.path.suffix == ".csv":
            types = {name: self.schema.field(name).type for name in columns}
            wanted = pc.ConvertOptions(include_columns=columns, column_types=types)
            blocks = pc.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES)
            with pc.open_csv(self.path, read_options=blocks, convert_options=wanted) as lines:
                yield from lines
        else:
            with _mapped(self.path) as (pages, reader):
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

        if self.path.suffix not in _PARQUET or self.num_rows == 0:
            return 0
        with pq.ParquetFile(self.path) as file:
            groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        parts = [group.column(k) for group in groups for k in range(group.num_columns)]
        found = (p.num_values for p in parts if p.path_in_schema.split(".")[0] == column)
        return int(sum(found) // self.num_rows)

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
                fail(
                    f"{self.path} [{name}]",
                    f"a name has {longest} bytes; the longest may have {_NAME_BYTES_MAX}",
                    "shorten it",
                )
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
            fail(f"{self.path} [{name}]", f"names of nodes are {kind}", "use text or integers")
        known: list[str] = column.cast(pa.string()).to_pylist()
        return known

    def _null(self, column: Any, name: str, first: int) -> None:
        row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        fail(f"{self.path} [{name}]", f"row {row} is null", "fill or drop the row")


def _column_bytes(footer: Any) -> int:
    """What reading all columns of the largest row group at once takes for their buffers."""
    groups = [footer.row_group(k) for k in range(footer.num_row_groups)]
    sizes = [[g.column(k).total_uncompressed_size for k in range(g.num_columns)] for g in groups]
    return max((sum(min(_PARQUET_COLUMN_BYTES, n) for n in group) for group in sizes), default=0)


@contextmanager
def _mapped(path: Path) -> Iterator[tuple[mmap.mmap, Any]]:
    """The mapping of an Arrow file, whose pages can be given back, and its reader."""
    import pyarrow as pa

    if path.stat().st_size == 0:
        fail(path, "is empty", "write the file again")
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with pa.ipc.open_file(pa.py_buffer(pages)) as reader:
        yield pages, reader
