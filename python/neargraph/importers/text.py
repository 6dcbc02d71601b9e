"""Text edge lists: SNAP, CSV, TSV, also .gz. The extension parses; Python looks at the head.

The head (first 64 KiB of text) tells delimiter, header and columns where the user does not, and
the mean length of a line for the estimate.
"""

import gzip
import zlib
from dataclasses import dataclass, fields
from pathlib import Path

from .check import fail, need_file
from .lines import is_packed, text_bytes
from .notes import Note
from .plan import EdgePlan, GraphPlan, NodePlan, TextColumns

_HEAD_BYTES = 64 << 10
COLUMN_NAMES = {
    "src": ("src", "source", "from", "u", "id1", "source_id", "node1"),
    "dst": ("dst", "destination", "target", "to", "v", "id2", "target_id", "node2"),
    "time": ("time", "timestamp", "ts", "t"),
    "weight": ("weight", "w"),
}
"""What headers call the columns of edges, in lower case."""
_DELIMITERS = {
    "tab": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": " ",
    "blank": None,
}


@dataclass(frozen=True, slots=True)
class TextHints:
    """What the user says about a text file; None means: look at the head.

    ``columns`` maps src, dst, time, weight to a column number (from 0) or a header name. Times are
    multiplied by ``time_scale`` and rounded, so that fractions become integers.
    """

    delimiter: str | None = None
    header: bool | None = None
    columns: dict[str, str] | None = None
    strings: bool = False
    time_scale: float | None = None

    def given(self) -> list[str]:
        """The names of the hints that the user gave."""
        return [f.name for f in fields(self) if getattr(self, f.name) not in (None, False)]


def parse_columns(text: str | None) -> dict[str, str] | None:
    """{"src": "0", "dst": "to"} of "src=0,dst=to"; keys are src, dst, time, weight, edge_id.

    >>> parse_columns("src=1,dst=0")
    {'src': '1', 'dst': '0'}
    """
    if text is None:
        return None
    columns = {}
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if key.strip() not in ("src", "dst", "time", "weight", "edge_id") or not sign or not value:
            raise ValueError(
                f"{part!r} is no column; write src=0,dst=1,time=2,weight=3 (numbers or names)"
            )
        columns[key.strip()] = value.strip()
    return columns


def named_delimiter(text: str | None) -> str | None:
    """The character of "tab", "comma", "\\t", ";" ...; None stands for runs of blanks.

    >>> named_delimiter("tab") == chr(9), named_delimiter(",")
    (True, ',')
    """
    if text is None:
        return None
    if text.lower() in _DELIMITERS:
        return _DELIMITERS[text.lower()]
    text = text.replace("\\t", "\t")
    if len(text.encode()) != 1:
        raise ValueError(f"{text!r} is no delimiter; give one character, or tab, comma, blank")
    return text


def read_head(file: Path) -> list[str]:
    """The complete lines of the first 64 KiB of text."""
    packed = is_packed(file)
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as stream:
            data = stream.read(_HEAD_BYTES)
    except (EOFError, zlib.error, OSError) as error:
        fail(file, f"damaged or truncated ({error})", "copy or download it again")
    if b"\0" in data:
        fail(file, "is binary, not text", "give --format, or check the file")
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    if len(data) == _HEAD_BYTES and len(lines) > 1:
        lines.pop()
    return lines


def data_lines(lines: list[str]) -> list[str]:
    """The lines that are neither empty nor comments."""
    return [line for line in lines if line.strip() and line.lstrip()[0] not in "#%"]


def plan_text(path: Path | str, hints: TextHints | None = None) -> GraphPlan:
    """The plan of a text edge list."""
    hints = hints or TextHints()
    file = need_file(path)
    lines = read_head(file)
    data = data_lines(lines)
    comment = "%" if lines and lines[0].startswith("%") else "#"
    if lines and lines[0].startswith("%%MatrixMarket"):
        fail(file, "is a Matrix Market file", "write its entries as lines, counted from 0")
    if not data:
        fail(file, "holds no edges", "check the path and the comment lines")
    delimiter = _delimiter(data[0]) if hints.delimiter is None else named_delimiter(hints.delimiter)
    first = [field.strip().strip('"') for field in data[0].split(delimiter)]
    if len(first) < 2:
        fail(
            f"{file}:{lines.index(data[0]) + 1}",
            f"one column in {data[0][:60]!r}",
            "give --delimiter, or check the file",
        )
    header = _looks_like_header(first, hints) if hints.header is None else hints.header
    columns = _columns(first, header, hints, str(file))
    if hints.time_scale is not None and "time" not in columns:
        fail(file, "has no time column", "name it with --columns time=.., or drop --time-scale")
    mean_line = sum(len(line) + 1 for line in lines) / len(lines)
    layout = TextColumns(
        str(file),
        delimiter or " ",
        comment,
        header,
        columns["src"],
        columns["dst"],
        columns.get("time"),
        columns.get("weight"),
        hints.time_scale,
    )
    num_edges = int(text_bytes(file) / mean_line)
    has_time, has_weight = "time" in columns, "weight" in columns
    edge = EdgePlan(file=layout, num_edges=num_edges, has_time=has_time, has_weight=has_weight)
    notes = []
    if header and not hints.columns and not _named_ends(first):
        message = (
            f"no column has a name like src or dst, so {first[0]!r} and {first[1]!r} are taken; "
            "say which with --columns src=NAME,dst=NAME"
        )
        notes.append(Note("columns-guessed", 2, str(file), message))
    return GraphPlan(str(file), "text", [NodePlan(strings=hints.strings)], [edge], notes)


def _named_ends(first: list[str]) -> bool:
    names = {field.lower() for field in first}
    return all(names & {*COLUMN_NAMES[key]} for key in ("src", "dst"))


def _delimiter(line: str) -> str | None:
    # None stands for runs of blanks or tabs: what SNAP files use.
    return next((candidate for candidate in ",;|" if candidate in line), None)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _looks_like_header(first: list[str], hints: TextHints) -> bool:
    known = {name for names in COLUMN_NAMES.values() for name in names}
    if hints.strings:
        return all(field.lower() in known for field in first[:2])
    return not any(_is_number(field) for field in first[:2])


def _columns(first: list[str], header: bool, hints: TextHints, where: str) -> dict[str, int]:
    names = [field.lower() for field in first]
    found: dict[str, int] = {}
    if header:
        for key, known in COLUMN_NAMES.items():
            match = [at for at, name in enumerate(names) if name in known]
            if match:
                found[key] = match[0]
    if "src" not in found or "dst" not in found:
        others = {k: at for k, at in found.items() if k in ("time", "weight") and at > 1}
        found = {"src": 0, "dst": 1, **others}
    for key, value in (hints.columns or {}).items():
        if key == "edge_id":
            fail(where, "text input numbers edges by row", "drop edge_id from --columns")
        if value.isdigit():
            found[key] = int(value)
        elif header and value.lower() in names:
            found[key] = names.index(value.lower())
        else:
            fail(
                where,
                f"no column {value!r} (columns: {', '.join(first[:20])})",
                "give a column number from 0, or a name of the header",
            )
    for key, at in found.items():
        if at >= len(first):
            fail(
                where,
                f"column {at} for {key}, but lines have {len(first)} columns",
                "correct --columns",
            )
    return found
