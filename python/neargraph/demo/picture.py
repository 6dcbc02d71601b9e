"""The loss curves as a PNG."""

from collections.abc import Sequence
from pathlib import Path


def draw_losses(disk: Sequence[float], memory: Sequence[float], title: str, out: Path) -> bool:
    """Draws both curves; False where matplotlib is not installed.

    The in-memory curve is a wide band under the one from disk, so that both show where they agree.
    """
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for losses, color, width, label in (
        (memory, "#f2b56b", 5, "everything in memory"),
        (disk, "#1f4e79", 1.2, "from disk"),
    ):
        steps = range(1, len(losses) + 1)
        axes.plot(steps, losses, color=color, linewidth=width, label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss (cross-entropy)")
    axes.set_title(title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, dpi=120)
    pyplot.close(figure)
    return True
