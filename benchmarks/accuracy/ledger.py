"""Results of runs, one a line of JSON, and which of them are still wanted.

The invariant: a line is appended whole, in one write, after its run has ended; a line cut short by
a crash is set aside and its run is done again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import Row

SIDE_NAMES = ("pyg", "ours")


@dataclass(frozen=True)
class Run:
    """One seed of one row on one side."""

    row: Row
    seed: int
    side: str

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What tells results apart: a row whose settings changed has another digest."""
        return (self.row.name, self.row.digest, self.seed, self.side)


class Ledger:
    """The results in a file.

    Attributes:
        damaged: Lines that are not a result.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.damaged = path, 0
        self._found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
                key = tuple(entry[name] for name in ("row", "digest", "seed", "side"))
            except (ValueError, KeyError, TypeError):
                self.damaged += 1
                continue
            self._found[key] = entry

    def result(self, run: Run) -> dict[str, Any] | None:
        """What a run gave, or its failure; None where it was not run with these settings."""
        return self._found.get(run.key)

    def succeeded(self, run: Run) -> dict[str, Any] | None:
        """What a run gave; None where it is missing or failed."""
        found = self.result(run)
        return None if found is None or "failed" in found else found

    def missing(self, runs: list[Run]) -> list[Run]:
        """The runs without a result; those that failed are tried again."""
        return [run for run in runs if self.succeeded(run) is None]

    def add(self, run: Run, result: dict[str, Any]) -> None:
        """Appends a result, or a failure under ``failed``."""
        name, digest, seed, side = run.key
        entry = {"row": name, "digest": digest, "seed": seed, "side": side, **result}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A line that a crash cut short must not take this one with it.
        start = b"" if self._ends_whole() else b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, start + json.dumps(entry).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        self._found[run.key] = entry

    def _ends_whole(self) -> bool:
        if not self.path.exists() or not self.path.stat().st_size:
            return True
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def runs_of(rows: list[Row], seeds: int | None) -> list[Run]:
    """All runs in the order in which they are done: a row is complete before the next begins."""
    return [
        Run(row, seed, side)
        for row in rows
        for seed in range(row.seeds if seeds is None else min(seeds, row.seeds))
        for side in SIDE_NAMES
    ]


def estimate(ledger: Ledger, missing: list[Run]) -> float:
    """Seconds that the missing runs will take: as their row's others did, else the row's guess."""
    total = 0.0
    for run in missing:
        others = (ledger.succeeded(Run(run.row, seed, run.side)) for seed in range(run.row.seeds))
        known = [float(found["seconds"]) for found in others if found is not None]
        total += sum(known) / len(known) if known else run.row.seconds / len(SIDE_NAMES)
    return total
