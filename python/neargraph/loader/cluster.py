"""Mini-batches of whole clusters, as in ClusterGCN (Chiang et al., KDD 2019).

A cluster is either a range of rows in the order on disk, so that its features are one sequential
read, or a part that a partitioner made. The quality of ranges as clusters depends on the order of
rows (`neargraph reorganize --by locality`). The invariant: an epoch contains each live node at most
once, and exactly once with one rank and without `drop_last`. A batch has all edges between its
nodes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.partition import groups_of_parts, metis_parts
from neargraph.loader.seeds import InputNodes, digest_of
from neargraph.loader.spreading import SpreadSampler, only_edge_type
from neargraph.reader import Reader, Version

with torch_for("ClusterGCNLoader"):
    import torch  # noqa: F401

from neargraph.loader.reading import Reading, ReadingLike
from neargraph.loader.sampling import LoaderOptions, SamplingLoader
from neargraph.loader.whole import WholeCollator, check_parts, refuse_pad

# An epoch reads each row once, so look-ahead saves nothing by default.
_READING = Reading("on_demand", prefetch=1)


@dataclass(frozen=True, kw_only=True)
class _Clusters(InputNodes):
    """All live nodes by cluster: each of `count` places stands for one cluster.

    `groups` has the ends of the clusters and their nodes. Without it, clusters are ranges of rows.
    """

    snapshot: Version
    count: int
    groups: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return self.count

    @cached_property
    def _made(self) -> _core.Inputs:
        index = self.node_type.index
        if self.groups is None:
            return _core.Inputs.clusters(self.snapshot.version, index, self.count)
        return _core.Inputs.groups(index, *self.groups)

    def __getstate__(self) -> dict[str, Any]:
        # Objects of the core cannot be pickled; another process makes its own.
        return {name: value for name, value in self.__dict__.items() if name != "_made"}

    def core(self) -> _core.Inputs:
        return self._made

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._made.nodes(places)

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places

    def digest(self) -> str:
        parts = "order" if self.groups is None else "/".join(map(digest_of, self.groups))
        return f"{self.node_type.name}:clusters:{self.count}:{parts}"


class _Collator(WholeCollator):
    """Adds the number of nodes, all of which are seeds."""

    def __call__(self, batch: MiniBatch) -> Any:
        """Returns the PyG object of `batch`."""
        data = super().__call__(batch)
        data.batch_size = data.n_id.numel()
        return data


class ClusterGCNLoader(SamplingLoader):
    """Batches of several clusters and all edges between their nodes, as PyG `Data`.

    Each batch has:

    - ``x``, ``y`` and all other node tensors [n, ...], and the masks
    - ``edge_index`` [2, e], with all edges between the nodes of the batch
    - ``n_id`` [n], the node ids
    - edge tensors, weights, times and ``e_id`` [e], where the store has them
    - ``batch_size``, which is n

    PyG's ``ClusterLoader(ClusterData(data, 1500), batch_size=20)`` corresponds to
    ``ClusterGCNLoader(store, 1500, batch_size=20)``.

    Args:
        data: The open store or a snapshot, with one node type and one edge type.
        num_parts: Number of clusters.
        partition: The assignment of nodes to clusters. ``"order"``: ranges of equal length in the
            order of rows on disk. ``"metis"``: parts of equal size with few edges between them.
            METIS needs the package ``pymetis`` and the whole graph in memory, about 40 bytes per
            edge outside the store's budget. An array [num_nodes] holds the part of each node, from
            0 to `num_parts` - 1; `neargraph.loader.partition.metis_parts` returns one to keep.
        batch_size: Clusters per batch.
        shuffle: Draw the clusters of a batch at random, in a new order in every epoch. The order
            depends on `seed`. Otherwise clusters come in order.
        drop_last: Drop a last batch that is smaller than the others. Several ranks always do.
        reading: As in `NeighborLoader`. The default is ``Reading("on_demand", prefetch=1)``.
        **options: As in `NeighborLoader`: `seed`, `ranks` (a batch has the edges between nodes in
            the clusters of its own rank), `attrs`, `x_dtype`, `transform`, `num_workers`,
            `pin_memory`, `device` and the others.

    Raises:
        UnsupportedArgument: The store has several types, or `ranks` has ``pad=True``, which would
            repeat nodes.
        MissingDependency: pymetis is not installed, for ``partition="metis"``.
        NameNotFound: A tensor in `attrs` does not exist.

    Example:
        >>> store.reorganize("locality")
        >>> loader = ng.ClusterGCNLoader(store, num_parts=1000, batch_size=32, shuffle=True, seed=7)
        >>> for batch in loader:
        ...     out = model(batch.x, batch.edge_index)[batch.train_mask]
    """

    def __init__(
        self,
        data: Reader,
        num_parts: int,
        *,
        partition: Any = "order",
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        reading: ReadingLike = _READING,
        **options: Any,
    ) -> None:
        options |= {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        if options.get("num_workers") and reading is _READING:
            reading = "on_demand"
        given = LoaderOptions.take(type(self).__name__, {**options, "reading": reading})
        refuse_pad(given.peers)
        given.pads = False
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, type(self).__name__)
        owner = snapshot.schema.node_types[0]
        check_parts(num_parts, owner.num_nodes)
        rows, x_cast = given.rows(snapshot.schema)
        sampler = SpreadSampler(snapshot, seed=given.seed, **rows)
        groups = None
        if not isinstance(partition, str) or partition != "order":
            is_name = isinstance(partition, str)
            parts = metis_parts(snapshot, num_parts, partition) if is_name else partition
            groups = groups_of_parts(snapshot, parts, num_parts)
        self._clusters = _Clusters(
            owner, None, False, snapshot=snapshot, count=num_parts, groups=groups
        )
        self._partition = partition if isinstance(partition, str) else "given"
        collator = _Collator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        self._start(sampler, self._clusters, collator, given)

    def nodes(self, part: int) -> NDArray[np.int64]:
        """Returns the live nodes of a cluster, in the order of rows or of ids, int64 [n].

        Raises:
            ValueError: `part` is not the number of a cluster.
        """
        if not 0 <= part < self._source.plan.num_seeds:
            last = self._source.plan.num_seeds - 1
            raise ValueError(f"part={part} is not a valid cluster: expected 0 to {last}")
        return self._clusters.nodes(np.array([part]))

    def parts(self, epoch: int, batch: int) -> NDArray[np.int64]:
        """Returns the numbers of the clusters of a batch, in the ascending order of reading."""
        return np.sort(self._source.plan.places(epoch, batch, batch + 1))

    def _settings(self) -> dict[str, Any]:
        clusters = self._clusters
        known = {"num_parts": clusters.count, "partition": self._partition}
        return known if clusters.groups is None else {**known, "parts": clusters.digest()}

    def __repr__(self) -> str:
        plan = self._source.plan
        return (
            f"ClusterGCNLoader({self.snapshot.path!r}, num_parts={plan.num_seeds}, "
            f"batch_size={plan.batch_size})"
        )
