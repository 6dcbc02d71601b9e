"""This project's loader, and its sampler in front of features that are held in memory.

Options: `reading` (a way of reading that the engine has), `window` (batches to look ahead),
`two_phase` (0 or 1), `store` (another store of the same graph), `threads`, `prefetch`, `backend`,
`method`, `dependent_batches` and `seed` of the sampler, `compiled` (a folder of compiled epochs of
the train ids, or 1 for the store's own), `log` (1 prices the device's requests, see
`plan_cost.py`; `held_reads` and `held_bytes` are the rates of a held disk), and `gather`: `store`
(rows come with the batch), `numpy` or `torch` (all rows are in memory and that library gathers
them), or `none` (sampling alone). Torch is imported only to train, or to gather by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.reading import Reading
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

from ..places import BENCH
from ..plan_cost import Curve, figures, known_curve, mean_curve, read_log, slower
from .drive import Batch, Spec

PASSED_ON = ("reading", "window", "threads", "prefetch", "two_phase")
SAMPLER = ("method", "dependent_batches")


class System:
    """The store, opened with the memory that `training.py` planned."""

    def __init__(self, spec: Spec) -> None:
        options = spec.options
        self.spec = spec
        self.gather = options.get("gather", "store")
        keywords = {key: options[key] for key in PASSED_ON if key in options}
        if "two_phase" in keywords:
            keywords["two_phase"] = bool(keywords["two_phase"])
        self.reading = Reading(keywords.pop("reading", "auto"), **keywords)
        self.store = ng.open(
            options.get("store", spec.store),
            memory=spec.memory_bytes or None,
            backend=options.get("backend", "auto"),
        )
        attrs = ["x"] if self.gather == "store" else []
        how = {key: options[key] for key in SAMPLER if key in options}
        seed = int(options.get("seed", spec.seed))
        self.sampler = ng.NumpySampler(self.store, spec.fanouts, seed=seed, attrs=attrs, **how)
        self.ahead: Any = None
        self.log: Path | None = None
        if options.get("log"):
            self.log = BENCH / "reads.log"
            self.curve = self.store.core.disk_curve()
        self.labels = spec.labels() if spec.mode != "gather" else None
        if self.gather in ("numpy", "torch"):
            self.rows = np.load(Path(spec.graph) / "feat.npy")

    def _plan(self, ids: Any, whole: bool) -> tuple[Any, SeedPlan]:
        """Seeds and their order in each epoch, `whole` batches alone."""
        inputs = resolve_input_nodes(self.sampler.snapshot, ids)
        size, seed = self.spec.batch_size, self.sampler.seed
        plan = SeedPlan(
            num_seeds=len(inputs), batch_size=size, shuffle=True, seed=seed, drop_last=whole
        )
        return inputs, plan

    def _epochs(self, inputs: Any, plan: SeedPlan, how: Reading) -> Iterator[Any]:
        """Epochs behind each other, as a loader runs them: what looks ahead goes on from one into
        the next."""
        self.ahead = Pipeline(self.sampler, inputs, plan, how, goes_on=True)
        for epoch in itertools.count():
            yield from self.ahead.run(epoch)

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        for batch in self._stream(split, epoch):
            data = self._data(batch)
            yield Batch(batch.num_seeds, len(batch.nodes()), sum(batch.num_sampled_edges()), data)
            # The budget counts a batch until its last name is gone.
            del data, batch

    def _stream(self, split: str, epoch: int) -> Iterator[Any]:
        """One epoch, or all that follow where a loader would look ahead into them."""
        compiled = self.spec.options.get("compiled")
        trains = split == "train"
        if trains and compiled:
            inputs, plan = self._plan("train", whole=False)
            where = "compiled" if compiled == 1 else compiled
            return self._epochs(inputs, plan, Reading(where))
        ids, steady = self.spec.ids(split), trains and self.spec.mode != "accuracy"
        if steady:
            inputs, plan = self._plan(ids, whole=True)
            return self._epochs(inputs, plan, self.reading)
        order = {"shuffle": trains, "drop_last": steady, "epoch": epoch}
        return self.sampler.batches(ids, self.spec.batch_size, reading=self.reading, **order)

    def _data(self, batch: Any) -> Any:
        if self.gather == "store":
            x = batch.features("x")
        elif self.gather == "numpy":
            x = np.take(self.rows, batch.nodes(), axis=0, mode="clip")
        elif self.gather == "torch":
            import torch

            x = torch.from_numpy(self.rows)[torch.from_numpy(batch.nodes())]
        else:
            x = None
        if self.labels is None:
            return x, batch.edge_index()
        import torch

        from .sage import Block

        return Block(
            torch.as_tensor(x),
            torch.from_numpy(batch.edge_index()),
            batch.num_sampled_nodes(),
            batch.num_sampled_edges(),
            torch.from_numpy(self.labels[batch.nodes()[: batch.num_seeds]]),
        )

    def learner(self) -> Any:
        from .sage import Sage

        return Sage(self.spec)

    def reset(self) -> None:
        self.store.reset_stats()
        if self.log is not None:
            self.store.core.log_reads(str(self.log))

    def prices(self) -> Curve:
        """What requests cost as measured; on a held disk never less than its rates allow."""
        measured = mean_curve(self.curve, self.store.core.disk_curve())
        held = [self.spec.options.get(key) for key in ("held_reads", "held_bytes")]
        return slower(measured, known_curve(*held)) if all(held) else measured

    def stats(self) -> dict[str, Any]:
        # Before prices are measured, which reads as well.
        found = figures_of(self.store)
        chosen = self.ahead.chosen() if self.ahead is not None else None
        priced = {}
        if self.log is not None:
            self.store.core.end_read_log()
            if self.ahead is not None:
                self.ahead.close()
            curve = self.prices()
            priced = figures(read_log(self.log), curve)
            self.log.unlink()
        if self.gather != "store":
            return {"engine": found["engine"]}
        return {**found, **priced, "chosen": chosen}


def figures_of(store: Any) -> dict[str, Any]:
    """The counters of a store under the names that the tables have."""
    found, info = store.stats(), store.info()
    return {
        "reads": found["reads"],
        "read_bytes": found["read_bytes"],
        "temporary_bytes": found["temporary_write_bytes"],
        "hit_rate": found["hit_rate"],
        "mean_depth": found["mean_queue_depth"],
        "device_busy_seconds": found["device_busy_seconds"],
        "budget_peak_bytes": found["budget_peak"],
        "store_memory_bytes": info["memory_bytes"],
        "backend": info["backend"],
        "engine": found,
    }
