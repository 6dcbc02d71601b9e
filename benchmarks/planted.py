"""The standard graph: a degree-corrected planted partition with power-law degrees.

Weights are Pareto of density exponent 2.2, capped at 2 sqrt(N); one end of an edge is drawn by
weight, the other by weight from the same class in 60 % of the draws and from all nodes otherwise.
Both directions are kept, duplicates and loops are not, and ids are permuted at random, so that
locality is the worst there is. A row is its class's centroid, 0.35 N(0, 1), plus noise 2.0 N(0, 1).

Everything follows from the seed, whatever the number of threads. Memory is bounded by 8 bytes for
each draw, twice, and some chunks: 3.5 GB at 16 M nodes and 400 M entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = Any
Say = Callable[[str], None]

EXPONENT = 2.2
CLASSES = 32
INSIDE = 0.6
CENTROID = 0.35
NOISE = 2.0
SHORT = 0.002
CHUNK = 1 << 22
BLOCK_BYTES = 32 << 20


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The generator of one purpose: equal arguments, equal draws."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, *stream])))


def planted(nodes: int, degree: float, seed: int, say: Say) -> tuple[Array, Array, Array]:
    """(indptr i64, indices i32, labels i64) of the graph with `nodes` and mean `degree`."""
    order = generator(seed, 1).permutation(nodes).astype(np.int32)
    ends = _Ends(nodes, seed, order)
    wanted = int(nodes * degree / 2)
    keys = np.empty(0, dtype=np.int64)
    # Duplicates are commoner in small graphs: what they cost is drawn again.
    while len(keys) < (1 - SHORT) * wanted:
        more = int((wanted - len(keys)) * (1.0 if len(keys) == 0 else 1.05))
        keys = distinct(np.concatenate([keys, ends.draw(more, say)]))
        say(f"{len(keys):,} edges after loops and duplicates")
    counts = np.zeros(nodes + 1, dtype=np.int64)
    for start in range(0, len(keys), CHUNK):
        counts[1:] += np.bincount(keys[start : start + CHUNK] >> 32, minlength=nodes)
    upper = (keys & 0xFFFFFFFF).astype(np.int32)
    del keys
    indptr, indices = _both_directions(np.cumsum(counts), upper)
    labels = np.empty(nodes, dtype=np.int64)
    labels[order] = np.arange(nodes, dtype=np.int64) * CLASSES // nodes
    return indptr, indices, labels


def distinct(keys: Array) -> Array:
    """Sorted, each once; sorts in place."""
    keys.sort()
    keep = np.empty(len(keys), dtype=bool)
    keep[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=keep[1:])
    return keys[keep]


class _Ends:
    """Draws edges as pairs (smaller, larger id) packed into i64, loops left out."""

    def __init__(self, nodes: int, seed: int, order: Array) -> None:
        uniform = generator(seed, 0).random(nodes)
        weights = (1.0 - uniform) ** (-1.0 / (EXPONENT - 1.0))
        # Nodes of a class lie together before `order` renames them: a class is a range of sums.
        sums = np.cumsum(np.minimum(weights, 2.0 * np.sqrt(nodes)))
        first = -(-np.arange(CLASSES + 1) * nodes // CLASSES)
        bounds = np.concatenate([[0.0], sums])[first]
        self.low, self.high, self.total = bounds[:-1], bounds[1:], sums[-1]
        self.upper = sums[:-1]
        self.order, self.nodes, self.seed, self.block = order, nodes, seed, 0

    def draw(self, count: int, say: Say) -> Array:
        """About `count` edges, fewer by the loops; another call draws others."""
        keys = np.empty(count, dtype=np.int64)
        filled = 0
        for start in range(0, count, CHUNK):
            part = self._chunk(min(CHUNK, count - start))
            keys[filled : filled + len(part)] = part
            filled += len(part)
            say(f"drew {min(start + CHUNK, count):,} of {count:,} edges")
        return keys[:filled]

    def _chunk(self, count: int) -> Array:
        rng = generator(self.seed, 2, self.block)
        self.block += 1
        # Sorted draws make the search of one end cheap and change nothing else.
        one = np.searchsorted(self.upper, np.sort(rng.random(count)) * self.total, "right")
        group = one * CLASSES // self.nodes
        inside = rng.random(count) < INSIDE
        low = np.where(inside, self.low[group], 0.0)
        high = np.where(inside, self.high[group], self.total)
        other = np.searchsorted(self.upper, low + rng.random(count) * (high - low), "right")
        a, b = self.order[one].astype(np.int64), self.order[other].astype(np.int64)
        keys = (np.minimum(a, b) << 32) | np.maximum(a, b)
        return keys[a != b]


def _both_directions(upper_ptr: Array, upper: Array) -> tuple[Array, Array]:
    """The symmetric matrix of its upper half, lists ascending."""
    nodes = len(upper_ptr) - 1
    ones = np.ones(len(upper), dtype=np.int8)
    lower = sp.csr_matrix((ones, upper, upper_ptr.astype(np.int32)), shape=(nodes, nodes)).tocsc()
    lower_ptr, lower_ids = lower.indptr.astype(np.int64), lower.indices
    indptr = upper_ptr + lower_ptr
    indices = np.empty(indptr[-1], dtype=np.int32)
    step = max(1, CHUNK * nodes // max(1, len(upper)))
    # A list is its smaller neighbours, then its larger ones: both halves only move.
    for row in range(0, nodes, step):
        end = min(row + step, nodes)
        for ptr, ids, shift in (
            (lower_ptr, lower_ids, indptr[row:end] - lower_ptr[row:end]),
            (upper_ptr, upper, indptr[row + 1 : end + 1] - upper_ptr[row + 1 : end + 1]),
        ):
            span = slice(ptr[row], ptr[end])
            places = np.arange(span.start, span.stop) + np.repeat(
                shift, np.diff(ptr[row : end + 1])
            )
            indices[places] = ids[span]
    return indptr, indices


def rows(labels: Array, width: int, seed: int, threads: int = 2) -> Iterator[Array]:
    """The rows of all nodes in order, f32 [chunk, width]; may be called again."""
    kinds = int(labels.max()) + 1
    centroids = CENTROID * generator(seed, 3).standard_normal((kinds, width), dtype=np.float32)
    step = max(1, BLOCK_BYTES // (4 * width))

    def block(number: int) -> Array:
        own = labels[number * step : (number + 1) * step]
        noise = generator(seed, 4, number).standard_normal((len(own), width), dtype=np.float32)
        noise *= np.float32(NOISE)
        noise += centroids[own]
        return noise

    blocks = -(-len(labels) // step)
    with ThreadPoolExecutor(threads) as pool:
        ahead = [pool.submit(block, number) for number in range(min(2 * threads, blocks))]
        for number in range(blocks):
            yield ahead.pop(0).result()
            following = number + 2 * threads
            if following < blocks:
                ahead.append(pool.submit(block, following))
