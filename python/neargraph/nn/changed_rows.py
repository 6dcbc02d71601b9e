"""Rows that were changed and not yet written, in memory of a fixed size.

The invariant: `nbytes` never passes the limit, and there is at most one entry for each id.
"""

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import BudgetTooSmall

# An id and its place, beside each row.
_INDEX_BYTES = 16


class ChangedRows:
    """A write-back cache of rows float32 [slots, dim] by id.

    Args:
        limit: Bytes that rows and their index may take.
        slots: Rows that belong together: weights, and what an optimiser keeps.
        dim: Their width.

    Raises:
        BudgetTooSmall: Not one row fits.
    """

    def __init__(self, limit: int, slots: int, dim: int) -> None:
        self._row_bytes = 4 * slots * dim + _INDEX_BYTES
        capacity = limit // self._row_bytes
        if capacity < 1:
            raise BudgetTooSmall(
                f"memory= of an embedding of {dim} columns is {limit} bytes, and a row with its "
                f"state takes {self._row_bytes}",
                self._row_bytes,
            )
        # Pages of it come into being when rows are put there.
        self._table = np.empty((capacity, slots, dim), np.float32)
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        # Ascending, with the place of each in the table.
        self._ids = np.empty(0, np.int64)
        self._places = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are here."""
        return len(self._ids) * self._row_bytes

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids, ascending, [n]."""
        return self._ids

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """A copy of the rows of ``ids[begin:end]``, [n, slots, dim]."""
        return self._table[self._places[begin:end]]

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """(which of ``ids`` are here [n], their rows [found, slots, dim])."""
        at, here = self._search(ids)
        return here, self._table[self._places[at[here]]]

    def put(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> bool:
        """Takes rows of ascending ``ids``; False, and nothing is taken, where they do not fit."""
        at, here = self._search(ids)
        new = ~here
        count, before = int(new.sum()), len(self._ids)
        if before + count > len(self._table):
            return False
        self._table[self._places[at[here]]] = rows[here]
        self._table[before : before + count] = rows[new]
        self._places = np.insert(self._places, at[new], np.arange(before, before + count))
        self._ids = np.insert(self._ids, at[new], ids[new])
        return True

    def _search(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(where each id is or belongs, whether it is there)."""
        at = np.searchsorted(self._ids, ids)
        if not len(self._ids):
            return at, np.zeros(len(ids), np.bool_)
        return at, self._ids[np.minimum(at, len(self._ids) - 1)] == ids
