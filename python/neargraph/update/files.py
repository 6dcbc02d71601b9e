"""Event files: CSV, Parquet and npz, read row by row.

Invariant: a row is a dictionary of the columns that have a value in it, or a `BadRow` with the
reason. Columns have no meaning here, with one exception: ``x_0``, ``x_1``, ... become the row of a
tensor ``x``.
"""

import csv
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import numpy as np

from neargraph.exceptions import MissingDependency, UpdateFailed
from neargraph.schema import EdgeType, NodeType, Schema
from neargraph.update.events import FIELDS
from neargraph.update.rows import shown


class BadRow(NamedTuple):
    """A row that cannot be read, and the reason."""

    why: str


Row = dict[str, Any] | BadRow
# Each number has one spelling, and is not too long for an index.
_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]{0,8})")
_ROWS_AT_ONCE = 4096


class EventFile(ABC):
    """An open event file.

    `dense` is as in `make_event`. `num_rows` is None if it is not known beforehand.
    """

    dense = False
    num_rows: int | None = None

    def __init__(self, path: Path, schema: Schema) -> None:
        self.path = path
        owners: list[NodeType | EdgeType] = [*schema.node_types, *schema.edge_types]
        self._tensors = {tensor.name for owner in owners for tensor in owner.tensors}

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yields all rows in order."""

    def check_columns(self, names: list[str]) -> None:
        """Rejects a file without a column ``op``, or with columns that are not known."""
        if "op" not in names:
            known = shown(", ".join(names))[1:-1]
            self.refuse(
                f"there is no column 'op'; the columns are {known}"
                if names
                else "there is no column 'op'; the file has no columns"
            )
        for name, count in Counter(names).items():
            if count > 1:
                self.refuse(f"column {shown(name)} occurs {count} times")
            parts = _NUMBERED.fullmatch(name)
            tensor = name if name in self._tensors or parts is None else parts[1]
            if name not in FIELDS and tensor not in self._tensors:
                self.refuse(
                    f"column {shown(name)} is not valid: expected one of {', '.join(FIELDS)}, or "
                    "a tensor of the store "
                    f"({', '.join(sorted(self._tensors)) or 'the store has none'})"
                )

    def refuse(self, what: str) -> None:
        """Raises `UpdateFailed` with the path and a reason."""
        raise UpdateFailed(f"{self.path}: {what}")

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Converts the errors of a parser in the block to `UpdateFailed`."""
        try:
            yield
        except (UpdateFailed, MissingDependency, GeneratorExit):
            raise
        except Exception as error:  # parsers of hostile bytes raise nearly anything
            self.refuse(f"the file cannot be read: {type(error).__name__}: {error}")


