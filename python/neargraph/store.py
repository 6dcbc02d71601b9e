"""An open store: its types, its rows, its neighbour lists.

Nothing here reads a file itself: the compiled core does, with the GIL released and inside the
memory budget. The invariant: every process opens its own handle, at the epoch of the first one.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neargraph import _core
from neargraph._process import ProcessLocal, workers_of_this_process
from neargraph.exceptions import NameNotFound, NodeOutOfRange, StoreClosed
from neargraph.schema import EdgeTriple, NodeType, Schema, parse_catalog
from neargraph.splits import split_code, split_mask, split_owner
from neargraph.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from neargraph.pyg import FeatureStore, GraphStore, Sampler

# Rows of a column that are scanned at once, so that a scan needs memory for its result alone.
_SCAN_ROWS = 1 << 20

EdgeName = str | Sequence[str] | None


class Neighbors(NamedTuple):
    """In-neighbours of n nodes, in list order, as CSC.

    The neighbours of the k-th node are ``indices[indptr[k]:indptr[k + 1]]``; `edge_ids`, `times`
    and `weights` run beside `indices` and are None where the edge type has no such column.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    edge_ids: NDArray[np.int64] | None
    times: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None


def open(
    path: str | os.PathLike[str],
    memory: str | int | None = None,
    backend: str = "auto",
    *,
    queue_depth: int | None = None,
) -> "Store":
    """Opens the store directory at `path`.

    Args:
        path: The directory, such as ``"papers.ng"``.
        memory: What caches, buffers and batches may take together: bytes or a text such as
            ``"256MB"`` (10^6) or ``"1GiB"`` (2^30). None is a quarter of the machine's memory
            or of the cgroup's limit.
        backend: ``"auto"``, ``"uring"``, ``"direct"``, ``"pread"``, ``"mmap"`` or ``"memory"``.
        queue_depth: How many reads are kept in flight.

    Raises:
        StoreNotFound: There is nothing at `path`.
        NotAStore: It is no store.
        NewerVersion: It was written by a newer neargraph.
        StoreDamaged: Both roots are damaged.
        BudgetTooSmall: `memory` is below the minimum, which the message gives.

    Example:
        >>> with ng.open("cora.ng", memory="256MB") as store:
        ...     print(store.info()["num_nodes"])
    """
    return Store(path, memory, backend, queue_depth=queue_depth)


