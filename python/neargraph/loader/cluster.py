"""Mini-batches of whole clusters, as ClusterGCN has them (Chiang et al., KDD 2019).

A cluster is a range of rows of the store as they lie on disk, so that its features are one
sequential read; how good clusters are is up to the order of rows (`neargraph reorganize --by
locality`). The invariant: an epoch has every live node once, and a batch all edges between its own.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._room import with_room
from neargraph.dtypes import DtypeLike
from neargraph.exceptions import MissingDependency, UnsupportedArgument
from neargraph.loader.options import check_count
from neargraph.loader.sampler import Attrs, check_x, resolve_attrs
from neargraph.loader.seeds import SeedPlan
from neargraph.reader import Reader, Version
from neargraph.schema import Schema
from neargraph.splits import SPLITS, split_columns, split_mask

try:
    import torch
    from torch_geometric.data import Data
except ImportError as missing:
    raise MissingDependency(
        f"ClusterLoader needs torch and PyG ({missing.name} is missing): "
        "pip install 'neargraph[torch]'"
    ) from missing

from neargraph.loader.background import in_background
from neargraph.loader.collate import as_tensor, check_masks
from neargraph.loader.copying import copy_stage
from neargraph.loader.epochs import EpochLoader

_PREFETCH = 1


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
        drop_last: Leave a smaller last batch out.
        attrs: Tensors to read, such as ``["x", "y", "train_mask"]``; None reads all.
        x_dtype: What ``x`` is in a batch, as in `Snapshot.features`.
        transform: Called with each batch.
        prefetch: Batches to work ahead.
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
        attrs: Attrs = None,
        x_dtype: DtypeLike = None,
        transform: Callable[[Any], Any] | None = None,
        prefetch: int = _PREFETCH,
        pin_memory: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(copy_stage(pin_memory, device))
        self._snapshot = data.snapshot()
        schema = self._snapshot.schema
        _check_types(schema)
        owner = schema.node_types[0]
        if not 1 <= num_parts <= max(1, owner.num_nodes):
            raise ValueError(f"num_parts must be in 1 ... {owner.num_nodes} nodes, got {num_parts}")
        check_count("prefetch", prefetch, 1)
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed must be in 0 ... 2^64 - 1, got {seed}")
        self._num_nodes, self._num_parts = owner.num_nodes, num_parts
        self._plan = SeedPlan(
            num_seeds=num_parts,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
        )
        self._tensors = resolve_attrs(schema, attrs)
        check_x(schema, self._tensors, x_dtype)
        check_masks(schema, self._tensors)
        self._x_dtype, self._transform, self._prefetch = x_dtype, transform, prefetch
        self._rows = self._snapshot.version.nodes_of_rows(owner.index)
        self._dead = self._snapshot.dead_nodes(owner.name)
        self._seconds = {"sample": 0.0, "read": 0.0, "gather": 0.0}

    @property
    def snapshot(self) -> Version:
        """The version of the store that is read."""
        return self._snapshot

    def __len__(self) -> int:
        """Batches of one whole epoch."""
        return self._plan.steps

    def nodes(self, part: int) -> NDArray[np.int64]:
        """The live nodes of a cluster, in the order of their rows, [n]."""
        count = self._num_parts
        first, last = part * self._num_nodes // count, (part + 1) * self._num_nodes // count
        if self._rows is None:
            ids = np.arange(first, last, dtype=np.int64)
        else:
            ids = self._rows.nodes(first, last)
        return ids[~np.isin(ids, self._dead)] if len(self._dead) else ids

    def parts(self, train_epoch: int, batch: int) -> NDArray[np.int64]:
        """The clusters of a batch, ascending: that is how they are read."""
        return np.sort(self._plan.places(train_epoch, batch, batch + 1))

    def _batches(self, train_epoch: int, first: int) -> Iterator[Any]:
        version, last = self._snapshot.version, len(self)
        jobs = (partial(self._make, train_epoch, batch) for batch in range(first, last))
        made = (with_room(version, job) for job in jobs)
        return in_background(made, self._prefetch, "ng-cluster")

    def _make(self, train_epoch: int, batch: int) -> Any:
        start = time.perf_counter()
        ids = np.concatenate([self.nodes(int(part)) for part in self.parts(train_epoch, batch)])
        data = Data(n_id=torch.from_numpy(ids), batch_size=len(ids))
        self._put_edges(data, ids)
        sampled = time.perf_counter()
        self._put_rows(data, ids)
        self._seconds["sample"] += sampled - start
        self._seconds["gather"] += time.perf_counter() - sampled
        return data if self._transform is None else self._transform(data)

    def _put_edges(self, data: Any, ids: NDArray[np.int64]) -> None:
        edge_type = self._snapshot.schema.edge_types[0]
        found = self._snapshot.version.induced(edge_type.index, ids)
        for name, array in zip(
            ("edge_index", "e_id", "edge_time", "edge_weight"), found, strict=True
        ):
            if array is not None:
                data[name] = torch.from_numpy(array)

    def _put_rows(self, data: Any, ids: NDArray[np.int64]) -> None:
        schema, snapshot = self._snapshot.schema, self._snapshot
        owner, edge_type = schema.node_types[0], schema.edge_types[0]
        wanted = {(kind, name) for kind, _, name in self._tensors}
        for meta in owner.tensors:
            if ("node", meta.name) in wanted and not meta.is_split:
                dtype = self._x_dtype if meta.name == "x" else None
                data[meta.name] = as_tensor(snapshot.features(None, ids, meta.name, dtype))
        for meta in edge_type.tensors:
            if ("edge", meta.name) in wanted and "e_id" in data:
                rows = snapshot.edge_features(edge_type.triple, data.e_id.numpy(), meta.name)
                data[meta.name] = as_tensor(rows)
        columns = split_columns(owner)
        if columns and all(("node", column) in wanted for column in columns):
            codes = {column: snapshot.features(None, ids, column) for column in columns}
            for name in SPLITS:
                mask = split_mask(owner, name, codes.__getitem__)
                data[f"{name}_mask"] = torch.from_numpy(mask)
        if "x" not in data:
            data.num_nodes = len(ids)

    def _worked(self) -> dict[str, float]:
        return dict(self._seconds)

    def _fingerprint(self) -> dict[str, Any]:
        plan = self._plan
        return {
            "store": self._snapshot.fingerprint,
            "num_parts": self._num_parts,
            "batch_size": plan.batch_size,
            "shuffle": plan.shuffle,
            "seed": plan.seed,
            "drop_last": plan.drop_last,
        }

    def __repr__(self) -> str:
        return (
            f"ClusterLoader({self._snapshot.path!r}, num_parts={self._num_parts}, "
            f"batch_size={self._plan.batch_size})"
        )


def _check_types(schema: Schema) -> None:
    if not schema.is_homogeneous or not schema.edge_types:
        raise UnsupportedArgument(
            "clusters are of one node type and one edge type, this store has "
            f"{len(schema.node_types)} and {len(schema.edge_types)}; use NeighborLoader"
        )
