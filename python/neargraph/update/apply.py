"""Applies a file of events to a store, commit by commit.

The invariant: rows are applied in order, and whatever happens it is known how many of them are
committed, so that a run that stopped can go on behind them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from neargraph import exceptions
from neargraph.exceptions import UnsupportedArgument, UpdateFailed
from neargraph.store import Store
from neargraph.update.events import Event, apply_all, make_event
from neargraph.update.files import BadRow, EventFile, Row, open_events

OnError = Literal["stop", "skip"]
Progress = Callable[[int, int | None], None]
# What a row can be wrong about; everything else is about the store or the disk.
_BAD_ROW = (
    exceptions.EdgeNotFound,
    exceptions.NameNotFound,
    exceptions.NodeNotFound,
    exceptions.NodeOutOfRange,
    exceptions.ReverseMissing,
    exceptions.RowWidth,
    exceptions.UnsupportedArgument,
)
_MESSAGES_MAX = 20
Messages = list[tuple[int, str]]


@dataclass
class UpdateReport:
    """What `update_from` did. `rows` counts those behind `skip_rows`; a message names its row."""

    rows: int = 0
    applied: int = 0
    skipped: int = 0
    commits: int = 0
    seconds: float = 0.0
    ops: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {**vars(self), "ops": dict(self.ops)}


def update_from(
    store: Store,
    path: Path,
    *,
    commit_every: int = 1000,
    skip_rows: int = 0,
    on_error: OnError = "stop",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> UpdateReport:
    """Applies the events of a file to a store; docs/how-to/updates.md gives their format.

    Args:
        store: The open store.
        path: A .csv, .tsv, .parquet or .npz file.
        commit_every: Rows of one commit.
        skip_rows: Rows at the start to leave out, as a run that stopped says.
        on_error: ``"stop"`` at a bad row, with all transactions before its own committed, or
            ``"skip"`` bad rows.
        dry_run: Only read the file, and check names, types and shapes.
        progress: Called with (rows done, rows or None).

    Raises:
        UpdateFailed: A bad row, or a bad file; the message says how to go on.
        StoreBusy, StorePoisoned, IoFailed: The store cannot be written to.
    """
    if commit_every < 1 or skip_rows < 0 or on_error not in ("stop", "skip"):
        raise UnsupportedArgument(
            f"commit_every is at least 1, skip_rows at least 0, on_error stop or skip; "
            f"got {commit_every}, {skip_rows} and {on_error!r}"
        )
    source = open_events(path, store.schema)
    run = _Run(store, source, skip_rows, on_error, dry_run)
    start = time.perf_counter()
    rows = enumerate(source.rows(), 1)
    for number, _ in islice(rows, skip_rows):
        run.done = number
    while part := run.read(rows, commit_every):
        run.take(part)
        if progress is not None:
            progress(run.done, source.num_rows)
    run.report.seconds = time.perf_counter() - start
    return run.report


class _Run:
    """One pass over a file; `done` rows of it are committed, or left out on purpose."""

    def __init__(
        self, store: Store, source: EventFile, skip_rows: int, on_error: OnError, dry_run: bool
    ) -> None:
        self._store, self._source, self._schema = store, source, store.schema
        self._skips, self._dry = on_error == "skip", dry_run
        self.done = skip_rows
        self.report = UpdateReport()

    def read(self, rows: Iterator[tuple[int, Row]], count: int) -> list[tuple[int, Row]]:
        """The next rows; a line that cannot be read stops the run."""
        try:
            return list(islice(rows, count))
        except UpdateFailed as error:
            raise UpdateFailed(f"{error}. {self._how_to_go_on()}") from error

    def take(self, part: list[tuple[int, Row]]) -> None:
        """Makes one commit of rows."""
        messages: Messages = []
        events = list(self._events(part, messages))
        if not self._dry:
            events = self._commit(events, messages)
        report = self.report
        report.rows += len(part)
        report.applied += len(events)
        report.skipped += len(part) - len(events)
        report.ops.update(event.op for event in events)
        room = _MESSAGES_MAX - len(report.messages)
        report.messages += [f"row {row}: {text}" for row, text in sorted(messages)[:room]]
        self.done = part[-1][0]

    def _events(self, part: list[tuple[int, Row]], messages: Messages) -> Iterator[Event]:
        for number, row in part:
            if isinstance(row, BadRow):
                messages.append(self._bad(number, UpdateFailed(row.why)))
                continue
            try:
                yield make_event(self._schema, number, row, self._source.dense)
            except _BAD_ROW as error:
                messages.append(self._bad(number, error))

    def _commit(self, events: list[Event], messages: Messages) -> list[Event]:
        """Applies events; those that were not refused."""
        try:
            with self._store.write() as tx:
                apply_all(tx, events)
        except (*_BAD_ROW, UpdateFailed):
            events = self._commit_one_by_one(events, messages)
        self.report.commits += bool(events)
        return events

    def _commit_one_by_one(self, events: list[Event], messages: Messages) -> list[Event]:
        # Nothing of the transaction was kept, so it can be done again to find the row that is bad.
        applied = []
        with self._store.write() as tx:
            for event in events:
                try:
                    event.apply(tx)
                    applied.append(event)
                except _BAD_ROW as error:
                    messages.append(self._bad(event.row, error))
                except UpdateFailed as error:
                    raise self._stop(event.row, error) from error
        return applied

    def _bad(self, row: int, error: Exception) -> tuple[int, str]:
        """A row that is skipped, and why; raises it if none is."""
        if not self._skips:
            raise self._stop(row, error) from error
        return row, str(error)

    def _stop(self, row: int, error: Exception) -> UpdateFailed:
        return UpdateFailed(
            f"{self._source.path}: row {row}: {error}. {self._how_to_go_on()}, or leave bad rows "
            "out with on_error='skip'"
        )

    def _how_to_go_on(self) -> str:
        return (
            f"The {self.done} rows before its transaction are done: correct the file and "
            f"go on with skip_rows={self.done}"
        )
