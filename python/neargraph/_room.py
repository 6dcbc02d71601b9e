"""Memory of a store that somebody holds beyond the moment, and gives back when others lack it.

What lives here: who holds some, and how they are asked. What must not: what it is for. The
invariant: nobody is asked for the memory of another store.
"""

import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from neargraph.exceptions import BudgetTooSmall

T = TypeVar("T")


class Holder(Protocol):
    """Somebody who holds memory of a store."""

    @property
    def store(self) -> Any:
        """Whose memory it is."""

    def give_way(self) -> bool:
        """Gives it back, unless it is being used right now; whether there was any."""


_holders: "weakref.WeakSet[Any]" = weakref.WeakSet()


def register(holder: Holder) -> None:
    """From now on `holder` is asked when others lack memory."""
    _holders.add(holder)


def others(holder: Holder) -> list[Any]:
    """Who else holds memory of the same store."""
    return [one for one in _holders if one is not holder and one.store is holder.store]


def make_room(store: Any, but: Holder | None = None) -> bool:
    """Makes those who hold memory of `store` give it back; whether anybody had some."""
    asked = [one for one in _holders if one is not but and one.store is store]
    return True in [one.give_way() for one in asked]


def with_room(store: Any, make: Callable[[], T]) -> T:
    """What `make` gives, at a second try if others held the memory for it."""
    try:
        return make()
    except BudgetTooSmall:
        if not make_room(store):
            raise
    return make()
