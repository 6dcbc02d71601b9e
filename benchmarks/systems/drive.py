"""Runs one system in this process and times it in its steady state; the last line is JSON.

    python -m benchmarks.systems.drive '{"module": "ours", "graph": ..., ...}'

Batches before the steady state are made, used and not counted. In the mode `gather` a batch is
dropped as soon as it is there; in `train` it is trained on; `accuracy` trains for some epochs and
then tests. With the option `tuned` the process is prepared for training as `neargraph train` does
it. Nothing here knows a system.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

STARTED = time.perf_counter()
# Counters of a system that are given by batch.
PER_BATCH = ("reads", "read_bytes", "temporary_bytes")


@dataclass
class Spec:
    """What to run; made by `training.py`."""

    module: str
    graph: str
    store: str
    mode: str = "gather"
    fanouts: list[int] = field(default_factory=lambda: [15, 10])
    batch_size: int = 1024
    warmup: int = 100
    warmup_seconds: float = 30.0
    batches: int = 200
    seconds: float = 60.0
    epochs: int = 1
    test_seeds: int = 20_000
    hidden: int = 256
    seed: int = 7
    memory_bytes: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def ids(self, split: str) -> Any:
        """The node ids of a split, i64 [n]."""
        import numpy as np

        return np.load(Path(self.graph) / f"{split}.npy")

    def labels(self) -> Any:
        """The class of every node, i64 [nodes]."""
        import numpy as np

        return np.load(Path(self.graph) / "labels.npy")

    def about(self) -> dict[str, Any]:
        """What the generator wrote down about the graph."""
        text = (Path(self.graph) / "about.json").read_text()
        found: dict[str, Any] = json.loads(text)
        return found


class Batch(NamedTuple):
    """A batch with its rows; `data` is what the system's learner takes."""

    seeds: int
    rows: int
    edges: int
    data: Any


class Learner(Protocol):
    """A model with its optimizer."""

    def step(self, data: Any) -> None:
        """Trains on a batch."""

    def correct(self, data: Any) -> int:
        """How many seeds of a batch it gets right."""


class Peer(Protocol):
    """A system."""

    def __init__(self, spec: Spec) -> None: ...

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        """One epoch, shuffled if it is of the split `train`."""

    def learner(self) -> Learner:
        """A new model."""

    def reset(self) -> None:
        """Sets the system's own counters to zero."""

    def stats(self) -> dict[str, Any]:
        """The system's own counters: reads, read_bytes, hit_rate, mean_depth, if it has them."""


def own_io_bytes() -> int:
    """Bytes that this process and its living children have had read from block devices."""
    total = 0
    for pid in [os.getpid(), *children(os.getpid())]:
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))
    return total


def children(pid: int) -> list[int]:
    """Child processes of all threads of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def status_bytes(name: str) -> int:
    """A size in /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def device_reads(path: str) -> tuple[int, int]:
    """(reads, bytes) of the device that holds a file, of all processes."""
    number = os.stat(path).st_dev
    file = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    if not file.exists():
        return 0, 0
    fields = file.read_text().split()
    return int(fields[0]), int(fields[2]) * 512


def endless(peer: Peer) -> Generator[Batch, None, None]:
    """Epoch after epoch of the training seeds."""
    for epoch in itertools.count():
        yield from peer.batches("train", epoch)


def stretch_of(peer: Peer) -> int:
    """Batches that are sampled or distributed before the first of them is read; 1 where stages
    go on side by side."""
    ahead = getattr(peer, "ahead", None)
    chosen = ahead.chosen() if ahead is not None else None
    return int((chosen or {}).get("sampled_first") or 1)


def steady(peer: Peer, spec: Spec) -> dict[str, Any]:
    """The figures of the steady state."""
    learner = peer.learner() if spec.mode == "train" else None
    stream = endless(peer)
    opened = time.perf_counter()
    warm = 0
    first_seconds = 0.0
    while (
        warm < spec.warmup and time.perf_counter() - opened < spec.warmup_seconds
    ) or warm % stretch_of(peer):
        batch = next(stream)
        if learner is not None:
            learner.step(batch.data)
        del batch
        warm += 1
        first_seconds = first_seconds or time.perf_counter() - opened
    peer.reset()
    device, own, cpu = device_reads(spec.graph), own_io_bytes(), os.times()
    times: list[float] = []
    seeds = rows = edges = 0
    start = last = time.perf_counter()
    # Phases that take turns are counted whole, or one of them would be left out.
    while (len(times) < spec.batches and (len(times) < 3 or last - start < spec.seconds)) or (
        len(times) % stretch_of(peer)
    ):
        batch = next(stream)
        seeds, rows, edges = seeds + batch.seeds, rows + batch.rows, edges + batch.edges
        if learner is not None:
            learner.step(batch.data)
        del batch
        now = time.perf_counter()
        times.append(now - last)
        last = now
    used = os.times()
    device_after = device_reads(spec.graph)
    count = len(times)
    times.sort()
    row_bytes = 4 * spec.about()["width"]
    result = {
        "seconds": last - start,
        "batches": count,
        "stretch": stretch_of(peer),
        "warmup_batches": warm,
        "first_batch_seconds": first_seconds,
        "open_seconds": opened - STARTED,
        "seeds_per_s": seeds / (last - start),
        "ms_per_batch": 1e3 * (last - start) / count,
        "ms_p50": 1e3 * times[count // 2],
        "ms_p99": 1e3 * times[min(count - 1, int(0.99 * count))],
        "rows_per_batch": rows / count,
        "edges_per_batch": edges / count,
        "useful_bytes_per_batch": rows * row_bytes / count,
        "device_reads_per_batch": (device_after[0] - device[0]) / count,
        "device_bytes_per_batch": (device_after[1] - device[1]) / count,
        "own_bytes_per_batch": (own_io_bytes() - own) / count,
        "cpu_ms_per_batch": 1e3 * (sum(used[:4]) - sum(cpu[:4])) / count,
    }
    for key, value in peer.stats().items():
        result[key] = value / count if key in PER_BATCH else value
    stream.close()
    if learner is not None:
        result["accuracy"] = accuracy(peer, learner, spec.test_seeds)
        result["accuracy_after_batches"] = warm + count
    return result


def accuracy(peer: Peer, learner: Learner, seeds: int) -> float:
    """Share of the first test seeds that the model gets right."""
    right = seen = 0
    for batch in peer.batches("test", 0):
        right += learner.correct(batch.data)
        seen += batch.seeds
        if seen >= seeds:
            break
    return right / max(seen, 1)


def trained(peer: Peer, spec: Spec) -> dict[str, Any]:
    """The accuracy after whole epochs."""
    learner = peer.learner()
    start = time.perf_counter()
    for epoch in range(spec.epochs):
        for batch in peer.batches("train", epoch):
            learner.step(batch.data)
            del batch
    seconds = time.perf_counter() - start
    return {
        "train_seconds": seconds,
        "epochs": spec.epochs,
        "accuracy": accuracy(peer, learner, spec.test_seeds),
    }


def main() -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    if spec.mode != "gather" and spec.options.get("tuned"):
        from neargraph.tuning import tune_process

        tune_process()
    peer: Peer = importlib.import_module(f"benchmarks.systems.{spec.module}").System(spec)
    result = trained(peer, spec) if spec.mode == "accuracy" else steady(peer, spec)
    result["vm_hwm_bytes"] = status_bytes("VmHWM")
    result["torch_loaded"] = "torch" in sys.modules
    print(json.dumps(result), flush=True)
    # Workers and background threads have nothing left to do that is worth waiting for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
