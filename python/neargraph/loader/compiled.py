"""Compiled epochs: batches that were sampled once and are replayed from files.

What lives here: where the files are, and the key by which they are found: everything that shapes a
batch. Which of them serve a loader is for the compiled core.
"""

import warnings
from pathlib import Path
from typing import Literal

from neargraph import _core
from neargraph.exceptions import (
    CompiledMismatch,
    CompiledOutdated,
    IoFailed,
    StoreDamaged,
    UnsupportedArgument,
)
from neargraph.loader.seeds import InputNodes, SeedPlan

# How the name of a whole epoch's file ends: SET.EPOCH.epoch.
SUFFIX = ".epoch"


def epoch_key(sampler: dict[str, str], inputs: InputNodes, plan: SeedPlan) -> dict[str, str]:
    """Everything that shapes the batches of an epoch, but for its number.

    `sampler` is the part that a sampler brings (`NumpySampler.key`).
    """
    return {
        **sampler,
        "input_nodes": inputs.digest(),
        "batch_size": str(plan.batch_size),
        "shuffle": f"by seed {plan.seed}" if plan.shuffle else "no",
        "batches": str(plan.steps),
        "rank": f"{plan.rank} of {plan.world_size}",
    }


def default_directory(store: str) -> Path:
    """Where the compiled files of the store at a path are unless somebody says otherwise."""
    return Path(store) / "compiled"


def make_directory(directory: Path, store: str) -> None:
    """Makes the directory of compiled files if there is none.

    Raises:
        UnsupportedArgument: It is a symbolic link inside the store.
    """
    if directory == default_directory(store) and directory.is_symlink():
        raise UnsupportedArgument(
            f"{directory} is a symbolic link, which is not followed for writing; remove it, or "
            "name another directory"
        )
    directory.mkdir(exist_ok=True)


def find_compiled(
    place: Literal[True] | str, store: str, key: dict[str, str], *, must: bool
) -> _core.Epochs | None:
    """The compiled epochs of a key; of several sets the one with most epochs, then hot rows.

    They lie in the directory `place`, or inside the store if it is True. Without `must`, whatever
    is raised otherwise means None; damage, and files of another version of the format, with a
    warning.

    Raises:
        CompiledMismatch: There is none; says what differs.
        CompiledOutdated: There are only files of another version of the format.
        StoreDamaged: A file that may be a part of the set is damaged, or one is missing.
    """
    directory = default_directory(store) if place is True else Path(place)
    try:
        return _core.Epochs(str(directory), key)
    except (CompiledMismatch, StoreDamaged, IoFailed) as error:
        if must:
            raise
        if isinstance(error, CompiledOutdated) or not isinstance(error, CompiledMismatch):
            text = f"{error}; batches are sampled instead"
            warnings.warn(text, UserWarning, stacklevel=2)
    return None


def file_name(name: str, epoch: int) -> str:
    """Of an epoch of the set `name`."""
    return f"{name}.{epoch:04}{SUFFIX}"
