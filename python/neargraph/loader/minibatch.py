"""One sampled mini-batch as NumPy arrays.

The arrays are views of the compiled batch, not copies. The invariant: the memory budget counts the
batch until the last of its arrays is dropped.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph.dtypes import SparseRows
from neargraph.reader import EdgeName
from neargraph.schema import NodeType, Schema
from neargraph.splits import split_mask


class MiniBatch:
    """A sampled neighbourhood in PyG's conventions: seeds first, local ids, per-hop counts.

    Methods take a node type or an edge type, which may be left out where there is only one.

    Attributes:
        input_type: Node type of the seeds.
        input_id: Place of each seed in the loader's input (node ids for masks and splits), [s].
        places: Place of each seed in the loader's input, [s].
        num_padding: Seeds at the end that only fill the batch (distributed tails); usually 0.
    """

    __slots__ = ("_core", "_schema", "input_id", "input_type", "num_padding", "places")

    def __init__(
        self,
        core: _core.MiniBatch,
        schema: Schema,
        input_type: NodeType,
        input_id: NDArray[np.int64],
    ) -> None:
        self._core = core
        self._schema = schema
        self.input_type = input_type.name
        self.input_id = input_id
        self.num_padding = 0
        self.places = input_id

    @property
    def num_seeds(self) -> int:
        """How many seeds the batch has; they are its first nodes."""
        return self._core.num_seeds

    @property
    def nbytes(self) -> int:
        """Bytes that the batch takes from the memory budget."""
        return self._core.nbytes

    def nodes(self, node_type: str | None = None) -> NDArray[np.int64]:
        """Node ids in the store by local id, seeds first, [n]. PyG calls it n_id."""
        return self._core.nodes(self._schema.node_type(node_type).index)

    def edge_index(self, edge_type: EdgeName = None) -> NDArray[np.int64]:
        """Local ids [2, e]: row 0 the sources, row 1 the destinations."""
        return self._core.edges(self._schema.edge_type(edge_type).index)

    def edge_ids(self, edge_type: EdgeName = None) -> NDArray[np.int64] | None:
        """Rows of the user's edge list, [e]; None where the type keeps no edge ids."""
        return self._core.edge_ids(self._schema.edge_type(edge_type).index)

    def times(self, edge_type: EdgeName = None) -> NDArray[np.int64] | None:
        """Edge times, [e]; None where the type has none."""
        return self._core.times(self._schema.edge_type(edge_type).index)

    def weights(self, edge_type: EdgeName = None) -> NDArray[np.float32] | None:
        """Edge weights, [e]; None where the type has none."""
        return self._core.weights(self._schema.edge_type(edge_type).index)

    def subgraphs(self, node_type: str | None = None) -> NDArray[np.int64] | None:
        """The subgraph that each node belongs to, [n]; None where all seeds share one. PyG calls it
        batch."""
        return self._core.subgraphs(self._schema.node_type(node_type).index)

    @property
    def targets(self) -> NDArray[np.int64]:
        """Local ids of both ends of the links that a batch is made around: first the sources, then
        the destinations, each with negative ones behind the others; empty where seeds are nodes."""
        return self._core.targets

    @property
    def seed_times(self) -> NDArray[np.int64] | None:
        """The time up to which each seed sees the graph, [s]; None unless sampling looks at
        times."""
        return self._core.seed_times

    @property
    def visits(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Edges that are no edges of the store: local ids of both ends, [2, e], and the share of
        the visits, [e]; None where no walks were made."""
        return self._core.visits

    def num_sampled_nodes(self, node_type: str | None = None) -> list[int]:
        """New nodes per hop, seeds as hop 0, [hops + 1]."""
        return self._core.num_sampled_nodes(self._schema.node_type(node_type).index)

    def num_sampled_edges(self, edge_type: EdgeName = None) -> list[int]:
        """Edges per hop, [hops]."""
        return self._core.num_sampled_edges(self._schema.edge_type(edge_type).index)

    def features(self, name: str = "x", node_type: str | None = None) -> Any:
        """Rows of a node tensor by local id, [n, *shape]; ``x`` as the sampler's `x_dtype` and
        `x_format` say. bf16 comes as raw uint16, sparse rows as `SparseRows`.

        Raises:
            NameNotFound: The store or the sampler's `attrs` do not have it.
        """
        owner = self._schema.node_type(node_type)
        meta = self._schema.tensor(owner, name)
        found = self._core.tensor("node", owner.index, name)
        if isinstance(found, tuple):
            indptr, indices, values = found
            return SparseRows(indptr, indices, values, (len(indptr) - 1, meta.num_columns))
        return found

    def edge_features(self, name: str = "edge_attr", edge_type: EdgeName = None) -> NDArray[Any]:
        """Rows of an edge tensor for each edge of `edge_index`, [e, *shape]."""
        owner = self._schema.edge_type(edge_type)
        self._schema.tensor(owner, name)
        rows: NDArray[Any] = self._core.tensor("edge", owner.index, name)
        return rows

    def mask(self, name: str, node_type: str | None = None) -> NDArray[np.bool_]:
        """Which of the nodes are in split ``"train"``, ``"val"`` or ``"test"``: [n] or [n, k]."""
        owner = self._schema.node_type(node_type)
        return split_mask(owner, name, lambda t: self._core.tensor("node", owner.index, t))

    def __repr__(self) -> str:
        nodes = sum(len(self._core.nodes(t.index)) for t in self._schema.node_types)
        edges = sum(sum(self._core.num_sampled_edges(t.index)) for t in self._schema.edge_types)
        return f"MiniBatch(seeds={self.num_seeds}, nodes={nodes}, edges={edges})"
