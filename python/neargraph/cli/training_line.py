"""One line on a terminal with the progress of training; above it, how rows are read and why.

What must not live here: what is measured. The invariant: where stderr is not a terminal, there is
one plain line for each epoch, and one for a run that is resumed.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from neargraph.units import format_bytes

from .settings import settings

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
    """The line; it is made anew whenever it is drawn.

    Args:
        epochs: Of the run.
        say: What writes a line that stays; None writes none.
    """

    def __init__(self, epochs: int, say: Callable[[str], None] | None = None) -> None:
        self._epochs, self._say = epochs, say
        self._now: Pass | None = None
        self._resumed: Path | None = None

    def resumes(self, folder: Path) -> None:
        """Writes a line that says where the run of this folder continues, at its first pass."""
        self._resumed = folder

    def __call__(self, now: "Pass") -> None:
        """Shows this pass from now on."""
        self._now = now
        if self._resumed is not None and self._say is not None:
            self._say(resume_line(self._resumed, now.phase, now.step, now.steps, self._epochs))
        self._resumed = None

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Writes the line of an epoch that has ended."""
        if self._say is not None:
            self._say(epoch_line(row, self._epochs))

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
        parts.append(f"{'loss' if is_epoch else now.get('measure', 'accuracy')} {now['value']:.4f}")
        parts.append(f"{now['seeds_per_second']:,.0f} seeds/s")
        parts.append(f"{100 * now['waiting_share']:.0f} % of the time waiting")
    if now["waiting_seconds"] >= _PATIENCE_SECONDS:
        doing = [words for stage, words in _DOING.items() if stage in now["busy"]]
        what = " and ".join(doing) or "preparing"
        parts.append(f"{what} for {now['waiting_seconds']:.0f} s")
    return ", ".join(parts)


def resume_line(folder: Path, phase: str, step: int, steps: int, epochs: int) -> str:
    """The place at which a resumed run continues, in one line.

    >>> resume_line(Path("runs/1"), "epoch 4", 20, 38, 6)
    'resuming runs/1 in epoch 4 of 6, after 20 of 38 batches'
    >>> resume_line(Path("runs/1"), "epoch 1", 0, 38, 6)
    'resuming runs/1 at the beginning of epoch 1 of 6'
    """
    place = f"{phase} of {epochs}" if phase.startswith("epoch") else phase
    if step:
        return f"resuming {folder} in {place}, after {step:,} of {steps:,} batches"
    return f"resuming {folder} at the beginning of {place}"


def epoch_line(row: Mapping[str, Any], epochs: int) -> str:
    """An epoch that has ended, in one line.

    >>> row = {"epoch": 2, "loss": 0.5, "val_accuracy": 0.81, "seeds_per_second": 1234.5}
    >>> epoch_line(row | {"hit_rate": 0.9, "useful_bytes": 5_000_000, "read_bytes": 9_000_000}, 3)
    'epoch 2 of 3: loss 0.5000, val accuracy 0.8100, 1,234 seeds/s, 90 % hits, 9 MB read, 5 MB used'
    """
    values = [
        f"val {name.removeprefix('val_')} {value:.4f}"
        for name, value in row.items()
        if name.startswith("val_")
    ]
    useful, read = format_bytes(int(row["useful_bytes"])), format_bytes(int(row["read_bytes"]))
    loss = f"{row['loss']:.4f}" if "loss" in row else "none"
    parts = [f"loss {loss}", *values, f"{row['seeds_per_second']:,.0f} seeds/s"]
    if row["useful_bytes"] or row["read_bytes"]:
        parts += [f"{100 * row['hit_rate']:.0f} % hits", f"{read} read, {useful} used"]
    return f"epoch {row['epoch']} of {epochs}: {', '.join(parts)}"


class _Above(logging.Handler):
    """Writes lines of the log above what is live on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False, highlight=False)


@contextmanager
def training_line(epochs: int, silent: bool = False) -> Iterator[TrainingLine]:
    """The line on stderr; a line for each epoch where stderr is not a terminal.

    Nothing with ``silent``, ``--quiet`` or ``--json``.
    """
    silent = silent or settings.silent
    if silent or not sys.stderr.isatty():
        yield TrainingLine(epochs, None if silent else _plainly)
        return
    console, log = Console(stderr=True, no_color=settings.no_color), logging.getLogger(_LOG)
    above, before = _Above(console), log.level
    line = TrainingLine(epochs, lambda text: console.print(text, markup=False, highlight=False))
    log.addHandler(above)
    log.setLevel(logging.INFO)
    try:
        with Live(line, console=console, refresh_per_second=_REFRESHES_PER_SECOND, transient=True):
            yield line
    finally:
        log.removeHandler(above)
        log.setLevel(before)


def _plainly(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