class Store:
    """One open store at one epoch. Safe to use from many threads; cheap to send to workers.

    A child process, forked or spawned, opens the store again on first use at the same epoch, and
    raises `SnapshotGone` if that epoch is no longer there. In a worker of a torch DataLoader with n
    workers it takes 1 / (n + 1) of the memory. PyG's loaders accept a store as their ``data``,
    since it unpacks into (feature_store, graph_store).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory: str | int | None = None,
        backend: str = "auto",
        *,
        queue_depth: int | None = None,
    ) -> None:
        wanted = None if memory is None else parse_bytes(memory)
        handle = _core.open_store(os.path.abspath(path), wanted, backend, queue_depth, None)
        self._state = _State(
            path=os.path.abspath(path),
            memory_bytes=handle.memory_bytes,
            backend=backend,
            queue_depth=queue_depth,
            epoch=handle.epoch,
            fingerprint=handle.fingerprint,
            catalog=handle.catalog(),
        )
        self._start(handle)

    def _start(self, handle: _core.Store | None) -> None:
        self._schema = parse_catalog(self._state.catalog)
        self._closed = False
        self._local: ProcessLocal[_core.Store] = ProcessLocal(self._state.reopen, handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._state, self._closed))

    # What it is

    @property
    def path(self) -> str:
        """The store directory, absolute."""
        return self._state.path

    @property
    def epoch(self) -> int:
        """The version of the store that this handle reads."""
        return self._state.epoch

    @property
    def fingerprint(self) -> str:
        """A digest of the content; two stores with equal digests give equal batches."""
        return self._state.fingerprint

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def schema(self) -> Schema:
        """Node types, edge types and tensors, with their ids, shapes and dtypes."""
        return self._schema

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return [t.name for t in self._schema.node_types]

    @property
    def edge_types(self) -> list[EdgeTriple]:
        """The (source, relation, destination) triples."""
        return [t.triple for t in self._schema.edge_types]

    @property
    def num_nodes(self) -> int:
        """Nodes of all types together; ``store.schema.node_type("paper").num_nodes`` for one."""
        return sum(t.num_nodes for t in self._schema.node_types)

    @property
    def num_edges(self) -> int:
        """Entries of all neighbour lists; an undirected edge counts twice."""
        return sum(t.num_edges for t in self._schema.edge_types)

    def metadata(self) -> tuple[list[str], list[EdgeTriple]]:
        """(node types, edge types), as `torch_geometric.data.HeteroData.metadata` gives them."""
        return self.node_types, self.edge_types

    def info(self) -> dict[str, Any]:
        """The catalog as plain data, with path, back end, memory and fingerprint beside it."""
        core = self.core
        return {
            **self._schema.raw,
            "path": self.path,
            "num_nodes": self.num_nodes,
            "num_edges": self.num_edges,
            "backend": core.backend,
            "backend_note": core.backend_note,
            "memory_bytes": core.memory_bytes,
            "fingerprint": self.fingerprint,
        }

    def stats(self) -> dict[str, Any]:
        """Counters of this process since `open` or `reset_stats`: reads, read_bytes,
        useful_bytes, rows_served, rows_cached, hit_rate, budget_used, budget_peak, ..."""
        return self.core.stats()

    def reset_stats(self) -> None:
        """Sets the counters to zero."""
        self.core.reset_stats()

    def __repr__(self) -> str:
        if self._closed:
            return f"Store({self.path!r}, closed)"
        return (
            f"Store({self.path!r}, nodes={self.num_nodes:,}, edges={self.num_edges:,}, "
            f"memory={format_bytes(self._state.memory_bytes)}, epoch={self.epoch})"
        )

    # Life

    @property
    def core(self) -> _core.Store:
        """The compiled handle of this process, opened if this process has none yet."""
        if self._closed:
            raise StoreClosed(f"{self.path} was closed; open it again with neargraph.open")
        return self._local.get()

    def close(self) -> None:
        """Gives memory and descriptors back. Arrays already handed out stay valid."""
        self._closed = True
        handle = self._local.take()
        if handle is not None:
            handle.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it holds

    def snapshot(self) -> "Snapshot":
        """The content at this store's epoch, to read rows and neighbours by id."""
        return Snapshot(self)

    @property
    def labels(self) -> NDArray[Any]:
        """The whole label column ``y`` of the only node type that has one, [num_nodes, ...]."""
        owners = [t for t in self._schema.node_types if any(m.name == "y" for m in t.tensors)]
        if len(owners) != 1:
            names = [t.name for t in owners]
            raise NameNotFound(
                f"labels need one node type with a tensor 'y', this store has {len(owners)} "
                f"({names}); read one with store.column('y', node_type)"
            )
        return self.column("y", owners[0].name)

    def column(self, name: str, node_type: str | None = None) -> NDArray[Any]:
        """A whole node tensor in memory, [num_nodes, *shape], outside the budget."""
        owner = self._schema.node_type(node_type)
        self._schema.tensor(owner, name)
        return self.core.column("node", owner.index, name)

    def split(self, name: str, node_type: str | None = None, index: int = 0) -> NDArray[np.int64]:
        """The ids of a split, ascending, [n].

        Args:
            name: ``"train"``, ``"val"`` or ``"test"``.
            node_type: May be left out if there is one type, or one with splits.
            index: Which of several splits (columns of PyG's [N, k] masks).

        Raises:
            NameNotFound: There is no such split.
        """
        owner = split_owner(self._schema, node_type)
        code = split_code(name)
        tensor = self._schema.tensor(owner, f"split_{index}").name
        parts = [
            start + np.flatnonzero(values == code) for start, values in self._scan(owner, tensor)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64, copy=False)

    def mask(self, name: str, node_type: str | None = None) -> NDArray[np.bool_]:
        """A split as the boolean mask it was imported from: [num_nodes], or [num_nodes, k]."""
        owner = split_owner(self._schema, node_type)
        return split_mask(owner, name, lambda tensor: self.column(tensor, owner.name))

    def lookup(self, keys: Sequence[str], node_type: str | None = None) -> NDArray[np.int64]:
        """The node ids of string ids, [n]; -1 where the store has no such string."""
        owner = self._with_dictionary(node_type)
        return self.core.lookup(owner.index, list(keys))

    def names(self, ids: ArrayLike, node_type: str | None = None) -> list[str]:
        """The string ids of node ids."""
        owner = self._with_dictionary(node_type)
        return self.core.names(owner.index, as_ids(ids))

    def _with_dictionary(self, node_type: str | None) -> NodeType:
        owner = self._schema.node_type(node_type)
        if not owner.has_dictionary:
            raise NameNotFound(f"node type {owner.name!r} was imported without string ids")
        return owner

    def _scan(self, owner: NodeType, tensor: str) -> Iterator[tuple[int, NDArray[Any]]]:
        if owner.num_nodes <= _SCAN_ROWS:
            yield 0, self.core.column("node", owner.index, tensor)
            return
        for start in range(0, owner.num_nodes, _SCAN_ROWS):
            ids = np.arange(start, min(start + _SCAN_ROWS, owner.num_nodes), dtype=np.int64)
            yield start, self.core.rows("node", owner.index, tensor, ids)

    # PyG

    @property
    def feature_store(self) -> "FeatureStore":
        """This store as a `torch_geometric.data.FeatureStore`."""
        from neargraph.pyg import FeatureStore

        return FeatureStore(self)

    @property
    def graph_store(self) -> "GraphStore":
        """This store as a `torch_geometric.data.GraphStore`."""
        from neargraph.pyg import GraphStore

        return GraphStore(self)

    def sampler(self, num_neighbors: Any, *, seed: int = 0, replace: bool = False) -> "Sampler":
        """A `torch_geometric.sampler.BaseSampler` for PyG's own loaders.

        Example:
            >>> torch_geometric.loader.NeighborLoader(
            ...     store, num_neighbors=[15, 10], input_nodes=torch.arange(1000), batch_size=100,
            ...     neighbor_sampler=store.sampler([15, 10], seed=7))
        """
        from neargraph.pyg import Sampler

        return Sampler(self, num_neighbors, seed=seed, replace=replace)

    def __iter__(self) -> Iterator[Any]:
        # PyG's loaders unpack a remote backend as ``feature_store, graph_store = data``.
        yield self.feature_store
        yield self.graph_store


