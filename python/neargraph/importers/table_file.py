"""One table file: its schema, and its rows in batches. pyarrow is imported only here.

Parquet by row group, Arrow memory-mapped, CSV in blocks; the first block of a CSV tells the types
of its columns, and a later row that does not fit them is an error. Memory is that of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .check import fail, need_file
from .plan import CHUNK_EDGES, Array

TABLE_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


@dataclass(frozen=True, slots=True)
class Table:
    """One Parquet, Arrow or CSV file."""

    path: Path
    schema: Any
    num_rows: int

    def __post_init__(self) -> None:
        names = self.schema.names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            fail(str(self.path), f"two columns are called {twice!r}", "rename one of them")

    @staticmethod
    def open(path: Path) -> Table:
        """Reads what tells the schema; refuses damaged files, and says how to install pyarrow."""
        need_file(path)
        try:
            import pyarrow as pa
            import pyarrow.csv as pc
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingDependency(
                f"{path}: reading tables needs pyarrow; install it with: pip install pyarrow"
            ) from error
        try:
            if path.suffix in (".parquet", ".pq"):
                file = pq.ParquetFile(path)
                return Table(path, file.schema_arrow, file.metadata.num_rows)
            if path.suffix == ".csv":
                with pc.open_csv(path) as lines:
                    return Table(path, lines.schema, sum(batch.num_rows for batch in lines))
            with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                rows = sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))
                return Table(path, reader.schema, rows)
        except (pa.ArrowException, OSError) as error:
            fail(str(path), f"damaged or of another format ({error})", "write the file again")

    def batches(self, columns: Sequence[str], rows: int = CHUNK_EDGES) -> Iterator[tuple[int, Any]]:
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
            fail(str(self.path), f"damaged after row {row} ({error})", "write the file again")

    def _batches(self, columns: list[str], rows: int) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as pc
        import pyarrow.parquet as pq

        if self.path.suffix in (".parquet", ".pq"):
            with pq.ParquetFile(self.path) as file:
                yield from file.iter_batches(batch_size=rows, columns=columns)
        elif self.path.suffix == ".csv":
            types = {name: self.schema.field(name).type for name in columns}
            wanted = pc.ConvertOptions(include_columns=columns, column_types=types)
            with pc.open_csv(self.path, convert_options=wanted) as lines:
                yield from lines
        else:
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as reader:
                for k in range(reader.num_record_batches):
                    yield reader.get_batch(k).select(columns)

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

    def numbers(self, column: Any, name: str, first: int, missing: int | None = None) -> Array:
        """A column of a batch as NumPy; timestamps become integers.

        Nulls of floats become NaN, those of integers ``missing``; without it they are refused by
        row.
        """
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
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

        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
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
