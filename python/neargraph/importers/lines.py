"""Reading text inputs line by line, plain or .gz, with line numbers for messages."""

import gzip
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.remedies import remedy
from neargraph.units import format_bytes

from .check import fail, need_file
from .chunks import CHUNK_EDGES
from .memory import current, hold_to
from .plan import Array

_MAX_LINE = 16 << 20
# A line becomes text, and each of its fields a Python object: this share of the memory is safe.
_LINE_SHARE = 48
_GZIP_RATIO = 4


def is_packed(file: Path) -> bool:
    """Whether a file is gzip."""
    with file.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def text_bytes(path: Path | str) -> int:
    """How long a text is; a guess where it is packed."""
    file = need_file(path)
    return file.stat().st_size * (_GZIP_RATIO if is_packed(file) else 1)


def text_lines(path: Path | str, most: int | None = None) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a UTF-8 file; .gz by content.

    A truncated .gz, a line longer than ``most`` (16 MiB, or less where the memory is short), or
    bytes that are not UTF-8 are `ImportFailed`.
    """
    file = need_file(path)
    packed = is_packed(file)
    number, most = 0, most or min(_MAX_LINE, current().limit // _LINE_SHARE)
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            while line := stream.readline(most):
                number += 1
                if len(line) >= most:
                    fail(
                        f"{file}:{number}",
                        f"the line is longer than {format_bytes(most)}",
                        remedy("ShorterLines"),
                    )
                # A byte order mark is no part of the first field.
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the line, 0x{error.object[error.start]:02X}"
        fail(f"{file}:{number}", f"{byte}, is not valid UTF-8", "convert the file to UTF-8")
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        fail(
            f"{file}: after line {number}",
            f"the file is damaged or truncated ({error})",
            "copy it again",
        )


def number_table(path: Path | str, delimiter: str | None, dtype: type[np.generic]) -> Array:
    """A whole small table of numbers, [rows, columns]; ragged or non-numeric lines are named."""
    whole = np.issubdtype(dtype, np.integer)
    cells: array[Any] = array("q" if whole else "d")
    kind, width, held = int if whole else float, 0, 0
    read, size = 0, max(1, text_bytes(path))
    for number, line in text_lines(path):
        read += len(line) + 1
        if not line.strip():
            continue
        fields = line.split(delimiter)
        width = width or len(fields)
        if len(fields) != width:
            fail(
                f"{path}:{number}",
                f"has {len(fields)} columns, but the first row has {width}",
                "give every row the same number of columns",
            )
        try:
            cells.extend(map(kind, fields))
        except (ValueError, OverflowError):
            what = f"{line[:60]!r} is not a row of {'whole numbers' if whole else 'numbers'}"
            fail(f"{path}:{number}", what, "store plain numbers of at most 64 bits")
        # The cells, what they grow from, and the array that is made of them.
        held = hold_to(str(path), 3 * len(cells) * cells.itemsize, held, read / size)
    return np.frombuffer(cells, dtype=cells.typecode).astype(dtype).reshape(-1, max(1, width))


def pair_tables(path: Path | str, has_header: bool = False) -> Iterator[tuple[int, Array]]:
    """(number of its first line, int64 [n, 2]) of each chunk of a file of lines ``id,id``.

    Empty lines are left out, and so is a first line without a number where there may be a header.
    """
    rows, first = array("q"), 1
    for number, line in text_lines(path):
        fields = line.split(",")
        is_header = number == 1 and not fields[0].strip().lstrip("-").isdigit()
        if not line.strip() or (has_header and is_header):
            continue
        first = first if rows else number
        try:
            left, right = fields
            rows.extend((int(left), int(right)))
        except (ValueError, OverflowError):
            fail(
                f"{path}:{number}",
                f"{line[:60]!r} is not a pair of node ids",
                "write each line as id,id",
            )
        if len(rows) >= 2 * CHUNK_EDGES:
            yield first, np.frombuffer(rows, dtype=np.int64).reshape(-1, 2)
            rows = array("q")
    if rows:
        yield first, np.frombuffer(rows, dtype=np.int64).reshape(-1, 2)
