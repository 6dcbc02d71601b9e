"""The lock for transactions of one process.

The core also admits one transaction at a time. But it waits without handling signals, and waits
for ever if the waiting thread holds the transaction. Invariant: a thread has at most one open
transaction of a store.
"""

import threading

from neargraph.exceptions import StoreBusy


class Turn:
    """A lock that the thread with the open transaction holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    def take(self) -> None:
        """Waits until no transaction is open, and takes the lock.

        Raises:
            StoreBusy: This thread has an open transaction.
        """
        self.refuse_own_transaction("start another transaction")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def give(self) -> None:
        """Releases the lock."""
        self._owner = None
        self._lock.release()

    def refuse_own_transaction(self, what: str) -> None:
        """Checks that this thread has no open transaction, which it would wait for indefinitely.

        Raises:
            StoreBusy: This thread has an open transaction; the message says to do `what` later.
        """
        if self._owner == threading.get_ident():
            raise StoreBusy(
                f"this thread has an open transaction; leave its with block, then {what}"
            )
