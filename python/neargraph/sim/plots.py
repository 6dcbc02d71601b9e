"""Pictures of simulated runs. Each function makes one figure; nothing here reads or writes files.

Times of a run are those of its first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from neargraph.exceptions import MissingDependency

from .runs import PICOS, Runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from .chain import Step

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
# The parts of a command's time, in their order.
WAITS = {
    "before_flash": "wait before the flash",
    "sense": "sense",
    "sampler": "sampler",
    "after_flash": "wait after the flash",
    "transfer": "transfer",
}
_PARTS = {"dram": "DRAM", "host_dram": "host DRAM", "pcie": "PCIe", "sram": "SRAM"}


def throughput(runs: Runs) -> Figure:
    """Plots targets/s by platform, with a dot for each graph."""
    sources = list(dict.fromkeys(runs["source"].tolist()))
    platforms = list(dict.fromkeys(runs["platform"].tolist()))
    figure, axes = _figure(7.5, 1.2 + 0.32 * len(platforms))
    for at, source in enumerate(sources):
        rows = [row for row in runs.rows if row["source"] == source]
        speeds = [row["targets_per_s"] for row in rows]
        places = [platforms.index(row["platform"]) for row in rows]
        axes.plot(speeds, places, "o", label=plain(source), color=_colour(at))
    _rows_of(axes, platforms)
    _speeds(axes.xaxis, runs["targets_per_s"].tolist())
    if len(sources) > 1:
        _legend_beside(axes)
    return figure


def steps(of: Sequence[Step]) -> Figure:
    """Plots targets/s of this host and of each device: a dot with its range, and a ring for flash
    of three bits per cell."""
    figure, axes = _figure(7.5, 1.4 + 0.32 * len(of))
    for place, step in enumerate(of):
        axes.plot([step.least, step.most], [place, place], color=_COLOURS[0], lw=2)
        label = "rate, simulated or measured" if place == 0 else None
        axes.plot(step.targets_per_s, place, "o", color=_COLOURS[0], label=label)
        if step.tlc_targets_per_s is not None:
            is_first = not any(s.tlc_targets_per_s for s in of[:place])
            label = "rate with TLC flash" if is_first else None
            tlc = step.tlc_targets_per_s
            axes.plot(tlc, place, "o", mfc="none", color=_COLOURS[1], label=label)
    _rows_of(axes, [step.name for step in of])
    slow = [step.tlc_targets_per_s for step in of if step.tlc_targets_per_s is not None]
    _speeds(axes.xaxis, [*(step.targets_per_s for step in of), *slow])
    axes.legend(fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def active(runs: Runs) -> Figure:
    """Plots the active dies and channels over time, from the first command of a batch to its last
    result. Each platform has a row, with the time below its name."""
    rows = len(runs)
    figure = _bare(7.5, 0.9 + 0.8 * rows)
    every = figure.subplots(rows, 2, squeeze=False, sharex=True, sharey="col")
    for (left, right), row, run in zip(every, runs.rows, runs.details, strict=True):
        for axes, name, colour in ((left, "dies", 0), (right, "channels", 1)):
            curve = run["batches"][0][name]
            edges = np.linspace(0, 100, len(curve["active"]) + 1)
            axes.stairs(curve["active"], edges, fill=True, color=_colour(colour))
            axes.tick_params(labelsize=7)
        time = _us(len(curve["active"]) * curve["piece"])
        label = f"{row['platform']}\n{time:,.0f} us"
        left.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
    every[0, 0].set(xlim=(0, 100), ylim=(0, None))
    every[0, 1].set(ylim=(0, None))
    every[0, 0].set_title("active dies", fontsize=9)
    every[0, 1].set_title("active channels", fontsize=9)
    figure.supxlabel("% of the time of the batch in the SSD", fontsize=8)
    return figure


def hops(runs: Runs) -> Figure:
    """Plots the time of each hop, in us, from its first sense to its last result. Hops that overlap
    in time run at the same time."""
    figure, axes = _figure(7.0, 1.0 + 0.55 * len(runs))
    named: set[int] = set()
    for place, run in enumerate(runs.details):
        spans = run["batches"][0]["outcome"]["hops"]
        height = 0.8 / max(1, len(spans))
        for hop, (start, end) in enumerate(spans):
            label = None if hop in named else f"hop {hop}"
            named.add(hop)
            y = place + (hop - (len(spans) - 1) / 2) * height
            axes.barh(y, _us(end - start), height, _us(start), color=_colour(hop), label=label)
    axes.set_yticks(range(len(runs)), runs["platform"].tolist())
    axes.set_ylim(len(runs) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("us since the first command")
    if named:
        axes.legend(fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def latency(runs: Runs) -> Figure:
    """Plots the mean time of a command by part, in us, stacked by platform. The second panel leaves
    out the wait before the flash, which can hide the other parts."""
    figure = _bare(max(6.0, 0.9 * len(runs) + 2.5), 5.4)
    whole, rest = figure.subplots(2, sharex=True)
    means = {
        label: [_us(run["batches"][0]["latency"][name]["mean"]) for run in runs.details]
        for name, label in WAITS.items()
    }
    _stack(whole, means)
    _stack(rest, means | {WAITS["before_flash"]: [0.0] * len(runs)})
    whole.set_ylabel("us per command, mean")
    rest.set_ylabel("without the wait before\nthe flash, us")
    _names(rest, runs["platform"].tolist())
    _legend_beside(whole)
    return figure


def energy(runs: Runs) -> Figure:
    """Plots microjoules per target by part, stacked by platform."""
    figure, axes = _figure(max(6.0, 0.9 * len(runs) + 2.5), 3.6)
    spent = {
        _PARTS.get(part, part): [_joules(run, part) * 1e6 for run in runs.details]
        for part in runs.details[0]["batches"][0]["joules"]
    }
    _stack(axes, {part: values for part, values in spent.items() if any(values)})
    axes.set_ylabel("uJ per target")
    _names(axes, runs["platform"].tolist())
    _legend_beside(axes)
    return figure


def sweep(runs: Runs, name: str) -> Figure:
    """Plots targets/s over the swept values: a line for each platform, a panel for each graph.

    Values that are not all numbers are spaced evenly, in the order of the sweep.
    """
    sources = list(dict.fromkeys(runs["source"].tolist()))
    platforms = list(dict.fromkeys(runs["platform"].tolist()))
    values = list(dict.fromkeys(row["value"] for row in runs.rows))
    wide = min(2, len(sources))
    high = -(-len(sources) // wide)
    figure = _bare(2.0 + (3.4 if wide > 1 else 5.0) * wide, 0.8 + 3.0 * high)
    every = figure.subplots(high, wide, squeeze=False, sharey=True).flat
    for axes, source in zip(every, sources, strict=False):
        for at, platform in enumerate(platforms):
            rows = [r for r in runs.rows if (r["platform"], r["source"]) == (platform, source)]
            places = _places([row["value"] for row in rows], values)
            speeds = [row["targets_per_s"] for row in rows]
            style = "-" if at < len(_COLOURS) else "--"
            axes.plot(places, speeds, style, marker="o", ms=4, label=platform, color=_colour(at))
        _values(axes, values)
        axes.set_xlabel(name)
        _speeds(axes.yaxis, runs["targets_per_s"].tolist())
        if len(sources) > 1:
            axes.set_title(plain(source), fontsize=9)
    for axes in every[len(sources) :]:
        axes.set_visible(False)
    figure.legend(*every[0].get_legend_handles_labels(), fontsize=8, loc="outside right upper")
    return figure


def host_curve(host: Mapping[str, Any]) -> Figure:
    """Plots random reads/s of this host's disk over the queue depth."""
    figure, axes = _figure(6.0, 3.2)
    axes.plot(host["depths"], host["reads_per_s"], marker="o", color=_COLOURS[0])
    axes.set_xscale("log", base=2)
    axes.set_xticks(host["depths"], [str(depth) for depth in host["depths"]])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set_xlabel("queue depth (reads in flight)")
    axes.set_ylabel("random reads of 4 KiB per second")
    return figure


