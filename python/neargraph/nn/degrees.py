"""In-degrees of sampled nodes in the whole graph, asked from the store.

A sampled subgraph holds only part of a node's neighbours, so its own degrees would change what a
GCN computes. The store knows the degree of every node without reading its list.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neargraph.store import Store

_CHUNK_NODES = 1 << 16


class InDegrees:
    """Callable: node ids [n] -> in-degrees without self-loops, float32 [n].

    PyG's GCN gives every node exactly one self-loop, so loops that the graph has must not count.
    They are found by one sequential scan of the lists when this object is made; only nodes that
    have one are remembered. ``scan=False`` skips it for graphs known to have none.

    Args:
        store: The open store.
        edge_type: May be left out where there is only one.

    Example:
        >>> degrees = InDegrees(store)                                 # doctest: +SKIP
        >>> model(batch.x, batch.edge_index, degrees(batch.n_id))      # doctest: +SKIP
    """

    def __init__(self, store: Store, edge_type: Any = None, scan: bool = True) -> None:
        self._snapshot = store.snapshot()
        self._edge_type = store.schema.edge_type(edge_type)
        empty = np.empty(0, np.int64)
        self._loop_ids, self._loop_counts = empty, empty
        if scan and self._edge_type.source == self._edge_type.destination:
            count = store.schema.node_type(self._edge_type.destination).num_nodes
            self._loop_ids, self._loop_counts = self._scan(count)

    def _scan(self, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ids, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first in range(0, num_nodes, _CHUNK_NODES):
            nodes = np.arange(first, min(first + _CHUNK_NODES, num_nodes), dtype=np.int64)
            indptr, sources, *_ = self._snapshot.neighbors(self._edge_type.triple, nodes)
            owners = np.repeat(nodes, np.diff(indptr))
            found, times = np.unique(owners[owners == sources], return_counts=True)
            ids.append(found)
            counts.append(times.astype(np.int64))
        return np.concatenate(ids), np.concatenate(counts)

    def __call__(self, n_id: Tensor) -> Tensor:
        """In-degrees of the nodes ``n_id``, self-loops not counted."""
        ids = n_id.cpu().numpy()
        degrees = np.array(self._snapshot.degrees(self._edge_type.triple, ids), dtype=np.int64)
        if len(self._loop_ids):
            at = np.searchsorted(self._loop_ids, ids)
            at[at == len(self._loop_ids)] = 0
            degrees -= np.where(self._loop_ids[at] == ids, self._loop_counts[at], 0)
        return torch.from_numpy(degrees.astype(np.float32)).to(n_id.device)
