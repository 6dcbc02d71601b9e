"""Atomic creation of an export: one rename makes the complete output visible.

What must not live here: what is written. The invariant: existing files are not replaced, and a
failure leaves nothing at the target or beside it.
"""

import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

from neargraph.exceptions import UnsupportedArgument


class ExportReport(TypedDict):
    """The output of an export."""

    path: str
    num_nodes: int
    num_edges: int
    bytes: int
    """Size of the output."""
    import_options: list[str]
    """Options with which `neargraph import` restores the store from the output."""
    notes: list[dict[str, Any]]
    """Properties of the store that the output does not keep, as in the report of an import."""


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """Yields a new folder, and renames it to `target` when the block ends.

    Raises:
        UnsupportedArgument: `target` exists, or its folder does not.
    """
    with _staging(target) as folder:
        yield folder
        _sync(folder)
        _refuse_existing(target)
        folder.rename(target)


@contextmanager
def published_file(target: Path) -> Iterator[tuple[Path, Path]]:
    """Yields a path to write and a folder for temporary files, then renames the file to `target`.

    Raises:
        UnsupportedArgument: `target` exists, or its folder does not.
    """
    with _staging(target) as folder:
        file = folder / "whole"
        yield file, folder
        with file.open("rb") as written:
            os.fsync(written.fileno())
        _refuse_existing(target)
        file.rename(target)


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    parent = target.absolute().parent
    _refuse_existing(target)
    if not parent.is_dir():
        raise UnsupportedArgument(f"{target}: the folder {parent} does not exist; create it first")
    _remove_leftovers(target)
    folder = target.with_name(f".{target.name}.{os.getpid()}.partial")
    folder.mkdir()
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Removes the folders of killed exports to `target`; those of running ones are locked."""
    for folder in target.absolute().parent.glob(f".{glob.escape(target.name)}.*.partial"):
        with suppress(OSError), _locked(folder):
            shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds an exclusive lock on a folder, which ends with the process.

    Raises:
        OSError: The folder is locked, or is none.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise UnsupportedArgument(
            f"{target} already exists; choose another name, or remove the old one"
        )


def _sync(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as written:
                os.fsync(written.fileno())


def bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