def plain(name: str) -> str:
    """Returns a name that matplotlib does not parse as a formula or hide from legends.

    >>> plain("$a$"), plain("_a")
    ('\\\\$a\\\\$', ' _a')
    """
    return (" " if name.startswith("_") else "") + name.replace("$", "\\$")


def tick(value: Any) -> str:
    """Returns a swept value in a few characters. Values below a million are not shortened.

    >>> tick(4096), tick(3.33e8), tick("gin"), tick(None)
    ('4096', '333 M', 'gin', 'no limit')
    """
    if not _are_numbers([value]):
        return "no limit" if value is None else str(value)
    return f"{value:g}" if abs(value) < 1e6 else _short(value)


def _us(picos: float) -> float:
    return picos * PICOS * 1e6


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
    return figure, axes


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


def _stack(axes: Axes, parts: dict[str, list[float]]) -> None:
    """Draws stacked bars: by label, one value for each platform."""
    below = np.zeros(len(next(iter(parts.values()))))
    for at, (label, values) in enumerate(parts.items()):
        axes.bar(range(len(values)), values, 0.7, below, label=label, color=_colour(at))
        below += values
    axes.spines[["top", "right"]].set_visible(False)


def _rows_of(axes: Axes, names: list[str]) -> None:
    """Labels a row for each name, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)


def _speeds(axis: Axis, speeds: list[float]) -> None:
    """Sets up the axis of targets/s. It is logarithmic if slow platforms would look alike."""
    axes = axis.axes
    name = "x" if axis is axes.xaxis else "y"
    if max(speeds) >= 10 * min(speeds):
        from matplotlib.ticker import LogLocator

        axes.set(**{f"{name}scale": "log", f"{name}label": "targets per second, log"})
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        axes.set(**{f"{name}lim": (0, 1.1 * max(speeds)), f"{name}label": "targets per second"})
    axis.set_major_formatter(lambda value, _: _short(value))
    axes.minorticks_off()


def _are_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _places(some: list[Any], values: list[Any]) -> list[float]:
    return some if _are_numbers(values) else [values.index(value) for value in some]


def _values(axes: Axes, values: list[Any]) -> None:
    """Sets up the axis of the swept values."""
    if _are_numbers(values) and min(values) > 0 and max(values) >= 4 * min(values):
        axes.set_xscale("log", base=2)
    axes.set_xticks(_places(values, values), [tick(value) for value in values])
    axes.minorticks_off()


def _names(axes: Axes, names: list[str]) -> None:
    axes.set_xticks(range(len(names)), names)
    if len(names) > 6 or max(map(len, names)) > 9:
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor", fontsize=8)


def _legend_beside(axes: Axes) -> None:
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _short(value: float) -> str:
    """Returns a number in a few characters.

    >>> _short(2.4e9), _short(1_234_567), _short(20_240), _short(123.4)
    ('2.4 G', '1.23 M', '20.2 k', '123')
    """
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g} {letter}"
    return f"{value:.3g}"
