"""Pictures of a run as PNG, by matplotlib: losses, the metric, bytes read."""

from pathlib import Path

from .curves import Curve
from .result import TrainResult


def write_plots(folder: Path, result: TrainResult, metric: str) -> str | None:
    """Writes ``loss.png``, ``metric.png`` and ``bytes.png``.

    Args:
        folder: The directory, which is created if it does not exist.
        result: The result of the run.
        metric: The metric to draw.

    Returns:
        None, or a note if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        return "no plots: matplotlib is not installed; pip install 'neargraph[plot]'"
    folder.mkdir(exist_ok=True)
    rows = result.history
    epochs = [row["epoch"] for row in rows]
    measured = [row["epoch"] for row in rows if f"val_{metric}" in row]
    read, useful = ([row[f"{name}_bytes"] / 1e6 for row in rows] for name in ("read", "useful"))
    steps = list(range(1, len(result.losses) + 1))
    bytes_title = "MB read from disk, and MB used by batches"
    pictures: dict[str, tuple[str, str, str, list[Curve]]] = {
        "loss": ("Loss by step", "step", "loss", [("loss", steps, result.losses)]),
        "metric": (
            f"Validation: {metric}",
            "epoch",
            metric,
            [("val", measured, result.values(metric))],
        ),
        "bytes": (bytes_title, "epoch", "MB", [("read", epochs, read), ("used", epochs, useful)]),
    }
    for name, (title, x_label, y_label, curves) in pictures.items():
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.add_subplot()
        for label, places, values in curves:
            axes.plot(places, values, label=label, marker="." if len(values) < 60 else "")
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        # Steps and epochs are whole numbers.
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if len(curves) > 1:
            axes.legend()
        figure.savefig(folder / f"{name}.png", dpi=120)
    return None
