"""A small generated graph with classes, for tests and examples on any machine.

Most edges join nodes of one class, and features are a noisy code of the class, so both features and
neighbours predict the class. The seed determines the graph (Philox).
"""

from collections.abc import Iterator

import numpy as np

from neargraph.importers.chunks import chunk_rows, spans
from neargraph.importers.plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan


def plan_generated(
    num_nodes: int = 50_000,
    num_edges: int = 500_000,
    num_features: int = 1024,
    num_classes: int = 20,
    seed: int = 0,
) -> GraphPlan:
    """Returns the plan of a random graph with ``num_classes`` communities, for an import.

    Tensors: `x` f32 [num_features], binary; `y` i64. The class of a node is its id modulo
    ``num_classes``. 90 % of the edges join nodes of one class. Equal arguments give equal graphs.

    Example:
        >>> plan_generated(1000, 5000, 16, 4).nodes[0].num_nodes
        1000
    """
    if min(num_nodes, num_edges, num_features, num_classes) < 1 or num_classes > num_nodes:
        raise ValueError(
            f"num_nodes={num_nodes}, num_edges={num_edges}, num_features={num_features} and "
            f"num_classes={num_classes} are not valid: each must be at least 1, and num_classes at "
            "most num_nodes"
        )
    codes = _generator(seed, 0).random((num_classes, num_features)) < 0.02

    def features() -> Iterator[Array]:
        for block, span in enumerate(spans(num_nodes, chunk_rows(4 * num_features))):
            ids = np.arange(span.start, span.stop)
            draw = _generator(seed, 1 + block).random((len(ids), num_features), dtype=np.float32)
            own = codes[ids % num_classes]
            yield ((draw < 0.01) | (own & (draw < 0.25))).astype(np.float32)

    def edges() -> Iterator[EdgeChunk]:
        for block, span in enumerate(spans(num_edges)):
            size = span.stop - span.start
            draw = _generator(seed, (1 << 32) + block)
            sources = draw.integers(0, num_nodes, size)
            others = draw.integers(0, num_nodes, size)
            aligned = others - (others - sources) % num_classes
            inside = (draw.random(size) < 0.9) & (aligned >= 0)
            yield EdgeChunk(sources, np.where(inside, aligned, others))

    labels = np.arange(num_nodes, dtype=np.int64) % num_classes
    x = TensorPlan("x", "f32", (num_features,), features, num_nodes)
    y = TensorPlan("y", "i64", (), lambda: iter([labels]), num_nodes)
    node = NodePlan(num_nodes=num_nodes, tensors=[x, y])
    edge = EdgePlan(chunks=edges, num_edges=num_edges)
    return GraphPlan("generated graph", "generated", [node], [edge])


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, stream]))
