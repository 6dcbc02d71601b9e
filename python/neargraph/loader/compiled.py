"""Compiled epochs: batches that were sampled once and are replayed from files.

What lives here: the directory of the files, and the key that identifies them, which has every
setting that affects a batch. What must not: the choice of the files for a loader, which the
compiled core makes.
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

# The suffix of files of complete epochs, SET.EPOCH.epoch.
SUFFIX = ".epoch"


def epoch_key(sampler: dict[str, str], inputs: InputNodes, plan: SeedPlan) -> dict[str, str]:
    """Returns every setting that affects the batches of an epoch, except the epoch's number.

    `sampler` is the part of the sampler (`NumpySampler.key`).
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
    """Returns the default directory of the compiled files of a store."""
    return Path(store) / "compiled"


def make_directory(directory: Path, store: str) -> None:
    """Creates the directory of compiled files if it does not exist.

    Raises:
        UnsupportedArgument: It is the directory inside the store, and a symbolic link.
    """
    if directory == default_directory(store) and directory.is_symlink():
        raise UnsupportedArgument(
            f"{directory} is a symbolic link, and compiled files are not written through links; "
            "remove it, or name another directory"
        )
    directory.mkdir(exist_ok=True)


def find_compiled(
    place: Literal[True] | str, store: str, key: dict[str, str], *, must: bool
) -> _core.Epochs | None:
    """Returns the compiled epochs of a key.

    Of several sets it returns the one with most epochs, then the one with most hot rows.

    Args:
        place: The directory of the files; True is the one inside the store.
        store: Path of the store.
        key: As `epoch_key` returns it.
        must: Raise the errors below. Otherwise they return None, with a warning about damage and
            about files of another format version.

    Raises:
        CompiledMismatch: No epochs match; the message names the difference.
        CompiledOutdated: All matching files have another format version.
        StoreDamaged: A file that may be part of the set is damaged, or one is missing.
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
    """Returns the name of the file of an epoch of the set `name`."""
    return f"{name}.{epoch:04}{SUFFIX}"
