"""Checks of the compiled files in a store: epochs and direct layouts.

The invariant: every file is either read, or listed among those that were not checked.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from neargraph import _core
from neargraph.exceptions import CompiledOutdated, NeargraphError
from neargraph.loader.compiled import SUFFIX, file_name
from neargraph.loader.direct import list_direct
from neargraph.reader import Version

Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total)."""

_Report = dict[str, Any]


def verify_compiled(
    report: _Report,
    path: str | Path,
    snapshot: Version | None,
    progress: Progress,
    bytes_per_s: int | None = None,
) -> None:
    """Reads all files below ``STORE/compiled`` and adds the findings to a report.

    It adds ``compiled_epochs`` and ``direct_layouts`` (numbers of files read) and ``not_checked``
    (files with reasons). It appends each damage with file and place to ``problems``, and updates
    ``ok``.

    Args:
        report: The report about the store itself, with ``ok``.
        path: Path of the store.
        snapshot: The newest version, which direct layouts are compared with. None: the store is
            damaged, and direct layouts are not checked.
        progress: Called with (phase, done, total).
        bytes_per_s: Maximum rate of reading. None: no limit.
    """
    directory = Path(path) / "compiled"
    if not directory.is_dir():
        return
    report |= {"compiled_epochs": 0, "direct_layouts": 0, "not_checked": []}
    problems = report.setdefault("problems", [])
    before = len(problems)
    pace = _Pace(progress, bytes_per_s)
    _verify_epochs(directory, report, pace)
    _verify_direct(directory, snapshot, report, pace)
    for partial in sorted(directory.glob("*.partial")):
        what = (
            "unfinished: `neargraph compile` is running or was killed; the next `neargraph "
            "compile` replaces this file"
        )
        report["not_checked"].append({"file": f"compiled/{partial.name}", "what": what})
    report["ok"] = report["ok"] and len(problems) == before


def _verify_epochs(directory: Path, report: _Report, pace: "_Pace") -> None:
    sets: dict[tuple[tuple[int, int], Any], dict[int, str]] = {}
    for name in sorted(entry.name for entry in directory.glob(f"*{SUFFIX}")):
        file = f"compiled/{name}"
        try:
            epoch = _core.EpochFile(str(directory), name)
            damaged = epoch.verify(pace.of("epochs", directory / name))
        except CompiledOutdated as error:
            report["not_checked"].append({"file": file, "what": str(error)})
            continue
        except NeargraphError as error:
            report["problems"].append({"file": file, "what": str(error)})
            continue
        report["compiled_epochs"] += 1
        report["problems"] += [
            {"file": file, "batch": batch, "byte": byte, "what": what}
            for batch, byte, what in damaged
        ]
        which = (tuple(sorted(epoch.key.items())), epoch.hot_bytes, epoch.hot_digest)
        sets.setdefault((epoch.epochs, which), {})[epoch.epoch] = name
    for (epochs, _), found in sets.items():
        report["problems"] += _missing(range(*epochs), found)


def _missing(epochs: range, found: dict[int, str]) -> Iterator[dict[str, Any]]:
    """Yields a problem for each epoch of a set that is missing."""
    name = min(found.values())
    for epoch in epochs:
        if epoch not in found:
            file = f"compiled/{file_name(name.rsplit('.', 2)[0], epoch)}"
            what = (
                f"epoch {epoch}, which was compiled together with {name}, is missing; run "
                "`neargraph compile` again"
            )
            yield {"file": file, "what": what}


def _verify_direct(
    directory: Path, snapshot: Version | None, report: _Report, pace: "_Pace"
) -> None:
    wanted = "" if snapshot is None else snapshot.fingerprint
    for facts in list_direct(directory.parent, wanted):
        file = f"compiled/{facts['file']}"
        if "problem" in facts:
            report["problems"].append({"file": file, "what": facts["problem"]})
        elif snapshot is None or not facts["is_current"]:
            other = "the file belongs to another version of the store"
            why = "the store is damaged" if snapshot is None else other
            what = f"only the header of the file is checked: {why}"
            report["not_checked"].append({"file": file, "what": what})
        else:
            report["direct_layouts"] += 1
            done = pace.of("direct", directory / facts["file"])
            try:
                _core.verify_direct(snapshot.version, str(directory), facts["file"], done)
            except NeargraphError as error:
                report["problems"].append({"file": file, "what": str(error)})


class _Pace:
    """Progress that waits if reading is faster than a given rate."""

    def __init__(self, progress: Progress, bytes_per_s: int | None) -> None:
        self._progress, self._bytes_per_s = progress, bytes_per_s

    def of(self, phase: str, file: Path) -> Callable[[int, int], None]:
        """Returns the function to call with (done, total) for a file."""
        size, begin = file.stat().st_size, time.monotonic()

        def call(done: int, total: int) -> None:
            if self._bytes_per_s is not None and total:
                due = begin + size * done / total / self._bytes_per_s
                time.sleep(max(0.0, due - time.monotonic()))
            self._progress(phase, done, total)

        return call
