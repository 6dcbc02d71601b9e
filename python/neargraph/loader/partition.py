"""Partitions of a graph, for loaders of clusters.

What must not live here: loaders. The invariant: every live node is in one part, and deleted nodes
are in none.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import MissingDependency, UnsupportedArgument
from neargraph.reader import Reader

_TOGETHER = 1 << 18


def metis_parts(store: Reader, num_parts: int, method: str = "metis") -> NDArray[np.int64]:
    """Partitions a graph with METIS (Karypis and Kumar, SIAM J. Sci. Comput. 1998).

    METIS needs the whole graph in memory, outside the store's budget: about 40 bytes per edge.

    Args:
        store: The open store or a snapshot, with one node type and one edge type.
        num_parts: Number of parts.
        method: ``"metis"`` is the only method.

    Returns:
        The part of each node, int64 [num_nodes], from 0 to `num_parts` - 1.

    Raises:
        MissingDependency: The package pymetis is not installed.
        UnsupportedArgument: `method` is not valid.

    Example:
        >>> parts = metis_parts(store, 100)
        >>> loader = ng.ClusterGCNLoader(store, 100, partition=parts, batch_size=8)
    """
    if method != "metis":
        raise UnsupportedArgument(
            f"partition={method!r} is not valid: expected 'order', 'metis' or an array with the "
            "part of each node"
        )
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependency(
            "partition='metis' needs the package pymetis; run pip install 'neargraph[metis]', or "
            "use partition='order'"
        ) from error
    snapshot = store.snapshot()
    count = snapshot.schema.node_types[0].num_nodes
    if num_parts == 1 or count == 0:
        return np.zeros(count, np.int64)
    starts, others = _both_ways(snapshot, count)
    _, parts = pymetis.part_graph(num_parts, pymetis.CSRAdjacency(starts, others))
    return np.asarray(parts, np.int64)


def _both_ways(store: Any, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns neighbours in both directions, without loops and parallel edges: pointers and ids."""
    pairs = []
    for first in range(0, count, _TOGETHER):
        nodes = np.arange(first, min(count, first + _TOGETHER), dtype=np.int64)
        indptr, sources, *_ = store.version.neighbors(store.schema.edge_types[0].index, nodes)
        ends = np.repeat(nodes, np.diff(indptr))
        low, high = np.minimum(sources, ends), np.maximum(sources, ends)
        pairs.append(np.unique((low * count + high)[low != high]))
    keys = np.unique(np.concatenate(pairs)) if pairs else np.zeros(0, np.int64)
    low, high = np.divmod(keys, count)
    from_, to = np.concatenate([low, high]), np.concatenate([high, low])
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(from_, minlength=count), out=starts[1:])
    return starts, to[np.argsort(from_, kind="stable")]


def groups_of_parts(
    store: Reader, parts: Any, num_parts: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the live nodes by part: the ends of parts, [num_parts + 1], and the nodes, [n].

    Raises:
        ValueError: `parts` does not have a part from 0 to `num_parts` - 1 for each node.
    """
    snapshot = store.snapshot()
    owner = snapshot.schema.node_types[0]
    array = np.asarray(parts)
    if array.shape != (owner.num_nodes,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"partition= must hold the part of each node, int64 [{owner.num_nodes}], got "
            f"{array.dtype} {list(array.shape)}"
        )
    if len(array) and not (array.min() >= 0 and array.max() < num_parts):
        bad = int(array[(array < 0) | (array >= num_parts)][0])
        raise ValueError(f"partition= contains the part {bad}: expected 0 to {num_parts - 1}")
    live = np.setdiff1d(np.arange(owner.num_nodes), snapshot.dead_nodes(owner.name))
    nodes = live[np.argsort(array[live], kind="stable")]
    ends = np.zeros(num_parts + 1, np.int64)
    np.cumsum(np.bincount(array[live], minlength=num_parts), out=ends[1:])
    return ends, nodes
