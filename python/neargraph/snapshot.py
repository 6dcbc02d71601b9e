"""`Snapshot`: one version of a store, which threads share and processes exchange.

`reader.py` defines how it is read. The objects that PyG reads are created here. Invariant: a
`Snapshot` never changes, whatever is written to the store.
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
    """The interface for PyG's loaders, which stores and snapshots share."""

    @abstractmethod
    def snapshot(self) -> "Snapshot":
        """Returns the version to read."""

    @property
    def feature_store(self) -> "FeatureStore":
        """A `torch_geometric.data.FeatureStore` of the snapshot, or of the newest commit."""
        from neargraph.pyg import FeatureStore

        return FeatureStore(self)

    @property
    def graph_store(self) -> "GraphStore":
        """A `torch_geometric.data.GraphStore` of the snapshot, or of the newest commit."""
        from neargraph.pyg import GraphStore

        return GraphStore(self)

    def sampler(self, num_neighbors: Any, **how: Any) -> "Sampler":
        """Returns a `torch_geometric.sampler.BaseSampler` for PyG's own loaders.

        Args:
            num_neighbors: Fanout of each hop, as a list or a dictionary by edge type; -1 takes all.
            **how: `seed`, `replace`, `disjoint`, `time_attr`, `temporal_strategy` and
                `subgraph_type`, as in `neargraph.pyg.Sampler`.

        Example:
            >>> torch_geometric.loader.NeighborLoader(
            ...     store, num_neighbors=[15, 10], input_nodes=torch.arange(1000), batch_size=100,
            ...     neighbor_sampler=store.sampler([15, 10], seed=7))
        """
        from neargraph.pyg import Sampler

        return Sampler(self, num_neighbors, **how)

    @property
    def edge_index(self) -> NoReturn:
        """Not available. PyG's loaders for graphs in memory read this attribute.

        Raises:
            AttributeError: Always. The message names the loaders that read a store.
        """
        raise AttributeError(
            f"a {type(self).__name__} has no edge_index in memory; to load batches, use a loader "
            "of neargraph instead of PyG's: ClusterGCNLoader, a GraphSAINT sampler, "
            "ShaDowKHopSampler, RandomNodeLoader or HGTLoader"
        )

    # PyG's HGTLoader reads the edges by type.
    edge_items = edge_index

    @property
    def stores(self) -> NoReturn:
        """Not available. PyG's transforms read this attribute.

        Raises:
            AttributeError: Always. The message says where to apply a transform.
        """
        raise AttributeError(
            f"a {type(self).__name__} is not a PyG data object in memory; apply a transform to "
            "each batch with transform= of a loader, or to the data before neargraph.from_pyg "
            "writes it"
        )

    node_stores = stores
    edge_stores = stores

    @property
    def to(self) -> NoReturn:
        """Not available. PyG's old `NeighborSampler` reads this attribute of its edge_index.

        Raises:
            AttributeError: Always. The message names the loader that reads a store.
        """
        raise AttributeError(
            f"a {type(self).__name__} is not an edge_index in memory; use neargraph.NeighborLoader "
            "instead of PyG's old NeighborSampler"
        )

    def __len__(self) -> NoReturn:
        """Not available. PyG's loaders for lists of graphs, clusters or events call this.

        Raises:
            TypeError: Always. The message names the loaders that read a store.
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
    """The content of a store at one commit.

    Threads can share it, and it does not change while the store is written to. Each call reads all
    of its rows or lists together; ids may repeat. Another process can open only the last
    checkpoint. Sending a snapshot to another process therefore writes a checkpoint if necessary.

    Attributes:
        store: The store of this version.
        path: The store directory, absolute.
        checkpoint_id: The number of the checkpoint that this version is based on.
        lsn: The number of the last commit in this version; 0 if there is none.
        fingerprint: A digest of the content. Versions with equal fingerprints give equal batches.
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
        """Ensures that other processes can open this version, by a checkpoint if necessary.

        Raises:
            SnapshotGone: There are newer commits, so no checkpoint can be of this version.
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
            f"{self.path}: another process cannot open this snapshot of commit {self.lsn}. Other "
            f"processes see only the last checkpoint, of commit {now.checkpoint_lsn}. The newest "
            f"commit is {now.lsn}. Call store.checkpoint(), create a new snapshot or loader, and "
            "write nothing until the processes have started; or use threads (num_workers=0)"
        )

    @property
    def version(self) -> _core.Snapshot:
        """The compiled handle of this process."""
        # After `close` this raises StoreClosed.
        _ = self.store.core
        return self._local.get()

    @property
    def schema(self) -> Schema:
        """Node types, edge types and tensors, with their ids, shapes and dtypes."""
        if self._schema is None:
            self._schema = self.store.schema_of(self.version)
        return self._schema

    def snapshot(self) -> "Snapshot":
        """Returns this snapshot."""
        return self

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r}, checkpoint={self.checkpoint_id}, lsn={self.lsn})"
