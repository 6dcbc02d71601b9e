"""The Kronecker expansion of a small real graph, and changes of the order of ids.

SmartSAGE (section V) makes its large sets by fractal expansion, which keeps the shape of the degree
distribution while the mean degree grows. Here the second factor is the graph itself, shrunk: nodes
are grouped into `factor` ranges of ids, and the pairs of groups with most edges are kept.
Matrices are symmetric and without loops, so rows and columns are the same thing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neargraph.datasets.kronecker import marks_of

from .planted import distinct

Array = Any
CHUNK = 1 << 22


def symmetric(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """Both directions of every edge, without loops and duplicates."""
    nodes = len(indptr) - 1
    row = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(indptr))
    column = indices.astype(np.int64)
    keys = np.concatenate([(row << 32) | column, (column << 32) | row])
    keys = distinct(keys[keys >> 32 != keys & 0xFFFFFFFF])
    return _pointers(keys >> 32, nodes), (keys & 0xFFFFFFFF).astype(np.int32)


def shrunk(indptr: Array, indices: Array, factor: int, per_row: float) -> Array:
    """A symmetric bool [factor, factor] with its diagonal and about `per_row` marks in a row."""
    nodes = len(indptr) - 1
    row = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(indptr)) * factor // nodes
    column = indices.astype(np.int64) * factor // nodes
    weight = np.bincount(row * factor + column, minlength=factor * factor).reshape(factor, factor)
    return marks_of(weight, per_row)


def expanded(indptr: Array, indices: Array, factor: int, per_row: float) -> tuple[Array, Array]:
    """The Kronecker product with the shrunk graph: node (i, a) is i * factor + a."""
    marks = shrunk(indptr, indices, factor, per_row)
    inner = [np.flatnonzero(row).astype(np.int32) for row in marks]
    wide = np.array([len(row) for row in inner], dtype=np.int64)
    nodes = len(indptr) - 1
    degrees = (np.diff(indptr)[:, None] * wide[None, :]).reshape(-1)
    out_ptr = np.concatenate([[0], np.cumsum(degrees)])
    out = np.empty(out_ptr[-1], dtype=np.int32)
    step = max(1, CHUNK * nodes // max(1, len(out)))
    for row in range(0, nodes, step):
        end = min(row + step, nodes)
        part = indices[indptr[row] : indptr[end]].astype(np.int64) * factor
        own = np.diff(indptr[row : end + 1])
        offset = np.arange(len(part)) - np.repeat(indptr[row:end] - indptr[row], own)
        for a, columns in enumerate(inner):
            starts = np.repeat(out_ptr[np.arange(row, end) * factor + a], own)
            places = starts + offset * len(columns)
            for number, b in enumerate(columns):
                out[places + number] = part + b
    return out_ptr, out


def renamed(indptr: Array, indices: Array, order: Array) -> tuple[Array, Array]:
    """The same graph where node `i` is called `order[i]`; lists ascending."""
    nodes = len(indptr) - 1
    back = np.argsort(order)
    degrees = np.diff(indptr)[back]
    out_ptr = np.concatenate([[0], np.cumsum(degrees)])
    out = np.empty(len(indices), dtype=np.int32)
    names = order.astype(np.int64)
    step = max(1, CHUNK * nodes // max(1, len(indices)))
    for row in range(0, nodes, step):
        end = min(row + step, nodes)
        count = degrees[row:end]
        owner = np.repeat(np.arange(end - row, dtype=np.int64), count)
        start = np.repeat(indptr[:-1][back[row:end]] - (out_ptr[row:end] - out_ptr[row]), count)
        keys = (owner << 32) | names[indices[start + np.arange(len(owner))]]
        keys.sort()
        out[out_ptr[row] : out_ptr[end]] = keys & 0xFFFFFFFF
    return out_ptr, out


def _pointers(owners: Array, nodes: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=nodes))])
