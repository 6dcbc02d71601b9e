"""Results on the way: what was measured is kept, and a command that is run again goes on there."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import machine

Report = dict[str, Any]


class Record:
    """A file of results by key. Another commit or other settings begin anew."""

    def __init__(self, path: Path, benchmark: str, settings: Report, fresh: bool = False) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        about = machine.about(path.parent)
        self.report: Report = {"benchmark": benchmark, "about": about, "settings": settings}
        self.report["results"] = {}
        self._start = time.monotonic()
        if path.exists() and not fresh:
            old = json.loads(path.read_text())
            if old.get("settings") == settings and old["about"]["commit"] == about["commit"]:
                self.report = old

    @property
    def results(self) -> Report:
        """What is known, by key."""
        found: Report = self.report["results"]
        return found

    def once(self, key: str, measure: Callable[[], Any]) -> Any:
        """The result of a key, which is measured unless it is known."""
        if key not in self.results:
            self.say(key)
            self.results[key] = measure()
            self.save()
        return self.results[key]

    def save(self) -> None:
        """Writes the file."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.report, indent=1) + "\n")
        part.rename(self.path)

    def say(self, text: str) -> None:
        """One line of progress."""
        seconds = time.monotonic() - self._start
        print(f"[{seconds:6.1f} s] {text}", file=sys.stderr, flush=True)


def spread(values: Sequence[float]) -> list[float]:
    """[median, least, most]."""
    return [statistics.median(values), min(values), max(values)]


def shown(values: Sequence[float], digits: int = 0) -> str:
    """The same as text."""
    if not values:
        return "-"
    middle, least, most = spread(values)
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def verdict(found: float, wanted: float, at_least: bool = True) -> str:
    """Whether a bar is met."""
    met = found >= wanted if at_least else found <= wanted
    return f"{'>=' if at_least else '<='} {wanted:g}: {'met' if met else 'missed'}"
