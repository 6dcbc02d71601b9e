"""Changed rows that are not yet written, in memory of a fixed size.

The invariant: `nbytes` never exceeds the limit, and each id has at most one entry.
"""

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import BudgetTooSmall

# The id and the position of each row.
_INDEX_BYTES = 16


class ChangedRows:
    """A write-back cache of rows float32 [slots, dim] by id.

    Args:
        limit: Maximum number of bytes of rows and their index.
        slots: Number of rows per id: the embedding, and the state of the optimiser.
        dim: Width of a row.

    Raises:
        BudgetTooSmall: Not even one row fits.
    """

    def __init__(self, limit: int, slots: int, dim: int) -> None:
        self._row_bytes = 4 * slots * dim + _INDEX_BYTES
        capacity = limit // self._row_bytes
        if capacity < 1:
            raise BudgetTooSmall(
                f"memory= is {limit} bytes, but one row with dim={dim} and its optimiser state "
                f"take {self._row_bytes} bytes",
                self._row_bytes,
            )
        # The system allocates its pages when rows are written to them.
        self._table = np.empty((capacity, slots, dim), np.float32)
        self.clear()

    def clear(self) -> None:
        """Removes all rows."""
        # Ids in ascending order, with the position of each in the table.
        self._ids = np.empty(0, np.int64)
        self._places = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their index."""
        return len(self._ids) * self._row_bytes

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids, ascending, [n]."""
        return self._ids

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Returns a copy of the rows of ``ids[begin:end]``, [n, slots, dim]."""
        return self._table[self._places[begin:end]]

    def find(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Returns (which of ``ids`` are present [n], their rows [found, slots, dim])."""
        at, here = self._search(ids)
        return here, self._table[self._places[at[here]]]

    def put(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> bool:
        """Stores rows of ascending ``ids``; stores none and returns False if they do not fit."""
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
        """Returns (the position at which each id is or belongs, whether it is present)."""
        at = np.searchsorted(self._ids, ids)
        if not len(self._ids):
            return at, np.zeros(len(ids), np.bool_)
        return at, self._ids[np.minimum(at, len(self._ids) - 1)] == ids
