"""Mini-batches as PyG objects.

Tensors share memory with the compiled batch. The budget counts it until the last of them is
dropped. The layout is that of `torch_geometric.loader.NeighborLoader`: seeds first, x and y for all
sampled nodes, edge features beside `edge_index`, and masks.
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
    """Returns a torch tensor over the memory of `array`.

    bf16 columns, which are uint16 in NumPy, get their dtype back. `SparseRows` become sparse CSR.
    """
    if isinstance(array, SparseRows):
        indptr, indices, values = map(torch.from_numpy, array[:3])
        return csr_tensor(indptr, indices, values, array.shape)
    # No tensor of a store has dtype uint16.
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def csr_tensor(
    indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, shape: tuple[int, ...]
) -> torch.Tensor:
    """Returns a sparse CSR tensor, without checking its parts."""
    # torch warns once that CSR tensors are in beta, which a user of a loader cannot change.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


def take_rows(value: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Returns the rows `order` [n] of a dense tensor or of a sparse CSR one.

    torch itself cannot index sparse CSR tensors.
    """
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
    """Checks that `tensors` have all split columns of a type or none, as masks need all of them.

    Raises:
        UnsupportedArgument: Only some of them are in `tensors`.
    """
    carried = set(tensors)
    for owner in schema.node_types:
        columns = split_columns(owner)
        named = [name for name in columns if ("node", owner.index, name) in carried]
        if named and named != columns:
            raise UnsupportedArgument(
                f"attrs= names only the split tensors {named} of node type {owner.name!r}, but "
                f"the masks of a batch need {columns}; name 'train_mask' instead, which selects "
                "all of them"
            )


class Collator:
    """Converts a `MiniBatch` to `Data` (one node type, one edge type) or `HeteroData`.

    Args:
        schema: Types of the store.
        tensors: The (kind, type id, name) triples of the tensors in batches.
        x_dtype: The dtype that ``x`` is converted to. None leaves it unchanged.
        by_hop: Add the number of nodes and edges per hop. Batches with edges that were not drawn
            have none, as such edges belong to no hop.
        time_attr: The name of the times in sampling. If it is PyG's name, the times of edges are
            one tensor under two names.
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
        """Returns the PyG object of `batch`."""
        data: Any = self.graph(batch)
        self._seeds(batch, data[batch.input_type] if self._hetero else data)
        return data

    def graph(self, batch: MiniBatch) -> Any:
        """Returns the PyG object of `batch` without the attributes of seeds."""
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
        # A batch has all split columns or none.
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
