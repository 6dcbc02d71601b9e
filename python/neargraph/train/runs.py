"""Runs as one call each: `fit`, `resume`, `evaluate`.

The invariant: generators are seeded, and operations do not depend on timing.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import deterministic

from neargraph.exceptions import UnsupportedArgument
from neargraph.splits import split_code
from neargraph.store import Backend, Store

from .config import TrainConfig
from .engine import Progress, Trainer, Watch
from .files import write_json
from .folder import Opening, RunFolder
from .result import TrainResult

OnEpoch = Callable[[dict[str, Any]], None]
"""Called with the row of an epoch, as of `TrainResult.history`."""


def fit(
    store: Store,
    config: TrainConfig | None = None,
    *,
    in_memory: bool = False,
    state: Path | str | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainResult:
    """Trains and tests a model on a store.

    Args:
        store: The open store. Nodes need ``x`` [N, features], ``y`` and a split; links need edges;
            graphs need ``graph_id`` and ``graph_y``.
        config: The settings; equal settings and content give equal losses.
        in_memory: Hold all features and labels as plain tensors and index them, instead of reading
            rows through the store (topology stays with the store's back end).
        state: A file to write after each epoch and to go on from where it exists.
        out: A folder for the run, which must not exist: settings, versions, metrics, training
            states, report. `resume` goes on with it.
        progress: Called after each step.
        watch: Called when a pass begins, with what tells how it goes on.
        on_epoch: Called after each epoch with its row of the history.

    Raises:
        NameNotFound: A tensor, type or split is missing.
        UnsupportedArgument: Settings and store do not go together, or `out` exists; says which.
        StateMismatch: The training state is of other settings, or of another store.
        LossNotFinite: A loss or an output is NaN or infinite; the training state before it stays.

    Example:
        >>> result = fit(ng.open("cora.ng"), TrainConfig(epochs=10))       # doctest: +SKIP
        >>> result.test_accuracy                                           # doctest: +SKIP
        0.81
    """
    config = config or TrainConfig()
    if out is not None:
        beside = {"state=": state is not None, "in_memory=True": in_memory}
        for name in (name for name, is_given in beside.items() if is_given):
            raise UnsupportedArgument(
                f"out= keeps training states of its own, of runs from disk; leave {name} out"
            )
        RunFolder.check_new(Path(out))
    heard: dict[str, Any] = {"progress": progress, "watch": watch}
    with repeatable(config.seed):
        if out is None:
            path = None if state is None else Path(state)
            return _run(Trainer(store, config, in_memory, path, **heard), None, on_epoch)
        last = RunFolder(Path(out), Opening.of(store), config).last
        trainer = Trainer(store, config, state=last, **heard)
        folder = RunFolder.create(Path(out), Opening.of(store), store, config)
        with folder.locked(), folder.kept_from_first_state():
            return _run(trainer, folder, on_epoch)


def resume(
    out: Path | str,
    *,
    epochs: int | None = None,
    memory: str | int | None = None,
    backend: Backend | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainResult:
    """Goes on with the run of a folder as if it had not stopped.

    A run that was killed before its first training state begins anew.

    Args:
        out: The folder that `fit` made.
        epochs: Another number of epochs; a run that has ended goes on then.
        memory: Another memory budget of the store, from now on; batches and losses are the same.
        backend: Another back end of the store, from now on; batches and losses are the same.
        progress: As of `fit`.
        watch: As of `fit`.
        on_epoch: As of `fit`.

    Raises:
        UnsupportedArgument: It is not the folder of a run, or the run has ended.
        StateMismatch: The store has changed since.
        StoreBusy: Another process goes on with the run.
    """
    folder = RunFolder.open(Path(out)).changed(epochs, memory, backend)
    if folder.is_finished and not _goes_on(folder):
        raise UnsupportedArgument(
            f"{out}: the run has ended; give more epochs= than {folder.config.epochs} to go on"
        )
    with folder.locked(), open_store(folder) as store, repeatable(folder.config.seed):
        trainer = Trainer(store, folder.config, state=folder.last, progress=progress, watch=watch)
        return _run(trainer, folder, on_epoch)


def evaluate(
    out: Path | str,
    split: str = "test",
    *,
    store: Path | str | None = None,
    state: str = "auto",
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Measures the model of a run on a split, and writes ``evaluation-SPLIT-CHECKPOINT.json``.

    Args:
        out: The folder that `fit` made.
        split: "train", "val" or "test".
        store: Where the store is now; None is where it was.
        state: "last" or "best"; "auto" is what the run was tested with.
        progress: As of `fit`.
        watch: As of `fit`.

    Returns:
        ``split``, ``state``, the ``epoch`` of its parameters, and the ``metrics`` by name.

    Raises:
        UnsupportedArgument: Nothing of the split is known; or it is not the folder of a run.
        StateMismatch: The store is another one, or there is no such training state yet.
    """
    split_code(split)
    folder = RunFolder.open(Path(out))
    which = folder.tested if state == "auto" else state
    if which not in ("last", "best"):
        raise UnsupportedArgument(f"state is {which!r}; use last, best or auto")
    if which == "best" and folder.config.embedding:
        raise UnsupportedArgument(
            "learned rows stand in the store as the last step left them; use state='last'"
        )
    saved = folder.parameters(which)
    with open_store(folder, store) as opened, repeatable(folder.config.seed):
        file = folder.best if which == "best" else folder.last
        trainer = Trainer(opened, folder.config, state=file, progress=progress, watch=watch)
        trainer.measure_saved()
        metrics = trainer.evaluate(split, final=True)
    if not metrics:
        raise UnsupportedArgument(f"{out}: the split {split} is empty, or nothing of it is known")
    epoch = int(saved["epoch"])
    found = {"split": split, "state": which, "epoch": epoch, "metrics": metrics}
    write_json(folder.path / f"evaluation-{split}-{which}.json", found)
    return found


def open_store(folder: RunFolder, path: Path | str | None = None) -> Store:
    """The store of a run, or the one at `path` with the same memory and back end."""
    opening = folder.opening
    return Store(path or opening.store, opening.memory, opening.backend)


def _run(trainer: Trainer, folder: RunFolder | None, on_epoch: OnEpoch | None) -> TrainResult:
    def end(trainer: Trainer, is_best: bool) -> None:
        if folder is not None:
            folder.add_epoch(trainer, is_best)
        if on_epoch is not None:
            on_epoch(trainer.result.history[-1])

    trainer.on_epoch = end
    trainer.resume()
    if folder is not None:
        folder.begin(trainer)
    result = trainer.run()
    if folder is not None:
        folder.finish(result)
    return result


def _goes_on(folder: RunFolder) -> bool:
    """Whether there are epochs that the last training state does not have."""
    return len(folder.parameters("last")["history"]) < folder.config.epochs


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
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
