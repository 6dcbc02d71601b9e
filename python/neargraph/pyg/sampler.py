"""A `torch_geometric.sampler.BaseSampler` over a store, for PyG's NodeLoader and LinkLoader.

PyG's loaders do not say which batch of which epoch they ask for, so the random stream of a batch is
a hash of its input_id and the epoch. The epoch is what `set_epoch` said; without it, the base seed
of the DataLoader in its workers (new in every epoch, drawn from torch's generator), and 0 in the
main process.
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
from neargraph.loader.sampler import NeighborSampler
from neargraph.loader.seeds import InputNodes, with_given
from neargraph.reader import Reader, as_ids
from neargraph.splits import SPLITS


class Sampler(BaseSampler):  # type: ignore[misc]
    """Uniform neighbour sampling for PyG's own loaders.

    It samples structure alone; PyG then asks the store's `feature_store` for the rows. In a
    store of one node type and one edge type the types may be named or left out, and
    ``input_nodes="train"`` takes a split; elsewhere give the ids of one, as in
    ``("paper", torch.from_numpy(store.split("train", "paper")))``.

    Args:
        store: The open store, or a snapshot.
        num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all.
        seed: Seed of all draws.
        replace: Draw with replacement.
        disjoint: Give each seed a subgraph of its own, ``batch.batch`` [n].
        time_attr: Sample nothing that is later than its seed: the name of an int64 node tensor, or
            ``"edge_time"``. PyG's loaders take the times of seeds as `input_time` or
            `edge_label_time`; nodes have their own where the attribute is one of theirs.
        temporal_strategy: ``"uniform"`` or ``"last"``.
        subgraph_type: ``"directional"``, ``"bidirectional"`` or ``"induced"``.

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
        temporal_strategy: str = "uniform",
        subgraph_type: Any = "directional",
    ) -> None:
        self._sampler = NeighborSampler(
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
                f"PyG's loaders read the edge types of the graph, and {named} are indexes; sample "
                "these with neargraph.NeighborLoader"
            )
        self._epoch: int | None = None
        self._splits: dict[str, Tensor] = {}
        self._dated: dict[str, Tensor] | None = None
        counts = {t.name: t.num_nodes for t in schema.node_types}
        self.num_nodes: int | dict[str, int] = counts
        if schema.is_homogeneous:
            self.num_nodes = schema.node_types[0].num_nodes

    def set_epoch(self, train_epoch: int) -> None:
        """Gives the batches of the next pass other draws; call it before each pass.

        Workers that are already running (persistent_workers) keep the epoch they started with.
        """
        self._epoch = train_epoch

    def sample_from_nodes(
        self, index: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Samples around seed nodes; called by PyG's NodeLoader."""
        self._check_times(index.time)
        schema, name = self._sampler.snapshot.schema, index.input_type
        seeds: Tensor | dict[str, Tensor] = index.node
        input_id = index.input_id
        if not schema.is_homogeneous:
            if name is None:
                raise UnsupportedArgument(
                    f"this store has several types, {schema.names}: name that of the nodes, as in "
                    f"input_nodes=({schema.node_types[0].name!r}, ids)"
                )
            seeds = {schema.node_type(name).name: index.node}
        elif name in SPLITS and name != schema.node_types[0].name:
            # PyG has numbered the nodes of the split; a mask would have given their ids.
            seeds = input_id = self._split(name)[index.node]
        else:
            schema.node_type(name)
        out = self._sample(seeds, self._stream(input_id, index.node), index.time)
        out.metadata = (input_id, index.time)
        return out

    def _split(self, name: str) -> Tensor:
        """The ids of a split, which are kept."""
        if name not in self._splits:
            self._splits[name] = torch.from_numpy(self._sampler.snapshot.split(name))
        return self._splits[name]

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Samples around both ends of seed links; called by PyG's LinkLoader.

        Negative links are drawn by PyG from torch's generator, seeded here by the same stream.
        """
        self._check_times(index.time)
        index = self._with_checked_type(index)
        shape = self._sampler.shape
        if shape.times is not None and index.time is None:
            raise UnsupportedArgument(
                "time_attr needs the time of each link; give edge_label_time to PyG's loader"
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
        """The same with the type that PyG expects: None in a homogeneous store."""
        schema, given = self._sampler.snapshot.schema, index.input_type
        if given is None and not schema.is_homogeneous:
            raise UnsupportedArgument(
                f"this store has several types, {schema.names}: name that of the links, as in "
                f"edge_label_index=({schema.edge_types[0].triple!r}, links)"
            )
        if given is not None and schema.edge_type(given).triple != tuple(given):
            raise UnsupportedArgument(
                f"{given!r} is not a whole edge type; give {schema.edge_type(given).triple!r}"
            )
        if schema.is_homogeneous:
            index = copy.copy(index)
            index.input_type = None
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
                "input_time and edge_label_time have no effect on a sampler without time_attr; "
                "make it by store.sampler(..., time_attr=...), or leave them out"
            )

    def _times_of_nodes(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None
    ) -> Tensor | dict[str, Tensor] | None:
        """The times of all nodes, which PyG draws negative links by; they are kept."""
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
        schema = self._sampler.schema
        named = seeds if isinstance(seeds, dict) else {schema.node_type().name: seeds}
        checked = {name: _checked(ids) for name, ids in named.items()}
        if self._sampler.shape.is_plain:
            batch = self._sampler.sample_many(checked, stream=stream)
        else:
            batch = self._sample_shaped(checked, stream, times)
        return self._hetero_output(batch) if isinstance(seeds, dict) else self._output(batch)

    def _sample_shaped(
        self, seeds: dict[str, Tensor], stream: int, times: Tensor | dict[str, Tensor] | None
    ) -> MiniBatch:
        if len(seeds) > 1:
            raise UnsupportedArgument(
                f"seeds of several types, {list(seeds)}, share one subgraph under PyG's loaders; "
                "use neargraph.LinkNeighborLoader for disjoint, temporal, bidirectional and "
                "induced ones"
            )
        ((name, ids),) = seeds.items()
        given = times[name] if isinstance(times, dict) else times
        inputs = InputNodes(self._sampler.schema.node_type(name), as_ids(ids), False)
        inputs = with_given(inputs, times=given)
        self._sampler.check_seed_times(inputs)
        return self._sampler.make(inputs, stream)

    def _output(self, batch: MiniBatch) -> SamplerOutput:
        row, col = torch.from_numpy(batch.edge_index())
        by_hop = self._sampler.shape.subgraph == "directional"
        return SamplerOutput(
            node=torch.from_numpy(batch.nodes()),
            row=row,
            col=col,
            edge=_optional(batch.edge_ids()),
            batch=_optional(batch.subgraphs()),
            num_sampled_nodes=batch.num_sampled_nodes() if by_hop else None,
            num_sampled_edges=batch.num_sampled_edges() if by_hop else None,
        )

    def _hetero_output(self, batch: MiniBatch) -> HeteroSamplerOutput:
        schema = self._sampler.snapshot.schema
        triples = [t.triple for t in schema.edge_types]
        pairs = {t: torch.from_numpy(batch.edge_index(t)) for t in triples}
        names = [t.name for t in schema.node_types]
        by_hop = self._sampler.shape.subgraph == "directional"
        batches = {name: _optional(batch.subgraphs(name)) for name in names}
        nodes = {name: batch.num_sampled_nodes(name) for name in names}
        edges = {t: batch.num_sampled_edges(t) for t in triples}
        return HeteroSamplerOutput(
            node={name: torch.from_numpy(batch.nodes(name)) for name in names},
            row={t: pair[0] for t, pair in pairs.items()},
            col={t: pair[1] for t, pair in pairs.items()},
            edge={t: _optional(batch.edge_ids(t)) for t in triples},
            batch=batches if self._sampler.shape.disjoint else None,
            num_sampled_nodes=nodes if by_hop else None,
            num_sampled_edges=edges if by_hop else None,
        )


def _optional(array: Any) -> Tensor | None:
    return None if array is None else torch.from_numpy(array)


def _checked(ids: Tensor) -> Tensor:
    if ids.numel() and int(ids.min()) < 0:
        raise NodeOutOfRange(f"seed {int(ids.min())} is negative")
    return ids
