"""Notes: what an import dropped, doubled, replaced or found odd.

Parsers put theirs into `GraphPlan.notes`; the extension adds what it finds in edges and rows. Both
come back as one list, ``notes`` of the report. Invariant: nothing of an input is lost without a
note or an error, and ``strict`` refuses what no option asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Note:
    """One note: a stable ``code``, how many there are, where, and what to do about it.

    ``requested``: an option of the import asked for it. ``remedy``: what to do about it, of
    `neargraph.remedies`.
    """

    code: str
    count: int
    where: str
    message: str
    requested: bool = False
    remedy: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"[{self.code}] {self.where}: {self.message}"


def with_remedies(found: Iterable[dict[str, Any]], given: Iterable[Note]) -> list[dict[str, Any]]:
    """Notes that the core lists, with the remedies of those that it was given."""
    known = {(note.code, note.where, note.message): note.remedy for note in given}
    listed = []
    for note in found:
        remedy = known.get((note["code"], note["where"], note["message"]))
        listed.append(note if remedy is None else {**note, "remedy": remedy})
    return listed


def in_words(
    notes: Iterable[dict[str, Any]], words: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """Notes for a face: their messages end with what to do, in its words."""
    return [_in_words(words, **note) for note in notes]


def _in_words(
    words: Callable[[dict[str, Any]], str], remedy: dict[str, Any] | None = None, **note: Any
) -> dict[str, Any]:
    if remedy is not None and (advice := words(remedy)):
        note["message"] += f"; {advice}"
    return note


def shown(names: Iterable[Any]) -> str:
    """The first names of a list, for messages."""
    known = [str(name) for name in names]
    rest = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + rest


def left_out(code: str, names: Iterable[Any], where: str, why: str) -> list[Note]:
    """A note that ``names`` are left out; none where there are no names."""
    known = list(names)
    return [Note(code, len(known), where, f"left out {shown(known)}: {why}")] if known else []


def unused_files(folder: Path, used: Iterable[Path]) -> list[Note]:
    """A note of the files of a folder that are not read; hidden ones do not count."""
    known = {file.name for file in used}
    rest = sorted(
        f.name for f in folder.iterdir() if f.name not in known and not f.name.startswith(".")
    )
    return left_out("files-unused", rest, str(folder), "the format has no files with these names")
