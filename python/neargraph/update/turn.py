"""Whose turn it is to write.

The core lets one transaction in at a time, too, but waits where signals are not handled, and for
ever if the thread that waits is the one that holds the transaction. The invariant: a thread has one
open transaction of a store, or none.
"""

import threading

from neargraph.exceptions import StoreBusy


class Turn:
    """The right to an open transaction in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    def take(self) -> None:
        """Waits until no transaction is open; `StoreBusy` if one of this thread is."""
        self.refuse_own_batch("start another one")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def give(self) -> None:
        """Lets the next one in."""
        self._owner = None
        self._lock.release()

    def refuse_own_batch(self, what: str) -> None:
        """`StoreBusy` if a transaction of this thread is open: waiting for it would be for ever."""
        if self._owner == threading.get_ident():
            raise StoreBusy(
                f"this thread has an open transaction; leave its with block, then {what}"
            )
