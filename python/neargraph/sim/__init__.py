"""Simulates graph sampling on computational SSDs, with traces of real sampling.

The model is described in docs/explanation/ssd-model.md. Simulations need only NumPy.

Example:
    >>> import neargraph as ng
    >>> runs = ng.sim.simulate(dataset="amazon", platforms=["BG-1", "BG-2"], mode="paper")
    >>> runs["targets_per_s"].shape
    (2,)
"""

from neargraph.sim.ablation import ablation
from neargraph.sim.answer import Answer, Sensitivity
from neargraph.sim.buying import what_would_it_buy
from neargraph.sim.chain import Step
from neargraph.sim.config import DATASETS, MORE_PLATFORMS, PLATFORMS, SWITCHES, config
from neargraph.sim.host import Host, HostRun, measure_host, replay_on_host, simulate_host
from neargraph.sim.inflation import DirectSize, direct_size
from neargraph.sim.presets import PRESETS, preset
from neargraph.sim.report import write_report
from neargraph.sim.requests import Requests, request_stream
from neargraph.sim.room import Room
from neargraph.sim.runs import Runs, paper_ratios, simulate, sweep
from neargraph.sim.trace import Trace
from neargraph.sim.watched import SsdTimes, Watched, watch_loader

__all__ = [
    "DATASETS",
    "MORE_PLATFORMS",
    "PLATFORMS",
    "PRESETS",
    "SWITCHES",
    "Answer",
    "DirectSize",
    "Host",
    "HostRun",
    "Requests",
    "Room",
    "Runs",
    "Sensitivity",
    "SsdTimes",
    "Step",
    "Trace",
    "Watched",
    "ablation",
    "config",
    "direct_size",
    "measure_host",
    "paper_ratios",
    "preset",
    "replay_on_host",
    "request_stream",
    "simulate",
    "simulate_host",
    "sweep",
    "watch_loader",
    "what_would_it_buy",
    "write_report",
]
