"""Memory of a store that loaders keep beyond the moment, and give back when others lack it."""

from collections.abc import Callable
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
