"""The tables of `glist`: ratios to N both ways, counts of each variant, and the bars."""

from __future__ import annotations

import statistics
from typing import Any

from ..training_tables import table
from .record import shown, verdict

Point = dict[str, Any]
# What groups, order and kept answers together are worth over N, by the locality that was asked for.
WANTED = {0.0: 1.4, 0.3: 2.0, 0.6: 3.0, 0.9: 3.5}
ORDER_WANTED = 0.95
# Reads that differ by less are those of the same work in another order of arrival.
CHANGED = 0.002
# A group of this many requests on average is one.
GROUPED = 1.05


def rates(point: Point, name: str) -> list[float]:
    """Requests/s of each run of a variant."""
    return [run["requests_per_s"] for run in point["variants"].get(name, [])]


def times(point: Point, name: str, base: str) -> list[float]:
    """A variant's rate over that of another one, run by run."""
    return [a / b for a, b in zip(rates(point, name), rates(point, base), strict=False)]


def count(point: Point, name: str, what: str) -> float:
    """The median of a count a request."""
    runs = point["variants"][name]
    return statistics.median(run[what] / run["requests"] for run in runs)


def in_memory(point: Point, name: str) -> float:
    """The share of rows that were in memory: the hit rate of the page cache."""
    here, read = count(point, name, "rows_in_memory"), count(point, name, "rows_read")
    return here / (here + read) if here + read else float("nan")


def of_group(point: Point, name: str) -> float:
    """Requests of a group on average, of those that no kept answer served."""
    groups = count(point, name, "groups")
    served = 1.0 - count(point, name, "kept")
    return max(served, groups) / groups if groups else float("nan")


def _heading(point: Point) -> str:
    known = {key: value for key, value in point.items() if not isinstance(value, dict)}
    return ", ".join(
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in known.items()
    )


def _counts(point: Point) -> list[str]:
    head = ["", "requests/s (range)", "times N1", "times N", "reads a request"]
    head += ["rows in memory", "requests a group", "duplicates a request", "kept a request"]
    rows = []
    for name in point["variants"]:
        rows.append(
            [
                name,
                shown(rates(point, name)),
                shown(times(point, name, "N1"), 2),
                shown(times(point, name, "N"), 2),
                f"{count(point, name, 'reads'):.1f}",
                f"{in_memory(point, name):.1%}",
                f"{of_group(point, name):.1f}",
                f"{count(point, name, 'duplicates'):.3f}",
                f"{count(point, name, 'kept'):.3f}",
            ]
        )
    return table(head, rows)


def _bars(points: list[Point]) -> list[str]:
    """What is wanted, beside what was found."""
    head = [
        "locality",
        "equation 7",
        "CGS / N1 (range)",
        "CGS / N (range)",
        "wanted, of N1",
        "of N",
    ]
    head += ["GS / G (range)", f"wanted {ORDER_WANTED}"]
    rows = []
    for point in points:
        if not {"CGS", "N1", "N", "G", "GS"} <= set(point["variants"]):
            continue
        wanted = WANTED.get(point["locality"], float("nan"))
        over_n1, over_n = times(point, "CGS", "N1"), times(point, "CGS", "N")
        order = times(point, "GS", "G")
        wants = point["kind"] == "repeats"
        rows.append(
            [
                f"{point['kind']} {point['locality']}",
                f"{point['equation_7']:.2f}",
                shown(over_n1, 2),
                shown(over_n, 2),
                verdict(statistics.median(over_n1), wanted) if wants else "-",
                verdict(statistics.median(over_n), wanted) if wants else "-",
                shown(order, 2),
                verdict(statistics.median(order), ORDER_WANTED),
            ]
        )
    return table(head, rows) if rows else []


def changes(point: Point) -> dict[str, bool]:
    """Whether each switch changed what was done, by counts."""
    found: dict[str, bool] = {}
    have = set(point["variants"])
    for name in sorted(have & {"N1", "N", "R"}):
        plain = of_group(point, name) < GROUPED and count(point, name, "kept") == 0.0
        found[f"{name} handles each request alone and keeps nothing"] = plain
    if "G" in have:
        found["G groups requests"] = of_group(point, "G") > GROUPED
    for letter, one, other in (
        ("R", "N", "R"),
        ("S", "N", "S"),
        ("S", "R", "RS"),
        ("S", "G", "GS"),
    ):
        if {one, other} <= have:
            ratio = count(point, other, "reads") / max(count(point, one, "reads"), 1e-9)
            found[f"{letter} changes the reads: {other} has {ratio:.3f} of {one}"] = (
                abs(ratio - 1.0) > CHANGED
            )
    if point.get("kind") == "repeats" and point.get("locality", 0.0) > 0.0 and "CG" in have:
        repeated = count(point, "CG", "kept") + count(point, "CG", "duplicates")
        found["C and G compute repeats once"] = repeated > 0.5 * (1.0 - point["distinct_targets"])
    return found


def markdown(experiment: str, points: list[Point]) -> str:
    """All of an experiment."""
    lines: list[str] = []
    if experiment == "locality":
        lines += _bars(points)
    for point in points:
        lines += ["", _heading(point), "", *_counts(point), ""]
        lines += [f"- {what}: {'yes' if holds else 'NO'}" for what, holds in changes(point).items()]
    return "\n".join(lines)
