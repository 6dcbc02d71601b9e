"""The steps on a store that is there, each in a process of its own.

    python -m benchmarks.shape.steps '{"step": "epoch", "store": "G.ng", ...}'

A step prints JSON as its last line, and its progress as `watch.py` reads it. Files of the store are
out of the page cache before it begins. Equal seeds give equal seeds of batches and equal draws.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.reading import Reading
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

FANOUTS = (15, 10)
HIDDEN = 128
# Batches that `naive` makes before it is timed: its topology is in the store's caches then.
WARM_UP = 8


@dataclass
class Spec:
    """What a step is told."""

    step: str
    store: str
    memory: int
    train: int
    classes: int
    seed: int = 1
    batch_size: int = 1024
    batches: int | None = None
    naive_batches: int = 40
    train_batches: int = 400
    compared: int = 100
    tested: int = 40
    operations: int = 10_000
    fanouts: tuple[int, ...] = field(default=FANOUTS)

    def text(self) -> str:
        """As an argument of this module."""
        return json.dumps(asdict(self))


def show(stage: str, done: int, total: int) -> None:
    """One line of progress."""
    print(stage, done, total, file=sys.stderr, flush=True)


def drop_from_cache(store: str) -> None:
    """Puts the files of a store out of the page cache."""
    for file in Path(store).rglob("*"):
        if file.is_file():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
                os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Seeds:
    """The sampler, the seeds and their order of all steps without torch."""

    def __init__(self, spec: Spec, store: Any) -> None:
        self.sampler = NumpySampler(store, list(spec.fanouts), seed=spec.seed, attrs=["x", "y"])
        self.inputs = resolve_input_nodes(self.sampler.snapshot, "train")
        order = {"shuffle": True, "seed": spec.seed}
        count = len(self.inputs)
        self.plan = SeedPlan(num_seeds=count, batch_size=spec.batch_size, **order)

    def read(self, way: str = "auto") -> Pipeline:
        """The batches of `NumpySampler.batches`, and what was chosen for them."""
        return Pipeline(self.sampler, self.inputs, self.plan, Reading(way), goes_on=False)


def counted(store: Any, start: float, batches: int, seeds: int, nodes: int) -> dict[str, Any]:
    """Rates and counts since `reset_stats`."""
    seconds, stats = time.perf_counter() - start, store.stats()
    return {
        "seconds": seconds,
        "batches": batches,
        "seeds": seeds,
        "nodes": nodes,
        "seeds_per_s": seeds / seconds,
        "reads": stats["reads"],
        "read_bytes": stats["read_bytes"],
        "useful_bytes": stats["useful_bytes"],
        "temporary_write_bytes": stats["temporary_write_bytes"],
        "budget_peak_bytes": stats["budget_peak"],
        "mean_queue_depth": stats["mean_queue_depth"],
        "hit_rate": stats["hit_rate"],
    }


def pass_over(
    store: Any, stage: str, made: Pipeline, total: int, warm_up: int = 0
) -> dict[str, Any]:
    """Takes so many batches of an epoch after the first ones, which are not counted."""
    done = seeds = nodes = 0
    first = chosen = None
    batches = made.run(0)
    deque(islice(batches, warm_up), maxlen=0)
    store.reset_stats()
    start = time.perf_counter()
    for batch in islice(batches, total):
        first = first or time.perf_counter() - start
        done, seeds = done + 1, seeds + batch.num_seeds
        nodes += len(batch.nodes())
        # The budget counts a batch until its last name is gone.
        del batch
        if done % 8 == 0 or done == total:
            show(stage, done, total)
            chosen = made.chosen() or chosen
    found = counted(store, start, done, seeds, nodes)
    return {**found, "first_batch_seconds": first, "chosen": chosen}


def epoch(spec: Spec) -> dict[str, Any]:
    """One epoch over the training seeds from cold; with `batches`, its first ones."""
    start = time.perf_counter()
    with ng.open(spec.store, memory=spec.memory) as store:
        seeds = Seeds(spec, store)
        opening = time.perf_counter() - start
        total = min(seeds.plan.steps, spec.batches or seeds.plan.steps)
        found = pass_over(store, "epoch", seeds.read(), total)
    return {**found, "opening_seconds": opening}


def naive(spec: Spec) -> dict[str, Any]:
    """The rows of the same store by one read for each missed row, as published loaders do it.

    A row is read with its whole block. Where memory does not hold that, the store gets what does.
    """
    try:
        return read_by_row(spec, spec.memory)
    except ng.BudgetTooSmall as error:
        least = [
            remedy["at_least_bytes"] for remedy in error.remedies if "at_least_bytes" in remedy
        ]
        return read_by_row(spec, max(least))


def read_by_row(spec: Spec, memory: int) -> dict[str, Any]:
    """`naive` with so much memory."""
    with ng.open(spec.store, memory=memory) as store:
        seeds = Seeds(spec, store)
        warm_up = min(WARM_UP, seeds.plan.steps // 2)
        total = min(spec.naive_batches, seeds.plan.steps - warm_up)
        made = seeds.read("naive-uring")
        return {**pass_over(store, "naive", made, total, warm_up), "memory": memory}


def learner(spec: Spec, width: int) -> tuple[Any, Callable[[Any], float]]:
    """A model, and what takes a step of training on a batch; returns the loss."""
    import torch

    from neargraph.nn import GraphSAGE

    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(2)
    torch.manual_seed(spec.seed)
    model = GraphSAGE(width, HIDDEN, spec.classes, len(spec.fanouts))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def learn(data: Any) -> float:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        out = model(data.x, data.edge_index)[: data.batch_size]
        loss = torch.nn.functional.cross_entropy(out, data.y[: data.batch_size].long())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return model, learn


def loader(spec: Spec, store: Any, split: str) -> Any:
    """Batches for torch."""
    how = {"batch_size": spec.batch_size, "shuffle": True, "seed": spec.seed}
    return ng.NeighborLoader(store, list(spec.fanouts), split, **how)


def train(spec: Spec, store: Any, count: int) -> tuple[Any, list[str]]:
    """(the model after so many batches, epoch after epoch; their losses to the last bit)."""
    made = loader(spec, store, "train")
    model, learn = learner(spec, store.snapshot().features(None, np.arange(1)).shape[1])
    losses: list[str] = []
    for number in range(count):
        made.set_epoch(number)
        for data in made:
            losses.append(learn(data).hex())
            show("train", len(losses), count)
            if len(losses) == count:
                return model, losses
    raise SystemExit("there are no training seeds")


def losses(spec: Spec) -> dict[str, Any]:
    """The losses of the first batches, to the last bit."""
    start = time.perf_counter()
    with ng.open(spec.store, memory=spec.memory) as store:
        _, found = train(spec, store, spec.compared)
    return {"seconds": time.perf_counter() - start, "losses": found}


def accuracy(spec: Spec) -> dict[str, Any]:
    """GraphSAGE after some hundred batches, on validation seeds."""
    with ng.open(spec.store, memory=spec.memory) as store:
        start = time.perf_counter()
        model, found = train(spec, store, spec.train_batches)
        seconds = time.perf_counter() - start
        right, asked, largest = tested(spec, store, model)
    return {
        "seconds": seconds,
        "batches": len(found),
        "losses": found,
        "accuracy": right / max(1, asked),
        "tested": asked,
        "chance": 1 / spec.classes,
        "largest_class": largest / max(1, asked),
    }


def tested(spec: Spec, store: Any, model: Any) -> tuple[int, int, int]:
    """(right, asked, seeds of the commonest class) of validation batches."""
    import torch

    right = asked = 0
    classes = np.zeros(spec.classes, dtype=np.int64)
    model.eval()
    with torch.no_grad():
        for data in islice(loader(spec, store, "val"), spec.tested):
            out = model(data.x, data.edge_index)[: data.batch_size]
            labels = data.y[: data.batch_size]
            right += int((out.argmax(1) == labels).sum())
            asked += len(labels)
            classes += np.bincount(labels.numpy(), minlength=spec.classes)
            show("test", asked // spec.batch_size, spec.tested)
    return right, asked, int(classes.max())


def verify(spec: Spec) -> dict[str, Any]:
    """Every block and every structure of the store, as `neargraph verify` checks them."""
    from neargraph import _core

    start = time.perf_counter()

    def progress(done: int, total: int) -> None:
        show("verify", done, total)

    report = json.loads(_core.verify(spec.store, spec.memory, "auto", progress))
    if not report["ok"]:
        raise SystemExit(f"the store is damaged: {json.dumps(report)[:2000]}")
    return {"seconds": time.perf_counter() - start, "report": report}


def update(spec: Spec) -> dict[str, Any]:
    """One batch of operations: 6 of 10 add an edge, 3 replace a row, 1 adds a node with a row."""
    rng = np.random.default_rng(spec.seed)
    edges, nodes = spec.operations * 6 // 10, spec.operations // 10
    rows = spec.operations - edges - nodes
    with ng.open(spec.store, memory=spec.memory) as store:
        store.reset_stats()
        known = store.num_nodes
        width = store.snapshot().features(None, np.arange(1)).shape[1]
        start = time.perf_counter()
        with store.write() as tx:
            x = rng.standard_normal((nodes, width), dtype=np.float32)
            added = tx.add_nodes(None, {"x": x}, labels=np.zeros(nodes, np.int32))
            ends = rng.integers(0, known, (2, edges))
            ends[0, : len(added)] = added
            tx.add_edges(None, ends[0], ends[1])
            ids = rng.choice(known, rows, replace=False)
            x = rng.standard_normal((rows, width), dtype=np.float32)
            tx.update_features(None, ids, "x", x)
        committed = time.perf_counter() - start
        before = store.num_nodes
        store.checkpoint()
        checkpointed = time.perf_counter() - start - committed
        stats = store.stats()
    if before != known + nodes:
        raise SystemExit(f"{before} nodes after an update of {known}, and {nodes} were added")
    return {
        "seconds": committed,
        "checkpoint_seconds": checkpointed,
        "operations": edges + rows + nodes,
        "operations_per_s": spec.operations / committed,
        "reads": stats["reads"],
        "read_bytes": stats["read_bytes"],
    }


def compiled(spec: Spec) -> dict[str, Any]:
    """One epoch written down and replayed; only where the disk has room. Its file goes again."""
    from neargraph.loader.compiling import EpochCompiler

    with ng.open(spec.store, memory=spec.memory) as store:
        seeds = Seeds(spec, store)
        compiler = EpochCompiler(seeds.sampler, seeds.inputs, seeds.plan, 1)
        estimate = compiler.estimate()
        wanted = {"bytes_per_epoch": estimate.bytes_per_epoch, "free_bytes": estimate.free_bytes}
        if estimate.total_bytes + (1 << 30) > estimate.free_bytes:
            return {**wanted, "skipped": "the disk has no room for it", "seconds": 0.0}
        start = time.perf_counter()
        compiler.run(show)
        written = time.perf_counter() - start
    drop_from_cache(spec.store)
    with ng.open(spec.store, memory=spec.memory) as store:
        seeds = Seeds(spec, store)
        found = pass_over(store, "replay", seeds.read("compiled"), seeds.plan.steps)
    files = list((Path(spec.store) / "compiled").glob("*"))
    file_bytes = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink()
    return {**wanted, **found, "compile_seconds": written, "file_bytes": file_bytes}


STEPS: dict[str, Callable[[Spec], dict[str, Any]]] = {
    "verify": verify,
    "epoch": epoch,
    "losses": losses,
    "accuracy": accuracy,
    "naive": naive,
    "update": update,
    "compiled": compiled,
}


def main() -> None:
    told = json.loads(sys.argv[1])
    spec = Spec(**{**told, "fanouts": tuple(told["fanouts"])})
    drop_from_cache(spec.store)
    print(json.dumps(STEPS[spec.step](spec)))


if __name__ == "__main__":
    main()
