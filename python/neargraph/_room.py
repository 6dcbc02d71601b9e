"""Remedies for too little memory: release it, use the disk, or report the minimum."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from neargraph import _core
from neargraph.exceptions import BudgetTooSmall

T = TypeVar("T")


def with_room(version: _core.Snapshot, make: Callable[[], T]) -> T:
    """Returns `make()`. If memory is short, loaders release some and `make` runs once more."""
    try:
        return make()
    except BudgetTooSmall:
        if not version.make_room():
            raise
    return make()


@contextmanager
def minimum_of(whole: Callable[[int], int]) -> Iterator[None]:
    """Adjusts the minimum in errors of a block that uses only a part of the budget.

    `whole` converts the minimum of the part to the minimum of the whole budget.
    """
    try:
        yield
    except BudgetTooSmall as error:
        for remedy in error.remedies:
            if "at_least_bytes" in remedy:
                remedy["at_least_bytes"] = whole(remedy["at_least_bytes"])
        raise


def scratch_folder(store: str) -> "tempfile.TemporaryDirectory[str]":
    """Creates a temporary directory beside the store if files can be created there.

    Otherwise it is created in the system's directory for temporary files, which may be in memory.
    """
    beside = os.path.dirname(os.path.abspath(store))
    is_writable = os.access(beside, os.W_OK)
    return tempfile.TemporaryDirectory(dir=beside if is_writable else None, prefix=".scratch-")
