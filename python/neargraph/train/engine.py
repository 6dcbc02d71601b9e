"""The training loop, for every task, model and sampler.

The invariant: the same store content, configuration and thread count give the same losses to the
last bit, from disk or from memory, resumed or not.
"""

import math
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from neargraph.exceptions import LossNotFinite, StateMismatch, UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.metrics import Metrics
from neargraph.store import Store

from .checkpoint import load_checkpoint, save_checkpoint
from .config import TrainConfig
from .making import make_task
from .passes import Pass
from .result import TrainResult
from .schedule import best_at, is_over, learning_rate, plateaus

Progress = Callable[[str, int, int, float], None]
"""Called with (phase, step, steps, loss or metric); phases: "epoch 1", ..., "val", "test"."""

Watch = Callable[[Pass], None]
"""Called with each pass when it begins; what it is given changes while the pass goes on."""

EpochEnd = Callable[["Trainer", bool], None]
"""Called after each epoch with the trainer, and whether its validation is the best so far."""

_COUNTERS = ("reads", "read_bytes", "useful_bytes", "rows_served", "rows_cached")


class Trainer:
    """One run: task, model, optimiser, loaders, and the counters that a checkpoint keeps."""

    def __init__(
        self,
        store: Store,
        config: TrainConfig,
        in_memory: bool = False,
        checkpoint: Path | None = None,
        progress: Progress | None = None,
        device: torch.device | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._store, self.config = store, config
        self._checkpoint, self._watch = checkpoint, watch
        self.on_epoch: EpochEnd | None = None
        self._progress = progress or (lambda *_: None)
        self.task = make_task(store, config, in_memory, device)
        # The store was read above; seeding again makes both ways start alike.
        torch.manual_seed(config.seed)
        self.model = self.task.build()
        self._parameters = list(self.model.parameters())
        if self.task.head is not None:
            self._parameters += list(self.task.head.parameters())
        if not self._parameters:
            raise UnsupportedArgument(
                f"the model {config.model} has no parameters on features that the store holds, so "
                "there is nothing to learn; use decoder mlp, or another model"
            )
        self.optimizer = torch.optim.Adam(
            self._parameters, lr=config.lr, weight_decay=config.weight_decay
        )
        self.loader = self.task.train_loader()
        self.first = self.task.metrics().first
        self._epoch = 0
        self._best: dict[str, Any] | None = None
        self._epoch_stats: dict[str, Any] = {}
        self.result = TrainResult(
            num_classes=self.task.outputs,
            num_features=self.task.num_features,
            objective=self.task.objective,
            metric=self.first.text,
            num_parameters=sum(parameter.numel() for parameter in self._parameters),
            missing_labels=self.task.missing_labels,
            notes=self.task.notes,
        )

    def run(self) -> TrainResult:
        """All epochs that are missing, and the test."""
        while self._epoch < self.config.epochs and not self._is_over():
            row = self._train_epoch()
            self._epoch += 1
            if self._epoch % self.config.val_every == 0:
                row |= {f"val_{name}": value for name, value in self.evaluate("val").items()}
            self.result.history.append(row)
            is_best = self._keep_best(row)
            self._save()
            if self.on_epoch is not None:
                self.on_epoch(self, is_best)
        self.result.stopped_early = self._epoch < self.config.epochs
        self.result.tested = self._choose()
        self.result.test = self.evaluate("test")
        return self.result

    # Steps

    def step(self, batch: Any, where: str = "a step") -> float:
        """One step of the optimiser; the loss, 0 where a batch has no labels.

        Raises `LossNotFinite`, which says `where`.
        """
        self.optimizer.zero_grad(set_to_none=True)
        prediction = self.task.predict(batch)
        if not len(prediction):
            return 0.0
        loss = self.task.loss(prediction)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.config.clip)
        self.optimizer.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._not_finite(f"{where}: the loss is {value}", batch)
        return value

    def _not_finite(self, what: str, batch: Any) -> LossNotFinite:
        """The error, with the row that is to blame if one is."""
        named = [(None, batch)] if "x" in batch else []
        named = named or [(kind, batch[kind]) for kind in batch.node_types if "x" in batch[kind]]
        for kind, part in named:
            bad = torch.nonzero(~torch.isfinite(part.x).all(dim=1)).flatten()
            if len(bad):
                of = "" if kind is None else f"{kind} "
                return LossNotFinite(
                    f"{self._store.path}: {what}; x of {of}node {int(part.n_id[bad[0]])} holds NaN "
                    f"or infinite values, and {len(bad)} of {len(part.x)} nodes of the batch do; "
                    "import finite features, or set these with update_features"
                )
        return LossNotFinite(
            f"{self._store.path}: {what}, though the features of the batch are finite; use a "
            f"smaller lr than {self.config.lr}, or scale the features"
        )

    def _train_epoch(self) -> dict[str, Any]:
        """One pass over the training batches, or its rest; the row of the history."""
        self._set_training(True)
        result, steps = self.result, len(self.loader)
        self.loader.set_epoch(self._epoch)
        before = self._epoch * steps
        done = len(result.losses) - before
        self._store.reset_stats()
        begin = time.perf_counter()
        now = self._begin_pass(f"epoch {self._epoch + 1}", self.loader, done)
        rate = self.config.lr
        for batch in self.loader:
            rate = self._set_rate(before + done, steps)
            where = f"epoch {self._epoch + 1}, batch {done + 1} of {steps}"
            result.losses.append(self.step(batch, where))
            now.seeds += self.task.seeds(batch)
            del batch
            done += 1
            now.step, now.value = done, result.losses[-1]
            self._progress(now.phase, done, steps, result.losses[-1])
            every = self.config.checkpoint_steps
            if every and done % every == 0 and done < steps:
                self._save()
        seconds = time.perf_counter() - begin
        result.train_seconds += seconds
        result.seeds += now.seeds
        losses = result.losses[before:]
        return {
            "epoch": self._epoch + 1,
            "loss": math.fsum(losses) / max(1, len(losses)),
            "lr": rate,
            "seconds": seconds,
            "seeds_per_second": now.seeds / max(1e-9, seconds),
            **self._add_stats(),
        }

    def _set_rate(self, step: int, steps: int) -> float:
        config = self.config
        stale = 0
        if config.schedule == "plateau":
            stale = plateaus(self._values(), self.first.mode, config.schedule_epochs)
        rate = learning_rate(config, step, self._epoch, steps, stale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _begin_pass(self, phase: str, loader: EpochLoader, step: int = 0) -> Pass:
        """A pass of which `step` batches were done before."""
        now = Pass(phase, loader, step, measure=self.first.text)
        if self._watch is not None:
            self._watch(now)
        return now

    def _add_stats(self) -> dict[str, Any]:
        """Adds the counters of the epoch to those of the run; what the history has of them."""
        totals, now = self.result.store_stats, self._store.stats()
        for name in _COUNTERS:
            totals[name] = totals.get(name, 0) + int(now.get(name, 0))
        totals["budget_peak"] = max(totals.get("budget_peak", 0), int(now.get("budget_peak", 0)))
        totals["budget_limit"] = int(now.get("budget_limit", 0))
        served = totals["rows_served"]
        totals["hit_rate"] = totals["rows_cached"] / served if served else 0.0
        rows = int(now.get("rows_served", 0))
        return {
            "read_bytes": int(now.get("read_bytes", 0)),
            "useful_bytes": int(now.get("useful_bytes", 0)),
            "hit_rate": int(now.get("rows_cached", 0)) / rows if rows else 0.0,
        }

    # Measuring

    @torch.no_grad()
    def evaluate(self, split: str) -> dict[str, float]:
        """The metrics of "val" or "test", by name; empty where nothing is in it, or known."""
        loader = self.task.loader(split)
        if loader is None:
            return {}
        self._set_training(False)
        metrics, known = self.task.metrics(), 0
        now = self._begin_pass(split, loader)
        # `enumerate` would keep the batch before while the next one looks for memory.
        for batch in loader:
            known += self._measure(batch, metrics, now)
            del batch
            self._progress(split, now.step, now.steps, now.value or 0.0)
        if not known:
            return {}
        found = metrics.compute()
        for name, count in metrics.left_out().items():
            note = f"{split}: {name} leaves {count} of {self.task.outputs} out: one class only"
            self.result.notes += [] if note in self.result.notes else [note]
        return found

    def _measure(self, batch: Any, metrics: Metrics, now: Pass) -> int:
        """Adds a batch to the metrics; how many of it are known."""
        prediction = self.task.predict(batch)
        if not torch.isfinite(prediction.outputs).all():
            where = f"{now.phase}, batch {now.step + 1} of {now.steps}"
            raise self._not_finite(f"{where}: outputs of the model are not finite", batch)
        loss = float(self.task.loss(prediction)) if len(prediction) else None
        metrics.update(prediction.outputs.cpu(), prediction.targets.cpu(), loss)
        now.seeds += self.task.seeds(batch)
        now.step += 1
        now.value = metrics.running() if metrics.running() is not None else loss
        return len(prediction)

    def _set_training(self, on: bool) -> None:
        self.model.train(on)
        if self.task.head is not None:
            self.task.head.train(on)

    def _values(self) -> list[float]:
        return self.result.values(self.first.text)

    def _is_over(self) -> bool:
        return is_over(self._values(), self.first.mode, self.config.patience)

    # Parameters that are kept

    def parameters(self) -> dict[str, Any]:
        """The parameters of model and head, as of now."""
        return {"model": self.model.state_dict(), "head": self.task.plain_state()}

    def load_parameters(self, state: dict[str, Any]) -> None:
        """Puts back what `parameters` gave."""
        self.model.load_state_dict(state["model"])
        if self.task.head is not None:
            self.task.head.load_state_dict(state["head"])

    def _keep_best(self, row: dict[str, Any]) -> bool:
        """Keeps the parameters of the best validation; whether this is one."""
        values = self._values()
        if (
            f"val_{self.first.text}" not in row
            or best_at(values, self.first.mode) != len(values) - 1
        ):
            return False
        config, fingerprint = self.config.plain(), self._store.fingerprint
        kept = {"epoch": self._epoch, "config": config, "fingerprint": fingerprint}
        self._best = {**kept, **deepcopy(self.parameters())}
        self.result.best_epoch = self._epoch
        return True

    def _choose(self) -> str:
        """Puts the parameters in place that are to be tested; which ones they are."""
        if self.config.tested == "best" and self._best is not None:
            self.load_parameters(self._best)
            return "best"
        return "last"

    @property
    def best(self) -> dict[str, Any] | None:
        """The parameters of the best validation, its ``epoch``, and the settings and store."""
        return self._best

    def state(self) -> dict[str, Any]:
        """All that a run goes on from."""
        return {
            "config": self.config.plain(),
            "fingerprint": self._store.fingerprint,
            "epoch": self._epoch,
            **self.parameters(),
            "best": self._best,
            "optimizer": self.optimizer.state_dict(),
            "generator": torch.get_rng_state(),
            "loader": self.loader.state_dict(),
            "losses": list(self.result.losses),
            "history": list(self.result.history),
        }

    def _save(self) -> None:
        if self._checkpoint is not None:
            save_checkpoint(self._checkpoint, self.state())

    def resume(self) -> None:
        """Goes on from the checkpoint, if there is one."""
        state = None if self._checkpoint is None else load_checkpoint(self._checkpoint)
        if state is None:
            return
        self.config.same_run(state["config"])
        check_store(self._store, state, self._checkpoint)
        self.loader.load_state_dict(state["loader"])
        self.load_parameters(state)
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["generator"])
        self._epoch, self._best = int(state["epoch"]), state["best"]
        self.result.losses = [float(loss) for loss in state["losses"]]
        self.result.history = list(state["history"])
        self.result.best_epoch = None if self._best is None else int(self._best["epoch"])
        self.result.resumed_at_step = len(self.result.losses)


def check_store(store: Store, state: dict[str, Any], path: Path | None) -> None:
    """Refuses a checkpoint of other content.

    Raises:
        StateMismatch: The store is another one, or was written to since.
    """
    if state["fingerprint"] != store.fingerprint:
        raise StateMismatch(
            f"{path}: the checkpoint was written with a store of fingerprint "
            f"{state['fingerprint']}, and {store.path} has {store.fingerprint}: it is another "
            "store, or was written to since; use the store of then, or train anew"
        )
