"""What a loader's knobs are worth on the real disk: workers, sampling rate, batch size.

These are three of the sweeps of `benchmarks.sweeps`, after Figures 6, 7, 16 to 18 and 21 of
SmartSAGE. A point is a process of its own that opens the store, makes some batches without counting
them and then times others; the files of the store leave the page cache before it, and all but the
back end `memory` live in a cgroup of `--memory`, so that a mapped file has no more than the rest.
Each batch is read by itself (`--reading on_demand`), since latency is what is asked for; nothing
trains. Systems take turns within a round, so that a slow minute hits all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neargraph.units import parse_bytes

from .cap import Cap
from .places import ROOT

Point = dict[str, Any]

# An interpreter with NumPy, and what its threads hold for a moment.
PROCESS_BYTES = 120_000_000

WORKERS = [1, 2, 3, 4, 6, 8, 10, 12]
RATES = [0.5, 1.0, 2.0]
BATCHES = [32, 64, 128, 256, 512, 1024]
BACKENDS = ["memory", "mmap", "odirect", "uring"]
STAGES = ["sample", "read", "gather"]


def drop(store: Path) -> None:
    """Makes the next reads of a store's files come from the disk."""
    for file in store.glob("*.dat"):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def scaled(fanouts: list[int], rate: float) -> list[int]:
    """Fanouts of another sampling rate, each at least 1.

    >>> scaled([25, 10], 0.5)
    [12, 5]
    """
    return [max(1, int(fanout * rate)) for fanout in fanouts]


def measure(args: argparse.Namespace, backend: str, **more: Any) -> Point:
    """One run in a process of its own."""
    spec = {
        "store": str(args.store),
        "backend": backend,
        "memory": memory_of(args, backend),
        "reading": args.reading,
        "threads": 2,
        "fanouts": args.fanouts,
        "batch_size": args.batch_size,
        "batches": args.batches,
        "seconds": args.seconds,
        "warmup": args.warmup,
        "seed": args.seed,
        **more,
    }
    drop(args.store)
    command = [sys.executable, "-m", "benchmarks.knobs", json.dumps(spec)]
    with Cap(limit_of(args, backend)) as cap:
        child = cap.popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        output, _ = child.communicate()
    if child.returncode != 0:
        raise SystemExit(f"{backend}: exit {child.returncode}; see above")
    found: Point = json.loads(output.splitlines()[-1])
    return found


def memory_of(args: argparse.Namespace, backend: str) -> str:
    """The budget of a run: `memory` has to hold the whole store beside what the others get."""
    if backend != "memory":
        return str(args.memory)
    return str(parse_bytes(args.memory) + sum(file.stat().st_size for file in args.store.iterdir()))


def limit_of(args: argparse.Namespace, backend: str) -> int | None:
    """What the process may take, page cache included, or a mapped file would have all memory."""
    return None if backend == "memory" else parse_bytes(args.memory) + PROCESS_BYTES


def rounds(args: argparse.Namespace, **more: Any) -> Point:
    """Each back end `--runs` times: by name, [median, low, high] of each figure."""
    runs: dict[str, list[Point]] = {backend: [] for backend in args.backends}
    for _ in range(args.runs):
        for backend in args.backends:
            runs[backend].append(measure(args, backend, **more))
    return {backend: _spread(found) for backend, found in runs.items()}


def _spread(runs: list[Point]) -> Point:
    names = [name for name in runs[0] if name != "note"]
    columns = {name: [run[name] for run in runs] for name in names}
    return {n: [statistics.median(vs), min(vs), max(vs)] for n, vs in columns.items()}


