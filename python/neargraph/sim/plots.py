"""Pictures of simulated runs. Each function makes one figure; nothing here reads or writes files.

Times of a run are those of its first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .runs import PICOS, Runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = [
    "#3b6ea5",
    "#c8553d",
    "#5a9367",
    "#8e6bb0",
    "#d9a441",
    "#4a4a4a",
    "#7fb7be",
    "#b36a8e",
    "#a3b04c",
]
_WAITS = {
    "before_flash": "wait before the flash",
    "sense": "sense",
    "sampler": "sampler",
    "after_flash": "wait after the flash",
    "transfer": "transfer",
}


def throughput(runs: Runs) -> Figure:
    """Targets a second by platform; side by side where there are several graphs."""
    sources = list(dict.fromkeys(runs["source"].tolist()))
    platforms = list(dict.fromkeys(runs["platform"].tolist()))
    figure, axes = _figure(max(6.0, 0.9 * len(platforms) + 1.5), 3.6)
    width = 0.8 / len(sources)
    for at, source in enumerate(sources):
        speeds = [row["targets_per_s"] for row in runs.rows if row["source"] == source]
        places = np.arange(len(platforms)) + (at - (len(sources) - 1) / 2) * width
        bars = axes.bar(places, speeds, width, label=source, color=_COLOURS[at % len(_COLOURS)])
        if len(sources) == 1:
            axes.bar_label(bars, labels=[_short(speed) for speed in speeds], fontsize=8, padding=2)
    axes.set_xticks(range(len(platforms)), platforms)
    axes.set_ylabel("targets a second")
    axes.margins(y=0.12)
    _narrow_names(axes, platforms)
    if len(sources) > 1:
        axes.legend(fontsize=8)
    return figure


def active(runs: Runs) -> Figure:
    """Dies that sense and channels that send, over the time of a batch: a row a platform."""
    rows = len(runs)
    figure = _bare(7.5, 1.0 + 1.0 * rows)
    every = figure.subplots(rows, 2, squeeze=False)
    for (left, right), row, run in zip(every, runs.rows, runs.details, strict=True):
        for axes, name, colour in ((left, "dies", 0), (right, "channels", 1)):
            curve = run["batches"][0][name]
            counts = np.array(curve["active"])
            times = np.arange(len(counts)) * curve["piece"] * PICOS * 1e6
            axes.fill_between(times, counts, step="post", color=_COLOURS[colour], linewidth=0)
            axes.set_xlim(0, times[-1] if len(times) > 1 else 1)
            axes.set_ylim(bottom=0)
            axes.tick_params(labelsize=7)
        left.set_ylabel(row["platform"], rotation=0, ha="right", va="center", fontsize=8)
    every[0, 0].set_title("dies that sense", fontsize=9)
    every[0, 1].set_title("channels that send", fontsize=9)
    for axes in every[-1]:
        axes.set_xlabel("us", fontsize=8)
    return figure


def hops(runs: Runs) -> Figure:
    """From the first sense of each hop to its last result, in us: bars over each other are hops
    under way together."""
    figure, axes = _figure(7.0, 1.0 + 0.55 * len(runs))
    for place, run in enumerate(runs.details):
        spans = run["batches"][0]["outcome"]["hops"]
        height = 0.8 / max(1, len(spans))
        for hop, (start, end) in enumerate(spans):
            left, length = start * PICOS * 1e6, (end - start) * PICOS * 1e6
            label = f"hop {hop}" if place == 0 else None
            y = place + (hop - (len(spans) - 1) / 2) * height
            axes.barh(y, length, height, left, color=_COLOURS[hop % len(_COLOURS)], label=label)
    axes.set_yticks(range(len(runs)), runs["platform"].tolist())
    axes.invert_yaxis()
    axes.set_xlabel("us")
    axes.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def latency(runs: Runs) -> Figure:
    """Where a command spends its life on average, in us, stacked by platform."""
    figure, axes = _figure(max(6.0, 0.9 * len(runs) + 2.5), 3.6)
    below = np.zeros(len(runs))
    for at, (name, label) in enumerate(_WAITS.items()):
        means = [run["batches"][0]["latency"][name]["mean"] * PICOS * 1e6 for run in runs.details]
        axes.bar(range(len(runs)), means, 0.7, below, label=label, color=_COLOURS[at])
        below += means
    axes.set_ylabel("us a command, mean")
    _names(axes, runs)
    _legend_beside(axes)
    return figure


def energy(runs: Runs) -> Figure:
    """Joules of a target by part, stacked by platform."""
    figure, axes = _figure(max(6.0, 0.9 * len(runs) + 2.5), 3.6)
    below = np.zeros(len(runs))
    parts = list(runs.details[0]["batches"][0]["joules"])
    for at, part in enumerate(parts):
        spent = np.array([_joules(run, part) for run in runs.details]) * 1e6
        if not spent.any():
            continue
        colour = _COLOURS[at % len(_COLOURS)]
        axes.bar(range(len(runs)), spent, 0.7, below, label=part.replace("_", " "), color=colour)
        below += spent
    axes.set_ylabel("uJ a target")
    _names(axes, runs)
    _legend_beside(axes)
    return figure


def sweep(runs: Runs, name: str) -> Figure:
    """Targets a second over the values of what was swept, a line for each platform and graph."""
    figure, axes = _figure(7.0, 3.8)
    lines: dict[str, list[tuple[float, float]]] = {}
    several = len(set(runs["source"].tolist())) > 1
    for row in runs.rows:
        label = f"{row['platform']}, {row['source']}" if several else row["platform"]
        lines.setdefault(label, []).append((row["value"], row["targets_per_s"]))
    for at, (label, points) in enumerate(lines.items()):
        values, speeds = zip(*points, strict=True)
        style = "-" if at < len(_COLOURS) else "--"
        colour = _COLOURS[at % len(_COLOURS)]
        axes.plot(values, speeds, style, marker="o", markersize=4, label=label, color=colour)
    ticks = sorted(set(runs["value"].tolist()))
    if min(ticks) > 0 and max(ticks) / min(ticks) >= 4:
        axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(name)
    axes.set_ylabel("targets a second")
    axes.set_ylim(bottom=0)
    _legend_beside(axes)
    return figure


def host_curve(host: dict[str, Any]) -> Figure:
    """Random reads a second of this host's disk over the reads under way."""
    figure, axes = _figure(6.0, 3.2)
    axes.plot(host["depths"], host["reads_per_s"], marker="o", color=_COLOURS[0])
    axes.set_xscale("log", base=2)
    axes.set_xticks(host["depths"], [str(depth) for depth in host["depths"]])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("reads under way")
    axes.set_ylabel("random reads of 4 KiB a second")
    return figure


def _joules(run: dict[str, Any], part: str) -> float:
    batches = run["batches"]
    spent = sum(batch["joules"][part] for batch in batches)
    return float(spent / sum(batch["targets"] for batch in batches))


def _bare(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            'pictures need matplotlib: python -m pip install "neargraph[plot]"'
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = _bare(width, height)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    return figure, axes


def _names(axes: Axes, runs: Runs) -> None:
    names = runs["platform"].tolist()
    axes.set_xticks(range(len(names)), names)
    _narrow_names(axes, names)


def _narrow_names(axes: Axes, names: list[str]) -> None:
    if len(names) > 6 or max(map(len, names)) > 9:
        axes.tick_params(axis="x", labelrotation=30, labelsize=8)


def _legend_beside(axes: Axes) -> None:
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _short(value: float) -> str:
    """A number in a few characters.

    >>> _short(1_234_567), _short(20_240), _short(123.4)
    ('1.23 M', '20.2 k', '123')
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g} {letter}"
    return f"{value:.3g}"
