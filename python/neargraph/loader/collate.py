"""Mini-batches as PyG objects.

Tensors share memory with the compiled batch, whose budget counts them until the last is dropped.
The layout follows what `torch_geometric.loader.NeighborLoader` yields: seeds first, x and y for all
sampled nodes, edge features beside `edge_index`, masks as masks.
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data, HeteroData

from neargraph.dtypes import SparseRows
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.shape import EDGE_TIME, PYG_TIME
from neargraph.schema import EdgeType, NodeType, Schema
from neargraph.splits import SPLITS, split_columns


def as_tensor(array: NDArray[Any] | SparseRows) -> torch.Tensor:
    """A torch tensor over the memory of `array`: bf16 columns get their dtype back, and rows
    without their zeros become sparse CSR."""
    if isinstance(array, SparseRows):
        indptr, indices, values = map(torch.from_numpy, array[:3])
        return csr_tensor(indptr, indices, values, array.shape)
    # No tensor of a store is of uint16 itself.
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def csr_tensor(
    indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, shape: tuple[int, ...]
) -> torch.Tensor:
    """A sparse tensor of columns that were checked."""
    # torch announces once that CSR tensors are in beta, which nobody who loads a batch can act on.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def take_rows(value: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Rows `order` [n] of a dense tensor or a sparse CSR one, which torch cannot index."""
    if value.layout != torch.sparse_csr:
        return value[order]
    indptr = value.crow_indices()
    lengths = indptr.diff()[order]
    ends = lengths.cumsum(0)
    # Entry i of a row that begins at b stands at i - b + its row's place in `value`.
    shift = torch.repeat_interleave(indptr[order] - ends + lengths, lengths)
    places = torch.arange(len(shift)) + shift
    starts = torch.cat([ends.new_zeros(1), ends])
    shape = (len(order), value.size(1))
    return csr_tensor(starts, value.col_indices()[places], value.values()[places], shape)


def check_masks(schema: Schema, tensors: list[Any]) -> None:
    """Refuses some of several split columns: PyG's masks are made of all of them.

    Raises:
        UnsupportedArgument: Only some are in `tensors`.
    """
    carried = set(tensors)
    for owner in schema.node_types:
        columns = split_columns(owner)
        named = [name for name in columns if ("node", owner.index, name) in carried]
        if named and named != columns:
            raise UnsupportedArgument(
                f"attrs names {named} of {owner.name!r}, and its masks are made of {columns}; "
                "name 'train_mask' for all of them"
            )


class Collator:
    """Turns a `MiniBatch` into `Data` (one node type, one edge type) or `HeteroData`.

    Args:
        schema: Types of the store.
        tensors: The (kind, type id, name) triples that batches carry.
        x_dtype: ``x`` is converted to this dtype where it has another; None leaves it.
        by_hop: Batches tell how many nodes and edges each hop added. Edges that were not drawn
            belong to no hop.
        time_attr: What sampling calls the times. Those of edges are one tensor under two names
            where PyG's name of them is given.
    """

    def __init__(
        self,
        schema: Schema,
        tensors: list[Any],
        x_dtype: torch.dtype | None = None,
        *,
        by_hop: bool = True,
        time_attr: str | None = None,
    ) -> None:
        check_masks(schema, tensors)
        self._schema = schema
        self._x_dtype = x_dtype
        self._by_hop = by_hop
        self._names_of_time = [EDGE_TIME, PYG_TIME] if time_attr == PYG_TIME else [EDGE_TIME]
        self._hetero = not schema.is_homogeneous
        carried = set(tensors)
        self._node_columns = [
            [t for t in owner.tensors if ("node", owner.index, t.name) in carried]
            for owner in schema.node_types
        ]
        self._edge_columns = {
            owner.index: [t for t in owner.tensors if ("edge", owner.index, t.name) in carried]
            for owner in schema.edge_types
        }

    def __call__(self, batch: MiniBatch) -> Data | HeteroData:
        """The PyG object of `batch`."""
        data: Any = self.graph(batch)
        self._seeds(batch, data[batch.input_type] if self._hetero else data)
        return data

    def graph(self, batch: MiniBatch) -> Any:
        """Its nodes and edges, without what is said of seeds."""
        data: Any = HeteroData() if self._hetero else Data()
        for node_type in self._schema.node_types:
            self._nodes(batch, node_type, data[node_type.name] if self._hetero else data)
        for edge_type in self._schema.edge_types:
            self._edges(batch, edge_type, data[edge_type.triple] if self._hetero else data)
        return data

    def _seeds(self, batch: MiniBatch, out: Any) -> None:
        out.input_id = torch.from_numpy(batch.input_id)
        out.batch_size = batch.num_seeds
        if batch.num_padding:
            out.num_padding = batch.num_padding
        if batch.seed_times is not None:
            out.seed_time = torch.from_numpy(batch.seed_times)

    def _nodes(self, batch: MiniBatch, owner: NodeType, out: Any) -> None:
        n_id = batch.nodes(owner.name)
        columns = [meta for meta in self._node_columns[owner.index] if not meta.is_split]
        for meta in columns:
            value = as_tensor(batch.features(meta.name, owner.name))
            if meta.name == "x" and self._x_dtype is not None:
                value = value.to(self._x_dtype)
            out[meta.name] = value
        # Of the splits a batch carries all or none.
        if len(columns) < len(self._node_columns[owner.index]):
            for name in SPLITS:
                out[f"{name}_mask"] = torch.from_numpy(batch.mask(name, owner.name))
        if not any(meta.name == "x" for meta in columns):
            out.num_nodes = len(n_id)
        out.n_id = torch.from_numpy(n_id)
        subgraphs = batch.subgraphs(owner.name)
        if subgraphs is not None:
            out.batch = torch.from_numpy(subgraphs)
        if self._by_hop:
            out.num_sampled_nodes = batch.num_sampled_nodes(owner.name)

    def _edges(self, batch: MiniBatch, owner: EdgeType, out: Any) -> None:
        triple = owner.triple
        out.edge_index = torch.from_numpy(batch.edge_index(triple))
        times, weights = batch.times(triple), batch.weights(triple)
        if times is not None:
            tensor = torch.from_numpy(times)
            for name in self._names_of_time:
                out[name] = tensor
        if weights is not None:
            out.edge_weight = torch.from_numpy(weights)
        for meta in self._edge_columns[owner.index]:
            out[meta.name] = as_tensor(batch.edge_features(meta.name, triple))
        edge_ids = batch.edge_ids(triple)
        if edge_ids is not None:
            out.e_id = torch.from_numpy(edge_ids)
        if self._by_hop:
            out.num_sampled_edges = batch.num_sampled_edges(triple)
