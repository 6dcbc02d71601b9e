"""The head of a text: the first 64 KiB, which tell delimiter, header and columns.

What must not live here: what becomes of the columns. Memory is that of the head.
"""

import io
import zlib
from dataclasses import dataclass
from pathlib import Path

from neargraph.remedies import remedy

from .check import fail
from .encodings import MARK_BYTES, check_mark, decoded
from .hints import COLUMN_NAMES, TextHints, named_delimiter
from .inputs import Input
from .lines import text_bytes
from .spool import open_plain

_HEAD_BYTES = 64 << 10


def read_head(given: Input | Path, is_text: bool = True) -> list[str]:
    """The complete lines of the first 64 KiB of text; refuses what is binary if ``is_text``."""
    source = given if isinstance(given, Input) else Input.of(given)
    try:
        with open_plain(source.path) as stream:
            data = stream.read(_HEAD_BYTES)
    except (EOFError, zlib.error, OSError) as error:
        fail(source.shown, f"is damaged or truncated ({error})", "copy or download it again")
    check_mark(data[:MARK_BYTES], source.encoding, source.shown)
    if source.encoding is not None:
        text = "".join(decoded(io.BytesIO(data), source.encoding, source.shown, is_whole=False))
    elif b"\0" in data and is_text:
        fail(source.shown, "is binary, not text", remedy("NameFormat"))
    else:
        # What is not UTF-8 here is refused by the parser, if it is part of a name.
        text = data.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(data) == _HEAD_BYTES and len(lines) > 1:
        lines.pop()
    return lines


def data_lines(lines: list[str]) -> list[str]:
    """The lines that are neither empty nor comments."""
    return [line for line in lines if line.strip() and line.lstrip()[0] not in "#%"]


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of one text says. ``fields`` are those of its first line of data."""

    source: Input
    comment: str
    delimiter: str | None
    fields: list[str]
    num_lines: int

    @staticmethod
    def of(source: Input, hints: TextHints) -> "Head | None":
        """The head of an edge list; None where it has no line of data."""
        lines = read_head(source)
        data = data_lines(lines)
        if lines and lines[0].startswith("%%MatrixMarket"):
            what = "is a Matrix Market file, which is not supported"
            fail(source.shown, what, "write its entries as lines, with ids that start at 0")
        if not data:
            return None
        given = hints.delimiter
        delimiter = guessed_delimiter(data[0]) if given is None else named_delimiter(given)
        fields = [field.strip().strip('"') for field in data[0].split(delimiter)]
        if len(fields) < 2:
            where = f"{source.shown}:{lines.index(data[0]) + 1}"
            fail(where, f"has only one column: {data[0][:60]!r}", remedy("GiveDelimiter"))
        mean_line = sum(len(line) + 1 for line in lines) / len(lines)
        num_lines = int(text_bytes(source.path) / mean_line)
        comment = "%" if lines[0].startswith("%") else "#"
        return Head(source, comment, delimiter, fields, num_lines)

    def looks_like_header(self, strings: bool) -> bool:
        """Whether the first line of data names columns."""
        if strings:
            known = {name for names in COLUMN_NAMES.values() for name in names}
            return all(field.lower() in known for field in self.fields[:2])
        return not any(_is_number(field) for field in self.fields[:2])


def guessed_delimiter(line: str) -> str | None:
    """The delimiter of a line; None stands for runs of blanks or tabs, as in files of SNAP."""
    return next((candidate for candidate in ",;|" if candidate in line), None)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
