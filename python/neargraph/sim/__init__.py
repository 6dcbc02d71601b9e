"""What a computational SSD would buy: simulated devices on real sampling traces.

This module is a list of names; see docs/ssd-model.md. Running needs NumPy alone.

Example:
    >>> import neargraph as ng
    >>> runs = ng.sim.simulate(dataset="amazon", platforms=["BG-1", "BG-2"], mode="paper")
    >>> runs["targets_per_s"].shape
    (2,)
"""

from neargraph.sim.config import DATASETS, PLATFORMS, SWITCHES, config
from neargraph.sim.runs import Runs, paper_ratios, simulate, sweep
from neargraph.sim.trace import Trace

__all__ = [
    "DATASETS",
    "PLATFORMS",
    "SWITCHES",
    "Runs",
    "Trace",
    "config",
    "paper_ratios",
    "simulate",
    "sweep",
]
