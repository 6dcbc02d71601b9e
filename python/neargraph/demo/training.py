"""One training run in a separate process: PyG's GraphSAGE in a plain loop.

    python -m neargraph.demo.training '{"source": "disk", ...}'

Prints JSON lines: the progress of steps, and at the end the figures. The invariant: seeds, weights
and steps do not depend on the source of rows.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from neargraph.cli.app import one_line, quiet_torch
from neargraph.exceptions import NeargraphError
from neargraph.tuning import tune_process

from .settings import Job

_WARM_SHARE = 0.1
"""Share of the steps that seeds per second exclude, while caches and windows fill."""


def main() -> None:
    """Runs the job of the command line."""
    quiet_torch()
    tune_process()
    job = Job.of(json.loads(sys.argv[1]))
    try:
        print(json.dumps({"result": run(job)}), flush=True)
    except NeargraphError as error:
        sys.exit(one_line(error, frozenset(["--memory"])))


def run(job: Job) -> dict[str, Any]:
    """Trains, tests and exports. Returns the figures of the run."""
    import torch
    from torch_geometric.nn import GraphSAGE

    from .feeds import feed_of
    from .limit import memory_limit

    torch.use_deterministic_algorithms(True)
    # Filling new tensors with NaN has no use but to find reads of uninitialised memory.
    switch: Any = torch.utils.deterministic
    switch.fill_uninitialized_memory = False
    training, opened = job.training, time.perf_counter()
    with feed_of(job) as feed:
        torch.manual_seed(job.seed)
        model = GraphSAGE(job.width, training.hidden, len(training.fanouts), job.classes)
        steps = Steps(job)
        steps.run(model, feed)
        stats: Mapping[str, Any] = {} if feed.store is None else feed.store.stats()
        chosen = feed.loader.chosen() if feed.loader is not None else None
        accuracy = None if feed.test is None else tested(model, feed.test)
        # From here on, memory is that of the export.
        print(json.dumps({"trained": True}), flush=True)
        if job.model is not None:
            export(model, feed.store, job)
        return {
            "source": job.source,
            "losses": steps.losses,
            "accuracy": accuracy,
            "first_batch_seconds": steps.arrived[0] - opened,
            "turns": [steps.rates(*span) for span in steps.spans(feed.turns)],
            "cached_bytes": feed.cached_bytes,
            "limit_bytes": memory_limit(),
            "budget_limit_bytes": stats.get("budget_limit"),
            "budget_peak_bytes": stats.get("budget_peak"),
            "reads": stats.get("reads"),
            "read_bytes": stats.get("read_bytes"),
            "useful_bytes": stats.get("useful_bytes"),
            "backend": feed.store.core.backend_note if feed.store is not None else None,
            "reading": chosen,
        }


class Steps:
    """The training loop, with the times at which batches arrived and steps ended."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.losses: list[float] = []
        self.arrived: list[float] = []
        self.ended: list[float] = []
        self.seeds: list[int] = []
        self.began = 0.0

    def run(self, model: Any, feed: Any) -> None:
        """Trains for the epochs of the job, or until the feed ends."""
        import torch
        from torch.nn import functional

        optimizer = torch.optim.Adam(model.parameters(), lr=self._job.training.lr)
        total = len(feed.loader or feed.train) * self._job.epochs
        self.began = time.perf_counter()
        for _ in range(self._job.epochs):
            for batch in feed.train:
                self.arrived.append(time.perf_counter())
                optimizer.zero_grad()
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = functional.cross_entropy(out, batch.y[: batch.batch_size])
                loss.backward()
                optimizer.step()
                self.losses.append(float(loss.detach()))
                self.seeds.append(int(batch.batch_size))
                # The budget counts a batch until its last reference is gone.
                del batch, out, loss
                self.ended.append(time.perf_counter())
                print(json.dumps({"step": len(self.losses), "steps": total}), flush=True)
            if feed.is_over:
                return

    def spans(self, turns: list[int]) -> list[tuple[int, int]]:
        """Returns first and end step of each turn that made a step."""
        ends = [*turns[1:], len(self.losses)]
        return [(first, end) for first, end in zip(turns, ends, strict=True) if end > first]

    def rates(self, first: int, end: int) -> dict[str, Any]:
        """Returns seeds per second of some steps, and the share of the time spent waiting."""
        warm = min(end - 1, first + max(1, round(_WARM_SHARE * (end - first))))
        start = self.ended[warm - 1] if warm else self.began
        before = [start, *self.ended[warm : end - 1]]
        waited = sum(a - b for a, b in zip(self.arrived[warm:end], before, strict=True))
        seconds = self.ended[end - 1] - start
        return {
            "steps": end - first,
            "seeds_per_second": sum(self.seeds[warm:end]) / seconds,
            "waiting_share": waited / seconds,
        }


def tested(model: Any, batches: Any) -> float:
    """Returns the share of the test nodes that the model classifies correctly."""
    import torch

    model.eval()
    right = seen = 0
    with torch.no_grad():
        for batch in batches:
            guess = model(batch.x, batch.edge_index)[: batch.batch_size].argmax(dim=1)
            right += int((guess == batch.y[: batch.batch_size]).sum())
            seen += int(batch.batch_size)
            del batch, guess
    return right / max(1, seen)


def export(model: Any, store: Any, job: Job) -> None:
    """Writes the trained model as a model file, which can be served without torch."""
    from pathlib import Path

    from neargraph.modelfile import export as write

    assert job.model is not None
    Path(job.model).unlink(missing_ok=True)
    write(model.eval(), store, job.model, fanouts=list(job.training.fanouts))


if __name__ == "__main__":
    main()
