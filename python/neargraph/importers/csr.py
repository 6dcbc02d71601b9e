"""Compressed sparse rows, streamed: as edges, or densified to f32 rows.

Rows are sources, as in every npz and scipy matrix here. Pointers and values are read side by side
in chunks, so neither matrix nor pointers need to fit in memory. Invariant: pointers start at 0,
never fall and end at the number of values; anything else is refused by row.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from .arrays import NpyStream, NpzFile, streamed_tensor
from .check import fail, node_ids, wider_than_f32
from .chunks import chunk_rows, spans
from .memory import need
from .plan import Array, CsrChunk, EdgeChunk, TensorPlan

_ROWS = 1 << 17
_VALUES = 1 << 19


def pointer_blocks(npz: NpzFile, name: str, num_values: int) -> Iterator[tuple[int, Array]]:
    """(first row, pointers of the block's rows and one more), checked."""
    stream = npz.open(name)
    if len(stream.shape) != 1 or stream.shape[0] < 1 or stream.dtype.kind not in "iu":
        fail(
            npz.where(name),
            f"has dtype {stream.dtype} and shape {list(stream.shape)}, "
            "expected integers [rows + 1]",
            "check the layout of the file",
        )
    num_rows = int(stream.shape[0]) - 1
    last = stream.rows(1).astype(np.int64)
    if last[0] != 0:
        fail(
            npz.where(name),
            f"starts at {last[0]}, not 0",
            "the file is inconsistent; write it again",
        )
    row = 0
    while row < num_rows:
        count = min(_ROWS, num_rows - row)
        block = np.concatenate([last, stream.rows(count).astype(np.int64)])
        falls = np.flatnonzero(np.diff(block) < 0)
        if falls.size or block[-1] > num_values:
            at = int(falls[0]) if falls.size else int(np.flatnonzero(block > num_values)[0]) - 1
            fail(
                npz.where(name),
                f"row {row + at} has the pointers {block[at]} and {block[at + 1]}, but pointers "
                f"must not decrease or exceed {num_values}",
                "the file is inconsistent; write it again",
            )
        yield row, block
        last = block[-1:]
        row += count
    if last[0] != num_values:
        fail(
            npz.where(name),
            f"ends at {last[0]}, but there are {num_values} values",
            "the file is inconsistent; write it again",
        )


def csr_edges(
    npz: NpzFile, indptr: str, indices: str, num_nodes: int, weights: str | None = None
) -> Iterator[EdgeChunk]:
    """Streams (row, column[, value]) of a CSR matrix as edges row -> column."""
    columns = npz.open(indices)
    values: NpyStream | None = npz.open(weights) if weights else None
    for first, block in pointer_blocks(npz, indptr, npz.length(indices)):
        for start, end, sources in rows_of_entries(first, block):
            columns_here = columns.rows(end - start)
            destinations = node_ids(columns_here, npz.where(indices), start, num_nodes)
            yield EdgeChunk(
                sources,
                destinations.astype(np.int64),
                weights=values.rows(end - start) if values else None,
            )


def rows_of_entries(first: int, block: Array) -> Iterator[tuple[int, int, Array]]:
    """(first entry, end, row of each entry) by chunk, of rows from ``first`` on with pointers."""
    rows = np.arange(first, first + len(block) - 1, dtype=np.int64)
    before = int(block[0])
    for span in spans(int(block[-1]) - before):
        start, end = before + span.start, before + span.stop
        yield start, end, np.repeat(rows, np.diff(np.clip(block, start, end)))


def csr_tensor(
    npz: NpzFile, indptr: str, indices: str, data: str | None, width: int, num_rows: int
) -> TensorPlan:
    """A CSR matrix as tensor ``x``, dense or not; ``data=None`` means all ones."""

    def csr() -> Iterator[CsrChunk]:
        return csr_rows(npz, indptr, indices, data, width)

    tensor = sparse_tensor("x", width, csr, num_rows, npz.length(indices))
    tensor.narrowed_from = None if data is None else wider_than_f32(npz.dtype(data))
    return tensor


def sparse_tensor(
    name: str, width: int, csr: Callable[[], Iterator[CsrChunk]], num_rows: int, num_values: int
) -> TensorPlan:
    """A tensor whose rows stream without their zeros, or dense where they are stored so."""

    def chunks() -> Iterator[Array]:
        for chunk in csr():
            yield csr_to_dense(chunk, width)

    return TensorPlan(name, "f32", (width,), chunks, num_rows, csr=csr, num_values=num_values)


def csr_to_dense(csr: CsrChunk, width: int) -> Array:
    """The rows of a chunk as dense f32, [rows, width]; equal columns are added up."""
    dense = np.zeros((len(csr.indptr) - 1, width), dtype=np.float32)
    owner = np.repeat(np.arange(len(dense)), np.diff(csr.indptr))
    filled = np.float32(1.0) if csr.values is None else csr.values
    np.add.at(dense, (owner, csr.columns.astype(np.int64)), filled)
    return dense


def bag_rows(bags: Iterable[Array], width: int) -> Iterator[Array]:
    """Streams dense binary f32 rows of bags of words, each an array of columns."""
    rest = iter(bags)
    while part := list(islice(rest, chunk_rows(4 * max(1, width)))):
        rows = np.zeros((len(part), width), dtype=np.float32)
        for row, words in zip(rows, part, strict=True):
            row[words] = 1.0
        yield rows


def csr_rows(
    npz: NpzFile, indptr: str, indices: str, data: str | None, width: int
) -> Iterator[CsrChunk]:
    """Streams a CSR matrix, as many rows at once as make a chunk with their zeros, or less."""
    columns = npz.open(indices)
    values = npz.open(data) if data else None
    step = chunk_rows(4 * max(1, width))
    for first, block in pointer_blocks(npz, indptr, npz.length(indices)):
        start, end = 0, 0
        while (start := end) < len(block) - 1:
            fit = int(np.searchsorted(block, block[start] + _VALUES, side="right")) - 1
            end = min(max(fit, start + 1), start + step, len(block) - 1)
            rows = block[start : end + 1]
            count = int(rows[-1] - rows[0])
            # As they are read, as 64-bit columns, with their rows and values, and handed over.
            need(npz.where(indices), 40 * count)
            cols = columns.rows(count)
            if count and (int(cols.max()) >= width or int(cols.min()) < 0):
                at = int(np.flatnonzero((cols >= width) | (cols < 0))[0])
                row = first + start + int(np.searchsorted(rows - rows[0], at, side="right")) - 1
                fail(
                    npz.where(indices),
                    f"row {row} has an entry in column {int(cols[at])}, "
                    f"but rows have {width} columns",
                    "the file is inconsistent; write it again",
                )
            filled = values.rows(count).astype(np.float32) if values else None
            wide = cols if cols.dtype.itemsize >= 4 else cols.astype(np.int64)
            yield CsrChunk(rows - rows[0], wide, filled)


def member_tensor(
    npz: NpzFile, member: str, name: str, num_rows: int, as_labels: bool = False
) -> TensorPlan:
    """A dense member as a tensor of ``num_rows`` rows; ``as_labels`` widens integers to i64."""
    shape, where = npz.shape(member), npz.where(member)
    if not shape or shape[0] != num_rows:
        fail(
            npz.where(member),
            f"has shape {list(shape)}, expected {num_rows} rows",
            "the file is inconsistent; write it again",
        )

    def pieces(step: int) -> Iterator[Array]:
        return npz.open(member).chunks(step)

    return streamed_tensor(name, where, shape, npz.dtype(member), pieces, as_labels)
