"""The pictures of `glist`, with what the publication says beside them.

Its text gives few numbers; what only its pictures show is not repeated here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .glist_tables import count, in_memory, of_group, rates, times

Point = dict[str, Any]
COLOURS = {
    "N1": "#b0b0b0",
    "N": "#6b6b6b",
    "S": "#c9b037",
    "R": "#c05a2e",
    "RS": "#e6a04b",
    "G": "#7fb2d9",
    "GS": "#2b6a99",
    "CG": "#5b9a68",
    "CRS": "#a6c48a",
    "CGS": "#8a5a9e",
    "CGRS": "#3d2b56",
}
# Figure 10c, times N.
PUBLISHED = {"CG": 12.94, "CRS": 12.89}
# Figure 10a, at the highest locality.
PUBLISHED_ORDER = 2.65


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _line(axes: Any, xs: list[float], runs: list[list[float]], name: str, label: str) -> None:
    """A line through medians, with the range of runs."""
    have = [(x, run) for x, run in zip(xs, runs, strict=True) if run]
    if not have:
        return
    xs = [x for x, _ in have]
    middle = [statistics.median(run) for _, run in have]
    axes.plot(xs, middle, "o-", color=COLOURS[name], label=label)
    low, high = [min(run) for _, run in have], [max(run) for _, run in have]
    axes.fill_between(xs, low, high, color=COLOURS[name], alpha=0.2)


def _save(made: Any, axes: list[Any], note: str, path: Path) -> None:
    for one in axes:
        one.grid(alpha=0.3)
    made.text(0.01, -0.02, f"Published: {note}", fontsize=8, va="top", wrap=True)
    made.tight_layout()
    made.savefig(path, dpi=120, bbox_inches="tight")


def cache(points: list[Point], path: Path) -> None:
    """Figure 8."""
    made, axes = _pyplot().subplots(figsize=(7, 4))
    for name in ("N1", "N", "R", "RS"):
        shares = [point["share"] for point in points]
        _line(axes, shares, [rates(point, name) for point in points], name, name)
    axes.set(title="Throughput over the size of the page cache", ylim=(0, None))
    axes.set(xlabel="memory / data", ylabel="requests/s")
    axes.legend(frameon=False)
    _save(made, [axes], "RS > R > N at every size, and R and RS rise with it.", path)


def width(points: list[Point], path: Path) -> None:
    """Figure 9: rates, and what R and RS are worth beside the published gains."""
    made, (above, gains) = _pyplot().subplots(1, 2, figsize=(11, 4))
    sizes = [point["row_bytes"] for point in points]
    for name in ("N1", "N", "R", "RS"):
        _line(above, sizes, [rates(point, name) for point in points], name, name)
    above.set(title="Throughput over the width of a row", ylabel="requests/s", yscale="log")
    for name, published in (("R", 1.195), ("RS", 1.242)):
        _line(gains, sizes, [times(point, name, "N") for point in points], name, f"{name} / N")
        label = f"published {name}, narrow rows"
        gains.axhline(published, color=COLOURS[name], ls=":", label=label)
    gains.axhline(1.0, color="gray", lw=0.8)
    gains.set(title="Gain over N", ylabel="times")
    for axes in (above, gains):
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.minorticks_off()
        axes.set_xlabel("bytes of a row")
        axes.legend(frameon=False, fontsize=8)
    note = "R 1.195 and RS 1.242 times N; at rows of 16 KB R is worth nothing and RS 1.04."
    _save(made, [above, gains], note, path)


def locality(points: list[Point], path: Path) -> None:
    """Figure 10a: variants over equation 7, times either N; 10c: as bars, with hits."""
    kinds = list(dict.fromkeys(point["kind"] for point in points))
    made, grid = _pyplot().subplots(3, len(kinds), figsize=(8 * len(kinds), 12), squeeze=False)
    titles = {"repeats": "targets repeat", "neighbours": "distinct targets share neighbours"}
    for column, kind in enumerate(kinds):
        own = [point for point in points if point["kind"] == kind]
        xs = [point["equation_7"] for point in own]
        for row, base in enumerate(("N1", "N")):
            axes = grid[row][column]
            for name in COLOURS:
                if name != base:
                    _line(axes, xs, [times(point, name, base) for point in own], name, name)
            axes.axhline(1.0, color="gray", lw=0.8)
            label = "published RS, at most"
            axes.axhline(PUBLISHED_ORDER, color=COLOURS["RS"], ls=":", label=label)
            lanes = "one request after the other" if base == "N1" else "as many lanes"
            axes.set(title=f"{titles[kind]}: times {base} ({lanes})", xlabel="equation 7")
            axes.set(ylabel=f"times {base}", ylim=(0, None))
            axes.legend(frameon=False, ncol=3, fontsize=7)
        _bars(grid[2][column], own[-1])
    note = (
        "RS up to 2.65 times N as locality rises (10a). At the locality of 10c: CG 12.94 with "
        "67.86 % of page-cache hits, CRS 12.89 with 94.73 %, CGRS the most."
    )
    _save(made, [axes for row in grid for axes in row], note, path)


def _bars(axes: Any, point: Point) -> None:
    """Each variant over N1 at one point, with the shares of rows and of answers that were hits."""
    names = [name for name in COLOURS if rates(point, name)]
    values = [statistics.median(times(point, name, "N1")) for name in names]
    axes.bar(names, values, color=[COLOURS[name] for name in names])
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        text = f"{value:.2f}\nrows {in_memory(point, name):.0%}"
        if kept := count(point, name, "kept"):
            text += f"\nanswers {kept:.0%}"
        axes.text(place, value, text, ha="center", va="bottom", fontsize=6)
        if name in PUBLISHED:
            axes.plot([place - 0.4, place + 0.4], 2 * [PUBLISHED[name]], ":", color="black")
    axes.set(title=f"At equation 7 = {point['equation_7']:.2f}, with hits; dotted: published")
    axes.set(ylabel="times N1", ylim=(0, 1.25 * max(*values, *PUBLISHED.values())))


def group(points: list[Point], path: Path) -> None:
    """Figure 10b."""
    (point,) = points
    sizes = [int(name) for name in point["variants"] if name.isdigit()]
    made, axes = _pyplot().subplots(figsize=(7, 4))
    runs = [times(point, str(size), str(sizes[0])) for size in sizes]
    reached = [of_group(point, str(size)) for size in sizes]
    _line(axes, sizes, runs, "G", "G")
    axes.set(title=f"Gain of grouping at equation 7 = {point['equation_7']:.2f}", xscale="log")
    ticks = [f"{most}\n({mean:.0f})" for most, mean in zip(sizes, reached, strict=True)]
    axes.set_xticks(sizes, ticks)
    axes.minorticks_off()
    axes.set(xlabel="requests of a group at most (on average)", ylim=(0, None))
    axes.set(ylabel=f"times groups of {sizes[0]}")
    _save(made, [axes], "the gain rises with the group and slows down beyond 200.", path)


def depth(points: list[Point], path: Path) -> None:
    """What order is worth over how many requests wait: rates, and reads."""
    made, (above, reads) = _pyplot().subplots(1, 2, figsize=(11, 4))
    depths = [point["in_flight"] for point in points]
    for name, base in (("S", "N"), ("RS", "R"), ("GS", "G")):
        _line(
            above, depths, [times(point, name, base) for point in points], name, f"{name} / {base}"
        )
        changed = [count(point, name, "reads") / count(point, base, "reads") for point in points]
        reads.plot(depths, changed, "o-", color=COLOURS[name], label=f"{name} / {base}")
    above.set(title="Gain of reordering", ylabel="times")
    reads.set(title="Reads with it", ylabel="of those without")
    for axes in (above, reads):
        axes.axhline(1.0, color="gray", lw=0.8)
        axes.set_xscale("log")
        axes.set_xticks(depths, [f"{one:,}" for one in depths])
        axes.minorticks_off()
        axes.set(xlabel="requests under way", ylim=(0, None))
        axes.legend(frameon=False)
    _save(made, [above, reads], "RS up to 2.65 times N, over a queue without a known bound.", path)


PLOTS: dict[str, Callable[[list[Point], Path], None]] = {
    "cache": cache,
    "width": width,
    "locality": locality,
    "group": group,
    "depth": depth,
}
