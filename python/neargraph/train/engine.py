"""The training loop.

One function, `fit`, for both ways to feed it: rows and lists from disk inside the store's memory
budget, or features and labels held as plain tensors. The invariant: the same store content,
configuration and thread count give the same losses to the last bit, either way, resumed or not.
"""

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import deterministic

from neargraph.exceptions import LossNotFinite, NameNotFound, UnsupportedArgument
from neargraph.loader.cluster import ClusterLoader
from neargraph.loader.neighbor import NeighborLoader
from neargraph.nn import GCN, GraphSAGE, InDegrees
from neargraph.store import Store

from .checkpoint import load_checkpoint, save_checkpoint
from .config import TrainConfig
from .passes import Pass
from .result import TrainResult

Progress = Callable[[str, int, int, float], None]
"""Called with (phase, step, steps, loss or accuracy); phases: "epoch 1", ..., "val", "test"."""

Watch = Callable[[Pass], None]
"""Called with each pass when it begins; what it is given changes while the pass goes on."""

_CHUNK_NODES = 1 << 18


def fit(
    store: Store,
    config: TrainConfig | None = None,
    *,
    in_memory: bool = False,
    checkpoint: Path | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> TrainResult:
    """Trains and tests a model on the splits of a store with one node type and one edge type.

    Args:
        store: The open store; node tensors ``x`` [N, features] and ``y`` [N] (classes; -1, or NaN
            in float labels, means missing), and a split.
        config: The settings; equal settings and content give equal losses.
        in_memory: Hold all features and labels as plain tensors and index them, instead of reading
            rows through the store (topology stays with the store's back end).
        checkpoint: A file to write after each epoch and to go on from where it exists.
        progress: Called after each step.
        watch: Called when a pass begins, with what tells how it goes on.

    Raises:
        NameNotFound: A tensor or split is missing.
        UnsupportedArgument: The store is heterogeneous, or its labels are no classes.
        StateMismatch: The checkpoint is of other settings.
        LossNotFinite: A loss or an output is NaN or infinite; the checkpoint before it stays.

    Example:
        >>> result = fit(ng.open("cora.ng"), TrainConfig(epochs=10))       # doctest: +SKIP
        >>> result.test_accuracy                                           # doctest: +SKIP
        0.81
    """
    config = config or TrainConfig()
    _check_store(store)
    with _deterministic(config.seed):
        path = None if checkpoint is None else Path(checkpoint)
        shown = progress or (lambda *_: None)
        return Trainer(store, config, in_memory, path, shown, watch=watch).run()


@contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Seeds every generator and forbids operations whose sums depend on timing."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=False)
    # Filling fresh tensors with NaN only finds reads of uninitialised memory, at a pass over each.
    switch: Any = deterministic
    filled = switch.fill_uninitialized_memory
    switch.fill_uninitialized_memory = False
    try:
        yield
    finally:
        switch.fill_uninitialized_memory = filled
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _check_store(store: Store) -> None:
    schema = store.schema
    if not schema.is_homogeneous or not schema.edge_types:
        raise UnsupportedArgument(
            f"{store.path}: training runs on one node type and one edge type, this store has "
            f"{len(schema.node_types)} and {len(schema.edge_types)}; use ng.NeighborLoader with a "
            "heterogeneous PyG model"
        )
    owner = schema.node_types[0]
    for name, hint in (
        ("x", "import features"),
        ("y", "import labels"),
        ("split_0", "import again with --split 60,20,20"),
    ):
        if all(tensor.name != name for tensor in owner.tensors):
            raise NameNotFound(f"{store.path}: no node tensor {name!r}; {hint}")
    x, y = schema.tensor(owner, "x"), schema.tensor(owner, "y")
    if y.shape not in ((), (1,)) or len(x.shape) != 1:
        raise UnsupportedArgument(
            f"{store.path}: training needs x of shape [N, features] and one class per node in y"
        )


class Trainer:
    """One run: model, optimiser, loaders, and the counters that a checkpoint keeps."""

    def __init__(
        self,
        store: Store,
        config: TrainConfig,
        in_memory: bool,
        checkpoint: Path | None,
        progress: Progress,
        device: torch.device | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._device, self._watch = device, watch
        self._store, self._config = store, config
        self._checkpoint, self._progress = checkpoint, progress
        owner = store.schema.node_types[0]
        self._result = TrainResult(
            num_classes=num_classes(store), num_features=store.schema.tensor(owner, "x").shape[0]
        )
        self._resident = _Resident(store) if in_memory else None
        self._degrees = InDegrees(store) if config.model == "gcn" else None
        # The store was read above; seeding again makes both ways start alike.
        torch.manual_seed(config.seed)
        kind = GCN if config.model == "gcn" else GraphSAGE
        self.model = kind(
            self._result.num_features,
            config.hidden,
            self._result.num_classes,
            len(config.fanouts),
            config.dropout,
        )
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        self.loader = self._make_train_loader()
        self._epoch = 0

    def run(self) -> TrainResult:
        """All epochs, from the checkpoint on, and the test."""
        self._resume()
        while self._epoch < self._config.epochs:
            self._train_epoch()
            self._epoch += 1
            if self._epoch % self._config.val_every == 0:
                accuracy = self._evaluate("val")
                self._result.val_accuracy += [] if accuracy is None else [accuracy]
            self._save()
        self._result.test_accuracy = self._evaluate("test")
        return self._result

    def _make_train_loader(self) -> NeighborLoader | ClusterLoader:
        config, resident = self._config, self._resident
        if config.model != "cluster":
            return self._make_loader("train", shuffle=True)
        return ClusterLoader(
            self._store,
            min(config.parts, self._store.num_nodes),
            batch_size=config.batch_parts,
            shuffle=True,
            seed=config.seed,
            attrs=["train_mask", *(["x", "y"] if resident is None else [])],
            transform=resident,
            device=self._device,
        )

    def _make_loader(self, split: str, shuffle: bool) -> NeighborLoader:
        resident = self._resident
        return NeighborLoader(
            self._store,
            num_neighbors=list(self._config.fanouts),
            input_nodes=(split if self._config.split == 0 else self._ids(split)),
            batch_size=self._config.batch_size,
            shuffle=shuffle,
            seed=self._config.seed,
            attrs=["x", "y"] if resident is None else [],
            transform=resident,
            device=self._device,
        )

    def _ids(self, split: str) -> Tensor:
        return torch.from_numpy(self._store.split(split, index=self._config.split))

    def _forward(self, batch: Any) -> tuple[Tensor, Tensor]:
        """(logits, classes) of the batch's labelled seeds, or of a cluster's training nodes."""
        x = batch.x.to(torch.float32)
        if self._config.row_normalize:
            x = x / x.sum(dim=1, keepdim=True).clamp(min=1.0e-12)
        is_sampled = "num_sampled_nodes" in batch
        counts = (batch.num_sampled_nodes, batch.num_sampled_edges) if is_sampled else ()
        if isinstance(self.model, GCN):
            # The whole graph has its own degrees.
            degrees = self._degrees(batch.n_id) if self._degrees and is_sampled else None
            out = self.model(x, batch.edge_index, degrees, *counts)
        else:
            out = self.model(x, batch.edge_index, *counts)
        seeds = self._seeds(batch)
        labels = batch.y.reshape(-1)[seeds]
        if labels.is_floating_point():
            labels = labels.nan_to_num(nan=-1.0)
        labels = labels.to(torch.int64)
        known = labels >= 0
        return out[seeds][known], labels[known]

    def _seeds(self, batch: Any) -> Tensor | slice:
        """Which nodes of a batch have a part in the loss; they are the first ones of a sample."""
        if "num_sampled_nodes" in batch:
            return slice(0, batch.batch_size)
        mask: Tensor = batch.train_mask
        return mask if mask.dim() == 1 else mask[:, self._config.split]

    def step(self, batch: Any, where: str = "a step") -> float:
        """One step of the optimiser; the loss, 0 where a batch has no labels.

        Raises `LossNotFinite`, which says `where`.
        """
        self.optimizer.zero_grad(set_to_none=True)
        logits, labels = self._forward(batch)
        loss = functional.cross_entropy(logits, labels)
        if not len(labels):
            return 0.0
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise self._not_finite(f"{where}: the loss is {value}", batch)
        return value

    def _not_finite(self, what: str, batch: Any) -> LossNotFinite:
        """The error, with the row that is to blame if one is."""
        bad = torch.nonzero(~torch.isfinite(batch.x).all(dim=1)).flatten()
        if not len(bad):
            return LossNotFinite(
                f"{self._store.path}: {what}, though the features of the batch are finite; use a "
                f"smaller lr than {self._config.lr}, or scale the features"
            )
        node = int(batch.n_id[bad[0]])
        return LossNotFinite(
            f"{self._store.path}: {what}; x of node {node} holds NaN or infinite values, and "
            f"{len(bad)} of {len(batch.x)} nodes of the batch do; import finite features, or set "
            "these with update_features"
        )

    def _train_epoch(self) -> None:
        self.model.train()
        result, steps = self._result, len(self.loader)
        self.loader.set_epoch(self._epoch)
        done = len(result.losses) - self._epoch * steps
        self._store.reset_stats()
        begin = time.perf_counter()
        now = self._begin_pass(f"epoch {self._epoch + 1}", self.loader, done)
        for batch in self.loader:
            where = f"epoch {self._epoch + 1}, batch {done + 1} of {steps}"
            result.losses.append(self.step(batch, where))
            seeds = self._seeds(batch)
            now.seeds += int(seeds.stop if isinstance(seeds, slice) else seeds.sum())
            del batch
            done += 1
            now.step, now.value = done, result.losses[-1]
            self._progress(now.phase, done, steps, result.losses[-1])
            every = self._config.checkpoint_steps
            if every and done % every == 0 and done < steps:
                self._save()
        result.train_seconds += time.perf_counter() - begin
        result.seeds += now.seeds
        self._add_stats()

    def _begin_pass(
        self, phase: str, loader: NeighborLoader | ClusterLoader, step: int = 0
    ) -> Pass:
        """A pass of which `step` batches were done before."""
        now = Pass(phase, loader, step)
        if self._watch is not None:
            self._watch(now)
        return now

    def _add_stats(self) -> None:
        totals, now = self._result.store_stats, self._store.stats()
        for name in ("reads", "read_bytes", "useful_bytes", "rows_served", "rows_cached"):
            totals[name] = totals.get(name, 0) + int(now.get(name, 0))
        totals["budget_peak"] = max(totals.get("budget_peak", 0), int(now.get("budget_peak", 0)))
        totals["budget_limit"] = int(now.get("budget_limit", 0))
        served = totals["rows_served"]
        totals["hit_rate"] = totals["rows_cached"] / served if served else 0.0

    @torch.no_grad()
    def _evaluate(self, split: str) -> float | None:
        loader = self._make_loader(split, shuffle=False)
        self.model.eval()
        right, seen, step = 0, 0, 0
        now = self._begin_pass(split, loader)
        # `enumerate` would keep the batch before while the next one looks for memory.
        for batch in loader:
            logits, labels = self._forward(batch)
            if not torch.isfinite(logits).all():
                where = f"{split}, batch {step + 1} of {len(loader)}"
                raise self._not_finite(f"{where}: outputs of the model are not finite", batch)
            right += int((logits.argmax(dim=1) == labels).sum())
            seen += len(labels)
            now.seeds += batch.batch_size
            del batch
            step += 1  # noqa: SIM113
            now.step, now.value = step, right / max(1, seen)
            self._progress(split, step, len(loader), right / max(1, seen))
        return right / seen if seen else None

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        state = {
            "config": self._config.plain(),
            "fingerprint": self._store.fingerprint,
            "epoch": self._epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": torch.get_rng_state(),
            "loader": self.loader.state_dict(),
            "losses": list(self._result.losses),
            "val_accuracy": list(self._result.val_accuracy),
        }
        save_checkpoint(self._checkpoint, state)

    def _resume(self) -> None:
        state = None if self._checkpoint is None else load_checkpoint(self._checkpoint)
        if state is None:
            return
        self._config.same_run(state["config"])
        self.loader.load_state_dict(state["loader"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["generator"])
        self._epoch = int(state["epoch"])
        self._result.losses = [float(loss) for loss in state["losses"]]
        self._result.val_accuracy = [float(value) for value in state["val_accuracy"]]
        self._result.resumed_at_step = len(self._result.losses)


class _Resident:
    """All features and labels as plain tensors; adds the rows of a batch by index."""

    def __init__(self, store: Store) -> None:
        self._x = torch.from_numpy(np.ascontiguousarray(store.column("x")))
        self._y = torch.from_numpy(np.ascontiguousarray(store.column("y")))

    def __call__(self, batch: Any) -> Any:
        batch.x = self._x.index_select(0, batch.n_id)
        batch.y = self._y.index_select(0, batch.n_id)
        return batch


def num_classes(store: Store) -> int:
    """The largest label plus one, read in chunks.

    Raises `UnsupportedArgument` where labels are no whole numbers, or none is known.
    """
    snapshot, top = store.snapshot(), -1
    for first in range(0, store.num_nodes, _CHUNK_NODES):
        ids = np.arange(first, min(first + _CHUNK_NODES, store.num_nodes), dtype=np.int64)
        labels = snapshot.features(None, ids, "y")
        known = labels[np.isfinite(labels)] if labels.dtype.kind == "f" else labels
        if labels.dtype.kind == "f" and (known != np.floor(known)).any():
            raise UnsupportedArgument(f"{store.path}: y holds fractions, not classes")
        top = max(top, int(known.max(initial=-1)))
    if not 0 <= top < 1 << 20:
        raise UnsupportedArgument(f"{store.path}: y holds no classes (largest label {top})")
    return top + 1
