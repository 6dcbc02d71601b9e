"""Edge lists that are members of an .npz: [E, 2] and [2, E], streamed."""

from collections.abc import Iterator

import numpy as np

from .arrays import NpzFile
from .check import fail, node_ids
from .chunks import CHUNK_EDGES, spans
from .plan import Array, EdgeChunk


def pair_chunks(
    npz: NpzFile,
    member: str,
    num_sources: int | None,
    num_destinations: int | None,
    prefer_rows: bool = False,
) -> Iterator[EdgeChunk]:
    """Streams an [E, 2] or [2, E] integer member as edges; arguments as of `pair_columns`."""
    where = npz.where(member)
    for row, sources, destinations in pair_columns(npz, member, prefer_rows):
        yield EdgeChunk(
            node_ids(sources, where, row, num_sources),
            node_ids(destinations, where, row, num_destinations),
        )


def pair_columns(
    npz: NpzFile, member: str, prefer_rows: bool = False
) -> Iterator[tuple[int, Array, Array]]:
    """(first edge, sources, destinations) of an [E, 2] or [2, E] member, in order.

    In memory, [2, E] in Fortran order is [E, 2] in C order: pairs lie side by side. Otherwise the
    two halves are read through two streams. ``prefer_rows`` decides what [2, 2] means.
    """
    stream = npz.open(member)
    shape = stream.shape
    if len(shape) != 2 or 2 not in shape or stream.dtype.kind not in "iu":
        fail(
            npz.where(member),
            f"has dtype {stream.dtype} and shape {list(shape)}, expected integers [2, E] or [E, 2]",
            "check the layout of the file",
        )
    by_edge = shape[1] == 2 and (prefer_rows or shape[0] != 2)
    total = int(shape[0] if by_edge else shape[1])
    if by_edge != stream.fortran:
        stream.shape, stream.fortran = (total, 2), False
        row = 0
        for chunk in stream.chunks(CHUNK_EDGES):
            yield row, np.ascontiguousarray(chunk[:, 0]), np.ascontiguousarray(chunk[:, 1])
            row += len(chunk)
        return
    other = npz.open(member)
    for half in (stream, other):
        half.shape, half.fortran = (2 * total,), False
    other.skip(total)
    for span in spans(total):
        count = span.stop - span.start
        yield span.start, stream.rows(count), other.rows(count)
