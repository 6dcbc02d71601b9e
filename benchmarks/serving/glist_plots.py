"""The pictures of `glist`, with what the publication says beside them.

Its text gives few numbers; what only its pictures show is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Point = dict[str, Any]
COLOURS = {
    "N": "#6b6b6b",
    "R": "#c05a2e",
    "RS": "#e6a04b",
    "G": "#7fb2d9",
    "GS": "#2b6a99",
    "CG": "#5b9a68",
    "CRS": "#a6c48a",
    "CGS": "#8a5a9e",
    "CGRS": "#3d2b56",
}


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _rate(point: Point, name: str) -> list[float] | None:
    own = point.get(name)
    rate: list[float] | None = own["requests_per_s"] if isinstance(own, dict) else None
    return rate


def _lines(axes: Any, points: list[Point], across: str, names: tuple[str, ...]) -> None:
    """A line with its range for each variant."""
    for name in names:
        have = [(point[across], rate) for point in points if (rate := _rate(point, name))]
        if not have:
            continue
        xs = [x for x, _ in have]
        axes.plot(xs, [rate[0] for _, rate in have], "o-", color=COLOURS[name], label=name)
        low, high = [rate[1] for _, rate in have], [rate[2] for _, rate in have]
        axes.fill_between(xs, low, high, color=COLOURS[name], alpha=0.2)


def _save(made: Any, axes: Any, note: str, path: Path) -> None:
    for one in axes:
        one.grid(alpha=0.3)
    made.text(0.01, -0.02, f"Published: {note}", fontsize=8, va="top", wrap=True)
    made.tight_layout()
    made.savefig(path, dpi=120, bbox_inches="tight")


def cache(points: list[Point], path: Path) -> None:
    """Figure 8."""
    made, axes = _pyplot().subplots(figsize=(7, 4))
    _lines(axes, points, "share", ("N", "R", "RS"))
    axes.set(
        title="Throughput over the size of the page cache",
        xlabel="memory / data",
        ylabel="requests/s",
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    _save(made, [axes], "RS > R > N at every size, and R and RS rise with it.", path)


def width(points: list[Point], path: Path) -> None:
    """Figure 9: rates, and what R and RS are worth beside the published gains."""
    made, (rates, gains) = _pyplot().subplots(1, 2, figsize=(11, 4))
    _lines(rates, points, "row_bytes", ("N", "R", "RS"))
    rates.set(title="Throughput over the width of a row", ylabel="requests/s", yscale="log")
    for name, published in (("R", 1.195), ("RS", 1.242)):
        have = [
            (point["row_bytes"], mine[0] / base[0])
            for point in points
            if (mine := _rate(point, name)) and (base := _rate(point, "N"))
        ]
        gains.plot(*zip(*have, strict=True), "o-", color=COLOURS[name], label=f"{name} / N")
        gains.axhline(published, color=COLOURS[name], ls=":", label=f"published {name}, narrow")
    gains.axhline(1.0, color="gray", lw=0.8)
    gains.set(title="Gain over N", ylabel="times")
    sizes = [point["row_bytes"] for point in points]
    for axes in (rates, gains):
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.minorticks_off()
        axes.set_xlabel("bytes of a row")
        axes.legend(frameon=False)
    note = "R 1.195 and RS 1.242 times N; at rows of 16 KB R is worth nothing and RS 1.04."
    _save(made, [rates, gains], note, path)


def locality(points: list[Point], path: Path) -> None:
    """Figure 10a: variants over equation 7; Figure 10c: the same as bars, with hits."""
    kinds = list(dict.fromkeys(point["kind"] for point in points))
    made, grid = _pyplot().subplots(2, len(kinds), figsize=(8 * len(kinds), 8), squeeze=False)
    titles = {
        "repeats": "targets repeat",
        "neighbours": "distinct targets share neighbours",
    }
    for column, kind in enumerate(kinds):
        own = [point for point in points if point["kind"] == kind]
        above, below = grid[0][column], grid[1][column]
        for name, colour in COLOURS.items():
            have = [
                (point["equation_7"], mine[0] / base[0])
                for point in own
                if name != "N" and (mine := _rate(point, name)) and (base := _rate(point, "N"))
            ]
            if have:
                above.plot(*zip(*have, strict=True), "o-", color=colour, label=name)
        above.axhline(1.0, color="gray", lw=0.8)
        above.set(title=f"Times N: {titles[kind]}", xlabel="equation 7", ylabel="times N")
        above.set_ylim(bottom=0)
        above.legend(frameon=False, ncol=2)
        _bars(below, own[-1])
    note = (
        "RS up to 2.65 times N as locality rises (10a). At the locality of 10c: CG 12.94 with "
        "67.86 % of page-cache hits, CRS 12.89 with 94.73 %, CGRS the most."
    )
    _save(made, [axes for row in grid for axes in row], note, path)


def _bars(axes: Any, point: Point) -> None:
    """Each variant over N at one point, with the shares of rows and of answers that were hits."""
    names = [name for name in COLOURS if _rate(point, name)]
    base = point["N"]["requests_per_s"][0]
    values = [point[name]["requests_per_s"][0] / base for name in names]
    axes.bar(names, values, color=[COLOURS[name] for name in names])
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        own = point[name]
        text = f"{value:.2f}"
        if own.get("rows_served", [0.0])[0]:
            text += f"\nrows {own['rows_cached'][0] / own['rows_served'][0]:.0%}"
        if own.get("hits", [0.0])[0]:
            text += f"\nanswers {own['hits'][0] / own['asked'][0]:.0%}"
        axes.text(place, value, text, ha="center", va="bottom", fontsize=6)
    axes.set(title=f"At equation 7 = {point['equation_7']:.2f}, with hits", ylabel="times N")
    axes.set_ylim(0, 1.25 * max(values))


def group(points: list[Point], path: Path) -> None:
    """Figure 10b."""
    (point,) = points
    sizes = [int(name) for name in point if name.isdigit()]
    rates = [point[str(size)]["requests_per_s"] for size in sizes]
    made, axes = _pyplot().subplots(figsize=(7, 4))
    base = rates[0][0]
    axes.plot(sizes, [rate[0] / base for rate in rates], "o-", color=COLOURS["G"])
    low, high = [rate[1] / base for rate in rates], [rate[2] / base for rate in rates]
    axes.fill_between(sizes, low, high, color=COLOURS["G"], alpha=0.2)
    axes.set(
        title=f"Gain of grouping at equation 7 = {point['equation_7']:.2f}",
        xlabel="requests of a group",
        ylabel="times groups of 1",
        xscale="log",
        ylim=(0, None),
    )
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    _save(made, [axes], "the gain rises with the group and slows down beyond 200.", path)


PLOTS: dict[str, Callable[[list[Point], Path], None]] = {
    "cache": cache,
    "width": width,
    "locality": locality,
    "group": group,
}
