"""The figures of docs/explanation/ssd-model.md: what mode `paper` says, and which cost matters.

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
from neargraph.sim.ablation import moved, overtakes, ranking
from neargraph.sim.runs import in_parallel

from .training_tables import table

SEEDS = range(5)
SETS = list(sim.DATASETS)
STEPS = [("BG-DG", "BG-1"), ("BG-SP", "BG-1"), ("BG-DGSP", "BG-1"), ("BG-2", "BG-DGSP")]
STEPS += [("BG-2", "BG-1"), ("BG-2", "CC")]
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
        lambda point: sim.simulate(
            dataset=point[0], seed=point[1], platforms=names, mode="paper", **how
        ),
        points,
    )
    return dict(zip(points, found, strict=True))


def cell(values: dict[tuple[str, int], float], form: str) -> str:
    """The mean over sets of the median over seeds, and the range of the seeds' means over sets if
    it is wider than the figure."""
    middle = statistics.mean(statistics.median(values[s, seed] for seed in SEEDS) for s in SETS)
    means = [statistics.mean(values[s, seed] for s in SETS) for seed in SEEDS]
    figure, least, most = (form.format(value) for value in (middle, min(means), max(means)))
    return figure if figure == least == most else f"{figure} ({least}-{most})"


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


def speeds() -> None:
    """Thousand targets a second of each set, and ratios between platforms over all of them."""
    every = list(sim.PLATFORMS)
    found = runs(every)
    rows = []
    for name in SETS:
        by_seed = [found[name, seed]["targets_per_s"] / 1e3 for seed in SEEDS]
        cells = [[float(speeds[at]) for speeds in by_seed] for at, _ in enumerate(every)]
        rows.append([name, *(_median(cell_) for cell_ in cells)])
    print("\n".join(table(["", *every], rows)), "\n")
    pairs = [("SmartSage", "CC"), ("GList", "CC"), ("BG-1", "CC"), *STEPS]
    rows = [[f"{over}/{under}", *_over(found, every, over, under)] for over, under in pairs]
    print("\n".join(table(["", "mean", "sets"], rows)), "\n")


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def _over(
    found: dict[tuple[str, int], sim.Runs], every: list[str], over: str, under: str
) -> tuple[str, str]:
    """The ratio over all sets, and from which set to which it goes."""
    values = _ratios(found, every, over, under)
    by_set = [statistics.median(values[name, seed] for seed in SEEDS) for name in SETS]
    return cell(values, "{:.2f}"), f"{min(by_set):.2f}-{max(by_set):.2f}"


def sizes() -> None:
    """Lists and rows of each set, and what its direct layout takes on top."""
    head = ["", "GB of lists and rows"]
    ways = [(sigma, most) for sigma in (1.0, 2.0) for most in (None, 16)]
    for sigma, most in ways:
        limit = "" if most is None else f", at most {most} a page"
        head.append(f"spread {sigma:g}{limit}")
    rows = []
    for name in SETS:
        known = sim.DATASETS[name]
        raw = (4 * known["edges"] + 2 * known["columns"] * known["nodes"]) / 1e9
        cells = []
        for sigma, most in ways:
            each = [
                100
                * (sim.direct_size(name, sigma=sigma, sections_per_page=most, seed=s).inflation - 1)
                for s in SEEDS
            ]
            cells.append(f"+{statistics.median(each):.1f} % ({min(each):.1f}-{max(each):.1f})")
        rows.append([name, f"{raw:,.1f}", *cells])
    print("\n".join(table(head, rows)), "\n")


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

    def wait(name: str, of: str = "mean") -> Measure:
        return of_batch(lambda b: b["latency"][name][of] / 1e6)

    lines: list[tuple[str, Measure, str]] = [
        ("dies that sense, %", busy("die", dies), "{:.1f}"),
        ("channels that send, %", busy("channel", channels), "{:.1f}"),
        ("hops under way together, % of the time", of_batch(overlap), "{:.0f}"),
        ("wait before the flash, mean, us", wait("before_flash"), "{:.1f}"),
        ("... median", wait("before_flash", "p50"), "{:.1f}"),
        ("sampler, us", wait("sampler"), "{:.2f}"),
        ("wait after the flash, mean, us", wait("after_flash"), "{:.1f}"),
        ("... median", wait("after_flash", "p50"), "{:.1f}"),
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
    for over, under in [("BG-1", "CC"), *STEPS]:
        ratio = cell(_ratios(found, every, over, under), "{:.2f}")
        rows.append([f"{over}/{under}", ratio])
    print("\n".join(table(["with senses of 20 us", ""], rows)), "\n")


def ablations() -> None:
    """Mode `detailed` with one cost at a time left out: targets a second over those with all, and
    who overtakes whom."""
    every = list(sim.PLATFORMS)
    points = [(name, seed) for name in SETS for seed in SEEDS]
    found = {
        (name, seed): sim.ablation(dataset=name, seed=seed, batches=1) for name, seed in points
    }
    switches = list(dict.fromkeys(found[points[0]]["switch"].tolist()))
    rows, lines = [], []
    for switch in switches[1:]:
        ratios = {point: moved(one, switch) for point, one in found.items()}
        rows.append([switch, *(_spread({p: r[at] for p, r in ratios.items()}) for at in every)])
        for point, one in found.items():
            for (quicker, slower), ratio in overtakes(one, switch).items():
                lines.append(
                    f"{point}: without {switch} {quicker} overtakes {slower} ({ratio:.3f})"
                )
    print("\n".join(table(["left out", *every], rows)), "\n")
    orders = {", ".join(ranking(one, "none")) for one in found.values()}
    print("with all costs:", *sorted(orders), *lines, sep="\n")


def _spread(values: dict[tuple[str, int], float]) -> str:
    """The mean over sets of the median over seeds, and the range of all where they differ."""
    middle = statistics.mean(statistics.median(values[s, seed] for seed in SEEDS) for s in SETS)
    ends = [f"{end(values.values()):.2f}" for end in (min, max)]
    return f"{middle:.2f}" if ends[0] == ends[1] else f"{middle:.2f} ({ends[0]}-{ends[1]})"


def _ratios(
    found: dict[tuple[str, int], sim.Runs], every: list[str], over: str, under: str
) -> dict[tuple[str, int], float]:
    one, two = every.index(over), every.index(under)
    return {
        point: float(runs_["targets_per_s"][one] / runs_["targets_per_s"][two])
        for point, runs_ in found.items()
    }


if __name__ == "__main__":
    speeds()
    servers()
    sweeps()
    slow_flash()
    sizes()
    ablations()
