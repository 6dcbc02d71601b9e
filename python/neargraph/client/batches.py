"""Mini-batches from a server, in the form in which loaders of this process yield them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph.client.results import BF16, DTYPES, Snapshot
from neargraph.exceptions import NameNotFound
from neargraph.loader.minibatch import MiniBatch
from neargraph.schema import NUMPY_OF, EdgeType, Kind, NodeType, Schema, TensorMeta

_NAMES = {np.dtype(kind).str: name for name, kind in NUMPY_OF.items() if name != "bf16"}


class _Nodes(NamedTuple):
    """The nodes of one type."""

    node_type: str
    ids: NDArray[np.int64]
    tensors: dict[str, tuple[int, list[int], NDArray[np.uint8]]]
    per_hop: list[int]


class _Edges(NamedTuple):
    """The edges of one type."""

    edge_type: str
    edge_index: NDArray[np.int64]
    edge_ids: NDArray[np.int64]
    times: NDArray[np.int64]
    weights: NDArray[np.float32]
    per_hop: list[int]


class _Received:
    """A received batch with the interface of a loader's compiled batch."""

    def __init__(self, num_seeds: int, nodes: list[_Nodes], edges: list[_Edges]) -> None:
        self.num_seeds = num_seeds
        self._nodes, self._edges = nodes, edges

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        rows = (rows.nbytes for block in self._nodes for _, _, rows in block.tensors.values())
        nodes = sum(block.ids.nbytes for block in self._nodes)
        return (
            nodes + sum(rows) + sum(array.nbytes for block in self._edges for array in block[1:5])
        )

    @property
    def seed_times(self) -> None:
        """None: the server samples without times."""

    def subgraphs(self, node_type: int) -> None:
        """Returns None: all seeds share one subgraph."""

    def nodes(self, node_type: int) -> NDArray[np.int64]:
        """Returns the node ids, seeds first."""
        return self._nodes[node_type].ids

    def edges(self, edge_type: int) -> NDArray[np.int64]:
        """Returns the edges as local ids, [2, e]."""
        return self._edges[edge_type].edge_index

    def edge_ids(self, edge_type: int) -> NDArray[np.int64] | None:
        """Returns the edge ids; None if the edge type has none."""
        return _present(self._edges[edge_type].edge_ids)

    def times(self, edge_type: int) -> NDArray[np.int64] | None:
        """Returns the edge times; None if the edge type has none."""
        return _present(self._edges[edge_type].times)

    def weights(self, edge_type: int) -> NDArray[np.float32] | None:
        """Returns the edge weights; None if the edge type has none."""
        return _present(self._edges[edge_type].weights)

    def num_sampled_nodes(self, node_type: int) -> list[int]:
        """Returns the number of new nodes per hop."""
        return self._nodes[node_type].per_hop

    def num_sampled_edges(self, edge_type: int) -> list[int]:
        """Returns the number of edges per hop."""
        return self._edges[edge_type].per_hop

    def tensor(self, kind: Kind, type_id: int, name: str) -> NDArray[Any]:
        """Returns the rows of a tensor; bf16 as its raw 16 bits."""
        if kind == "edge":
            raise NameNotFound(
                f"the batch has no edge tensor {name!r}: servers send only node tensors"
            )
        if name not in self._nodes[type_id].tensors:
            raise NameNotFound(f"the batch has no tensor {name!r}; add {name!r} to attrs=")
        code, shape, data = self._nodes[type_id].tensors[name]
        return data.view(DTYPES[code]).reshape(shape)


def _present(array: NDArray[Any]) -> NDArray[Any] | None:
    return array if len(array) else None


class ReceivedBatch(MiniBatch):
    """A mini-batch from a server.

    Attributes:
        number: Number of the batch in the epoch, from 0.
        num_batches: Number of batches of the epoch, including those before ``first_batch``.
        snapshot: The version of the graph that the batch was sampled from.
    """

    __slots__ = ("num_batches", "number", "snapshot")

    number: int
    num_batches: int
    snapshot: Snapshot

    def pyg(self) -> Any:
        """Returns the batch as PyG's `Data`, or as `HeteroData` if the graph has several types.

        Raises:
            MissingDependency: torch or PyG is not installed.
        """
        from neargraph._optional import torch_for

        with torch_for("a batch for PyG"):
            from neargraph.loader.collate import Collator
        owners = self._schema.node_types
        carried = [
            (owner.kind, owner.index, meta.name) for owner in owners for meta in owner.tensors
        ]
        return Collator(self._schema, carried)(self)


class Batches:
    """Converts the messages of a stream to batches.

    If `ids` lists the seeds, `input_id` is an index into it, as in loaders. Otherwise it is a node
    id.
    """

    def __init__(self, message: Mapping[str, Any], ids: NDArray[np.int64] | None) -> None:
        self._epoch = int(message["epoch"])
        self._schema: Schema | None = None
        self._plan = None
        if ids is not None:
            drop_last, world_size = bool(message["drop_last"]), int(message["world_size"])
            self._plan = _core.SeedPlan(
                num_seeds=len(ids),
                batch_size=int(message["batch_size"]),
                shuffle=bool(message["shuffle"]),
                seed=int(message["seed"]),
                drop_last=drop_last,
                pad=not drop_last and world_size > 1,
                rank=int(message["rank"]),
                world_size=world_size,
            )

    def received(self, given: Any) -> ReceivedBatch:
        """Returns the batch of one message."""
        (number, num_batches, num_seeds, padding), node_blocks, edge_blocks, snapshot = given
        nodes = [_Nodes(name, ids, dict(rows), hops) for name, ids, rows, hops in node_blocks]
        edges = [_Edges(*block) for block in edge_blocks]
        if self._schema is None:
            self._schema = _schema(nodes, edges)
        seeds = next((at for at, block in enumerate(nodes) if block.per_hop[:1] != [0]), 0)
        input_id = nodes[seeds].ids[:num_seeds]
        if self._plan is not None:
            input_id = self._plan.places(self._epoch, number, number + 1)
        core: Any = _Received(num_seeds, nodes, edges)
        input_type = self._schema.node_types[seeds]
        batch = ReceivedBatch(core, self._schema, input_type, input_id)
        batch.num_padding, batch.number, batch.num_batches = padding, number, num_batches
        batch.snapshot = Snapshot(*snapshot)
        return batch


def _schema(nodes: list[_Nodes], edges: list[_Edges]) -> Schema:
    """Returns the types of a batch. Values that a batch does not contain are 0 or absent."""
    node_types = tuple(
        NodeType(at, block.node_type, 0, 0, False, False, tuple(map(_meta, block.tensors.items())))
        for at, block in enumerate(nodes)
    )
    index = {owner.name: owner.index for owner in node_types}
    edge_types = []
    for at, block in enumerate(edges):
        source, relation, destination = block.edge_type.split(",")
        edge_types.append(
            EdgeType(
                at,
                source,
                relation,
                destination,
                index[source],
                index[destination],
                num_edges=0,
                num_edge_ids=0,
                undirected=False,
                is_reverse_index=False,
                has_edge_ids=len(block.edge_ids) > 0,
                has_time=len(block.times) > 0,
                has_weight=len(block.weights) > 0,
                tensors=(),
            )
        )
    return Schema(node_types, tuple(edge_types), (), {})


def _meta(named: tuple[str, tuple[int, list[int], Any]]) -> TensorMeta:
    name, (code, shape, _) = named
    dtype = "bf16" if code == BF16 else _NAMES[np.dtype(DTYPES[code]).str]
    return TensorMeta(name, dtype, tuple(shape[1:]), 0, read_dtype=dtype)
