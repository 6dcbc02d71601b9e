"""Neighbour lists of a store as a read-only `torch_geometric.data.GraphStore`.

The interface returns whole edge types, which are then in memory outside the budget. Sampling uses
`neargraph.pyg.Sampler` instead, which stays within the budget.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.data.graph_store import EdgeLayout

from neargraph.exceptions import UnsupportedArgument
from neargraph.reader import Reader
from neargraph.schema import EdgeType

_READ_ONLY = "PyG's interface to a store is read-only; change the store with store.write()"


class GraphStore(PygGraphStore):  # type: ignore[misc]
    """Edge types in CSC layout: row holds the sources, col the pointers by destination.

    In a store with one node type and one edge type, the edge type is None, as in PyG for
    homogeneous graphs. It can also be named.

    Args:
        store: The open store or a snapshot.

    Example:
        >>> row, colptr, perm = store.graph_store.csc()
    """

    def __init__(self, store: Reader) -> None:
        super().__init__()
        self.snapshot = store.snapshot()

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Returns one CSC attribute per edge type."""
        schema = self.snapshot.schema
        return [
            EdgeAttr(
                None if schema.is_homogeneous else t.triple,
                EdgeLayout.CSC,
                is_sorted=True,
                size=self._size(t),
            )
            for t in schema.edge_types
        ]

    def _edges_to_layout(
        self, layout: EdgeLayout, edge_types: list[Any] | None = None, store: bool = False
    ) -> Any:
        if not self.snapshot.schema.is_homogeneous:
            return super()._edges_to_layout(layout, edge_types, store)
        found = self._edge_to_layout(self.get_all_edge_attrs()[0], layout, store)
        if edge_types is None:
            return found
        for name in edge_types:
            self.snapshot.schema.edge_type(name)
        return tuple(dict.fromkeys(edge_types, part) for part in found)

    def _size(self, edge_type: EdgeType) -> tuple[int, int]:
        types = self.snapshot.schema.node_types
        source = types[edge_type.source_index]
        return source.num_nodes, types[edge_type.destination_index].num_nodes

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        edge_type = self.snapshot.schema.edge_type(edge_attr.edge_type)
        if edge_attr.layout == EdgeLayout.CSR:
            raise UnsupportedArgument(
                "the CSR layout is not supported, as neighbour lists are stored by destination; "
                "use CSC or COO, or convert the lists with graph_store.csr()"
            )
        destinations = np.arange(self._size(edge_type)[1], dtype=np.int64)
        indptr, sources, *_ = self.snapshot.version.neighbors(edge_type.index, destinations)
        row, colptr = torch.from_numpy(sources), torch.from_numpy(indptr)
        if edge_attr.layout == EdgeLayout.CSC:
            return row, colptr
        return row, torch.from_numpy(np.repeat(destinations, np.diff(indptr)))

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise UnsupportedArgument(_READ_ONLY)

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise UnsupportedArgument(_READ_ONLY)

    def __repr__(self) -> str:
        return f"GraphStore({self.snapshot!r})"
