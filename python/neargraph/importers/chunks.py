"""In which pieces inputs are streamed, so that memory does not grow with them."""

from collections.abc import Iterator

CHUNK_EDGES = 1 << 18
"""Entries of one streamed piece of an edge list."""

_CHUNK_BYTES = 4 << 20


def chunk_rows(row_bytes: int) -> int:
    """How many rows of a tensor are one streamed piece: about 4 MiB of them."""
    return max(1, _CHUNK_BYTES // max(1, row_bytes))


def spans(total: int, step: int = CHUNK_EDGES) -> Iterator[slice]:
    """Places 0 up to ``total``, so many at once.

    >>> list(spans(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for first in range(0, total, step):
        yield slice(first, min(first + step, total))
