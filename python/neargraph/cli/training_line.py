"""One line on a terminal that says how training goes on; above it, why rows are read as they are.

What must not live here: what is measured. The invariant: where stderr is no terminal, nothing is
written.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from neargraph.train import Pass

_REFRESHES_PER_SECOND = 4
# A batch that comes sooner is not worth a word.
_PATIENCE_SECONDS = 0.5
_LOG = "neargraph.loader"
# What stages do, in the order in which they are named.
_DOING = {
    "load": "loading the topology",
    "sample": "sampling",
    "read": "reading rows",
    "gather": "putting batches together",
}


class TrainingLine:
    """The line; it is made anew whenever it is drawn."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._now: Pass | None = None

    def __call__(self, now: "Pass") -> None:
        """Shows this pass from now on."""
        self._now = now

    def __rich__(self) -> Text:
        text = "" if self._now is None else pass_line(self._now.plain(), self._epochs)
        return Text(text, no_wrap=True, overflow="ellipsis")


def pass_line(now: Mapping[str, Any], epochs: int) -> str:
    """A pass in one line.

    >>> now = {"phase": "epoch 1", "step": 7, "steps": 90, "value": 0.6931, "busy": []}
    >>> rates = {"seeds_per_second": 1234.5, "waiting_share": 0.123, "waiting_seconds": 0.0}
    >>> pass_line(now | rates, 3)
    'epoch 1 of 3, batch 7 of 90, loss 0.6931, 1,234 seeds/s, 12 % of the time waiting'
    """
    is_epoch = now["phase"].startswith("epoch")
    parts = [f"{now['phase']} of {epochs}" if is_epoch else now["phase"]]
    parts.append(f"batch {now['step']:,} of {now['steps']:,}")
    if now["value"] is not None:
        parts.append(f"{'loss' if is_epoch else 'accuracy'} {now['value']:.4f}")
        parts.append(f"{now['seeds_per_second']:,.0f} seeds/s")
        parts.append(f"{100 * now['waiting_share']:.0f} % of the time waiting")
    if now["waiting_seconds"] >= _PATIENCE_SECONDS:
        doing = [words for stage, words in _DOING.items() if stage in now["busy"]]
        what = " and ".join(doing) or "preparing"
        parts.append(f"{what} for {now['waiting_seconds']:.0f} s")
    return ", ".join(parts)


class _Above(logging.Handler):
    """Writes lines of the log above what is live on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False, highlight=False)


@contextmanager
def training_line(epochs: int, silent: bool = False) -> Iterator[TrainingLine]:
    """The line on stderr; none with ``silent`` or where stderr is no terminal."""
    line = TrainingLine(epochs)
    if silent or not sys.stderr.isatty():
        yield line
        return
    console, log = Console(stderr=True), logging.getLogger(_LOG)
    above, before = _Above(console), log.level
    log.addHandler(above)
    log.setLevel(logging.INFO)
    try:
        with Live(line, console=console, refresh_per_second=_REFRESHES_PER_SECOND, transient=True):
            yield line
    finally:
        log.removeHandler(above)
        log.setLevel(before)
