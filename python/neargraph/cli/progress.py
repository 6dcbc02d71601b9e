"""Progress on stderr: bars on a terminal, a line now and then elsewhere.

What must not live here: what is counted. The invariant: without a terminal no control character is
written, and nothing at all before the first interval has passed.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from .settings import settings

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

INTERVAL_SECONDS = 10.0
"""Between two lines of progress where stderr is not a terminal."""


class Bars(Protocol):
    """Takes progress: a phase, how much of how much of it is done, and a figure beside it."""

    def __call__(self, phase: str, done: int, total: int | None, note: Any = None) -> None:
        """Sets phase ``phase`` to ``done`` of ``total`` (None: unknown)."""


@contextmanager
def bars(silent: bool = False) -> Iterator[Bars]:
    """Progress on stderr; none with ``silent``, ``--quiet`` or ``--json``."""
    if silent or settings.silent:
        yield _nothing
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        with _terminal() as progress:
            yield _Drawn(progress)


def _nothing(phase: str, done: int, total: int | None, note: Any = None) -> None:
    pass


class Lines:
    """A line for the phase under way, every ten seconds.

    >>> progress_line("edges", 250, 1000), progress_line("edges", 250, None)
    ('edges: 25 % (250 of 1,000)', 'edges: 250')
    """

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, phase: str, done: int, total: int | None, note: Any = None) -> None:
        """Writes a line if the interval has passed since the last one."""
        now = time.monotonic()
        if now - self._last >= INTERVAL_SECONDS:
            self._last = now
            print(progress_line(phase, done, total, note), file=sys.stderr, flush=True)


def progress_line(phase: str, done: int, total: int | None, note: Any = None) -> str:
    """One line of progress, without control characters."""
    text = phase if note is None else f"{phase} {note:.3f}"
    if not total:
        return f"{text}: {done:,}"
    return f"{text}: {100 * done // total} % ({done:,} of {total:,})"


class _Drawn:
    """A bar for each phase, which appears with its first step."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, phase: str, done: int, total: int | None, note: Any = None) -> None:
        if phase not in self._tasks:
            self._tasks[phase] = self._progress.add_task(phase, total=total)
        text = phase if note is None else f"{phase} {note:.3f}"
        self._progress.update(self._tasks[phase], completed=done, total=total, description=text)


def _terminal() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% ({task.completed:,.0f})"),
        TimeRemainingColumn(),
    )
    out = Console(stderr=True, no_color=settings.no_color)
    return Progress(*columns, console=out, transient=True)
