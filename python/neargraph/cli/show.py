"""What commands share: progress bars on stderr, JSON and tables on stdout."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from neargraph.units import format_bytes

BackendName = Literal["auto", "uring", "odirect", "pread", "mmap", "memory"]
Backend = Annotated[BackendName, typer.Option(help="Back end for reading the disk.")]
"""How the files of a store are read."""

Recover = Annotated[
    bool, typer.Option(help="Put the commits of a crashed writer into the store first.")
]
"""The option of commands that only read."""

BusyTimeout = Annotated[
    float, typer.Option(help="Seconds to wait for another writer to close the store.")
]
"""The option of commands that write."""


def console() -> Console:
    """A console on stdout; wide enough for tables where stdout is a file."""
    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, indent=2, default=str))


def print_report(as_json: bool, report: Any, title: str, rows: Sequence[tuple[str, Any]]) -> None:
    """What a command has to say: ``report`` as JSON, or a table of names and values."""
    if as_json:
        print_json(report)
    else:
        console().print(pairs_table(title, rows))


def pairs_table(title: str, rows: Sequence[tuple[str, Any]]) -> Group:
    """A title over a table of names and values; integers get thousands separators."""
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


def titled(title: str, table: Table) -> Group:
    """A table under a title that is not broken to the table's width."""
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


class Bars:
    """Progress by phase; each phase is a bar that appears with its first step."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, phase: str, done: int, total: int | None, note: Any = None) -> None:
        """Sets phase ``phase`` to ``done`` of ``total`` (None: unknown)."""
        if self._progress is None:
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._progress.add_task(phase, total=total)
        text = phase if note is None else f"{phase} {note:.3f}"
        self._progress.update(self._tasks[phase], completed=done, total=total, description=text)


@contextmanager
def bars(silent: bool = False) -> Iterator[Bars]:
    """Bars on stderr; none with ``silent`` or where stderr is no terminal."""
    if silent or not sys.stderr.isatty():
        yield Bars(None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(progress)
