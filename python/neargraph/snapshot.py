"""One version of a store as an object that threads share and processes exchange.

What is read from it, and how, stands in `reader.py`; what PyG reads is made here. The invariant: a
`Snapshot` never changes, whatever is written meanwhile.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph.exceptions import SnapshotGone
from neargraph.reader import Reader, Version
from neargraph.schema import Schema

if TYPE_CHECKING:
    from neargraph.pyg import FeatureStore, GraphStore, Sampler
    from neargraph.store import Store


class PygReader(Reader):
    """What PyG's loaders read, of a store and of a snapshot alike."""

    @abstractmethod
    def snapshot(self) -> "Snapshot":
        """The version to read."""

    @property
    def feature_store(self) -> "FeatureStore":
        """The newest commit as a `torch_geometric.data.FeatureStore`."""
        from neargraph.pyg import FeatureStore

        return FeatureStore(self)

    @property
    def graph_store(self) -> "GraphStore":
        """The newest commit as a `torch_geometric.data.GraphStore`."""
        from neargraph.pyg import GraphStore

        return GraphStore(self)

    def sampler(self, num_neighbors: Any, **how: Any) -> "Sampler":
        """A `torch_geometric.sampler.BaseSampler` for PyG's own loaders.

        Args:
            num_neighbors: Neighbours per node and hop, as a list or by edge type; -1 takes all.
            **how: `seed`, `replace`, `disjoint`, `time_attr`, `temporal_strategy` and
                `subgraph_type`, as of `neargraph.pyg.Sampler`.

        Example:
            >>> torch_geometric.loader.NeighborLoader(
            ...     store, num_neighbors=[15, 10], input_nodes=torch.arange(1000), batch_size=100,
            ...     neighbor_sampler=store.sampler([15, 10], seed=7))
        """
        from neargraph.pyg import Sampler

        return Sampler(self, num_neighbors, **how)

    @property
    def edge_index(self) -> NoReturn:
        """PyG's loaders of graphs in memory ask for this.

        Raises:
            AttributeError: Always; names the loaders that read a store.
        """
        raise AttributeError(
            f"a {type(self).__name__} has no edge_index in memory; use the loader of that name "
            "from neargraph: ClusterGCNLoader, GraphSAINT*, ShaDowKHopSampler, RandomNodeLoader, "
            "HGTLoader"
        )

    # PyG's HGTLoader asks for edges by type.
    edge_items = edge_index

    @property
    def to(self) -> NoReturn:
        """PyG's old `NeighborSampler` asks for this, of its edge_index.

        Raises:
            AttributeError: Always; names the loader that reads a store.
        """
        raise AttributeError(
            f"a {type(self).__name__} is not an edge_index in memory; use neargraph.NeighborLoader "
            "instead of PyG's old NeighborSampler"
        )

    def __len__(self) -> NoReturn:
        """PyG's loaders of many graphs, clusters or events ask for this.

        Raises:
            TypeError: Always; names the loaders that read a store.
        """
        raise TypeError(
            f"a {type(self).__name__} is not a list of graphs, clusters or events in memory; use "
            "GraphLoader, ClusterGCNLoader, or NeighborLoader and LinkNeighborLoader with "
            "time_attr, all from neargraph"
        )

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        # PyG's loaders unpack a remote backend as ``feature_store, graph_store = data``.
        snap = self.snapshot()
        yield snap.feature_store
        yield snap.graph_store


class Snapshot(PygReader, Version):
    """The content of a store at one commit. Every read is one batch; ids may repeat.

    It may be used from many threads, and stays as it is while writers go on. Another process can
    open the last checkpoint alone: sending a snapshot there writes one if that is what it needs.

    Attributes:
        store: The store that this is a version of.
        path: The store directory, absolute.
        checkpoint_id: The number of the checkpoint that this version is based on.
        lsn: The last commit in this version; 0 in a store that was never written to.
        fingerprint: A digest of the content; equal digests give equal batches.
    """

    def __init__(self, store: "Store", handle: _core.Snapshot) -> None:
        self.store, self.path = store, store.path
        self.checkpoint_id, self.lsn = handle.checkpoint_id, handle.lsn
        self.fingerprint = handle.fingerprint
        self._schema: Schema | None = None
        self._local: ProcessLocal[_core.Snapshot] = ProcessLocal(self._reopen, handle)

    def __getstate__(self) -> dict[str, Any]:
        if not self.store.closed:
            self.share()
        return self.__dict__

    def _reopen(self) -> _core.Snapshot:
        handle = self.store.core.snapshot()
        if handle.fingerprint != self.fingerprint:
            raise self._gone()
        return handle

    def share(self) -> None:
        """Makes sure that another process can open this version: checkpoints if need be.

        Raises:
            SnapshotGone: There are newer commits, so that no checkpoint can be of this version.
        """
        newest = self.store.core.snapshot()
        if newest.checkpoint_lsn == self.lsn:
            return
        if newest.lsn != self.lsn:
            raise self._gone()
        self.store.checkpoint()

    def _gone(self) -> SnapshotGone:
        now = self.store.core.snapshot()
        return SnapshotGone(
            f"{self.path}: another process cannot open commit {self.lsn}, which this snapshot "
            f"stands at: it sees the last checkpoint, commit {now.checkpoint_lsn}, and the newest "
            f"commit is {now.lsn}; call store.checkpoint(), take a new snapshot or loader, and "
            "let nobody write before the processes have started, or use threads (num_workers=0)"
        )

    @property
    def version(self) -> _core.Snapshot:
        """The compiled handle of this process."""
        # Asking the store first turns a use after close into StoreClosed.
        _ = self.store.core
        return self._local.get()

    @property
    def schema(self) -> Schema:
        """Node types, edge types and tensors, with their ids, shapes and dtypes."""
        if self._schema is None:
            self._schema = self.store.schema_of(self.version)
        return self._schema

    def snapshot(self) -> "Snapshot":
        """This snapshot."""
        return self

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r}, checkpoint={self.checkpoint_id}, lsn={self.lsn})"
