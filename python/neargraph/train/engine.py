"""The training loop, for every task, model and sampler.

The invariant: the same store content, configuration and thread count give the same losses to the
last bit, from disk or from memory, resumed or not.
"""

import math
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from neargraph.exceptions import LossNotFinite, StateMismatch, UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.metrics import Metrics
from neargraph.store import Store

from .config import Tested, TrainConfig
from .embeddings import content_of
from .making import make_task
from .passes import Pass
from .result import TrainResult
from .schedule import best_at, is_over, learning_rate, plateaus
from .state import load_state, save_state
from .tasks import LinkTask

Progress = Callable[[str, int, int, float], None]
"""A function that is called after each step with (phase, step, steps, loss or metric). Phases are
"epoch 1", ..., "val" and "test"."""

Watch = Callable[[Pass], None]
"""A function that is called with each pass when it begins. The pass is updated as it proceeds."""

EpochEnd = Callable[["Trainer", bool], None]
"""A function that is called after each epoch with the trainer, and whether its validation is the
best so far."""

_EMPTY = "had no training seed with a known label and made no step"
_COUNTERS = ("reads", "read_bytes", "useful_bytes", "rows_served", "rows_cached")


class Trainer:
    """One run: task, model, optimiser, loaders, and the counters of a training state."""

    def __init__(
        self,
        store: Store,
        config: TrainConfig,
        in_memory: bool = False,
        state: Path | None = None,
        progress: Progress | None = None,
        device: torch.device | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._store, self.config = store, config
        self._state_path, self._watch = state, watch
        self.on_epoch: EpochEnd | None = None
        self._progress = progress or (lambda *_: None)
        self._saved = None if state is None else load_state(state)
        if self._saved is not None:
            config.same_run(self._saved["config"])
            check_store(store, config, self._saved, state)
        self.task = make_task(store, config, in_memory, device)
        self._check_validation()
        self.first = self.task.metrics().first
        # Reading the store may have drawn numbers; seeding again makes all starts equal.
        torch.manual_seed(config.seed)
        self.model = self.task.build(self._saved)
        self._embeddings = self.task.embeddings
        self._parameters = list(self.model.parameters())
        if self.task.head is not None:
            self._parameters += list(self.task.head.parameters())
        if not self._parameters and self._embeddings is None:
            raise UnsupportedArgument(
                f"the model {config.model!r} has no parameters, and stored features are not "
                "trained, so there is nothing to learn; use decoder='mlp', or another model"
            )
        # Adam accepts a group without parameters, but not an empty list of parameters.
        self.optimizer = torch.optim.Adam(
            [{"params": self._parameters}], lr=config.lr, weight_decay=config.weight_decay
        )
        self.loader = self.task.train_loader()
        self._epoch = 0
        # Batches and optimiser steps of the current epoch. A batch without a label makes no step.
        self._done = self._steps = 0
        self._best: dict[str, Any] | None = None
        self.result = TrainResult(
            num_classes=self.task.outputs,
            num_features=self.task.num_features,
            objective=self.task.objective,
            metric=self.first.text,
            resolved=self.task.resolved(),
            num_parameters=sum(parameter.numel() for parameter in self._parameters),
            missing_labels=self.task.missing_labels,
            notes=self.task.notes,
        )

    def _check_validation(self) -> None:
        """Rejects settings that need validations if the run has none."""
        config, known = self.config, self.task.known_labels
        asking = {
            "patience": config.patience,
            "schedule": config.schedule == "plateau" and "plateau",
            "test_on": config.test_on == "best" and "best",
        }
        asking = {name: value for name, value in asking.items() if value}
        is_late = config.val_every > config.epochs
        is_empty = bool(asking or is_late) and self.task.loader("val") is None
        for name, value in asking.items():
            if is_empty:
                raise UnsupportedArgument(
                    f"{name}={value!r} needs validations, but the validation part of "
                    f"{self._store.path} is empty; leave out {name}=, or use a split or holdout= "
                    "with a validation part"
                )
            if known is not None and not known["val"]:
                raise UnsupportedArgument(
                    f"{name}={value!r} needs validations, but no label of the validation split "
                    f"of {self._store.path} is known; leave out {name}=, or import labels for "
                    "this split"
                )
        if is_late and not is_empty:
            vain = [f"{name}={value!r}" for name, value in asking.items()]
            has = "has" if len(vain) == 1 else "have"
            more = f", so {' and '.join(vain)} {has} no effect" if vain else ""
            self.task.notes.append(
                f"no validation: val_every={config.val_every} is larger than "
                f"epochs={config.epochs}{more}"
            )

    def run(self) -> TrainResult:
        """Trains the remaining epochs, and tests."""
        if self._embeddings is not None and self._saved is None:
            # Resuming restores rows to a training state, so one must exist before rows are written.
            self._save()
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
        if self._embeddings is not None:
            self._embeddings.flush()
        self.result.stopped_early = self._epoch < self.config.epochs
        if self.result.stopped_early:
            self.result.notes.append(
                f"stopped after epoch {self._epoch}: {self.first.text} did not improve in "
                f"{self.config.patience} validations"
            )
        self.result.tested = self._choose()
        self.result.test = self.evaluate("test", final=True)
        return self.result

    # Steps

    def step(self, batch: Any, where: str = "a step") -> float | None:
        """Makes one optimiser step and returns the loss; None if the batch has no known label.

        Args:
            batch: The batch.
            where: The position in the run, for messages.

        Raises:
            LossNotFinite: The loss is NaN or infinite.
        """
        self.optimizer.zero_grad(set_to_none=True)
        if self._embeddings is not None:
            self._embeddings.zero_grad()
        self._check_batch(batch, where)
        prediction = self.task.predict(batch)
        if not len(prediction):
            return None
        loss = self.task.loss(prediction)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._not_finite(f"{where}: the loss is {value}", batch)
        loss.backward()
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.config.clip)
        self.optimizer.step()
        if self._embeddings is not None:
            self._embeddings.step(self.optimizer.param_groups[0]["lr"] / self.config.lr)
        return value

    def _check_batch(self, batch: Any, where: str) -> None:
        fault = self.task.fault(batch)
        if fault is not None:
            raise UnsupportedArgument(f"{self._store.path}: {where}: {fault}")

    def _not_finite(self, what: str, batch: Any) -> LossNotFinite:
        """Returns the error, with the row that caused it if there is one."""
        stores = zip(getattr(batch, "node_types", [None]), batch.node_stores, strict=True)
        named = [(kind, part) for kind, part in stores if "x" in part]
        for kind, part in named:
            bad = torch.nonzero(~torch.isfinite(part.x).all(dim=1)).flatten()
            if len(bad):
                of = "" if kind is None else f"{kind} "
                return LossNotFinite(
                    f"{self._store.path}: {what}; the tensor 'x' has NaN or infinite values at "
                    f"{len(bad)} of {len(part.x)} nodes of the batch, such as {of}node "
                    f"{int(part.n_id[bad[0]])}; import finite features, or replace these rows "
                    "with update_features"
                )
        return LossNotFinite(
            f"{self._store.path}: {what}, but the features of the batch are finite; use lr= "
            f"below {self.config.lr}, or scale the features"
        )

    def _train_epoch(self) -> dict[str, Any]:
        """Trains on the remaining batches of an epoch, and returns its row of the history."""
        self._set_training(True)
        result, steps = self.result, len(self.loader)
        self.loader.set_epoch(self._epoch)
        before = self._epoch * steps
        self._store.reset_stats()
        begin = time.perf_counter()
        now = self._begin_pass(f"epoch {self._epoch + 1}", self.loader, self._done)
        rate = self.config.lr
        for batch in self.loader:
            rate = self._set_rate(before + self._done, steps)
            where = f"epoch {self._epoch + 1}, batch {self._done + 1} of {steps}"
            loss = self.step(batch, where)
            if loss is not None:
                result.losses.append(loss)
                self._steps, now.value = self._steps + 1, loss
            now.seeds += self.task.seeds(batch)
            del batch
            self._done += 1
            now.step = self._done
            self._progress(now.phase, self._done, steps, now.value or 0.0)
            every = self.config.save_steps
            if every and self._done % every == 0 and self._done < steps:
                self._save()
        seconds = time.perf_counter() - begin
        result.train_seconds += seconds
        result.seeds += now.seeds
        losses = result.losses[len(result.losses) - self._steps :]
        self._note_empty(self._done - self._steps, self._done)
        self._done = self._steps = 0
        return {
            "epoch": self._epoch + 1,
            **({"loss": math.fsum(losses) / len(losses)} if losses else {}),
            "lr": rate,
            "seconds": seconds,
            "seeds_per_second": now.seeds / max(1e-9, seconds),
            **self._add_stats(),
        }

    def _note_empty(self, empty: int, batches: int) -> None:
        """Adds one note on the batches of an epoch without labels, with a remedy."""
        result = self.result
        if not empty or any(_EMPTY in note for note in result.notes):
            return
        note = f"{empty:,} of {batches:,} batches of epoch {self._epoch + 1} {_EMPTY}"
        result.notes.append(f"{note}; {self.task.source.fuller}")

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
        """Begins a pass of which `step` batches are already done."""
        now = Pass(phase, loader, step, measure=self.first.text)
        if self._watch is not None:
            self._watch(now)
        return now

    def _add_stats(self) -> dict[str, Any]:
        """Adds the counters of the epoch to those of the run; returns those for the history."""
        totals = self.result.store_stats
        now: Mapping[str, Any] = self._store.stats()
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
    def evaluate(self, split: str, *, final: bool = False) -> dict[str, float]:
        """Returns the metrics of "val" or "test" by name; empty if no label is known.

        With ``final``, they include those of ``rank_all``.
        """
        loader = self.task.loader(split)
        if loader is None:
            return {}
        self._set_training(False)
        metrics, known = self.task.metrics(), 0
        now = self._begin_pass(split, loader)
        # `enumerate` would keep the previous batch while the next one waits for memory.
        for batch in loader:
            known += self._measure(batch, metrics, now)
            del batch
            self._progress(split, now.step, now.steps, now.value or 0.0)
        if not known:
            return {}
        found = metrics.compute()
        for name, count in metrics.left_out().items():
            note = (
                f"{split}: {name} leaves out {count} of {self.task.outputs} classes or labels, "
                "because all targets of each of them are equal"
            )
            self.result.notes += [] if note in self.result.notes else [note]
        return found | self._rank(split) if final and self.config.rank_all else found

    def _rank(self, split: str) -> dict[str, float]:
        """Returns the metrics of rankings among all nodes, by name."""
        assert isinstance(self.task, LinkTask)
        ranking = self.task.ranking(split)
        assert ranking is not None, "a split with metrics has links"
        with ranking:
            for node_type, loader, take in ranking.passes():
                now = self._begin_pass(f"{split}, rows of {node_type}", loader)
                for batch in loader:
                    now.seeds += take(batch)
                    now.step += 1
                    del batch
                    self._progress(now.phase, now.step, now.steps, 0.0)
            found = ranking.compute(self.config.rank_all)
        return {f"{name} of all": value for name, value in found.items()}

    def _measure(self, batch: Any, metrics: Metrics, now: Pass) -> int:
        """Adds a batch to the metrics, and returns the number of known targets."""
        where = f"{now.phase}, batch {now.step + 1} of {now.steps}"
        self._check_batch(batch, where)
        prediction = self.task.predict(batch)
        if not torch.isfinite(prediction.outputs).all():
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

    def measure_saved(self) -> None:
        """Loads the parameters of the training state for an evaluation."""
        assert self._saved is not None
        if self._embeddings is not None:
            self._embeddings.check_same(self._saved["embeddings"], self._store.path)
        self.load_parameters(self._saved)

    def parameters(self) -> dict[str, Any]:
        """Returns the current parameters of model and head."""
        return {"model": self.model.state_dict(), "head": self.task.plain_state()}

    def load_parameters(self, state: dict[str, Any]) -> None:
        """Loads parameters from the result of `parameters`."""
        self.model.load_state_dict(state["model"])
        if self.task.head is not None:
            self.task.head.load_state_dict(state["head"])

    def _keep_best(self, row: dict[str, Any]) -> bool:
        """Keeps the parameters if this validation is the best, and returns whether it is."""
        values = self._values()
        if (
            f"val_{self.first.text}" not in row
            or best_at(values, self.first.mode) != len(values) - 1
        ):
            return False
        self.result.best_epoch = self._epoch
        if self._embeddings is not None:
            # Later steps overwrite the learned rows, so the other parameters alone are useless.
            return False
        config, fingerprint = self.config.plain(), self._store.fingerprint
        kept = {"epoch": self._epoch, "config": config, "fingerprint": fingerprint}
        self._best = {**kept, **deepcopy(self.parameters())}
        return True

    def _choose(self) -> Tested:
        """Loads the parameters to test, and returns which they are."""
        if self.config.tested == "best" and self._best is not None:
            self.load_parameters(self._best)
            return "best"
        return "last"

    @property
    def best(self) -> dict[str, Any] | None:
        """The parameters of the best validation, with its ``epoch``, settings and fingerprint."""
        return self._best

    def state(self) -> dict[str, Any]:
        """Returns the training state."""
        return {
            "config": self.config.plain(),
            "fingerprint": content_of(self._store, self.config),
            "epoch": self._epoch,
            "done": self._done,
            "steps": self._steps,
            **self.parameters(),
            "best": self._best,
            "optimizer": self.optimizer.state_dict(),
            "generator": torch.get_rng_state(),
            "loader": self.loader.state_dict(),
            "losses": list(self.result.losses),
            "history": list(self.result.history),
            "best_epoch": self.result.best_epoch,
            **({} if self._embeddings is None else {"embeddings": self._embeddings.state()}),
        }

    def _save(self) -> None:
        if self._state_path is not None:
            save_state(self._state_path, self.state())

    def resume(self) -> None:
        """Resumes from the training state, if there is one."""
        state = self._saved
        if state is None:
            return
        if self._embeddings is not None:
            self._embeddings.go_back(state["embeddings"])
            # Rows were written since, but the sampled content is unchanged.
            state["loader"]["fingerprint"]["store"] = self.loader.snapshot.fingerprint
        self.loader.load_state_dict(state["loader"])
        self.load_parameters(state)
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["generator"])
        self._epoch, self._best = int(state["epoch"]), state["best"]
        self.result.losses = [float(loss) for loss in state["losses"]]
        # Older training states lack these counters and have one loss per batch.
        late = len(self.result.losses) - self._epoch * len(self.loader)
        self._done, self._steps = int(state.get("done", late)), int(state.get("steps", late))
        self.result.history = list(state["history"])
        self.result.best_epoch = state.get("best_epoch")
        self.result.resumed_at_step = len(self.result.losses)


def check_store(
    store: Store, config: TrainConfig, state: dict[str, Any], path: Path | None
) -> None:
    """Rejects a training state of another store.

    Raises:
        StateMismatch: The store is another one, or was changed since.
    """
    ours = content_of(store, config)
    if state["fingerprint"] != ours:
        raise StateMismatch(
            f"{path}: the training state belongs to a store with fingerprint "
            f"{state['fingerprint']}, but {store.path} has fingerprint {ours}: {store.path} "
            "is another store, or was changed since then; use the original store, or train again"
        )
