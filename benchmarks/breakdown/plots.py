"""The pictures of the breakdown."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

Report = dict[str, Any]
COLOURS = {
    "open": "#9a9a9a",
    "GraphI/O": "#c05a2e",
    "GraphPrep": "#e6a04b",
    "BatchI/O": "#2b6a99",
    "BatchPrep": "#7fb2d9",
    "PureInfer": "#3a3a3a",
}
# Sets of Figure 19 and what was published of their counterparts.
SHOWN = {"chameleon": ("chmleon", 1.7), "cnr-2000": ("youtube", 114.5)}


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def figure_3a(found: dict[str, Report], path: Path) -> None:
    """Shares of the stages until the first answer, sets from left to right."""
    made, both = _pyplot().subplots(2, 1, figsize=(10, 7), sharex=True)
    names = list(found)
    titles = {
        "host": "Text, sort, sample on the host: share of the time until the first answer",
        "ours": "This system, store imported before: share of the time until the first answer",
    }
    for axes, (kind, title) in zip(both, titles.items(), strict=True):
        bottoms = [0.0] * len(names)
        for stage, colour in COLOURS.items():
            parts = [found[name][kind] for name in names]
            if stage not in parts[0]:
                continue
            heights = [100 * part[stage] / sum(part.values()) for part in parts]
            axes.bar(names, heights, bottom=bottoms, color=colour, label=stage, width=0.7)
            bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
        for place, name in enumerate(names):
            whole = sum(found[name][kind].values())
            text = f"{whole:.1f} s" if whole >= 1.0 else f"{1e3 * whole:.0f} ms"
            axes.text(place, 101, text, ha="center", va="bottom", fontsize=7)
        axes.set(title=title, ylabel="%", ylim=(0, 109))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        axes.tick_params(axis="x", labelrotation=45, labelsize=8)
    made.savefig(path, dpi=120, bbox_inches="tight")


def preparation(one: Report, kind: str, batch: int) -> float:
    """Median milliseconds of preparing a batch; of the first one with all that it waits for."""
    before = ("graph_io", "graph_prep", "batch_io") if kind == "host" else ("open",)
    values = []
    for run in one["runs"][kind]:
        parts = run["batches"][batch]
        waits = sum(run[key] for key in before) if batch == 0 else 0.0
        values.append(1e3 * (waits + parts["prep"] + parts["io"]))
    return statistics.median(values)


def figure_19(results: list[Report], path: Path) -> None:
    """Preparation of one batch after another, a small set and a large one."""
    shown = [one for one in results if one["set"] in SHOWN]
    if not shown:
        return
    made, all_axes = _pyplot().subplots(1, len(shown), figsize=(5 * len(shown), 4), squeeze=False)
    for axes, one in zip(all_axes[0], shown, strict=True):
        count = len(one["runs"]["host"][0]["batches"])
        batches = list(range(count))
        lines = {}
        for kind, name in (("host", "host"), ("serve", "this system")):
            lines[kind] = [preparation(one, kind, batch) for batch in batches]
            axes.plot([batch + 1 for batch in batches], lines[kind], marker="o", label=name)
        other, published = SHOWN[one["set"]]
        ratio = lines["host"][0] / lines["serve"][0]
        axes.set(
            title=f"{one['set']}: first batch {ratio:.1f} times faster\n"
            f"(published for {other}: {published})",
            xlabel="batch",
            ylabel="batch preparation, ms",
            yscale="log",
            xticks=[batch + 1 for batch in batches],
        )
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    made.tight_layout()
    made.savefig(path, dpi=120)
