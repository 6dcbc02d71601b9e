"""Iteration over all neighbour lists of an edge type, in chunks.

Invariant: lists come in the order of their destinations, each once. A list that is longer than a
chunk comes alone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.importers.chunks import CHUNK_EDGES, spans
from neargraph.reader import Neighbors
from neargraph.schema import EdgeType
from neargraph.snapshot import Snapshot

_NODES = 1 << 16


def lists_of(snap: Snapshot, edge: EdgeType) -> Iterator[tuple[NDArray[Any], Neighbors]]:
    """Yields the ids and lists of all destinations, about a chunk of entries at a time."""
    count = snap.schema.node_type(edge.destination).num_nodes
    for span in spans(count, _NODES):
        ids = np.arange(span.start, span.stop)
        ends = np.cumsum(snap.degrees(edge.triple, ids))
        start = 0
        while start < len(ids):
            before = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, before + CHUNK_EDGES, side="right"))
            part = ids[start : max(end, start + 1)]
            yield part, snap.neighbors(edge.triple, part)
            start += len(part)
