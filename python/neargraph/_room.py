"""What to do where memory is too little: make room, or say how much it takes."""

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
