"""Columns of a graph as pieces of Arrow IPC streams. pyarrow is imported on first use.

The invariant: at most one piece of the columns is copied at a time.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from neargraph._optional import arrow_for
from neargraph.exceptions import UnsupportedArgument

PIECE_BYTES = 1 << 20
# The end marker of an Arrow IPC stream.
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Columns:
    """Columns that can be sent once.

    Args:
        given: A mapping from names to arrays [n, ...], or an object with an Arrow stream: a Table,
            a RecordBatchReader, a polars DataFrame.
        what: The owner of the columns, for messages.
    """

    def __init__(self, given: Any, what: str) -> None:
        with arrow_for("sending columns"):
            import pyarrow
        self._arrow = pyarrow
        if isinstance(given, Mapping):
            self.num_rows: int | None = _length(given, what)
            fields = {str(name): self._array(column, name) for name, column in given.items()}
            self._reader = pyarrow.table(fields).to_reader()
        elif hasattr(given, "__arrow_c_stream__"):
            self.num_rows = getattr(given, "num_rows", None)
            self._reader = pyarrow.RecordBatchReader.from_stream(given)
        else:
            raise UnsupportedArgument(
                f"the columns of {what} have type {type(given).__name__}: expected a mapping from "
                "names to arrays, a pyarrow Table or a RecordBatchReader"
            )
        self.names: list[str] = list(self._reader.schema.names)

    def pieces(self) -> Iterator[bytes]:
        """Yields the stream in pieces."""
        yield bytes(self._reader.schema.serialize())
        for batch in self._reader:
            rows = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, 1))
            for start in range(0, batch.num_rows, rows):
                yield bytes(batch.slice(start, rows).serialize())
        yield _END

    def _array(self, given: Any, name: Any) -> Any:
        array = np.asarray(given)
        if array.dtype == np.float64 and not isinstance(given, np.ndarray):
            # Python's floats are f32, as in updates.
            array = array.astype(np.float32)
        if array.dtype.kind not in "biuf":
            raise UnsupportedArgument(
                f"column {name!r} has dtype {array.dtype}: expected a dtype of numbers"
            )
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        column = self._arrow.array(native.reshape(-1))
        for width in reversed(native.shape[1:]):
            if width == 0:
                raise UnsupportedArgument(
                    f"column {name!r} has rows of width 0: expected at least one number per row"
                )
            column = self._arrow.FixedSizeListArray.from_arrays(column, width)
        return column


def _length(given: Mapping[Any, Any], what: str) -> int:
    lengths = {}
    for name, column in given.items():
        if np.ndim(column) == 0:
            raise UnsupportedArgument(
                f"column {name!r} of {what} is a single number: expected an array"
            )
        lengths[name] = len(column)
    if not lengths:
        raise UnsupportedArgument(f"there are no columns of {what}; give at least one column")
    if len(set(lengths.values())) != 1:
        said = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise UnsupportedArgument(f"the columns of {what} differ in length: {said}")
    return next(iter(lengths.values()))
