"""A sampled mini-batch as NumPy arrays.

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
    """A sampled neighbourhood in PyG's conventions: seeds first, local ids, counts per hop.

    Methods accept a node type or an edge type. It can be left out if the store has only one. A name
    that does not exist raises `NameNotFound`.

    Attributes:
        input_type: Node type of the seeds.
        input_id: PyG's ``input_id`` of each seed, int64 [s]: its node id if the input is a mask or
            a split, and else its place in the input.
        places: Place of each seed in the input, int64 [s].
        num_padding: Number of repeated seeds at the end of the batch, which make the parts of all
            ranks equally large. Usually 0.
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
        """Number of seeds. They are the first nodes of the batch."""
        return self._core.num_seeds

    @property
    def nbytes(self) -> int:
        """Bytes of the memory budget that the batch occupies."""
        return self._core.nbytes

    def nodes(self, node_type: str | None = None) -> NDArray[np.int64]:
        """Returns the node ids in the store by local id, seeds first, int64 [n] (PyG's n_id)."""
        return self._core.nodes(self._schema.node_type(node_type).index)

    def edge_index(self, edge_type: EdgeName = None) -> NDArray[np.int64]:
        """Returns local ids of sources (row 0) and destinations (row 1) of edges, int64 [2, e]."""
        return self._core.edges(self._schema.edge_type(edge_type).index)

    def edge_ids(self, edge_type: EdgeName = None) -> NDArray[np.int64] | None:
        """Returns edge ids, int64 [e], which number the edges of the import; None without them."""
        return self._core.edge_ids(self._schema.edge_type(edge_type).index)

    def times(self, edge_type: EdgeName = None) -> NDArray[np.int64] | None:
        """Returns the times of edges, int64 [e]; None if the type has none."""
        return self._core.times(self._schema.edge_type(edge_type).index)

    def weights(self, edge_type: EdgeName = None) -> NDArray[np.float32] | None:
        """Returns the weights of edges, float32 [e]; None if the type has none."""
        return self._core.weights(self._schema.edge_type(edge_type).index)

    def subgraphs(self, node_type: str | None = None) -> NDArray[np.int64] | None:
        """Returns the subgraph of each node, int64 [n] (PyG's batch); None if seeds share one."""
        return self._core.subgraphs(self._schema.node_type(node_type).index)

    @property
    def targets(self) -> NDArray[np.int64]:
        """Local ids of both ends of the links that are seeds, int64; empty if seeds are nodes.

        Sources come first, then destinations. In both, negative links follow the others.
        """
        return self._core.targets

    @property
    def seed_times(self) -> NDArray[np.int64] | None:
        """The time of each seed, int64 [s]; None unless sampling is by time.

        Nothing that is later is sampled for the seed.
        """
        return self._core.seed_times

    @property
    def visits(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """Pairs of nodes that walks connect, which need not be edges of the store.

        They are local ids of both ends, int64 [2, e], and the share of visits, float32 [e]. None if
        the batch was made without walks.
        """
        return self._core.visits

    def num_sampled_nodes(self, node_type: str | None = None) -> list[int]:
        """Returns the number of new nodes per hop, with the seeds as hop 0, [hops + 1]."""
        return self._core.num_sampled_nodes(self._schema.node_type(node_type).index)

    def num_sampled_edges(self, edge_type: EdgeName = None) -> list[int]:
        """Returns the number of edges per hop, [hops]."""
        return self._core.num_sampled_edges(self._schema.edge_type(edge_type).index)

    def features(self, name: str = "x", node_type: str | None = None) -> Any:
        """Returns the rows of a node tensor by local id, [n, *shape].

        The sampler's `x_dtype` and `x_format` determine the form of ``x``. bf16 is returned as raw
        uint16, and sparse rows as `SparseRows`.

        Raises:
            NameNotFound: The tensor does not exist, or is not in the sampler's `attrs`.
        """
        owner = self._schema.node_type(node_type)
        meta = self._schema.tensor(owner, name)
        found = self._core.tensor("node", owner.index, name)
        if isinstance(found, tuple):
            indptr, indices, values = found
            return SparseRows(indptr, indices, values, (len(indptr) - 1, meta.num_columns))
        return found

    def edge_features(self, name: str = "edge_attr", edge_type: EdgeName = None) -> NDArray[Any]:
        """Returns the rows of an edge tensor by edge of `edge_index`, [e, *shape].

        Raises:
            NameNotFound: The tensor does not exist, or is not in the sampler's `attrs`.
        """
        owner = self._schema.edge_type(edge_type)
        self._schema.tensor(owner, name)
        rows: NDArray[Any] = self._core.tensor("edge", owner.index, name)
        return rows

    def mask(self, name: str, node_type: str | None = None) -> NDArray[np.bool_]:
        """Returns which nodes are in split ``"train"``, ``"val"`` or ``"test"``, bool [n].

        The shape is [n, k] if the store has k splits.
        """
        owner = self._schema.node_type(node_type)
        return split_mask(owner, name, lambda t: self._core.tensor("node", owner.index, t))

    def __repr__(self) -> str:
        nodes = sum(len(self._core.nodes(t.index)) for t in self._schema.node_types)
        edges = sum(sum(self._core.num_sampled_edges(t.index)) for t in self._schema.edge_types)
        return f"MiniBatch(seeds={self.num_seeds}, nodes={nodes}, edges={edges})"
