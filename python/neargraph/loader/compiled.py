"""Compiled epochs: batches that were sampled once and are replayed from files.

Which files serve a loader is decided by their key alone: everything that shapes a batch. The
invariant: an epoch that was compiled has the batches that the loader would sample for it; later
epochs take the compiled ones in turn, all of them, or it is an error.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neargraph import _core
from neargraph._room import make_room
from neargraph.exceptions import (
    BudgetTooSmall,
    CompiledMismatch,
    CompiledOutdated,
    IoFailed,
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
    """Files that fit a loader: their directory, (epoch, name) in the order of rotation, and what
    shaped them."""

    directory: str
    files: tuple[tuple[int, str], ...]
    key: dict[str, str]

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

    With ``"auto"`` whatever is raised otherwise means None; damage, and files of another version of
    the format, with a warning.

    Raises:
        CompiledMismatch: There is none; says what differs.
        CompiledOutdated: There are only files of another version of the format.
        StoreDamaged: A file that may be a part of the set is damaged, or one is missing.
    """
    if compiled is False:
        return None
    if compiled is True or compiled == "auto":
        directory = default_directory(sampler.snapshot)
    else:
        directory = Path(compiled)
    try:
        return _find(directory, epoch_key(sampler, inputs, plan))
    except (CompiledMismatch, StoreDamaged, IoFailed) as error:
        if compiled != "auto":
            raise
        if isinstance(error, CompiledOutdated) or not isinstance(error, CompiledMismatch):
            _warn(error)
    return None


def _find(directory: Path, key: dict[str, str]) -> CompiledEpochs:
    """The set of `key`; whatever may be a part of it has to be whole."""
    sets: dict[tuple[int, int, int, int], dict[int, str]] = {}
    outdated: list[CompiledMismatch] = []
    others: list[CompiledMismatch] = []
    for name in sorted(entry.name for entry in directory.glob(f"*{SUFFIX}")):
        try:
            # A damaged file does not say which set it is of, so it may be the one that is wanted.
            file = _core.EpochFile(str(directory), name)
        except CompiledOutdated as error:
            outdated.append(error)
            continue
        try:
            file.check(key)
        except CompiledMismatch as error:
            others.append(error)
            continue
        first, end = file.epochs
        which = (end - first, first, file.hot_bytes, file.hot_digest)
        sets.setdefault(which, {})[file.train_epoch] = name
    if sets:
        best = max(sets)
        _check_whole(directory, range(best[1], best[1] + best[0]), sets[best])
        return CompiledEpochs(str(directory), tuple(sorted(sets[best].items())), key)
    for reason in (*outdated, *others):
        raise reason
    raise CompiledMismatch(
        f"there are no compiled epochs in {directory}; make them with `neargraph compile`"
    )


def _check_whole(directory: Path, epochs: range, found: dict[int, str]) -> None:
    """Refuses a set of which an epoch is missing."""
    name = min(found.values())
    for epoch in epochs:
        if epoch not in found:
            missing = directory / file_name(name.rsplit(".", 2)[0], epoch)
            how = "is not a part of it" if missing.exists() else "is missing"
            raise StoreDamaged(
                f"{directory / name} was compiled with epochs {epochs.start} to {epochs.stop - 1}, "
                f"and {missing} {how}: epoch {epoch} cannot be replayed; run `neargraph compile` "
                "again, or remove the files of the set"
            )


def _warn(error: Exception) -> None:
    warnings.warn(f"{error}; batches are sampled instead", UserWarning, stacklevel=2)


def file_name(name: str, epoch: int) -> str:
    """Of an epoch of the set `name`."""
    return f"{name}.{epoch:04}{SUFFIX}"


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
        epochs, prefetch = self.epochs, self._options.prefetch or 1
        files = [*epochs.files]
        return _core.Replay(self._sampler(), epochs.directory, epochs.key, files, prefetch)

    def epoch_of(self, train_epoch: int) -> int:
        """The compiled epoch that stands for an epoch: whoever goes on samples that one."""
        epoch, _ = self.epochs.files[self.epochs.place(train_epoch)]
        return epoch

    def gives_up(self, error: Exception, made: int) -> bool:
        """Whether batches are sampled from here on: ``"auto"`` does without what is damaged."""
        if self._options.replays or not isinstance(error, StoreDamaged):
            return False
        _warn(error)
        return True

    def _feed(self) -> None:
        core = self._local.get()
        while len(self._given) < _TOLD_AHEAD:
            job = next(self._jobs, None)
            if job is None:
                return
            train_epoch, batch = job
            # The seeds are those of the epoch that was compiled.
            self._given.append((self.epoch_of(train_epoch), batch))
            core.push(self.epochs.place(train_epoch), (batch, batch + 1))

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
