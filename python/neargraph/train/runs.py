"""Complete runs: `fit`, `resume`, `evaluate`.

The invariant: all random generators are seeded, and no operation depends on timing.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from torch.utils import deterministic

from neargraph.exceptions import UnsupportedArgument
from neargraph.splits import split_code
from neargraph.store import Backend, Store

from .config import Tested, TestOn, TrainConfig
from .engine import Progress, Trainer, Watch
from .files import write_json
from .folder import Opening, RunFolder
from .result import TrainResult

OnEpoch = Callable[[dict[str, Any]], None]
"""A function that is called with the row of each epoch, as in `TrainResult.history`."""


class Evaluation(TypedDict):
    """The result of `evaluate`."""

    split: Literal["train", "val", "test"]
    state: Tested
    """The training state that was evaluated."""
    epoch: int
    """Number of the epoch of its parameters."""
    metrics: dict[str, float]
    """Metrics by name."""


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
        store: The open store. The task "node" needs ``x`` [nodes, features], ``y`` and a split. The
            task "link" needs edges. The task "graph" needs ``graph_id`` and ``graph_y``.
        config: The settings. Equal settings and store content give equal losses.
        in_memory: Whether to hold all features and labels as tensors in memory, instead of reading
            rows from the store. The topology is still read from the store.
        state: File for the training state. It is written after each epoch. If it exists, training
            resumes from it.
        out: New directory for the run: settings, versions, metrics, training states, report.
            `resume` continues such a run.
        progress: Function that is called after each step.
        watch: Function that is called with the `Pass` when a pass begins.
        on_epoch: Function that is called after each epoch with its row of the history.

    Raises:
        NameNotFound: A tensor, type or split is missing.
        UnsupportedArgument: The settings do not fit the store or each other, or `out` exists.
        StateMismatch: The training state belongs to other settings or to another store.
        LossNotFinite: A loss or an output is NaN or infinite. The previous training state stays.

    Example:
        >>> result = fit(ng.open("cora.ng"), TrainConfig(epochs=10))       # doctest: +SKIP
        >>> result.test_accuracy                                           # doctest: +SKIP
        0.81
    """
    config = config or TrainConfig()
    if out is not None:
        if state is not None:
            raise UnsupportedArgument(
                "a run with out= keeps its training states in the directory out=; leave out state="
            )
        if in_memory:
            raise UnsupportedArgument("a run with out= reads from disk; leave out in_memory=")
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
    """Resumes the run of a directory. Its losses are equal to those of an uninterrupted run.

    A run that was killed before its first training state starts again.

    Args:
        out: The directory from `fit`.
        epochs: A new number of epochs. With a larger one, a run that has ended continues.
        memory: A new memory budget of the store. Batches and losses stay the same.
        backend: A new back end of the store. Batches and losses stay the same.
        progress: As for `fit`.
        watch: As for `fit`.
        on_epoch: As for `fit`.

    Raises:
        UnsupportedArgument: `out` is not the directory of a run, or the run has ended.
        StateMismatch: The store has changed since.
        StoreBusy: Another process executes the run.
    """
    folder = RunFolder.open(Path(out)).changed(epochs, memory, backend)
    if folder.is_finished and not _goes_on(folder):
        raise UnsupportedArgument(
            f"{out}: the run has ended; set epochs= above {folder.config.epochs} to continue the "
            "run"
        )
    with folder.locked(), open_store(folder) as store, repeatable(folder.config.seed):
        trainer = Trainer(store, folder.config, state=folder.last, progress=progress, watch=watch)
        return _run(trainer, folder, on_epoch)


def evaluate(
    out: Path | str,
    split: str = "test",
    *,
    store: Path | str | None = None,
    state: TestOn = "auto",
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Evaluates the model of a run on a split, and writes ``evaluation-SPLIT-STATE.json``.

    Args:
        out: The directory from `fit`.
        split: ``"train"``, ``"val"`` or ``"test"``.
        store: Path of the store, if it was moved. None: the path of the run.
        state: The training state: ``"last"`` or ``"best"``. ``"auto"``: the one that the run
            tested.
        progress: As for `fit`.
        watch: As for `fit`.

    Raises:
        UnsupportedArgument: The split has no known labels, or `out` is not the directory of a run.
        StateMismatch: The store is another one, or the training state does not exist yet.
    """
    split_code(split)
    folder = RunFolder.open(Path(out))
    which = folder.tested if state == "auto" else state
    if which not in ("last", "best"):
        raise UnsupportedArgument(
            f"state={which!r} is not valid: expected 'last', 'best' or 'auto'"
        )
    if which == "best" and folder.config.embedding:
        raise UnsupportedArgument(
            "state='best' is not supported after training with embedding=, which keeps only the "
            "learned rows of the last step; use state='last'"
        )
    saved = folder.parameters(which)
    with open_store(folder, store) as opened, repeatable(folder.config.seed):
        file = folder.best if which == "best" else folder.last
        trainer = Trainer(opened, folder.config, state=file, progress=progress, watch=watch)
        trainer.measure_saved()
        metrics = trainer.evaluate(split, final=True)
    if not metrics:
        raise UnsupportedArgument(f"{out}: the split {split!r} is empty, or has no known labels")
    epoch = int(saved["epoch"])
    found: Evaluation = {
        "split": split,  # type: ignore[typeddict-item]
        "state": which,
        "epoch": epoch,
        "metrics": metrics,
    }
    write_json(folder.path / f"evaluation-{split}-{which}.json", found)
    return found


def open_store(folder: RunFolder, path: Path | str | None = None) -> Store:
    """Opens the store of a run, or the one at `path`, with the run's memory and back end."""
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
    """Whether the last training state lacks epochs."""
    return len(folder.parameters("last")["history"]) < folder.config.epochs


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Seeds all random generators and forbids operations whose sums depend on timing."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=False)
    # Filling new tensors with NaN only detects reads of uninitialised memory, and costs time.
    switch: Any = deterministic
    filled = switch.fill_uninitialized_memory
    switch.fill_uninitialized_memory = False
    try:
        yield
    finally:
        switch.fill_uninitialized_memory = filled
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
