"""Compiled epochs: batches that were sampled once and are replayed from files.

Which files serve a loader is decided by their key alone: everything that shapes a batch. The
invariant: an epoch that was compiled has the batches that the loader would sample for it; later
epochs take the compiled ones in turn.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neargraph import _core
from neargraph._room import make_room
from neargraph.exceptions import (
    BudgetTooSmall,
    CompiledMismatch,
    StoreDamaged,
    UnsupportedArgument,
)
from neargraph.loader.lookahead import LookAhead
from neargraph.loader.options import Compiled, ReadOptions
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.snapshot import Snapshot

if TYPE_CHECKING:
    from neargraph.loader.sampler import NeighborSampler

# How the name of a whole epoch's file ends: SET.EPOCH.epoch.
SUFFIX = ".epoch"

# Batches that the core is told of ahead of time; it reads a few of them at once.
_TOLD_AHEAD = 8


@dataclass(frozen=True)
class CompiledEpochs:
    """Files that fit a loader: their directory, and (epoch, name) in the order of rotation."""

    directory: str
    files: tuple[tuple[int, str], ...]

    def __len__(self) -> int:
        return len(self.files)

    def place(self, train_epoch: int) -> int:
        """Which file serves an epoch: its own, else they take turns."""
        epochs = [epoch for epoch, _ in self.files]
        return epochs.index(train_epoch) if train_epoch in epochs else train_epoch % len(epochs)

    def digest(self) -> str:
        """A short text that differs where the rotation differs."""
        return ",".join(str(epoch) for epoch, _ in self.files)


def epoch_key(sampler: "NeighborSampler", inputs: InputNodes, plan: SeedPlan) -> dict[str, str]:
    """Everything that shapes the batches of an epoch, but for its number."""
    dependent = f", {sampler.dependent_batches} dependent" if sampler.method == "labor" else ""
    return {
        "method": sampler.method + dependent,
        "store": sampler.snapshot.fingerprint,
        "fanouts": json.dumps(sampler.fanouts),
        "replace": str(sampler.replace),
        "seed": str(sampler.seed),
        "input_nodes": inputs.digest(),
        "batch_size": str(plan.batch_size),
        "shuffle": f"by seed {plan.seed}" if plan.shuffle else "no",
        "batches": str(plan.steps),
        "rank": f"{plan.rank} of {plan.world_size}",
    }


def default_directory(snapshot: Snapshot) -> Path:
    """Where the compiled epochs of a store are unless somebody says otherwise."""
    return Path(snapshot.path) / "compiled"


def make_directory(directory: Path, snapshot: Snapshot) -> None:
    """Makes the directory of compiled files if there is none.

    Raises:
        UnsupportedArgument: It is a symbolic link inside the store.
    """
    if directory == default_directory(snapshot) and directory.is_symlink():
        raise UnsupportedArgument(
            f"{directory} is a symbolic link, which is not followed for writing; remove it, or "
            "name another directory"
        )
    directory.mkdir(exist_ok=True)


def find_compiled(
    compiled: Compiled, sampler: "NeighborSampler", inputs: InputNodes, plan: SeedPlan
) -> CompiledEpochs | None:
    """The compiled epochs that fit; of several sets the one with most epochs, then hot rows.

    Raises:
        CompiledMismatch: There is none, and one was asked for; says what differs.
        StoreDamaged: A file is not whole, and it was asked for.
    """
    if compiled is False:
        return None
    if compiled is True or compiled == "auto":
        directory = default_directory(sampler.snapshot)
    else:
        directory = Path(compiled)
    key = epoch_key(sampler, inputs, plan)
    names = sorted(entry.name for entry in directory.glob(f"*{SUFFIX}"))
    reason: Exception | None = None
    sets: dict[tuple[int, int], dict[int, str]] = {}
    for name in names:
        try:
            file = _core.EpochFile(str(directory), name)
            file.check(key)
        except (CompiledMismatch, StoreDamaged) as error:
            reason = reason or error
            continue
        sets.setdefault((file.hot_bytes, file.hot_digest), {})[file.train_epoch] = name
    if sets:
        best = max(sets, key=lambda hot: (len(sets[hot]), hot))
        return CompiledEpochs(str(directory), tuple(sorted(sets[best].items())))
    if compiled == "auto":
        return None
    if reason is not None:
        raise reason
    raise CompiledMismatch(
        f"there are no compiled epochs in {directory}; make them with `neargraph compile`"
    )


class Replay(LookAhead):
    """Compiled epochs in rotation, with the face of a `LookAhead`.

    Args:
        core: Makes the compiled sampler, which says how rows come.
        snapshot: What was sampled.
        inputs: The seeds.
        plan: Their order.
        epochs: The files.
        goes_on: After an epoch the next one follows; else it ends.
        options: What was asked for; `prefetch` is 1 unless it is given.
    """

    def __init__(
        self,
        core: Callable[[], _core.Sampler],
        snapshot: Snapshot,
        inputs: InputNodes,
        plan: SeedPlan,
        epochs: CompiledEpochs,
        *,
        goes_on: bool,
        options: ReadOptions,
    ) -> None:
        super().__init__(core, snapshot, inputs, plan, goes_on=goes_on, options=options)
        self.may_give_up = False
        self.epochs = epochs

    def fits(self) -> bool:
        """Whether the budget has room for it now."""
        make_room(self.store, but=self)
        try:
            self._local.get()
        except BudgetTooSmall:
            return False
        self.close()
        return True

    def _build(self) -> Any:
        names = [name for _, name in self.epochs.files]
        prefetch = self._options.prefetch or 1
        return _core.Replay(self._sampler(), self.epochs.directory, names, prefetch)

    def _feed(self) -> None:
        core = self._local.get()
        while len(self._given) < _TOLD_AHEAD:
            job = next(self._jobs, None)
            if job is None:
                return
            train_epoch, batch = job
            file = self.epochs.place(train_epoch)
            # The seeds are those of the epoch that was compiled.
            epoch, _ = self.epochs.files[file]
            self._given.append((epoch, batch))
            core.push(file, (batch, batch + 1))

    def _take(self, places: Any) -> _core.MiniBatch:
        batch: _core.MiniBatch = self._local.get().take(len(places))
        return batch

    def chosen(self) -> dict[str, Any] | None:
        """How many epochs take turns, and what of the memory is for what."""
        core = self._local.peek()
        memory = core.memory() if core is not None else None
        if memory is None:
            return None
        return {"reading": "compiled", "epochs": len(self.epochs), **memory}

    def waits(self) -> dict[str, float]:
        """Nothing: a replay has no stages that could wait for a choice."""
        return {}
