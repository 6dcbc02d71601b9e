"""A progress bar for long preparations of loaders, shown only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(total: int, name: str, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Shows a bar and yields a function that advances it by a count.

    Without a terminal, or if `shown` is False, it writes nothing.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda count: progress.advance(task, count)
