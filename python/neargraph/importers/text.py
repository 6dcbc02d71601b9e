"""Text edge lists: SNAP, CSV, TSV, also .gz, also several files. The extension parses.

Python looks at the head of each file, which tells what the user does not. Invariant: files that are
imported together have the same columns, and edges are numbered in the order of the files.
"""

from collections.abc import Sequence
from pathlib import Path

from neargraph.remedies import remedy

from .check import fail
from .hints import COLUMN_NAMES, TextHints
from .inputs import Input, listed
from .notes import Note, left_out
from .plan import HOMOGENEOUS_EDGE, EdgePlan, GraphPlan, NodePlan, TextColumns
from .text_head import Head


def plan_text(given: Path | str | Sequence[Input], hints: TextHints | None = None) -> GraphPlan:
    """The plan of a text edge list, in one file or several."""
    hints = hints or TextHints()
    inputs = [Input.of(given, hints.encoding)] if isinstance(given, Path | str) else given
    heads = [Head.of(source, hints) for source in inputs]
    known = [head for head in heads if head is not None]
    if not known:
        fail(listed(inputs), "holds no edges", "check the path and the comment lines")
    lead = known[0]
    header = lead.looks_like_header(hints.strings) if hints.header is None else hints.header
    columns = _columns(lead, header, hints)
    if hints.time_scale is not None and "time" not in columns:
        fail(
            lead.source.shown,
            "has no column of times, which time_scale= needs",
            remedy("NameTimes"),
        )
    files = [_file(head, lead, header, columns, hints) for head in known]
    names = hints.types() or HOMOGENEOUS_EDGE
    edge = EdgePlan(
        *names,
        files=files,
        num_edges=sum(head.num_lines for head in known),
        has_time="time" in columns,
        has_weight="weight" in columns,
    )
    nodes = [NodePlan(name, strings=hints.strings) for name in dict.fromkeys(names[::2])]
    empty = [source.shown for source, head in zip(inputs, heads, strict=True) if head is None]
    notes = left_out("files-empty", empty, listed(inputs), "files without edges")
    notes += _guessed(lead, header, hints)
    facts = (
        [f"edges are read from {len(known)} files, in the order given"] if len(known) > 1 else []
    )
    return GraphPlan(listed(inputs), "text", nodes, [edge], notes, facts)


def _file(
    head: Head, lead: Head, header: bool, columns: dict[str, int], hints: TextHints
) -> TextColumns:
    """Where the columns of one file are; refuses a file with other columns than the first."""
    repeats = head.fields == lead.fields
    is_header = header if head is lead else _has_header(head, header, repeats, hints)
    if (is_header and not repeats) or len(head.fields) != len(lead.fields):
        theirs, ours = (_described(one, is_header) for one in (lead, head))
        what = f"has {ours}, but {lead.source.shown} has {theirs}"
        fail(head.source.shown, what, "import files with the same columns")
    return TextColumns(
        str(head.source.path),
        head.source.shown,
        head.source.encoding,
        head.delimiter or " ",
        head.comment,
        is_header,
        columns["src"],
        columns["dst"],
        columns.get("time"),
        columns.get("weight"),
        hints.time_scale,
    )


def _has_header(head: Head, header: bool, repeats: bool, hints: TextHints) -> bool:
    """Whether a later file has a header: parts of a file that was split may have none."""
    if hints.header is not None:
        return hints.header
    return (header and repeats) or head.looks_like_header(hints.strings)


def _described(head: Head, by_name: bool) -> str:
    names = f" ({', '.join(head.fields[:20])})" if by_name else ""
    return f"{len(head.fields)} columns{names}"


def _guessed(lead: Head, header: bool, hints: TextHints) -> list[Note]:
    """A note that the first two columns are taken, where a header names no ends."""
    names = {field.lower() for field in lead.fields}
    if not header or hints.columns or all(names & {*COLUMN_NAMES[key]} for key in ("src", "dst")):
        return []
    first, second = lead.fields[:2]
    message = (
        f"no column has a name like src or dst, so the first two, {first!r} and {second!r}, are "
        "read as source and destination"
    )
    note = Note("columns-guessed", 2, lead.source.shown, message, remedy=remedy("NameEnds"))
    return [note]


def _columns(lead: Head, header: bool, hints: TextHints) -> dict[str, int]:
    names = [field.lower() for field in lead.fields]
    where = lead.source.shown
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
            what = "edge ids cannot be read from text, whose edges are numbered by row"
            fail(where, what, remedy("LeaveOutEdgeId"))
        if value.isdigit():
            found[key] = int(value)
        elif header and value.lower() in names:
            found[key] = names.index(value.lower())
        elif not header:
            what = f"has no header, so {key}={value!r} does not name a column"
            fail(where, what, "give the number of the column, from 0")
        else:
            what = f"has no column {value!r} (columns: {', '.join(lead.fields[:20])})"
            fail(where, what, "give a column number from 0, or a name of the header")
    for key, at in found.items():
        if at >= len(names):
            what = f"{key}={at} is not a column: lines have {len(names)} columns, numbered from 0"
            fail(where, what, remedy("CorrectColumns"))
    return found
