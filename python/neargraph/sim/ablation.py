"""Measures how the costs that a publication leaves out change the ranking of platforms."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from neargraph.exceptions import UnsupportedArgument

from .config import SWITCHES, config, switched
from .runs import Runs, given_trace, in_parallel, simulate
from .trace import Trace

PLACEMENT = "page placement"


def ablation(
    trace: Trace | None = None,
    *,
    dataset: str | None = None,
    platforms: str | Sequence[str] = "all",
    **how: Any,
) -> Runs:
    """Simulates mode `detailed`, with one cost at a time as in mode `paper`.

    Args:
        trace: The trace to simulate.
        dataset: One of `DATASETS`, instead of a trace.
        platforms: Names of platforms, or "all".
        how: Further arguments of `simulate`.

    Returns:
        Runs with a column ``switch``, the cost that is left out: "none", each of `SWITCHES`, "page
        placement" (random instead of striped), or "all".

    Example:
        >>> found = ablation(dataset="ppi", platforms=["BG-1", "BG-2"])
        >>> len(set(found["switch"].tolist())) == len(SWITCHES) + 3
        True
    """
    shape = [name for name in ("batches", "batch_size", "fanouts", "seed") if name in how]
    trace = given_trace(trace, dataset, {name: how.pop(name) for name in shape})
    if "placement" in how:
        raise UnsupportedArgument("an ablation sets placement= itself; drop placement=")
    detailed, paper = config("detailed"), config("paper")
    everything = detailed
    for switch in SWITCHES:
        everything = switched(everything, switch, paper)
    devices = {"none": detailed}
    devices |= {switch: switched(detailed, switch, paper) for switch in SWITCHES}
    devices |= {PLACEMENT: detailed, "all": everything}

    def one(switch: str) -> Runs:
        # Computed striping works for every page size, so one cost changes at a time.
        placement = "random" if switch in (PLACEMENT, "all") else "striped"
        placed: dict[str, Any] = {"device": devices[switch], "placement": placement}
        runs = simulate(trace, platforms=platforms, mode="detailed", **placed, **how)
        return runs.with_column("switch", switch)

    return sum(in_parallel(one, devices), Runs([], []))


def ranking(runs: Runs, switch: str) -> list[str]:
    """Returns the platforms of an ablation with one switch, the fastest first."""
    rows = [row for row in runs.rows if row["switch"] == switch]
    return [row["platform"] for row in sorted(rows, key=lambda row: -row["targets_per_s"])]


def moved(runs: Runs, switch: str) -> dict[str, float]:
    """Returns, by platform, the ratio of targets/s without the cost to targets/s with all costs."""
    of = {(row["switch"], row["platform"]): row["targets_per_s"] for row in runs.rows}
    platforms = dict.fromkeys(row["platform"] for row in runs.rows)
    return {name: of[switch, name] / of["none", name] for name in platforms}


def overtakes(runs: Runs, switch: str) -> dict[tuple[str, str], float]:
    """Returns the pairs of platforms whose order changes if the cost is left out.

    The keys are (overtaking platform, overtaken platform). The values are the ratios of their
    targets/s without the cost.

    Example:
        >>> overtakes(ablation(dataset="ppi", platforms=["CC", "BG-2"]), "PCIe packets")
        {}
    """
    of = {row["platform"]: row["targets_per_s"] for row in runs.rows if row["switch"] == switch}
    usual = ranking(runs, "none")
    return {
        (later, first): of[later] / of[first]
        for first, later in combinations(usual, 2)
        if of[later] > of[first]
    }
