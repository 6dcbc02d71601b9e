"""The seeded train/val/test split that ``split`` asks for.

Counts are exact (largest remainder), memory is one chunk whatever the number of nodes, and the
outcome depends on nothing but (number of nodes, percentages, seed).
"""

from collections.abc import Iterator

import numpy as np

from .chunks import spans
from .plan import Array

_CHUNK_NODES = 1 << 20


def split_counts(num_nodes: int, percent: tuple[float, float, float]) -> list[int]:
    """Nodes in (none, train, val, test): rounded so that they add up to ``num_nodes``.

    >>> split_counts(7, (60, 20, 20))
    [0, 4, 2, 1]
    """
    shares = [max(0.0, 100.0 - sum(percent)), *percent]
    exact = [num_nodes * share / 100.0 for share in shares]
    counts = [int(np.floor(value)) for value in exact]
    by_remainder = sorted(range(4), key=lambda k: (counts[k] - exact[k], k))
    for k in by_remainder[: num_nodes - sum(counts)]:
        counts[k] += 1
    return counts


def split_chunks(num_nodes: int, percent: tuple[float, float, float], seed: int) -> Iterator[Array]:
    """Streams the split tensor, u8 [num_nodes]: 0 none, 1 train, 2 val, 3 test.

    Each chunk first draws how many of each part fall into it (multivariate hypergeometric), then
    shuffles them: together that is a uniform draw without replacement. The generator is NumPy's
    Philox keyed by ``seed``.
    """
    generator = np.random.Generator(np.random.Philox(key=seed & ((1 << 128) - 1)))
    left = np.array(split_counts(num_nodes, percent), dtype=np.int64)
    for span in spans(num_nodes, _CHUNK_NODES):
        part, size = left.copy(), span.stop - span.start
        if span.stop < num_nodes:
            part = generator.multivariate_hypergeometric(left, size, method="marginals")
        codes = np.repeat(np.arange(4, dtype=np.uint8), part)
        generator.shuffle(codes)
        yield codes
        left -= part
