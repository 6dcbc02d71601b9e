"""The loss curves as a PNG."""

from __future__ import annotations

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
    steps = range(1, len(disk) + 1)
    axes.plot(
        range(1, len(memory) + 1),
        memory,
        color="#f2b56b",
        linewidth=5,
        label="everything in memory",
    )
    axes.plot(steps, disk, color="#1f4e79", linewidth=1.2, label="from disk")
    axes.set_xlabel("step")
    axes.set_ylabel("training loss (cross-entropy)")
    axes.set_title(title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, dpi=120)
    pyplot.close(figure)
    return True
