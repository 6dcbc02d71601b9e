"""A planted partition with power-law degrees: a large graph with classes, made in seconds.

Most edges join nodes of one class. A row of features is the centroid of the class plus noise, so a
model needs the neighbours to predict the class well. Ids are permuted at random, so rows of
neighbours are not adjacent. The invariant: the arguments alone determine the graph, not the number
of threads.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

import numpy as np

from neargraph.importers.chunks import chunk_rows, spans
from neargraph.importers.plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

T = TypeVar("T")

_INSIDE = 0.7
"""Share of edges that join two nodes of one class."""

_CENTROID = 0.12
"""Standard deviation of the columns of centroids; that of the noise is 1."""

_SKEW = 3
"""The end of an edge is the node whose rank is a uniform draw to this power."""

_MOST_THREADS = 4


def plan_planted(
    num_nodes: int = 1_000_000,
    num_edges: int = 4_000_000,
    num_features: int = 256,
    num_classes: int = 32,
    seed: int = 0,
) -> GraphPlan:
    """Returns the plan of a random graph with ``num_classes`` communities and hubs, for an import.

    The ends of an edge are drawn with probabilities proportional to rank ** (-2/3), so degrees
    follow a power law with exponent 2.5. Tensors: `x` f32 [num_features], `y` i64. Import it with
    ``undirected=True``. Equal arguments give equal graphs.

    Example:
        >>> plan_planted(1000, 5000, 16, 4).nodes[0].num_nodes
        1000
    """
    if min(num_nodes, num_edges, num_features, num_classes) < 1 or num_classes > num_nodes:
        raise ValueError(
            f"num_nodes={num_nodes}, num_edges={num_edges}, num_features={num_features} and "
            f"num_classes={num_classes} are not valid: each must be at least 1, and num_classes at "
            "most num_nodes"
        )
    order = _generator(seed, 0).permutation(num_nodes)
    labels = np.empty(num_nodes, dtype=np.int64)
    labels[order] = np.arange(num_nodes, dtype=np.int64) % num_classes
    centroids = _generator(seed, 1).standard_normal((num_classes, num_features), dtype=np.float32)
    centroids *= np.float32(_CENTROID)

    def rows(block: int, span: slice) -> Array:
        own = labels[span]
        noise = _generator(seed, 2, block)
        drawn = noise.standard_normal((len(own), num_features), dtype=np.float32)
        drawn += centroids[own]
        return drawn

    def ends(block: int, span: slice) -> EdgeChunk:
        draws, count = _generator(seed, 3, block), span.stop - span.start
        sources = (num_nodes * draws.random(count) ** _SKEW).astype(np.int64)
        place = draws.random(count) ** _SKEW
        anywhere = (num_nodes * place).astype(np.int64)
        alike = (num_nodes // num_classes * place).astype(np.int64) * num_classes
        alike += sources % num_classes
        inside = draws.random(count) < _INSIDE
        return EdgeChunk(order[sources], order[np.where(inside, alike, anywhere)])

    step = chunk_rows(4 * num_features)
    x = TensorPlan("x", "f32", (num_features,), partial(_ahead, rows, num_nodes, step), num_nodes)
    y = TensorPlan("y", "i64", (), lambda: iter([labels]), num_nodes)
    node = NodePlan(num_nodes=num_nodes, tensors=[x, y])
    edge = EdgePlan(chunks=partial(_ahead, ends, num_edges), num_edges=num_edges)
    return GraphPlan("planted graph", "planted", [node], [edge])


def _ahead(make: Callable[[int, slice], T], total: int, step: int | None = None) -> Iterator[T]:
    """Yields the pieces of ``total`` in order. A few threads make them, two ahead per thread."""
    pieces = enumerate(spans(total) if step is None else spans(total, step))
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        queue = [pool.submit(make, *piece) for piece in islice(pieces, 2 * threads)]
        for piece in pieces:
            yield queue.pop(0).result()
            queue.append(pool.submit(make, *piece))
        for future in queue:
            yield future.result()


def _generator(seed: int, *stream: int) -> np.random.Generator:
    """The random generator of one stream. Equal arguments give equal draws."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, *stream])))
