"""The picture of the demo: speed, memory and losses, one colour for each source of rows."""

from pathlib import Path
from typing import Any

from neargraph.cli.show import size

from .table import is_busy, rows_of

_COLORS = {"memory": "#e9a23b", "disk": "#1f5a96", "mapped": "#8a5a9e", "pyg": "#6a9f58"}
_REST = "#e4e4e4"
_INK, _FAINT = "#222222", "#666666"
_STYLE = {
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _FAINT,
    "axes.edgecolor": "#bbbbbb",
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
}


def draw(figures: dict[str, Any], out: Path) -> str | None:
    """Writes the picture and returns its path; None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows_of(figures) if "failed" not in row]
    with pyplot.rc_context(_STYLE):
        figure = pyplot.figure(figsize=(13, 5), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, rect=(0, 0, 1, 0.83))
        speed, memory, losses = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.25))
        busy = "\n OTHER PROGRAMS used the processor" if is_busy(figures) else ""
        _draw_speed(speed, rows, _of_mapped(figures) + busy)
        _draw_memory(memory, rows)
        _draw_losses(losses, figures)
        headline, details = _titles(figures, rows)
        figure.text(0.012, 0.925, headline, fontsize=16, weight="bold")
        figure.text(0.012, 0.865, details, fontsize=10.5, color=_FAINT)
        figure.savefig(out, dpi=130)
        pyplot.close(figure)
    return str(out)


def _titles(figures: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[str, str]:
    speed = next(row["seeds_per_second"] for row in rows if row["source"] == "disk")
    share = min(100, round(100 * speed / _memory(rows)))
    fast = "as fast as from memory" if share == 100 else f"{share} % of the speed from memory"
    graph, job, comparison = figures["graph"], figures["training"], figures["comparison"]
    same = comparison["same_losses"] and comparison["same_accuracy"]
    headline = (
        f"From disk, within {size(job['memory'])}: {fast}, "
        f"{'the same losses' if same else 'OTHER LOSSES'}"
    )
    training = job["training"]
    details = (
        f"PyG's GraphSAGE on a graph of {size(graph['disk_bytes'])}: {graph['nodes']:,} nodes with "
        f"{graph['features']} float32 features, {graph['neighbors']:,} neighbours. "
        f"Batches of {training['batch_size']}, fanouts {','.join(map(str, training['fanouts']))}; "
        "the same draws in every run."
    )
    return headline, details


def _draw_bars(axes: Any, rows: list[dict[str, Any]], title: str) -> list[int]:
    """Prepares an axis for a bar for each row, and returns their places."""
    places = list(range(len(rows)))
    axes.set_title(title, loc="left", fontsize=11.5, weight="bold")
    axes.set_ylim(len(rows) - 0.45, -0.65)
    axes.set_yticks([])
    axes.set_xticks([])
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    for place, row in zip(places, rows, strict=True):
        weight = "bold" if row["source"] == "disk" else "normal"
        axes.text(0, place - 0.36, f" {row['name']}", va="center", fontsize=10, weight=weight)
    return places


def _draw_speed(axes: Any, rows: list[dict[str, Any]], note: str) -> None:
    places = _draw_bars(axes, rows, "Training speed: seeds per second")
    most = max(row["seeds_per_second"] for row in rows)
    for place, row in zip(places, rows, strict=True):
        speed = row["seeds_per_second"]
        axes.barh(place, speed, height=0.42, color=_COLORS[row["source"]])
        share = "" if row["source"] == "memory" else f"{100 * speed / _memory(rows):.0f} %"
        _label(axes, speed + 0.02 * most, place, f"{speed:,.0f}", share)
    axes.set_xlim(0, 1.38 * most)
    _foot(axes, rows, note)


def _draw_memory(axes: Any, rows: list[dict[str, Any]]) -> None:
    places = _draw_bars(axes, rows, "Peak memory of the process")
    most = max(row["process_bytes"] for row in rows)
    for place, row in zip(places, rows, strict=True):
        graph, whole = row["graph_bytes"] or 0, row["process_bytes"]
        axes.barh(place, graph, height=0.42, color=_COLORS[row["source"]])
        axes.barh(place, whole - graph, left=graph, height=0.42, color=_REST)
        known = size(graph) if graph else ""
        _label(axes, whole + 0.02 * most, place, known, f"of {size(whole)}")
    axes.set_xlim(0, 1.62 * most)
    _foot(axes, rows, "coloured, bold: graph data; grey: torch, model and the rest")


def _foot(axes: Any, rows: list[dict[str, Any]], text: str) -> None:
    """Draws a remark under the bars."""
    axes.text(0, len(rows) - 0.5, f" {text}", va="top", fontsize=9, color=_FAINT)


def _of_mapped(figures: dict[str, Any]) -> str:
    """The memory limit of the run from mapped rows, in words."""
    mapped = figures["runs"]["mapped"]
    if "failed" in mapped:
        return "np.memmap failed"
    if not mapped["is_limited"]:
        return "np.memmap: its memory was NOT limited"
    return f"np.memmap: limited to {size(mapped['limit_bytes'])}, page cache included"


def _memory(rows: list[dict[str, Any]]) -> float:
    """The speed of the run from memory."""
    return float(next(row["seeds_per_second"] for row in rows if row["source"] == "memory"))


def _label(axes: Any, x: float, y: float, strong: str, faint: str) -> None:
    """Draws a number and its reference at the end of a bar."""
    text = axes.annotate(strong, (x, y), va="center", weight="bold")
    axes.annotate(f" {faint}", xycoords=text, xy=(1, 0.5), va="center", color=_FAINT, fontsize=9.5)


def _draw_losses(axes: Any, figures: dict[str, Any]) -> None:
    runs, comparison = figures["runs"], figures["comparison"]
    curves: list[tuple[str, str, dict[str, Any]]] = [
        ("memory", "from memory", {"linewidth": 7, "alpha": 0.55}),
        ("disk", "from disk", {"linewidth": 1.4}),
        ("mapped", "from np.memmap", {"linewidth": 0, "marker": ".", "markersize": 3}),
    ]
    for source, name, style in curves:
        losses = runs[source].get("losses", [])
        color = "#3c1d4a" if source == "mapped" else _COLORS[source]
        label = f"{name}, {len(losses)} steps"
        axes.plot(range(1, len(losses) + 1), losses, color=color, label=label, **style)
    axes.set_title("Training loss, step by step", loc="left", fontsize=11.5, weight="bold")
    axes.set_xlabel("step")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    same = comparison["same_losses"] and comparison["same_losses_mapped"]
    title = "identical to the last bit:" if same else "THE CURVES DIFFER:"
    axes.legend(title=title, frameon=False, alignment="left", markerscale=2.5)
