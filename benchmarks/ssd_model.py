"""The figures of docs/ssd-model.md: everything that the simulator says in mode `paper`.

    python -m benchmarks.ssd_model > figures.md

Five data sets, batch 128, three hops of three, hidden 128, seeds 0 to 4. Cells are means over the
sets of the median over seeds, with the least and the most of the five seeds' means behind it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

from neargraph import sim
from neargraph.sim.runs import in_parallel

from .training_tables import table

SEEDS = range(5)
SETS = list(sim.DATASETS)
SHOWN = ["CC", "BG-1", "BG-DG", "BG-SP", "BG-DGSP", "BG-2"]
SWEEPS: dict[str, tuple[str, list[Any], Callable[[Any], str]]] = {
    "targets of a batch": ("batch_size", [32, 64, 128, 256], str),
    "MB/s of a channel": (
        "flash.channel_bytes_per_s",
        [333e6, 800e6, 1600e6, 2400e6],
        lambda rate: f"{rate / 1e6:.0f}",
    ),
    "cores": ("firmware.cores", [1, 2, 4, 8], str),
    "channels": ("flash.channels", [4, 8, 16, 32], str),
    "dies of a channel": ("flash.dies_per_channel", [2, 4, 8, 16], str),
    "bytes of a page": ("flash.page_bytes", [2000, 4000, 8000, 16000], str),
    "us of a sense": ("flash.sense_ns", [3e3, 10e3, 20e3, 50e3], lambda ns: f"{ns / 1e3:.0f}"),
}
Measure = Callable[[dict[str, Any]], float]


def runs(platforms: Iterable[str], **how: Any) -> dict[tuple[str, int], sim.Runs]:
    """All sets and seeds on some platforms."""
    points = [(name, seed) for name in SETS for seed in SEEDS]
    names = list(platforms)
    found = in_parallel(
        lambda point: sim.simulate(dataset=point[0], seed=point[1], platforms=names, **how), points
    )
    return dict(zip(points, found, strict=True))


def cell(values: dict[tuple[str, int], float], form: str) -> str:
    """The mean over sets of the median over seeds, and the range of the seeds' means over sets."""
    middle = statistics.mean(statistics.median(values[s, seed] for seed in SEEDS) for s in SETS)
    means = [statistics.mean(values[s, seed] for s in SETS) for seed in SEEDS]
    return f"{form.format(middle)} ({form.format(min(means))}-{form.format(max(means))})"


def by_platform(
    found: dict[tuple[str, int], sim.Runs], platforms: list[str], measure: Measure, form: str
) -> list[str]:
    """One cell a platform."""
    cells = []
    for at, _ in enumerate(platforms):
        values = {point: measure(one.details[at]) for point, one in found.items()}
        cells.append(cell(values, form))
    return cells


def of_batch(value: Measure) -> Measure:
    """Of the first batch of a run."""
    return lambda run: value(run["batches"][0])


def share_of(part: str, batch: dict[str, Any]) -> float:
    """Of a batch's joules, in percent."""
    joules = batch["joules"]
    return 100 * float(joules[part]) / sum(joules.values())


def overlap(batch: dict[str, Any]) -> float:
    """The share of the time between first sense and last result in which two hops are under way."""
    spans = batch["outcome"]["hops"]
    points = sorted({time for span in spans for time in span})
    both = 0
    for start, end in pairwise(points):
        under_way = sum(first <= start and last >= end for first, last in spans)
        both += (end - start) * (under_way > 1)
    return 100.0 * float(both) / max(1, points[-1] - points[0])


def servers() -> None:
    """Utilisation, overlap, waits, energy."""
    every = list(sim.PLATFORMS)
    found = runs(every)
    device = sim.config("paper")["flash"]
    channels = device["channels"]
    dies = channels * device["dies_per_channel"]

    def busy(name: str, of: int) -> Measure:
        return of_batch(
            lambda b: 100 * b["outcome"][f"{name}_busy"] / (b["outcome"]["makespan"] * of)
        )

    def wait(name: str) -> Measure:
        return of_batch(lambda b: b["latency"][name]["mean"] / 1e6)

    lines: list[tuple[str, Measure, str]] = [
        ("dies that sense, %", busy("die", dies), "{:.1f}"),
        ("channels that send, %", busy("channel", channels), "{:.1f}"),
        ("hops under way together, % of the time", of_batch(overlap), "{:.0f}"),
        ("wait before the flash, us", wait("before_flash"), "{:.1f}"),
        ("sampler, us", wait("sampler"), "{:.2f}"),
        ("wait after the flash, us", wait("after_flash"), "{:.1f}"),
        ("transfer, us", wait("transfer"), "{:.2f}"),
    ]
    rows = [[name, *by_platform(found, every, value, form)] for name, value, form in lines]
    print("\n".join(table(["", *every], rows)), "\n")
    parts = list(found[SETS[0], 0].details[0]["batches"][0]["joules"])
    shares = []
    for part in parts:
        share = of_batch(partial(share_of, part))
        if not any(
            one.details[at]["batches"][0]["joules"][part]
            for one in found.values()
            for at in range(len(every))
        ):
            continue
        shares.append([f"{part}, %", *by_platform(found, every, share, "{:.1f}")])
    per_joule = {
        point: one["targets_per_joule"] / one["targets_per_joule"][0]
        for point, one in found.items()
    }
    gains = [
        cell({point: float(values[at]) for point, values in per_joule.items()}, "{:.2f}")
        for at, _ in enumerate(every)
    ]
    print("\n".join(table(["", *every], [*shares, ["targets a joule, times CC", *gains]])), "\n")


def sweeps() -> None:
    """Throughput over that with the mode's own value, by platform."""
    base = runs(SHOWN)
    for title, (name, values, shown) in SWEEPS.items():
        rows = []
        for value in values:
            if name == "batch_size":
                found = runs(SHOWN, batch_size=value)
            else:
                found = runs(SHOWN, device=sim.config("paper", **{name: value}))
            ratios = {
                point: one["targets_per_s"] / base[point]["targets_per_s"]
                for point, one in found.items()
            }
            cells = [
                cell({point: float(ratio[at]) for point, ratio in ratios.items()}, "{:.2f}")
                for at, _ in enumerate(SHOWN)
            ]
            rows.append([shown(value), *cells])
        print("\n".join(table([title, *SHOWN], rows)), "\n")


def slow_flash() -> None:
    """Ratios with senses of 20 us."""
    every = list(sim.PLATFORMS)
    found = runs(every, device=sim.config("paper", **{"flash.sense_ns": 20_000.0}))
    rows = []
    for over, under in [("BG-1", "CC"), ("BG-DG", "BG-1"), ("BG-SP", "BG-1"), ("BG-DGSP", "BG-1")]:
        rows.append([f"{over}/{under}", _ratio(found, every, over, under)])
    for over, under in [("BG-2", "BG-DGSP"), ("BG-2", "BG-1"), ("BG-2", "CC")]:
        rows.append([f"{over}/{under}", _ratio(found, every, over, under)])
    print("\n".join(table(["with senses of 20 us", ""], rows)))


def _ratio(found: dict[tuple[str, int], sim.Runs], every: list[str], over: str, under: str) -> str:
    one, two = every.index(over), every.index(under)
    values = {
        point: float(runs_["targets_per_s"][one] / runs_["targets_per_s"][two])
        for point, runs_ in found.items()
    }
    return cell(values, "{:.2f}")


if __name__ == "__main__":
    servers()
    sweeps()
    slow_flash()
