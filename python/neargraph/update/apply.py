"""Applies an event file to a store, commit by commit.

Invariant: rows are applied in order. After any error, the number of committed rows is known, so a
stopped run can be resumed after them.
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
# Errors of a row. All other errors concern the store or the disk.
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
    """The effect of `update_from`.

    ``rows`` counts the rows after `skip_rows`. Each message names its row.
    """

    rows: int = 0
    applied: int = 0
    skipped: int = 0
    commits: int = 0
    seconds: float = 0.0
    ops: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Returns the report as a dictionary for JSON."""
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
    """Applies the events of a file to a store. See docs/how-to/updates.md for their format.

    Args:
        store: The open store.
        path: A .csv, .tsv, .parquet or .npz file.
        commit_every: Number of rows in one commit.
        skip_rows: Number of rows to skip at the start. A stopped run reports it.
        on_error: ``"stop"`` at a row that is not valid, with all commits before it kept, or
            ``"skip"`` such rows.
        dry_run: Only read the file, and check names, types and shapes.
        progress: Called with (rows done, rows in total or None).

    Raises:
        UpdateFailed: A row or the file is not valid. The message says how to resume.
        StoreBusy, StorePoisoned, IoFailed: The store cannot be written to.
    """
    if commit_every < 1:
        raise UnsupportedArgument(f"commit_every={commit_every} is not valid: expected 1 or more")
    if skip_rows < 0:
        raise UnsupportedArgument(f"skip_rows={skip_rows} is not valid: expected 0 or more")
    if on_error not in ("stop", "skip"):
        raise UnsupportedArgument(f"on_error={on_error!r} is not valid: expected 'stop' or 'skip'")
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
    """One pass over a file. The first `done` rows are committed, or skipped on purpose."""

    def __init__(
        self, store: Store, source: EventFile, skip_rows: int, on_error: OnError, dry_run: bool
    ) -> None:
        self._store, self._source, self._schema = store, source, store.schema
        self._skips, self._dry = on_error == "skip", dry_run
        self.done = skip_rows
        self.report = UpdateReport()

    def read(self, rows: Iterator[tuple[int, Row]], count: int) -> list[tuple[int, Row]]:
        """Returns the next rows. A file that cannot be read any further stops the run."""
        try:
            return list(islice(rows, count))
        except UpdateFailed as error:
            raise UpdateFailed(f"{error}. {self._how_to_resume()}") from error

    def take(self, part: list[tuple[int, Row]]) -> None:
        """Applies rows as one commit."""
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
        """Applies events, and returns those that were not rejected."""
        try:
            with self._store.write() as tx:
                apply_all(tx, events)
        except (*_BAD_ROW, UpdateFailed):
            events = self._commit_one_by_one(events, messages)
        self.report.commits += bool(events)
        return events

    def _commit_one_by_one(self, events: list[Event], messages: Messages) -> list[Event]:
        # The transaction had no effect, so it can be repeated to find the row that is not valid.
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
        """Returns a row to skip and the reason; raises the error if rows are not skipped."""
        if not self._skips:
            raise self._stop(row, error) from error
        return row, str(error)

    def _stop(self, row: int, error: Exception) -> UpdateFailed:
        return UpdateFailed(
            f"{self._source.path}: row {row}: {error}. {self._how_to_resume()}, or skip rows that "
            "are not valid with on_error='skip'"
        )

    def _how_to_resume(self) -> str:
        return (
            f"The first {self.done} rows are done: correct the file and resume with "
            f"skip_rows={self.done}"
        )
