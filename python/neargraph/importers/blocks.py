"""Many graphs as one block-diagonal graph: the graph of each node, and what is said by graph.

Node tensors `graph_id` (the graph of a node), `graph_y` (its label) and a split repeat what belongs
to a graph on each of its nodes, so that rows, splits and seeds of nodes work as in any other store.
Memory is that of the pointers, of what is said by graph, and of one chunk.
"""

from collections.abc import Iterator

import numpy as np

from .check import fail, wider_than_f32
from .chunks import chunk_rows, spans
from .plan import Array, EdgeChunk, TensorPlan


def graphs_of_nodes(node_ptr: Array, row_bytes: int = 8) -> Iterator[Array]:
    """The graph of each node, of as many nodes at once as make a chunk of rows."""
    for span in spans(int(node_ptr[-1]), chunk_rows(max(8, row_bytes))):
        nodes = np.arange(span.start, span.stop)
        yield np.searchsorted(node_ptr, nodes, side="right") - 1


def graph_ids(node_ptr: Array) -> TensorPlan:
    """Node tensor `graph_id`."""
    return TensorPlan("graph_id", "i64", (), lambda: graphs_of_nodes(node_ptr), int(node_ptr[-1]))


def block_fact(node_ptr: Array) -> str:
    """What the user should know about the graphs."""
    return (
        f"{len(node_ptr) - 1:,} graphs are stored as one block-diagonal graph; the node tensor "
        "graph_id has the number of the graph of each node"
    )


def by_graph(name: str, dtype: str, values: Array, node_ptr: Array) -> TensorPlan:
    """A node tensor of what is said by graph, one row of ``values`` for each."""

    def chunks() -> Iterator[Array]:
        for graphs in graphs_of_nodes(node_ptr, values.nbytes // max(1, len(values))):
            yield values[graphs]

    return TensorPlan(name, dtype, tuple(values.shape[1:]), chunks, int(node_ptr[-1]))


def graph_labels(labels: Array, node_ptr: Array, where: str) -> TensorPlan:
    """Node tensor `graph_y`: the label row of the node's graph, repeated on each of its nodes."""
    if len(labels) != len(node_ptr) - 1:
        what = f"has {len(labels)} rows of labels for {len(node_ptr) - 1} graphs"
        fail(where, what, "check the file")
    values = labels.astype(np.int64) if labels.dtype.kind in "iu" else labels.astype(np.float32)
    tensor = by_graph("graph_y", "i64" if values.dtype.kind == "i" else "f32", values, node_ptr)
    tensor.narrowed_from = wider_than_f32(labels.dtype)
    return tensor


def block_edges(
    where: str,
    row: int,
    sources: Array,
    destinations: Array,
    node_ptr: Array,
    edge_ptr: Array,
) -> EdgeChunk:
    """Edges ``row`` and on, whose ends are numbered within their graphs, as edges of all nodes."""
    graph = np.searchsorted(edge_ptr, np.arange(row, row + len(sources)), side="right") - 1
    bound = node_ptr[graph + 1] - node_ptr[graph]
    for local in (sources, destinations):
        outside = np.flatnonzero((local.astype(np.int64) >= bound) | (local < 0))
        if outside.size:
            at = int(outside[0])
            fail(
                where,
                f"edge {row + at} names node {int(local[at])} of graph {int(graph[at])}, but this "
                f"graph has {int(bound[at])} nodes",
                "the file is inconsistent; write it again",
            )
    shift = node_ptr[graph]
    return EdgeChunk(sources.astype(np.int64) + shift, destinations.astype(np.int64) + shift)
