"""Loops as users write them: a validation after each epoch, one start after the other, loading.

    python -m benchmarks.loops validation --store GRAPH.ng --memory 2GB
    python -m benchmarks.loops validation --store GRAPH.ng --memory 2GB --plain
    python -m benchmarks.loops starts --store GRAPH.ng --memory 2GB
    python -m benchmarks.loops load --store GRAPH.ng --memory 12GB

`validation` trains for `--epochs`, with `--validation` batches of the split `val` after each, and
says how long the batches of both take; the model is a GraphSAGE of two layers, and `--plain` leaves
it out. `starts` opens the store `--starts` times, each time in a process of its own with nothing in
the page cache, takes one epoch, and says what was chosen and how fast it was. `load` opens it as
often with `backend="memory"` and compares the rate at which it is loaded with that of fio's long
reads before; with `--touch` the memory was in use right before, so that a virtual machine need not
ask its host for it. Prints a table; `--out` also writes JSON.
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
from itertools import islice
from pathlib import Path
from typing import Any

from .machine import drop_caches, fio
from .pairs import learner, model
from .shape.steps import drop_from_cache
from .systems.drive import status_bytes

LOADED = {"batch_size": 1024, "seed": 7, "attrs": ["x", "y"]}


class Waits:
    """One pass: seconds in all, and of each wait for a batch."""

    def __init__(self) -> None:
        self.seconds, self.waits = 0.0, [0.0]

    def take(self, loader: Any, most: int | None, use: Callable[[Any], object] | None) -> Waits:
        """Takes the batches of a pass, or its first `most` ones."""
        start = last = time.perf_counter()
        self.waits = []
        for data in islice(loader, most):
            self.waits.append(time.perf_counter() - last)
            if use is not None:
                use(data)
            # The budget counts a batch until its last name is gone.
            del data
            last = time.perf_counter()
        self.seconds = time.perf_counter() - start
        return self

    def figures(self) -> dict[str, float]:
        """What is printed."""
        return {
            "batches": len(self.waits),
            "seconds": self.seconds,
            "seconds_a_batch": self.seconds / max(1, len(self.waits)),
            "first_wait_s": self.waits[0],
            "longest_later_wait_s": max(self.waits[1:], default=0.0),
            "waited_s": sum(self.waits),
        }


def validation(args: argparse.Namespace) -> dict[str, Any]:
    """Epochs of training with a validation after each, in this process."""
    import neargraph as ng

    use = check = None
    if not args.plain:
        ng.tune_process()
        net = model()
        use, check = learner(net), forward(net)
    drop_from_cache(args.store)
    passes: list[dict[str, Any]] = []
    with ng.open(args.store, memory=args.memory) as graph:
        train = ng.NeighborLoader(graph, [15, 10], "train", shuffle=True, **LOADED)
        val = ng.NeighborLoader(graph, [15, 10], "val", **LOADED)
        for epoch in range(args.epochs):
            for name, loader, most, work in (
                ("train", train, args.batches, use),
                ("val", val, args.validation, check),
            ):
                figures = Waits().take(loader, most, work).figures()
                passes.append({"epoch": epoch, "pass": name, **figures})
                print(line(passes[-1]), flush=True)
    return {"passes": passes, **shares(passes)}


def forward(net: Any) -> Callable[[Any], object]:
    """What a validation does with a batch."""
    import torch

    def check(data: Any) -> object:
        with torch.no_grad():
            return net(data.x, data.edge_index)[: data.batch_size].argmax(1)

    return check


def line(figures: dict[str, Any]) -> str:
    """One pass in one line."""
    return (
        f"epoch {figures['epoch'] + 1:2} {figures['pass']:5} {figures['batches']:4} batches "
        f"{figures['seconds']:7.2f} s {1e3 * figures['seconds_a_batch']:7.1f} ms a batch, first "
        f"{figures['first_wait_s']:5.2f} s, longest later {figures['longest_later_wait_s']:5.2f} s"
    )


def shares(passes: list[dict[str, Any]]) -> dict[str, float]:
    """The share of validation in batches and in time, from the first request on."""

    def share(figure: str, chosen: list[dict[str, Any]]) -> float:
        val = sum(one[figure] for one in chosen if one["pass"] == "val")
        return float(val / sum(one[figure] for one in chosen))

    later = [one for one in passes if one["epoch"] > 0] or passes
    return {
        "share_of_batches": share("batches", passes),
        "share_of_time": share("seconds", passes),
        "share_of_time_from_second_epoch": share("seconds", later),
    }


def start_once(args: argparse.Namespace) -> dict[str, Any]:
    """One epoch from cold in this process; loader and store are new."""
    import neargraph as ng
    from neargraph.loader.pipeline import Pipeline
    from neargraph.loader.reading import Reading
    from neargraph.loader.sampler import NumpySampler
    from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

    drop_from_cache(args.store)
    waits = Waits()
    with ng.open(args.store, memory=args.memory) as graph:
        sampler = NumpySampler(graph, [15, 10], seed=7, attrs=["x"])
        inputs = resolve_input_nodes(sampler.snapshot, "train")
        plan = SeedPlan(num_seeds=len(inputs), batch_size=1024, shuffle=True, seed=7)
        pipeline = Pipeline(sampler, inputs, plan, Reading(), goes_on=False)
        waits.take(pipeline.run(0), args.batches, None)
        chosen = pipeline.chosen() or {}
        figures = waits.figures()
        seeds = min(len(inputs), 1024 * len(waits.waits))
        stats = graph.stats()
    wanted = ("reading", "window", "phases", "device_s_per_batch")
    return {
        **{name: chosen.get(name) for name in wanted},
        "seeds_per_s": seeds / figures["seconds"],
        "first_wait_s": figures["first_wait_s"],
        "longest_later_wait_s": figures["longest_later_wait_s"],
        "temporary_write_bytes": stats["temporary_write_bytes"],
        "disk_rates": stats.get("disk"),
    }


def starts(args: argparse.Namespace) -> dict[str, Any]:
    """Cold starts, one process each."""
    command = [sys.executable, "-m", "benchmarks.loops", "once", "--store", args.store]
    command += ["--memory", args.memory]
    command += ["--batches", str(args.batches)] if args.batches else []
    found = []
    for _ in range(args.starts):
        run = subprocess.run(command, env=os.environ, check=True, capture_output=True, text=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
        print(json.dumps(found[-1]), flush=True)
    rates = [one["seeds_per_s"] for one in found]
    median = statistics.median(rates)
    plans = sorted({(one["reading"], one["phases"]) for one in found}, key=str)
    windows = sorted({one["window"] for one in found}, key=str)
    return {
        "starts": found,
        "plans": plans,
        "windows": windows,
        "median_seeds_per_s": median,
        "lowest": min(rates) / median,
        "highest": max(rates) / median,
    }


def load(args: argparse.Namespace) -> dict[str, Any]:
    """How fast everything is read into memory, beside long reads of fio right before."""
    import neargraph as ng

    probe = max(Path(args.store).glob("*.dat"), key=lambda file: file.stat().st_size)
    found = []
    for _ in range(args.starts):
        long_reads = fio(probe, 3.0)["sequential_bytes_per_s"]
        drop_caches()
        if args.touch:
            touch(sum(file.stat().st_size for file in Path(args.store).glob("*.dat")))
        start = time.perf_counter()
        with ng.open(args.store, memory=args.memory, backend="memory") as graph:
            read_bytes, seconds = until_quiet(graph, start)
            peak = status_bytes("RssAnon")
        rate = read_bytes / seconds
        found.append(
            {
                "read_bytes": read_bytes,
                "seconds": seconds,
                "bytes_per_s": rate,
                "fio_bytes_per_s": long_reads,
                "of_fio": rate / long_reads,
                "anonymous_of_read": peak / read_bytes,
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return {"starts": found, "of_fio": statistics.median(one["of_fio"] for one in found)}


def touch(num_bytes: int) -> None:
    """Takes memory and gives it back, so that a virtual machine has it from its host."""
    import numpy as np

    np.ones(num_bytes, np.uint8)


def until_quiet(graph: Any, start: float) -> tuple[int, float]:
    """(bytes read, seconds since `start`) at the last read before half a second without any."""
    last = time.perf_counter()
    read_bytes = 0
    while time.perf_counter() - last < 0.5 or read_bytes == 0:
        now = graph.stats()["read_bytes"]
        if now != read_bytes:
            read_bytes, last = now, time.perf_counter()
        time.sleep(0.01)
    return read_bytes, last - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("loop", choices=["validation", "starts", "once", "load"])
    parser.add_argument("--store", required=True)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, help="of an epoch; all")
    parser.add_argument("--validation", type=int, default=10, help="batches after each epoch")
    parser.add_argument("--plain", action="store_true", help="without a model")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--touch", action="store_true", help="of `load`: use the memory before")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    loops = {"validation": validation, "starts": starts, "once": start_once, "load": load}
    found = loops[args.loop](args)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    details = ("passes", "starts")
    print(json.dumps({name: value for name, value in found.items() if name not in details}))


if __name__ == "__main__":
    main()
