"""The experiments of SmartSAGE (sections III and VI) on a simulated SSD, as Markdown tables.

    python -m benchmarks.smartsage > tables.md

Mode `detailed`, five data sets, 128 targets a batch, fanouts 25 and 10, median of seeds 0 to 4
(least-most). The SSD is the one of `ng.sim.config("detailed")`, not the publication's, and the host
has 16 cores, as the publication's processor does; factors are of these devices. Sampling is of
lists alone: the host has the rows of features, as in the publication, and nothing is computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from neargraph import sim
from neargraph.sim.runs import in_parallel

from .training_tables import table

SEEDS = range(5)
SETS = list(sim.DATASETS)
FANOUTS = [25, 10]
WALK = [1, 1, 1, 1]
BATCH = 128
# Where more is read for a target.
SMALL = 64
WORKERS = [1, 2, 4, 8, 12]
MOST = WORKERS[-1]
COMMANDS = [0, 64, 16, 4, 1]
MAPPED, DIRECT, COALESCED = "SSD-mmap", "SSD-direct", "SmartSAGE-coalesced"
EVERY = [MAPPED, DIRECT, "FPGA-CSD", "SmartSage", COALESCED, "host-PMEM", "host-DRAM"]
DEVICE = sim.config("detailed", **{"host.cores": 16})

Point = tuple[str, int]
Measured = dict[Point, sim.Runs]
Value = Callable[[sim.Runs], float]


def runs(
    platforms: Iterable[str],
    *,
    fanouts: Sequence[int] = FANOUTS,
    workers: int = 1,
    rows: bool = False,
    batch_size: int = BATCH,
    **how: Any,
) -> Measured:
    """Each set and seed on some platforms, one batch a worker; of lists alone or with rows."""
    names = list(platforms)

    def one(point: Point) -> sim.Runs:
        trace = sim.Trace.of_dataset(
            point[0], batches=workers, batch_size=batch_size, fanouts=fanouts, seed=point[1]
        )
        if not rows:
            trace.about |= {"feature_bytes": 0, "columns": 0}
        shape: dict[str, Any] = {"mode": "detailed", "device": DEVICE, "workers": workers}
        return sim.simulate(trace, platforms=names, **shape, **how)

    points = [(name, seed) for name in SETS for seed in SEEDS]
    return dict(zip(points, in_parallel(one, points), strict=True))


def speed(platform: str) -> Value:
    """Targets a second."""
    return lambda found: float(found["targets_per_s"][found["platform"].tolist().index(platform)])


def wire_bytes(platform: str) -> Value:
    """Bytes over PCIe a target: the link's energy is that of its bytes."""
    joules_per_byte = 8 * DEVICE["energy"]["pcie_joules_per_bit"]

    def value(found: sim.Runs) -> float:
        batches = found.details[found["platform"].tolist().index(platform)]["batches"]
        joules = sum(batch["joules"]["pcie"] for batch in batches)
        return float(joules / joules_per_byte / sum(batch["targets"] for batch in batches))

    return value


def cell(values: Iterable[float], form: str = "{:.2f}") -> str:
    """The median, and the least and the most."""
    known = list(values)
    middle, low, high = statistics.median(known), min(known), max(known)
    return f"{form.format(middle)} ({form.format(low)}-{form.format(high)})"


def over(one: Measured, value: Value, other: Measured, under: Value, name: str) -> str:
    """A ratio of two values of the same data set and seed."""
    return cell(value(one[name, seed]) / under(other[name, seed]) for seed in SEEDS)


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """One table under its title."""
    print(f"{title}\n")
    print("\n".join(table(["", *head], [list(row) for row in rows])), "\n")


def throughput(title: str, found: Measured) -> None:
    """Thousand targets a second of memory-mapped pages, and the others over that."""
    rows = []
    for name in SETS:
        base = cell((speed(MAPPED)(found[name, seed]) / 1e3 for seed in SEEDS), "{:.1f}")
        ratios = [over(found, speed(of), found, speed(MAPPED), name) for of in EVERY[1:]]
        rows.append([name, base, *ratios])
    show(title, [f"{MAPPED}, thousand targets/s", *EVERY[1:]], rows)


def counted(workers: int) -> str:
    """A number of workers, in words."""
    return "1 worker" if workers == 1 else f"{workers} workers"


def by_workers(known: dict[int, Measured]) -> None:
    """Each platform over itself with one worker, and the design over direct reads."""
    several = [MAPPED, DIRECT, COALESCED]
    found = {n: known[n] if n in known else runs(several, workers=n) for n in WORKERS}
    head = [counted(n) for n in WORKERS]
    for of in several:
        rows = [
            [name, *(over(found[n], speed(of), found[1], speed(of), name) for n in WORKERS)]
            for name in SETS
        ]
        show(f"Workers on {of}: targets/s over those of one worker", head, rows)
    rows = [
        [name, *(over(found[n], speed(COALESCED), found[n], speed(DIRECT), name) for n in WORKERS)]
        for name in SETS
    ]
    show(f"{COALESCED} over {DIRECT}, both with as many workers", head, rows)


def coalescing() -> None:
    """By targets of a command, in batches of the publication's size."""
    found = {n: runs([COALESCED], targets_per_command=n, batch_size=1024) for n in COMMANDS}
    value = speed(COALESCED)
    rows = [
        [name, *(over(found[n], value, found[0], value, name) for n in COMMANDS)] for name in SETS
    ]
    head = ["1,024 a command", *(f"{n} a command" for n in COMMANDS[1:])]
    show("Targets of a command: targets/s over those with a command a batch", head, rows)


def transfers(found: Measured) -> None:
    """Bytes over PCIe a target."""
    rows = []
    for name in SETS:
        each = (wire_bytes(of) for of in EVERY)
        rows.append(
            [name, *(cell((of(found[name, seed]) for seed in SEEDS), "{:,.0f}") for of in each)]
        )
    show("Bytes over PCIe a target", EVERY, rows)


def rates() -> None:
    """By sampling rate: the design over what the host does with the same fanouts."""
    scaled = {0.5: [12, 5], 1: FANOUTS, 2: [50, 20]}
    several = [MAPPED, DIRECT, COALESCED]
    for count in (1, MOST):
        # Twice the fanouts are four times the reads.
        found = {
            scale: runs(several, fanouts=of, workers=count, batch_size=SMALL)
            for scale, of in scaled.items()
        }
        for under in (MAPPED, DIRECT):
            rows = [
                [
                    name,
                    *(
                        over(one, speed(COALESCED), one, speed(under), name)
                        for one in found.values()
                    ),
                ]
                for name in SETS
            ]
            head = [f"x{scale:g}: {of[0]}, {of[1]}" for scale, of in scaled.items()]
            show(f"Sampling rate: {COALESCED} over {under}, {counted(count)}", head, rows)


def main() -> None:
    """All tables."""
    known = {n: runs(EVERY, workers=n) for n in (1, MOST)}
    for n, found in known.items():
        throughput(f"Sampling, {counted(n)}: targets/s over {MAPPED}", found)
    for n in known:
        found = runs(EVERY, workers=n, rows=True, batch_size=SMALL)
        title = f"With rows of features and computing, {counted(n)}, batches of {SMALL}"
        throughput(title, found)
    by_workers(known)
    coalescing()
    transfers(known[1])
    rates()
    for n in known:
        found = runs(EVERY, workers=n, fanouts=WALK)
        throughput(f"Random walks of {len(WALK)} steps, {counted(n)}", found)


if __name__ == "__main__":
    main()
