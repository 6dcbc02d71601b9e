"""What to do where memory is too little: make room, use the disk, or say how much it takes."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from neargraph import _core
from neargraph.exceptions import BudgetTooSmall

T = TypeVar("T")


def with_room(version: _core.Snapshot, make: Callable[[], T]) -> T:
    """What `make` gives, at a second try if loaders of the same store held the memory for it."""
    try:
        return make()
    except BudgetTooSmall:
        if not version.make_room():
            raise
    return make()


@contextmanager
def minimum_of(whole: Callable[[int], int]) -> Iterator[None]:
    """Within it a part of a budget is used: errors name what `whole` makes of their minimum."""
    try:
        yield
    except BudgetTooSmall as error:
        for remedy in error.remedies:
            if "at_least_bytes" in remedy:
                remedy["at_least_bytes"] = whole(remedy["at_least_bytes"])
        raise


def scratch_folder(store: str) -> "tempfile.TemporaryDirectory[str]":
    """A folder for files that pass: on the disk of the store if files can be made there.

    The usual place for them may be memory.
    """
    beside = os.path.dirname(os.path.abspath(store))
    is_writable = os.access(beside, os.W_OK)
    return tempfile.TemporaryDirectory(dir=beside if is_writable else None, prefix=".scratch-")
