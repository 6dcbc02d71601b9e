"""CSV files of numbers without a header, plain or gzip, streamed in blocks: OGB's and GraphBolt's.

A first pass tells whether all numbers are whole (i64) or not (f32), as the readers of these files
do. pyarrow parses; memory is that of a few blocks. Invariant: every row has the columns of the
first one, and a field is a number or missing; anything else is an `ImportFailed`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph._optional import arrow_for

from .arrays import streamed_tensor
from .check import fail, need_file, same_rows
from .lines import is_packed
from .memory import current, hold
from .plan import Array, TensorPlan

_BLOCK_BYTES = 1 << 20
_PYARROW_BYTES = 64 << 20
_AGAIN = "download the data set again"


@dataclass(frozen=True, slots=True)
class NumberCsv:
    """One file: ``num_rows`` by ``num_columns`` numbers, i64 if ``whole``, else f32.

    ``num_missing`` counts empty fields and NaN of whole columns; it is 0 for f32, where they are
    NaN.
    """

    path: Path
    num_rows: int
    num_columns: int
    whole: bool
    num_missing: int

    @staticmethod
    def open(path: Path, num_rows: int | None = None) -> "NumberCsv":
        """Looks through a file; with ``num_rows`` one of fractions is not read to its end."""
        file = need_file(path)
        with arrow_for(f"reading {file.name}"):
            import pyarrow as pa
        # The library itself, once.
        hold(str(file), max(0, _PYARROW_BYTES - current().held))
        if _is_empty(file):
            return NumberCsv(file, 0, 1, True, 0)
        with _damage(file), _reader(file, {}) as head:
            names = head.schema.names
        try:
            rows = missing = 0
            for batch in _batches(file, dict.fromkeys(names, pa.int64())):
                rows += batch.num_rows
                missing += sum(column.null_count for column in batch.columns)
            return NumberCsv(file, rows, len(names), True, missing)
        except pa.ArrowInvalid:
            if num_rows is None:
                with _damage(file):
                    kinds = dict.fromkeys(names, pa.float32())
                    num_rows = sum(batch.num_rows for batch in _batches(file, kinds))
        return NumberCsv(file, num_rows, len(names), False, 0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What `rows` gives."""
        return np.dtype(np.int64 if self.whole else np.float32)

    def rows(self, step: int, missing: int = -1) -> Iterator[Array]:
        """All rows as [n, num_columns], exactly ``step`` at once but the last.

        Missing whole numbers are ``missing``, others NaN.
        """
        if self.num_rows == 0 and _is_empty(self.path):
            return
        import pyarrow as pa

        names = [f"f{k}" for k in range(self.num_columns)]
        kinds = dict.fromkeys(names, pa.int64() if self.whole else pa.float32())
        filled: Any = missing if self.whole else float("nan")
        kept, count, done = [], 0, 0
        with _damage(self.path):
            for batch in _batches(self.path, kinds):
                columns = [
                    np.asarray(c.fill_null(filled) if c.null_count else c) for c in batch.columns
                ]
                kept.append(np.stack(columns, axis=1))
                count += batch.num_rows
                while count >= step:
                    whole = np.concatenate(kept)
                    yield whole[:step]
                    done += step
                    kept, count = [whole[step:]], count - step
        if count:
            yield np.concatenate(kept)
        same_rows(done + count, self.num_rows, str(self.path), "the file")

    def column(self) -> Array:
        """The only column, whole; ImportFailed where there are more or it is not whole numbers."""
        if self.num_columns != 1 or not self.whole or self.num_missing:
            fail(self.path, "does not have exactly one column of whole numbers", _AGAIN)
        hold(str(self.path), 16 * self.num_rows)
        parts = [part[:, 0] for part in self.rows(1 << 18)]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def tensor(self, name: str, num_rows: int) -> TensorPlan:
        """The rows as a tensor, [num_rows] of one column, else [num_rows, num_columns]."""
        where = str(self.path)
        same_rows(self.num_rows, num_rows, where, "the file")
        if self.num_missing:
            todo = "fill them, or drop their rows"
            fail(where, f"{self.num_missing} values are missing in columns of whole numbers", todo)
        flat = self.num_columns == 1 and name != "x"
        shape = (num_rows,) if flat else (num_rows, self.num_columns)

        def pieces(step: int) -> Iterator[Array]:
            for part in self.rows(step):
                yield part[:, 0] if flat else part

        return streamed_tensor(name, where, shape, self.dtype, pieces)


def _is_empty(file: Path) -> bool:
    import gzip

    if not is_packed(file):
        return file.stat().st_size == 0
    with _damage(file), gzip.open(file, "rb") as stream:
        return not stream.read(1)


@contextmanager
def _reader(file: Path, kinds: dict[str, Any]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as pc

    read = pc.ReadOptions(
        use_threads=False, block_size=_BLOCK_BYTES, autogenerate_column_names=True
    )
    convert = pc.ConvertOptions(column_types=kinds)
    packing = "gzip" if is_packed(file) else None
    with (
        pa.input_stream(str(file), compression=packing) as stream,
        pc.open_csv(stream, read_options=read, convert_options=convert) as lines,
    ):
        yield lines


def _batches(file: Path, kinds: dict[str, Any]) -> Iterator[Any]:
    with _reader(file, kinds) as lines:
        yield from lines


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, EOFError) as error:
        # pyarrow's errors are of both kinds; those of this package pass.
        if type(error).__module__.startswith("neargraph"):
            raise
        fail(file, f"is not a table of numbers, or is damaged ({error})", _AGAIN)
