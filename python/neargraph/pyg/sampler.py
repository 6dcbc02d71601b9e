"""A `torch_geometric.sampler.BaseSampler` over a store, for PyG's NodeLoader and LinkLoader.

PyG's loaders do not pass the numbers of batch and epoch, so the random stream of a batch is a hash
of its input_id and the epoch. `set_epoch` sets the epoch. Without it, the epoch is the base seed of
the DataLoader in workers (a new one per epoch, from torch's generator), and 0 in the main process.
"""

import copy
import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.neighbor_sampler import edge_sample

from neargraph.exceptions import NodeOutOfRange, UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, with_given
from neargraph.loader.shape import TemporalStrategy
from neargraph.pyg.outputs import hetero_output, homogeneous_output
from neargraph.reader import Reader, as_ids


class _Structure(NumpySampler):
    """Samples without times and weights of edges, which PyG does not use."""

    _carries_columns = False


class Sampler(BaseSampler):  # type: ignore[misc]
    """Uniform neighbour sampling for PyG's own loaders.

    It samples structure only. PyG then reads rows from the store's `feature_store`. With it, PyG's
    loaders accept seeds and links as `neargraph.NeighborLoader` and `LinkNeighborLoader` do: ids,
    masks, splits and types by name.

    Args:
        store: The open store or a snapshot.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all.
        seed: Random seed of all draws, from 0 to 2^64 - 1.
        replace: Draw with replacement.
        disjoint: Give each seed its own subgraph, with number ``batch.batch`` [n].
        time_attr: Sample nothing that is later than its seed. It is the name of an int64 node
            tensor, or ``"edge_time"``. PyG's loaders take the times of seeds as `input_time` or
            `edge_label_time`. With a node tensor, seeds without them have the times of their nodes.
        temporal_strategy: With `time_attr`: draw ``"uniform"`` from the neighbours that are not
            later than the seed, or take the ``"last"`` of them.
        subgraph_type: The edges of a batch. ``"directional"``: the drawn edges.
            ``"bidirectional"``: the drawn edges in both directions. ``"induced"``: all edges
            between the nodes.

    Raises:
        NameNotFound: A name in `num_neighbors` or `time_attr` does not exist.
        UnsupportedArgument: An argument is not supported, such as fanouts for a stored reverse.
        ValueError: `seed`, a fanout or another value is not valid.

    Example:
        >>> loader = torch_geometric.loader.NodeLoader(
        ...     store, store.sampler([15, 10]), input_nodes=torch.arange(1000), batch_size=100)
    """

    def __init__(
        self,
        store: Reader,
        num_neighbors: Any,
        *,
        seed: int = 0,
        replace: bool = False,
        disjoint: bool = False,
        time_attr: str | None = None,
        temporal_strategy: TemporalStrategy = "uniform",
        subgraph_type: Any = "directional",
    ) -> None:
        self._sampler = _Structure(
            store,
            num_neighbors,
            seed=seed,
            replace=replace,
            attrs=(),
            disjoint=disjoint,
            time_attr=time_attr,
            temporal_strategy=temporal_strategy,
            subgraph_type=subgraph_type,
        )
        schema = self._sampler.schema
        named = [t.triple for t in schema.edge_types if t.is_reverse_index]
        if named:
            raise UnsupportedArgument(
                "PyG's loaders do not support fanouts for the stored reverse of an edge type, such "
                f"as {named[0]}; use neargraph.NeighborLoader"
            )
        self._epoch: int | None = None
        self._dated: dict[str, Tensor] | None = None
        counts = {t.name: t.num_nodes for t in schema.node_types}
        self.num_nodes: int | dict[str, int] = counts
        if schema.is_homogeneous:
            self.num_nodes = schema.node_types[0].num_nodes

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch, which determines its draws. Call it before each epoch.

        Workers that are already running (``persistent_workers``) keep the epoch they started with.
        """
        self._epoch = epoch

    def sample_from_nodes(
        self, index: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Samples around seed nodes; called by PyG's NodeLoader."""
        self._check_times(index.time)
        schema = self._sampler.schema
        name = schema.node_type(index.input_type).name
        seeds = index.node if schema.is_homogeneous else {name: index.node}
        out = self._sample(seeds, self._stream(index.input_id, index.node), index.time)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Samples around both ends of seed links; called by PyG's LinkLoader.

        PyG draws negative links from torch's generator, which is seeded here with the stream.
        """
        self._check_times(index.time)
        index = self._with_checked_type(index)
        shape = self._sampler.shape
        if shape.times is not None and index.time is None:
            raise UnsupportedArgument(
                "a sampler with time_attr= needs the time of each link; give edge_label_time= to "
                "PyG's loader"
            )
        stream = self._stream(index.input_id, index.row)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed((self._sampler.seed ^ stream) % 2**63)
            return edge_sample(
                index,
                lambda seeds, times: self._sample(seeds, stream, times),
                self.num_nodes,
                disjoint=shape.disjoint,
                node_time=self._times_of_nodes(index, neg_sampling),
                neg_sampling=neg_sampling,
            )

    def _with_checked_type(self, index: EdgeSamplerInput) -> EdgeSamplerInput:
        """Returns the input with the type that PyG expects: None in a homogeneous store."""
        schema, index = self._sampler.schema, copy.copy(index)
        triple = schema.edge_type(index.input_type).triple
        index.input_type = None if schema.is_homogeneous else triple
        return index

    def _stream(self, input_id: Tensor | None, fallback: Tensor) -> int:
        ids = as_ids(fallback if input_id is None else input_id)
        digest = hashlib.blake2b(ids.data, digest_size=8)
        digest.update(np.int64(self._epoch_now()).tobytes())
        return int.from_bytes(digest.digest(), "little")

    def _epoch_now(self) -> int:
        if self._epoch is not None:
            return self._epoch
        worker = torch.utils.data.get_worker_info()
        return 0 if worker is None else worker.seed - worker.id

    def _check_times(self, times: Tensor | None) -> None:
        if times is not None and self._sampler.shape.times is None:
            raise UnsupportedArgument(
                "input_time= and edge_label_time= have no effect on a sampler without time_attr=; "
                "create the sampler with store.sampler(..., time_attr=...), or leave out both"
            )

    def _times_of_nodes(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None
    ) -> Tensor | dict[str, Tensor] | None:
        """Returns the times of all nodes, by which PyG draws negative links, and keeps them."""
        names = self._sampler.shape.node_times
        if names is None or neg_sampling is None:
            return None
        if self._dated is None:
            snapshot = self._sampler.snapshot
            self._dated = {
                owner.name: torch.from_numpy(
                    snapshot.features(owner.name, np.arange(owner.num_nodes), name).reshape(-1)
                )
                for owner, name in zip(snapshot.schema.node_types, names, strict=True)
                if name is not None
            }
        return self._dated if index.input_type is not None else next(iter(self._dated.values()))

    def _sample(
        self,
        seeds: Tensor | dict[str, Tensor],
        stream: int,
        times: Tensor | dict[str, Tensor] | None = None,
    ) -> SamplerOutput | HeteroSamplerOutput:
        named = seeds
        if not isinstance(named, dict):
            named = {self._sampler.schema.node_type().name: named}
        checked = {name: _checked(ids) for name, ids in named.items()}
        if self._sampler.shape.is_plain:
            batches = [self._sampler.sample_many(checked, stream=stream)]
        else:
            batches = self._sample_shaped(checked, stream, times)
        by_hop = self._sampler.shape.subgraph == "directional"
        if not isinstance(seeds, dict):
            return homogeneous_output(batches[0], by_hop)
        return hetero_output(batches, self._sampler.schema, by_hop)

    def _sample_shaped(
        self, seeds: dict[str, Tensor], stream: int, times: Tensor | dict[str, Tensor] | None
    ) -> list[MiniBatch]:
        """Returns a batch for each type of seeds, with disjoint subgraphs."""
        if len(seeds) > 1 and not self._sampler.shape.disjoint:
            raise UnsupportedArgument(
                "PyG's loaders do not support subgraph_type='bidirectional' or 'induced' for seeds "
                f"of several node types, here {list(seeds)}; give disjoint=True to the sampler, or "
                "use neargraph.LinkNeighborLoader"
            )
        batches = []
        for name, ids in seeds.items():
            given = times[name] if isinstance(times, dict) else times
            inputs = InputNodes(self._sampler.schema.node_type(name), as_ids(ids), False)
            inputs = with_given(inputs, times=given)
            self._sampler.check_seed_times(inputs)
            batches.append(self._sampler.make(inputs, stream))
        return batches


def _checked(ids: Tensor) -> Tensor:
    if ids.numel() and int(ids.min()) < 0:
        raise NodeOutOfRange(f"seed {int(ids.min())} is not a node id: expected at least 0")
    return ids
