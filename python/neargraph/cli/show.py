"""What commands share: JSON and tables on stdout, notes, words for numbers.

What must not live here: options (`options.py`) and progress (`progress.py`). The invariant: with
``--json`` stdout has one document, and colours depend on the terminal and ``--no-color`` alone.
"""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from neargraph.units import format_bytes

from .progress import Bars, bars
from .settings import settings

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

__all__ = [
    "Bars",
    "bars",
    "console",
    "pairs_table",
    "print_json",
    "print_notes",
    "print_report",
    "readable",
    "size",
    "titled",
]


def console() -> "Console":
    """A console on stdout; wide enough for tables where stdout is a file."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 100
    plain: dict[str, Any] = {"color_system": None} if settings.no_color else {}
    return Console(width=width, highlight=False, markup=False, no_color=settings.no_color, **plain)


def print_json(value: Any) -> None:
    """One JSON document on stdout; numbers that are not finite are null."""
    try:
        text = json.dumps(value, indent=2, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=2, default=str)
    typer.echo(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_report(as_json: bool, report: Any, title: str, rows: Sequence[tuple[str, Any]]) -> None:
    """The result of a command: ``report`` as JSON, or a table of names and values."""
    if as_json:
        print_json(report)
    else:
        console().print(pairs_table(title, rows))


def print_notes(notes: Iterable[dict[str, Any]]) -> None:
    """The notes of a report, one a line; none with ``--quiet`` or ``--json``."""
    from neargraph.importers.notes import Note

    if not settings.silent:
        for note in notes:
            typer.echo(f"note: {Note(**note)}")


def pairs_table(title: str, rows: Sequence[tuple[str, Any]]) -> "Group":
    """A title over a table of names and values; integers get thousands separators."""
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, _text(value))
    return titled(title, table)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def titled(title: str, table: "Table") -> "Group":
    """A table under a title that is not broken to the table's width."""
    from rich.console import Group
    from rich.text import Text

    return Group(Text(title, style="bold"), table)


def size(count: Any) -> str:
    """A byte count for people; "?" where it is unknown."""
    return format_bytes(int(count)) if isinstance(count, int | float) else "?"


def readable(key: str, value: Any) -> Any:
    """An entry of a report with the unit that its name ends in."""
    if key.endswith("_bytes"):
        return size(value)
    if key.endswith("seconds"):
        return f"{value:.1f} s"
    return f"{100 * value:.1f} %" if key.endswith("share") else value