def workers(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """Seeds a second against the threads of the loader."""
    for threads in WORKERS:
        keep({"workers": threads, **rounds(args, threads=threads)})


def rate(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """The time of a batch against the sampling rate."""
    for times in RATES:
        keep({"rate": times, **rounds(args, fanouts=scaled(args.fanouts, times))})


def batch(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """The time of a batch, and seeds a second, against its seeds."""
    for seeds in BATCHES:
        keep({"batch": seeds, **rounds(args, batch_size=seeds)})


def _lines(axes: Any, points: list[Point], across: str, value: Callable[[Point, str], Any]) -> None:
    """A line and a band for each back end; `value` gives [median, low, high]."""
    for name in [key for key in points[0] if key != across]:
        have = [(point[across], value(point, name)) for point in points if name in point]
        xs, ys = [x for x, _ in have], [y for _, y in have]
        (drawn,) = axes.plot(xs, [y[0] for y in ys], marker="o", label=name)
        band = [min(y) for y in ys], [max(y) for y in ys]
        axes.fill_between(xs, *band, color=drawn.get_color(), alpha=0.2)
    axes.set(xticks=[point[across] for point in points])
    axes.set_xticklabels([f"{point[across]:g}" for point in points])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _over(values: list[float], base: float) -> list[float]:
    return [value / base if base else 0.0 for value in values]


def plot_workers(points: list[Point], figure: Callable[..., Any]) -> Any:
    """Throughput over that of one worker on the same back end."""
    made, axes = figure("Throughput as workers are added", "threads of the loader", "x of one")

    def value(point: Point, name: str) -> list[float]:
        return _over(point[name]["seeds_per_s"], points[0][name]["seeds_per_s"][0])

    _lines(axes, points, "workers", value)
    axes.axhline(1.0, color="gray", lw=0.8)
    return made


def plot_rate(points: list[Point], figure: Callable[..., Any]) -> Any:
    """The time of a batch over that of the first back end at the plain rate."""
    first = next(key for key in points[0] if key != "rate")
    base = next(point for point in points if point["rate"] == 1.0)[first]["ms_per_batch"][0]
    title = "Time of a batch as more neighbours are sampled"
    made, axes = figure(title, "sampling rate", f"x of {first} at 1")
    _lines(axes, points, "rate", lambda p, name: _over(p[name]["ms_per_batch"], base))
    return made


def plot_batch(points: list[Point], figure: Callable[..., Any]) -> Any:
    """The time of a batch over that of the first back end at the same size."""
    first = next(key for key in points[0] if key != "batch")
    made, axes = figure("Time of a batch as it grows", "seeds of a batch", f"x of {first}")
    axes.set(xscale="log")

    def value(point: Point, name: str) -> list[float]:
        return _over(point[name]["ms_per_batch"], point[first]["ms_per_batch"][0])

    _lines(axes, points, "batch", value)
    return made


KNOBS = {
    "workers": (workers, plot_workers),
    "rate": (rate, plot_rate),
    "batch": (batch, plot_batch),
}


def run(spec: Point) -> Point:
    """The figures of one run in this process."""
    import neargraph as ng

    store = ng.open(spec["store"], memory=spec["memory"], backend=spec["backend"])
    sampler = ng.NumpySampler(store, spec["fanouts"], seed=spec["seed"])
    has_splits = any(t.name == "split_0" for t in store.schema.node_types[0].tensors)
    threads = spec["threads"]
    reading = ng.Reading(spec["reading"], prefetch=max(4, threads), threads=threads)

    def endless() -> Any:
        epoch = 0
        while True:
            yield from sampler.batches(
                "train" if has_splits else None,
                spec["batch_size"],
                shuffle=True,
                epoch=epoch,
                reading=reading,
            )
            epoch += 1

    batches = endless()
    for _ in range(spec["warmup"]):
        next(batches)
    store.reset_stats()
    before = dict(sampler.core.stages())
    made = seeds = 0
    start = now = time.perf_counter()
    while made < spec["batches"] and (made < 3 or now - start < spec["seconds"]):
        seeds += next(batches).num_seeds
        made += 1
        now = time.perf_counter()
    stages = {name: seconds - before[name] for name, seconds in sampler.core.stages()}
    stats = store.stats()
    return {
        "batches": made,
        "ms_per_batch": 1e3 * (now - start) / made,
        "seeds_per_s": seeds / (now - start),
        "reads_per_batch": stats["reads"] / made,
        "read_bytes_per_batch": stats["read_bytes"] / made,
        "hit_rate": stats["hit_rate"],
        **{f"{name}_ms_per_batch": 1e3 * stages[name] / made for name in STAGES},
        "note": store.core.backend_note,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
    # Background threads have nothing left to do that is worth waiting for.
    sys.stdout.flush()
    os._exit(0)
