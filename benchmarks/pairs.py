"""Two builds of neargraph in turn, A B A B ..., over the same epoch of the same store.

    python -m benchmarks.pairs --a BEFORE/python --b AFTER/python --store GRAPH.ng --memory 2GB

A build is the folder that its package `neargraph` lies in. Every run is a process of its own that
opens the store and takes the batches of one epoch, or its first `--batches`. For each way and
figure the table has the medians of both builds and the median and range of the ratios B / A, pair
by pair: seeds a second in all and from the 30th batch on, processor seconds, reads and bytes of the
device, the first wait for a batch and the longest later one, bytes written for a while, and the
peak of anonymous memory.

`training` puts each batch through a two-layer GraphSAGE and its optimizer. `sample()` asks for
batches one after the other. Ways that end in `again` count a second epoch, after all of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

AGAIN = " again"

# Arguments of `NumpySampler`, of `Reading`, and of `open`.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "auto": ({}, {}, {}),
    "one by one": ({}, {"way": "on_demand"}, {}),
    "scan": ({}, {"way": "scan", "two_phase": False}, {}),
    "two phases": ({}, {"way": "scan", "two_phase": True}, {}),
    "distribute": ({}, {"way": "distribute"}, {}),
    "compiled": ({}, {"way": "compiled"}, {}),
    "direct layout": ({"layout": "direct"}, {}, {}),
    "labor": ({"method": "labor"}, {}, {}),
    "topology alone": ({"attrs": []}, {"way": "on_demand"}, {}),
    "topology alone again": ({"attrs": []}, {"way": "on_demand"}, {}),
    "sample()": ({"attrs": []}, {}, {}),
    "sample() again": ({"attrs": []}, {}, {}),
    "training": ({"attrs": ["x", "y"]}, {}, {}),
    "nothing written": ({}, {"temporary_writes": "never"}, {}),
    "in memory": ({}, {}, {"backend": "memory", "memory": "12GB"}),
    "12 GB": ({}, {}, {"memory": "12GB"}),
}

FIGURES = (
    "seeds_per_s",
    "processor_s",
    "reads",
    "read_bytes",
    "first_batch_s",
    "longest_wait_s",
    "from_30_seeds_per_s",
    "written_bytes",
    "anonymous_bytes",
)


# Batches after which a rate is steady.
STEADY_FROM = 30


def take(way: str, args: argparse.Namespace) -> dict[str, float]:
    """One epoch in this process, with the package that PYTHONPATH leads to."""
    import neargraph as ng

    open_options = WAYS[way][2]
    for file in Path(args.store).rglob("*"):
        if file.is_file():
            with file.open("rb") as handle:
                os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with ng.open(args.store, **{"memory": args.memory, **open_options}) as graph:
        if way.endswith(AGAIN):
            deque(batches(way, graph, args), maxlen=0)
        graph.reset_stats()
        used = resource.getrusage(resource.RUSAGE_SELF)
        start, seeds, waits, later = time.perf_counter(), 0, [], (0, 0.0)
        making, peak = batches(way, graph, args), 0
        while args.batches is None or len(waits) < args.batches:
            asked = time.perf_counter()
            count, use = next(making, (0, None))
            if count == 0:
                break
            waits.append(time.perf_counter() - asked)
            if use is not None:
                use()
            del use
            seeds += count
            peak = max(peak, anonymous_bytes())
            if len(waits) == STEADY_FROM:
                later = (seeds, time.perf_counter())
        seconds = time.perf_counter() - start
        steady = (seeds - later[0]) / (start + seconds - later[1]) if later[0] else 0.0
        now = resource.getrusage(resource.RUSAGE_SELF)
        stats = graph.stats()
    return {
        "seeds_per_s": seeds / seconds,
        "processor_s": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
        "reads": float(stats["reads"]),
        "read_bytes": float(stats["read_bytes"]),
        "first_batch_s": waits[0],
        "longest_wait_s": max(waits[1:], default=0.0),
        "from_30_seeds_per_s": steady,
        "written_bytes": float(stats["temporary_write_bytes"]),
        "anonymous_bytes": float(peak),
    }


def anonymous_bytes() -> int:
    """Anonymous memory of this process that is resident."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def batches(
    way: str, graph: Any, args: argparse.Namespace
) -> Iterator[tuple[int, Callable[[], None] | None]]:
    """How many seeds each batch of an epoch has, once it is made, and what uses it."""
    import neargraph as ng

    sampler_options, options, _ = WAYS[way]
    shared = {"seed": 7, "attrs": ["x"], **sampler_options}
    if way == "training":
        options = {"batch_size": args.batch, "shuffle": True}
        learn = learner(model())
        for data in ng.NeighborLoader(graph, [15, 10], "train", **options, **shared):
            size, use = data.batch_size, partial(learn, data)
            del data
            yield size, use
            del use
        return
    sampler, reading = ng.NumpySampler(graph, [15, 10], **shared), ng.Reading(**options)
    if not way.startswith("sample()"):
        for batch in sampler.batches("train", args.batch, shuffle=True, reading=reading):
            size = batch.num_seeds
            del batch
            yield size, None
        return
    seeds = np.random.default_rng(1).permutation(graph.split("train"))
    for number, first in enumerate(range(0, len(seeds), args.batch)):
        yield sampler.sample(seeds[first : first + args.batch], stream=number).num_seeds, None