class CsvFile(EventFile):
    """A file of comma- or tab-separated text with a header line. Empty fields have no value."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        self._delimiter = "\t" if ".tsv" in path.suffixes else ","
        with self.readable(), self._open() as file:
            line = next(csv.reader(file, delimiter=self._delimiter), [])
        self._names = [name.strip() for name in line]
        self.check_columns(self._names)

    def rows(self) -> Iterator[Row]:
        """All rows in order."""
        places = self._places()
        with self._open() as file:
            reader = csv.reader(file, delimiter=self._delimiter)
            next(reader, None)
            while True:
                try:
                    line = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    # The reader continues with the next line.
                    yield BadRow(f"line {reader.line_num}: {error}")
                    continue
                except (OSError, EOFError, zlib.error) as error:
                    self.refuse(f"the file cannot be read after line {reader.line_num}: {error}")
                why = _why_bad(line, len(self._names))
                yield BadRow(f"line {reader.line_num} {why}") if why else _filled(line, places)

    def _open(self) -> TextIO:
        # Bytes that are not UTF-8 invalidate their row, not the file.
        how: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
        if self.path.suffix == ".gz":
            return cast(TextIO, gzip.open(self.path, "rt", **how))
        return cast(TextIO, self.path.open(**how))

    def _places(self) -> dict[str, int | list[int]]:
        places: dict[str, int | list[int]] = {}
        parts: dict[str, dict[int, int]] = {}
        for place, name in enumerate(self._names):
            match = _NUMBERED.fullmatch(name)
            if name in FIELDS or name in self._tensors or match is None:
                places[name] = place
            else:
                parts.setdefault(match[1], {})[int(match[2])] = place
        for name, found in parts.items():
            if sorted(found) != list(range(len(found))):
                missing = min(set(range(max(found))) - found.keys())
                self.refuse(
                    f"column {name}_{missing} is missing: expected {name}_0 ... {name}_{max(found)}"
                )
            places[name] = [found[k] for k in range(len(found))]
        return places


def _why_bad(line: list[str], width: int) -> str | None:
    if len(line) != width:
        return f"has {len(line)} fields, but the first line has {width}"
    text = "".join(line)
    if "\0" in text:
        return "has a NUL byte"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return "is not valid UTF-8"
    return None


def _filled(line: list[str], places: dict[str, int | list[int]]) -> Row:
    row: dict[str, Any] = {}
    for name, place in places.items():
        if isinstance(place, int):
            if line[place]:
                row[name] = line[place]
        else:
            values = [line[k] for k in place]
            if any(values):
                row[name] = values
    return row


class ParquetFile(EventFile):
    """A Parquet table. Nulls mean no value. A tensor is a column of numbers or of lists."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        try:
            import pyarrow.parquet as parquet
        except ImportError as missing:
            raise MissingDependency(
                "Parquet files need pyarrow: pip install 'neargraph[parquet]'"
            ) from missing
        with self.readable():
            self._file = parquet.ParquetFile(path)
        self.check_columns(self._file.schema_arrow.names)
        self.num_rows = int(self._file.metadata.num_rows)

    def rows(self) -> Iterator[Row]:
        """All rows in order."""
        parts = self._file.iter_batches(batch_size=_ROWS_AT_ONCE)
        while True:
            with self.readable():
                part = next(parts, None)
            if part is None:
                return
            yield from self._rows_of(part)

    def _rows_of(self, part: Any) -> Iterator[Row]:
        try:
            found = part.to_pylist()
        except (ValueError, OverflowError) as error:
            # A value that Python cannot hold, such as invalid UTF-8, invalidates only its row.
            if part.num_rows == 1:
                yield BadRow(f"the row cannot be read: {error}")
                return
            for at in range(part.num_rows):
                yield from self._rows_of(part.slice(at, 1))
            return
        for row in found:
            yield {name: value for name, value in row.items() if value is not None}


class NpzFile(EventFile):
    """Arrays of equal length, one for each column. Tensors are [n, *shape]."""

    dense = True

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        with self.readable(), np.load(path, allow_pickle=False) as file:
            self.check_columns(file.files)
            self._columns = {name: file[name] for name in file.files}
        for name, column in self._columns.items():
            if column.ndim == 0:
                self.refuse(f"column {name!r} is a single value: expected one value for each row")
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            self.refuse(f"the columns have unequal lengths: {lengths}")
        self.num_rows = lengths["op"]

    def rows(self) -> Iterator[Row]:
        """All rows in order."""
        for row in range(len(self._columns["op"])):
            yield {name: column[row] for name, column in self._columns.items()}


def open_events(path: Path, schema: Schema) -> EventFile:
    """Opens an event file by its extension: .csv, .tsv (also with .gz), .parquet or .npz.

    Raises:
        UpdateFailed: The extension or a column is not known.
        FileNotFoundError: The file does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(2, "no such file", str(path))
    suffixes = path.suffixes
    if ".csv" in suffixes or ".tsv" in suffixes:
        return CsvFile(path, schema)
    if path.suffix == ".parquet":
        return ParquetFile(path, schema)
    if path.suffix == ".npz":
        return NpzFile(path, schema)
    raise UpdateFailed(
        f"{path}: {path.suffix!r} is not the extension of an event file: expected .csv, .tsv, "
        ".parquet or .npz"
    )
