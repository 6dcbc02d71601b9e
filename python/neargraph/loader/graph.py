"""Batches of whole graphs, of a store that holds many small ones (PyG's DataLoader).

The node tensor ``graph_id`` says which nodes make a graph; their numbers stand side by side.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import NameNotFound, NodeOutOfRange, UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.seeds import InputNodes, digest_of
from neargraph.loader.spreading import SpreadSampler, only_edge_type
from neargraph.reader import Reader, as_ids
from neargraph.splits import SPLITS

with torch_for("GraphLoader"):
    import torch
    from torch_geometric.data import Batch

from neargraph.loader.collate import Collator
from neargraph.loader.sampling import LoaderOptions, SamplingLoader

GRAPH_ID = "graph_id"
"""The node tensor that says which graph a node belongs to."""
GRAPH_TENSORS = "graph_"
"""Node tensors of this prefix repeat what belongs to a graph for each of its nodes."""


@dataclass(frozen=True, kw_only=True)
class _Graphs(InputNodes):
    """Graphs by place: `graphs` [n], or all of them. `ends` says which nodes each has."""

    ends: NDArray[np.int64] = field(repr=False)
    graphs: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ends) - 1 if self.graphs is None else len(self.graphs)

    def core(self) -> _core.Inputs:
        return self._of(np.arange(len(self)))

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        return _core.Inputs(self.node_type.index, self.nodes(places), None, None)

    def _of(self, places: NDArray[np.int64]) -> _core.Inputs:
        if self.graphs is None:
            return _core.Inputs.groups(self.node_type.index, self.ends, None)
        sizes = np.diff(self.ends)[self.graphs[places]]
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return _core.Inputs.groups(self.node_type.index, ends, self.nodes(places))

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        graphs = self.input_id(places)
        starts, sizes = self.ends[graphs], np.diff(self.ends)[graphs]
        before = np.cumsum(sizes) - sizes
        nodes: NDArray[np.int64] = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
        return nodes

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places if self.graphs is None else self.graphs[places]

    def digest(self) -> str:
        which = "all" if self.graphs is None else digest_of(self.graphs)
        return f"{self.node_type.name}:graphs:{len(self)}:{which}"


class _Collator(Collator):
    """A `Batch` of graphs, with what belongs to a graph once for each."""

    inputs: _Graphs

    def __call__(self, batch: MiniBatch) -> Any:
        data, graphs = self.graph(batch), batch.input_id
        sizes = torch.from_numpy(np.diff(self.inputs.ends)[graphs])
        ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        first = ptr[:-1]
        # A graph without nodes has nothing to tell; the rows of its successor would be wrong.
        if len(sizes) and int(sizes.min()) == 0:
            raise UnsupportedArgument(
                f"graph {int(graphs[int(sizes.argmin())])} has no nodes; leave it out of graphs="
            )
        out = Batch()
        for name, value in data.items():
            if name.startswith(GRAPH_TENSORS) and name != GRAPH_ID and torch.is_tensor(value):
                out[name.removeprefix(GRAPH_TENSORS)] = value[first]
            elif name.removesuffix("_mask") in SPLITS:
                out[name] = value[first]
            elif name != GRAPH_ID:
                out[name] = value
        out.batch = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        out.ptr, out.graph_id = ptr, torch.from_numpy(graphs)
        # What PyG's Batch takes the number of its graphs from.
        out._num_graphs = len(sizes)
        return out


class GraphLoader(SamplingLoader):
    """Batches of whole graphs, as `torch_geometric.data.Batch`.

    Each batch has ``x`` and the other node tensors [n, ...], ``edge_index`` [2, e], edge tensors,
    ``batch`` [n] and ``ptr`` [g + 1], ``graph_id`` [g], and for each graph what node tensors named
    ``graph_...`` repeat for each of its nodes, without that prefix: ``y`` [g, ...] of ``graph_y``.

    Args:
        data: The open store, or a snapshot, with the node tensor ``graph_id``.
        batch_size: Graphs of a batch.
        graphs: Which graphs: None for all, ``"train"`` / ``"val"`` / ``"test"`` for those whose
            nodes are in that split, numbers [n] or a boolean mask [number of graphs].
        **options: As of `NeighborLoader`: `shuffle`, `seed`, `attrs`, `x_dtype`, `transform`,
            `reading`, `rank`, `num_workers`, `device` and the others.

    Raises:
        NameNotFound: The store has no ``graph_id``, or no such split.
        UnsupportedArgument: Graphs are not numbered in the order of their nodes.

    Example:
        >>> loader = ng.GraphLoader(store, batch_size=128, graphs="train", shuffle=True)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index, batch.batch)
    """

    def __init__(
        self, data: Reader, batch_size: int = 1, graphs: Any = None, **options: Any
    ) -> None:
        given = LoaderOptions.take(type(self).__name__, {"batch_size": batch_size, **options})
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, None, "a store of many graphs")
        ends = graph_ends(snapshot)
        owner = snapshot.schema.node_types[0]
        chosen = _chosen(snapshot, ends, graphs)
        inputs = _Graphs(owner, None, False, ends=ends, graphs=chosen)
        rows, x_cast = given.rows(snapshot.schema)
        sampler = SpreadSampler(snapshot, seed=given.seed, **rows)
        collator = _Collator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        collator.inputs = inputs
        self._start(sampler, inputs, collator, given)

    @property
    def num_graphs(self) -> int:
        """Graphs of an epoch."""
        return len(self._source.inputs)

    def __repr__(self) -> str:
        return (
            f"GraphLoader({self.snapshot.path!r}, graphs={self.num_graphs:,}, "
            f"batch_size={self.batch_size})"
        )


def graph_ends(store: Reader) -> NDArray[np.int64]:
    """The first node of each graph, and the end of the last one, [graphs + 1].

    Raises:
        NameNotFound: The store has no ``graph_id``.
        UnsupportedArgument: Graphs are not numbered from 0 in the order of their nodes.
    """
    snapshot = store.snapshot()
    owner = snapshot.schema.node_types[0]
    if all(t.name != GRAPH_ID for t in owner.tensors):
        raise NameNotFound(
            f"{snapshot.path}: no node tensor {GRAPH_ID!r}, which says the graph of each node; "
            "import a data set of many graphs"
        )
    meta, last = snapshot.schema.tensor(owner, GRAPH_ID), -1
    starts = [np.zeros(0, np.int64)]
    for first, ids in snapshot.scan(owner, meta.name):
        steps = np.diff(ids.reshape(-1), prepend=last)
        if len(bad := np.flatnonzero((steps != 0) & (steps != 1))):
            raise UnsupportedArgument(
                f"{snapshot.path}: node {first + int(bad[0])} belongs to graph "
                f"{int(ids.reshape(-1)[bad[0]])}; graphs have to be numbered from 0 in the order "
                "of their nodes"
            )
        starts.append(first + np.flatnonzero(steps))
        last = int(ids.reshape(-1)[-1])
    return np.concatenate([*starts, [owner.num_nodes]]).astype(np.int64)


def _chosen(store: Reader, ends: NDArray[np.int64], given: Any) -> NDArray[np.int64] | None:
    count = len(ends) - 1
    if given is None:
        return None
    if isinstance(given, str):
        nodes = store.snapshot().split(given)
        return np.unique(np.searchsorted(ends, nodes, side="right") - 1)
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise ValueError(f"a mask over graphs has shape [{count}], got {list(array.shape)}")
        return np.flatnonzero(array)
    ids = as_ids(array)
    if len(bad := ids[(ids < 0) | (ids >= count)]):
        raise NodeOutOfRange(f"graphs: number {int(bad[0])} is not in 0 ... {count - 1}")
    return ids
