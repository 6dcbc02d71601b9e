"""In-degrees of sampled nodes in the whole graph, from the store.

A sampled subgraph has only a part of a node's neighbours, so its own degrees would change the
result of a GCN. The store returns the degree of a node without reading its list.
"""

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neargraph._lists import lists_of
from neargraph.exceptions import UnsupportedArgument
from neargraph.schema import EdgeTriple, EdgeType
from neargraph.store import Store


class InDegrees:
    """Callable that maps node ids [n] to in-degrees float32 [n], by type if there are several.

    PyG's GCN adds exactly one self-loop to every node, so self-loops of the graph do not count. A
    sequential scan of the lists finds them when this object is created, and only nodes with a
    self-loop are kept in memory. ``scan=False`` skips the scan for graphs without self-loops.

    Args:
        store: The open store.
        edge_type: The edge type to count. None: all edge types.
        scan: Whether to search for self-loops.
        loops: Whether to count self-loops, for models that add none, such as GIN and LightGCN. This
            needs no scan.

    Example:
        >>> degrees = InDegrees(store)                                 # doctest: +SKIP
        >>> model(batch.x, batch.edge_index, degrees(batch.n_id))      # doctest: +SKIP
        >>> degrees = InDegrees(bipartite, loops=True)                 # doctest: +SKIP
        >>> degrees(batch.n_id_dict)[("user", "buys", "item")]         # doctest: +SKIP
        tensor([3., 8.])
    """

    def __init__(
        self, store: Store, edge_type: Any = None, scan: bool = True, loops: bool = False
    ) -> None:
        self._snapshot = store.snapshot()
        schema = store.schema
        if edge_type is None and len(schema.edge_types) > 1:
            self._edge_types = schema.edge_types
        else:
            self._edge_types = (schema.edge_type(edge_type),)
        self._loops: dict[EdgeTriple, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for owner in self._edge_types:
            if scan and not loops and owner.source == owner.destination:
                self._loops[owner.triple] = self._scan(owner)

    def _scan(self, owner: EdgeType) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ids, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for nodes, lists in lists_of(self._snapshot, owner):
            owners = np.repeat(nodes, np.diff(lists.indptr))
            found, times = np.unique(owners[owners == lists.indices], return_counts=True)
            ids.append(found)
            counts.append(times.astype(np.int64))
        return np.concatenate(ids), np.concatenate(counts)

    @overload
    def __call__(self, n_id: Tensor) -> Tensor: ...

    @overload
    def __call__(self, n_id: Mapping[str, Tensor]) -> dict[EdgeTriple, Tensor]: ...

    def __call__(self, n_id: Tensor | Mapping[str, Tensor]) -> Tensor | dict[EdgeTriple, Tensor]:
        """Returns the in-degrees of nodes.

        Args:
            n_id: Node ids [n] if one edge type is counted. Otherwise ids by node type, such as
                ``batch.n_id_dict``.

        Returns:
            In-degrees float32 [n], or those of the destinations by edge type.

        Raises:
            UnsupportedArgument: Several edge types are counted, but `n_id` has no node types.
        """
        if not isinstance(n_id, Tensor):
            return {t.triple: self._of(t, n_id[t.destination]) for t in self._edge_types}
        if len(self._edge_types) > 1:
            raise UnsupportedArgument(
                f"n_id= has the ids of one node type, but the degrees are those of "
                f"{len(self._edge_types)} edge types; give batch.n_id_dict, or name one edge type "
                "with edge_type="
            )
        return self._of(self._edge_types[0], n_id)

    def _of(self, owner: EdgeType, n_id: Tensor) -> Tensor:
        ids = n_id.cpu().numpy()
        degrees = np.array(self._snapshot.degrees(owner.triple, ids), dtype=np.int64)
        loop_ids, loop_counts = self._loops.get(owner.triple, (ids[:0], ids[:0]))
        if len(loop_ids):
            at = np.searchsorted(loop_ids, ids)
            at[at == len(loop_ids)] = 0
            degrees -= np.where(loop_ids[at] == ids, loop_counts[at], 0)
        return torch.from_numpy(degrees.astype(np.float32)).to(n_id.device)
