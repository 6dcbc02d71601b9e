"""Mini-batches of whole clusters, as ClusterGCN has them (Chiang et al., KDD 2019).

A cluster is a range of rows of the store as they lie on disk, so that its features are one
sequential read; how good clusters are is up to the order of rows (`neargraph reorganize --by
locality`). The invariant: an epoch of one rank has every live node once, and a batch
all edges between its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.dtypes import DtypeLike
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import ReadOptions
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.sampler import Attrs, NeighborSampler
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.reader import Reader
from neargraph.schema import Schema

with torch_for("ClusterLoader"):
    import torch
    import torch_geometric  # noqa: F401

from neargraph.loader.collate import Collator
from neargraph.loader.copying import copy_stage
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.workers import BatchSource

_PREFETCH = 1

# What a sample has and a cluster has not.
_OF_SAMPLES = ("input_id", "num_sampled_nodes", "num_sampled_edges")


@dataclass(frozen=True, kw_only=True)
class _Clusters(InputNodes):
    """All live nodes by cluster: a place stands for those of one."""

    inputs: _core.Inputs

    def core(self) -> _core.Inputs:
        return self.inputs

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.inputs.nodes(places)


class _Induced(NeighborSampler):
    """Takes all edges between the seeds."""

    def _method(self) -> _core.Method:
        return _core.Method.induced()


class _Collator(Collator):
    def __call__(self, batch: MiniBatch) -> Any:
        data = super().__call__(batch)
        for name in _OF_SAMPLES:
            del data[name]
        return data


class ClusterLoader(EpochLoader):
    """Batches of clusters that are drawn at random and joined, as `torch_geometric.data.Data`.

    The rows of the store are cut into `num_parts` ranges of equal length, in the order in which
    they lie on disk. Each batch has ``x``, ``y`` and all other node tensors [n, ...], the masks,
    ``edge_index`` [2, e] with all edges between its nodes, ``n_id`` [n], edge tensors, weights,
    times and ``e_id`` [e] where the store has them, and ``batch_size`` (all n nodes).

    Args:
        data: The open store, or a snapshot, with one node type and one edge type.
        num_parts: Clusters.
        batch_size: Clusters of a batch.
        shuffle: Draw clusters anew in every epoch, keyed by `seed`; else they come in order.
        seed: Seed of the order.
        drop_last: Leave a smaller last batch out; several ranks always do.
        rank: Place of this process among `world_size`.
        world_size: Processes that share every batch: each has the edges inside its own clusters.
        attrs: Tensors to read, such as ``["x", "y", "train_mask"]``; None reads all.
        x_dtype: What ``x`` is in a batch, as in `Snapshot.features`.
        transform: Called with each batch.
        prefetch: Batches to work ahead at most, fewer where memory is short.
        pin_memory: As in `NeighborLoader`.
        device: As in `NeighborLoader`.

    Raises:
        UnsupportedArgument: The store has several types.
        NameNotFound: No such tensor.

    Example:
        >>> store.reorganize("locality")
        >>> loader = ng.ClusterLoader(store, num_parts=1000, batch_size=32, shuffle=True, seed=7)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[batch.train_mask]
    """

    def __init__(
        self,
        data: Reader,
        num_parts: int,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        attrs: Attrs = None,
        x_dtype: DtypeLike = None,
        transform: Callable[[Any], Any] | None = None,
        prefetch: int = _PREFETCH,
        pin_memory: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(copy_stage(pin_memory, device))
        snapshot = data.snapshot()
        _check_types(snapshot.schema)
        owner = snapshot.schema.node_types[0]
        if not 1 <= num_parts <= max(1, owner.num_nodes):
            raise ValueError(f"num_parts must be in 1 ... {owner.num_nodes} nodes, got {num_parts}")
        sampler = _Induced(snapshot, [-1], seed=seed, attrs=attrs, x_dtype=x_dtype)
        plan = SeedPlan(
            num_seeds=num_parts,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            rank=rank,
            world_size=world_size,
        )
        # A row is wanted once an epoch, so there is nothing to look ahead for.
        options = ReadOptions(reading="direct", prefetch=prefetch)
        inputs = _core.Inputs.clusters(snapshot.version, owner.index, num_parts)
        self._clusters = _Clusters(owner, None, False, inputs=inputs)
        collator = _Collator(sampler.schema, sampler.tensors)
        self._source = BatchSource(sampler, self._clusters, plan, collator, transform)
        self._pipeline = Pipeline(sampler, self._clusters, plan, options, goes_on=False)

    def nodes(self, part: int) -> NDArray[np.int64]:
        """The live nodes of a cluster, in the order of their rows, [n]."""
        if not 0 <= part < self._source.plan.num_seeds:
            raise ValueError(f"part must be below {self._source.plan.num_seeds}, got {part}")
        return self._clusters.nodes(np.array([part]))

    def parts(self, train_epoch: int, batch: int) -> NDArray[np.int64]:
        """The clusters of a batch, ascending: that is how they are read."""
        return np.sort(self._source.plan.places(train_epoch, batch, batch + 1))

    def _settings(self) -> dict[str, Any]:
        return {"num_parts": self._source.plan.num_seeds}

    def __repr__(self) -> str:
        plan = self._source.plan
        return (
            f"ClusterLoader({self.snapshot.path!r}, num_parts={plan.num_seeds}, "
            f"batch_size={plan.batch_size})"
        )


def _check_types(schema: Schema) -> None:
    if not schema.is_homogeneous or not schema.edge_types:
        raise UnsupportedArgument(
            "clusters are of one node type and one edge type, this store has "
            f"{len(schema.node_types)} and {len(schema.edge_types)}; use NeighborLoader"
        )