def model() -> Any:
    """Two layers of GraphSAGE over 64 classes."""
    import torch

    from neargraph.nn import GraphSAGE

    torch.manual_seed(0)
    return GraphSAGE(256, 64, 64)


def learner(model: Any) -> Callable[[Any], None]:
    """Takes a step of training on a batch."""
    import torch

    optimizer = torch.optim.Adam(model.parameters())

    def learn(data: Any) -> None:
        out = model(data.x, data.edge_index)[: data.batch_size]
        loss = torch.nn.functional.cross_entropy(out, data.y[: data.batch_size] % 64)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return learn


def run(build: Path, way: str, args: argparse.Namespace) -> dict[str, float]:
    """One epoch in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--take", way]
    command += ["--store", args.store, "--memory", args.memory, "--batch", str(args.batch)]
    command += ["--batches", str(args.batches)] if args.batches else []
    environment = {**os.environ, "PYTHONPATH": str(build.resolve())}
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return figures


def pairs_of(way: str, args: argparse.Namespace) -> list[list[dict[str, float]]]:
    """Pairs of runs, the first of each pair by turns; the first pair is not counted."""
    found = []
    for number in range(args.pairs + 1):
        builds = [args.a, args.b]
        order = (0, 1) if number % 2 else (1, 0)
        pair: list[dict[str, float]] = [{}, {}]
        for which in order:
            pair[which] = run(builds[which], way, args)
        found.append(pair)
    return found[1:]


def compare(pairs: list[list[dict[str, float]]], figure: str) -> dict[str, float]:
    """Medians of both, and of the ratios with their range."""
    ratios = [b[figure] / a[figure] if a[figure] else float(b[figure] == 0) for a, b in pairs]
    return {
        "a": statistics.median(a[figure] for a, _ in pairs),
        "b": statistics.median(b[figure] for _, b in pairs),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def report(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """A table of the ratios."""
    head = "| way | " + " | ".join(f"{name}, B / A" for name in FIGURES) + " |"
    lines = [head, "|---" * (len(FIGURES) + 1) + "|"]
    for way, figures in found.items():
        cells = [
            f"{f['ratio']:.3f} ({f['ratio_min']:.3f}-{f['ratio_max']:.3f}); {f['b']:.4g}"
            for f in figures.values()
        ]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--a", type=Path, help="folder of the package before")
    parser.add_argument("--b", type=Path, help="folder of the package after")
    parser.add_argument("--store", required=True)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, help="of an epoch; all")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--take", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.take:
        print(json.dumps(take(args.take, args)))
        return
    found: dict[str, dict[str, dict[str, float]]] = {}
    for way in args.ways.split(","):
        pairs = pairs_of(way, args)
        found[way] = {figure: compare(pairs, figure) for figure in FIGURES}
        print(report({way: found[way]}).splitlines()[-1], flush=True)
        if args.out:
            args.out.write_text(json.dumps(found, indent=1) + "\n")
    print(report(found))


if __name__ == "__main__":
    main()
