"""The table: means and deviations of both sides, and whether they agree.

What must not live here: runs. The invariant: a row agrees only if every seed of both sides is
there and PyG's mean is at most one standard deviation of PyG's seeds away from ours.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ledger import SIDE_NAMES, Ledger, Run
from .rows import Row

_HEAD = (
    "row",
    "metric",
    "seeds",
    "PyG",
    "ours",
    "difference / deviation",
    "verdict",
    "published",
    "budget peak / budget",
    "RSS PyG, ours",
)


@dataclass(frozen=True)
class Compared:
    """A row with the results of its seeds, by side; the verdict follows from them."""

    row: Row
    found: dict[str, list[dict[str, Any]]]
    failures: list[str]

    def values(self, side: str) -> list[float]:
        """The metric of the seeds of a side."""
        return [float(one["value"]) for one in self.found[side]]

    @property
    def difference(self) -> float | None:
        """How far our mean is from PyG's, in standard deviations of PyG's seeds.

        None where a side lacks results. Where PyG's seeds are all equal, 0 if ours have the same
        mean, else infinite.
        """
        theirs, ours = self.values("pyg"), self.values("ours")
        if len(theirs) < 2 or not ours:
            return None
        gap = statistics.mean(ours) - statistics.mean(theirs)
        deviation = statistics.stdev(theirs)
        if deviation:
            return gap / deviation
        return 0.0 if gap == 0 else float("inf") if gap > 0 else float("-inf")

    @property
    def is_complete(self) -> bool:
        """Whether all seeds of both sides are there."""
        return all(len(self.found[side]) == self.row.seeds for side in SIDE_NAMES)

    @property
    def verdict(self) -> str:
        """What the row says."""
        if self.failures:
            return "failed"
        if not self.is_complete:
            return "incomplete"
        difference = self.difference
        assert difference is not None
        if abs(difference) <= 1:
            return "equal"
        return "better" if difference > 0 else "worse"


def compared(ledger: Ledger, row: Row) -> Compared:
    """A row with what the ledger has of it."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDE_NAMES}
    failures = []
    for side in SIDE_NAMES:
        for seed in range(row.seeds):
            result = ledger.result(Run(row, seed, side))
            if result is not None and "failed" in result:
                failures.append(f"{row.name}, seed {seed}, {side}: {result['failed']}")
            elif result is not None:
                found[side].append(result)
    return Compared(row, found, failures)


def markdown(rows: list[Compared]) -> str:
    """The table; below it the machines, and failures."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
    lines += ["| " + " | ".join(_cells(one)) + " |" for one in rows]
    for notes in (_machines(rows), [f"- {text}" for one in rows for text in one.failures]):
        lines += ["", *notes] if notes else []
    return "\n".join(lines) + "\n"


def _machines(rows: list[Compared]) -> list[str]:
    """What ran where: rows, and sides of them, by the cores of a machine and its torch."""
    places: dict[tuple[int, str], list[str]] = {}
    for one in rows:
        sides = {side: _places(one.found[side]) for side in SIDE_NAMES}
        for place in sorted(set().union(*sides.values())):
            there = [side for side in SIDE_NAMES if place in sides[side]]
            name = one.row.name + ("" if len(there) == len(SIDE_NAMES) else f" ({there[0]})")
            places.setdefault(place, []).append(name)
    return [
        f"- {cores} cores, torch {torch}: {', '.join(names)}"
        for (cores, torch), names in sorted(places.items())
    ]


def _places(found: list[dict[str, Any]]) -> set[tuple[int, str]]:
    return {(int(one["cores"]), str(one["torch"])) for one in found if "torch" in one}


def _cells(one: Compared) -> list[str]:
    row, difference = one.row, one.difference
    counts = [len(one.found[side]) for side in SIDE_NAMES]
    published = row.published
    return [
        row.name,
        row.metric,
        str(counts[0]) if counts[0] == counts[1] else f"{counts[0]}, {counts[1]}",
        _mean(one.values("pyg")),
        _mean(one.values("ours")),
        "" if difference is None else f"{difference:+.2f}",
        one.verdict,
        "" if published is None else f"{published.value:.3f} ({published.source})",
        _budget(one.found["ours"]),
        ", ".join(_most(one.found[side], "rss_peak") for side in SIDE_NAMES),
    ]


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def _most(found: list[dict[str, Any]], name: str) -> str:
    return f"{max(int(one[name]) for one in found) / 1e6:,.0f} MB" if found else "-"


def _budget(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    return f"{_most(found, 'budget_peak')} / {_most(found, 'budget_limit')}"


_BEGIN, _END = "<!-- results -->", "<!-- end of results -->"


def fill(page: Path, table: str) -> None:
    """Puts the table between the marks of a page.

    Raises:
        SystemExit: The page lacks a mark.
    """
    text = page.read_text()
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{page}: the marks {_BEGIN} and {_END} are missing; put them back")
    page.write_text(f"{before}{_BEGIN}\n\n{table}\n{_END}{after}")
