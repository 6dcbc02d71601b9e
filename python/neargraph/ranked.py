"""Order statistics of a stream in bounded memory: which values are among the k smallest.

Radix selection in four passes of 16 bits; the source is any textbook. The invariant: memory is that
of the counters and of one piece, whatever the number of values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Keys = Callable[[], Iterator[NDArray[np.uint64]]]

_BITS = 16
_PASSES = 64 // _BITS


def sortable(values: Array) -> NDArray[np.uint64]:
    """Unsigned keys that sort as numbers do.

    >>> keys = sortable(np.array([2.5, -1.0, 0.0]))
    >>> np.argsort(keys).tolist()
    [1, 2, 0]
    """
    top = np.uint64(1 << 63)
    if values.dtype.kind != "f":
        return values.astype(np.int64).view(np.uint64) ^ top
    bits = values.astype(np.float64).view(np.uint64)
    # Negative numbers sort the other way round.
    return np.where(bits & top, ~bits, bits | top)


@dataclass
class Boundary:
    """The first ``rank`` values of a stream in sorted order; equal ones in order of the stream."""

    value: np.uint64
    ties: int
    """How many values that are equal to ``value`` are among the first."""
    seen: int = 0

    def below(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the next keys of the stream are among them."""
        equal = keys == self.value
        places = self.seen + np.cumsum(equal)
        self.seen += int(equal.sum())
        inside: NDArray[np.bool_] = (keys < self.value) | (equal & (places <= self.ties))
        return inside


def boundaries(keys: Keys, ranks: list[int]) -> list[Boundary]:
    """The boundary of each rank; ``keys`` gives the stream again at each call.

    >>> first = lambda: iter([sortable(np.array([3, 1])), sortable(np.array([2, 1]))])
    >>> (two,) = boundaries(first, [2])
    >>> [two.below(part).tolist() for part in first()]
    [[False, True], [False, True]]
    """
    prefixes, left = [0] * len(ranks), list(ranks)
    for step in range(_PASSES):
        shift = np.uint64(64 - _BITS * (step + 1))
        counts = {prefix: np.zeros(1 << _BITS, np.int64) for prefix in prefixes}
        for part in keys():
            digits = (part >> shift) & np.uint64((1 << _BITS) - 1)
            heads = part >> shift >> np.uint64(_BITS) if step else np.zeros_like(part)
            for prefix, known in counts.items():
                mine = digits[heads == np.uint64(prefix)].astype(np.int64)
                known += np.bincount(mine, minlength=1 << _BITS)
        for at, prefix in enumerate(prefixes):
            sums = np.cumsum(counts[prefix])
            digit = min(int(np.searchsorted(sums, left[at], side="right")), (1 << _BITS) - 1)
            left[at] -= int(sums[digit - 1]) if digit else 0
            prefixes[at] = (prefix << _BITS) | digit
    return [Boundary(np.uint64(value), ties) for value, ties in zip(prefixes, left, strict=True)]
