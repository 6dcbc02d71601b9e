"""Reading text inputs line by line, plain or .gz, with line numbers for messages."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .check import fail, need_file
from .plan import CHUNK_EDGES, Array

_MAX_LINE = 16 << 20


def text_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a UTF-8 file; .gz by content.

    A truncated .gz, a line longer than 16 MiB or bytes that are no UTF-8 are `ImportFailed`.
    """
    file = need_file(path)
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    number = 0
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            while line := stream.readline(_MAX_LINE):
                number += 1
                if len(line) >= _MAX_LINE:
                    fail(f"{file}:{number}", "line longer than 16 MiB", "check the format")
                # A byte order mark is no part of the first field.
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError:
        fail(f"{file}:{number}", "not UTF-8 text", "check the format, or give --format")
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        fail(f"{file}: after line {number}", f"damaged or truncated ({error})", "copy it again")


def number_table(
    path: Path | str, delimiter: str | None, dtype: type[np.generic], skip_header: bool = False
) -> Array:
    """A whole small table of numbers, [rows, columns]; ragged or non-numeric lines are named."""
    rows: list[list[float]] = []
    kind = int if np.issubdtype(dtype, np.integer) else float
    for number, line in text_lines(path):
        if (skip_header and number == 1) or not line.strip():
            continue
        fields = line.split(delimiter)
        if rows and len(fields) != len(rows[0]):
            fail(
                f"{path}:{number}",
                f"{len(fields)} columns, the first row has {len(rows[0])}",
                "make the table rectangular",
            )
        try:
            rows.append([kind(field) for field in fields])
        except ValueError as error:
            fail(f"{path}:{number}", str(error), "store plain numbers")
    return np.array(rows, dtype=dtype).reshape(len(rows), -1)


def pair_tables(path: Path | str, has_header: bool = False) -> Iterator[tuple[int, Array]]:
    """(number of its first line, int64 [n, 2]) of each chunk of a file of lines ``id,id``.

    Empty lines are left out, and so is a first line without a number where there may be a header.
    """
    rows: list[tuple[int, int]] = []
    first = 1
    for number, line in text_lines(path):
        fields = line.split(",")
        is_header = number == 1 and not fields[0].strip().lstrip("-").isdigit()
        if not line.strip() or (has_header and is_header):
            continue
        first = first if rows else number
        try:
            left, right = fields
            rows.append((int(left), int(right)))
        except ValueError:
            fail(f"{path}:{number}", f"{line[:60]!r} is not id,id", "make every line two integers")
        if len(rows) >= CHUNK_EDGES:
            yield first, np.array(rows, dtype=np.int64)
            rows = []
    if rows:
        yield first, np.array(rows, dtype=np.int64)