class Snapshot:
    """The content of a store at one epoch. Every read is one batch; ids may repeat."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def epoch(self) -> int:
        """The epoch that is read."""
        return self._store.epoch

    def __repr__(self) -> str:
        return f"Snapshot({self._store.path!r}, epoch={self.epoch})"

    def neighbors(self, edge_type: EdgeName, ids: ArrayLike) -> Neighbors:
        """The in-neighbours of `ids` under `edge_type` (None: the only one), in list order.

        Raises:
            NodeOutOfRange: An id is negative or not below the number of destination nodes.
            StoreDamaged: A page that holds the lists fails its checksum.

        Example:
            >>> indptr, indices, *_ = store.snapshot().neighbors(("paper", "cites", "paper"), [7])
        """
        store = self._store
        index = store.schema.edge_type(edge_type).index
        return Neighbors(*store.core.neighbors(index, as_ids(ids)))

    def degrees(self, edge_type: EdgeName, ids: ArrayLike) -> NDArray[np.int64]:
        """In-degrees of `ids`, [n]; the lists themselves are not read."""
        store = self._store
        return store.core.degrees(store.schema.edge_type(edge_type).index, as_ids(ids))

    def features(self, node_type: str | None, ids: ArrayLike, name: str = "x") -> NDArray[Any]:
        """Rows `ids` of the node tensor `name`, [n, *shape]. bf16 comes as raw uint16.

        Raises:
            NameNotFound: No such node type or tensor.
            NodeOutOfRange: An id is out of range.
        """
        store = self._store
        owner = store.schema.node_type(node_type)
        store.schema.tensor(owner, name)
        return store.core.rows("node", owner.index, name, as_ids(ids))

    def edge_features(
        self, edge_type: EdgeName, edge_ids: ArrayLike, name: str = "edge_attr"
    ) -> NDArray[Any]:
        """Rows of the edge tensor `name` by edge id, [n, *shape]."""
        store = self._store
        owner = store.schema.edge_type(edge_type)
        store.schema.tensor(owner, name)
        return store.core.rows("edge", owner.index, name, as_ids(edge_ids))


@dataclass(frozen=True, kw_only=True)
class _State:
    """What another process needs to open the same store at the same epoch."""

    path: str
    memory_bytes: int
    backend: str
    queue_depth: int | None
    epoch: int
    fingerprint: str
    catalog: str

    def reopen(self) -> _core.Store:
        share = self.memory_bytes // (workers_of_this_process() + 1)
        return _core.open_store(self.path, share, self.backend, self.queue_depth, self.epoch)


def _restore(state: _State, closed: bool) -> Store:
    store = Store.__new__(Store)
    store._state = state
    store._start(None)
    store._closed = closed
    return store


def as_ids(ids: Any) -> NDArray[np.int64]:
    """Node or edge ids as a contiguous int64 array [n]; torch tensors and lists are accepted.

    Raises:
        NodeOutOfRange: An id does not fit int64.
        TypeError: The ids are no integers.
    """
    array = np.asarray(ids)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) >= 2**63:
        raise NodeOutOfRange(f"id {int(array.max())} is beyond 2^63")
    return np.ascontiguousarray(array.reshape(-1), dtype=np.int64)
