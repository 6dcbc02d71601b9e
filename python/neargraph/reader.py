"""What can be read from a store: by id, by name, by column.

`Reader` is what a store and its snapshots have in common, `Version` what reads one version; which
version that is, and in which process, is for their subclasses. Nothing here knows the store that is
open, PyG or loaders, all of which read through this. The invariant: each call reads one version.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neargraph import _core
from neargraph._room import with_room
from neargraph.dtypes import DtypeLike, SparseRows, XFormat, read_as
from neargraph.exceptions import NameNotFound, NodeOutOfRange, UnsupportedArgument
from neargraph.schema import EdgeTriple, Kind, NodeType, Schema
from neargraph.splits import split_code, split_mask, split_owner

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


class Reader(ABC):
    """What can be asked of a store and of a snapshot alike."""

    @abstractmethod
    def snapshot(self) -> "Version":
        """The version to read."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Node types, edge types and tensors, with their ids, shapes and dtypes."""

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return [t.name for t in self.schema.node_types]

    @property
    def edge_types(self) -> list[EdgeTriple]:
        """The (source, relation, destination) triples."""
        return [t.triple for t in self.schema.edge_types]

    @property
    def num_nodes(self) -> int:
        """Node ids of all types together, those of deleted nodes included;
        ``store.schema.node_type("paper").num_nodes`` for one."""
        return sum(t.num_nodes for t in self.schema.node_types)

    @property
    def num_nodes_live(self) -> int:
        """Nodes of all types together that were not deleted."""
        return sum(t.num_nodes_live for t in self.schema.node_types)

    @property
    def num_edges(self) -> int:
        """Entries of all neighbour lists; an undirected edge counts twice, a kept reverse not."""
        return sum(t.num_edges for t in self.schema.edge_types)

    def metadata(self) -> tuple[list[str], list[EdgeTriple]]:
        """(node types, edge types), as `torch_geometric.data.HeteroData.metadata` gives them."""
        return self.node_types, self.edge_types

    @property
    def labels(self) -> NDArray[Any]:
        """The whole label column ``y`` of the only node type that has one, [num_nodes, ...]."""
        snap = self.snapshot()
        owners = [t for t in snap.schema.node_types if any(m.name == "y" for m in t.tensors)]
        if len(owners) != 1:
            names = [t.name for t in owners]
            raise NameNotFound(
                f"labels need one node type with a tensor 'y', this store has {len(owners)} "
                f"({names}); read one with store.column('y', node_type)"
            )
        return snap.column("y", owners[0].name)

    def column(
        self, name: str, node_type: str | None = None, dtype: DtypeLike = None
    ) -> NDArray[Any]:
        """A whole node tensor in memory, [num_nodes, *shape], outside the budget.

        `dtype` as in `Snapshot.features`.
        """
        snap = self.snapshot()
        owner = snap.schema.node_type(node_type)
        wanted = read_as(snap.schema.tensor(owner, name), dtype)
        return snap.version.column("node", owner.index, name, wanted)

    def split(self, name: str, node_type: str | None = None, index: int = 0) -> NDArray[np.int64]:
        """The ids of a split, ascending, [n]; deleted nodes are in none.

        Args:
            name: ``"train"``, ``"val"`` or ``"test"``.
            node_type: May be left out if there is one type, or one with splits.
            index: Which of several splits (columns of PyG's [N, k] masks).

        Raises:
            NameNotFound: There is no such split.
        """
        snap = self.snapshot()
        owner = split_owner(snap.schema, node_type)
        code = split_code(name)
        tensor = snap.schema.tensor(owner, f"split_{index}").name
        ids = snap.version.nodes_with(owner.index, tensor, code)
        if ids is None:
            parts = [np.empty(0, np.int64)]
            for start, values in snap.scan(owner, tensor):
                parts.append(start + np.flatnonzero(values == code))
            ids = np.concatenate(parts).astype(np.int64, copy=False)
        return np.setdiff1d(ids, snap.dead_nodes(owner.name), assume_unique=True)

    def mask(self, name: str, node_type: str | None = None) -> NDArray[np.bool_]:
        """A split as the boolean mask it was imported from: [num_nodes], or [num_nodes, k]."""
        snap = self.snapshot()
        owner = split_owner(snap.schema, node_type)
        mask = split_mask(owner, name, lambda tensor: snap.column(tensor, owner.name))
        mask[snap.dead_nodes(owner.name)] = False
        return mask

    def lookup(self, keys: Sequence[str], node_type: str | None = None) -> NDArray[np.int64]:
        """The node ids of string ids, [n]; -1 where the store has no such string."""
        snap = self.snapshot()
        return snap.version.lookup(snap.with_dictionary(node_type), list(keys))

    def names(self, ids: ArrayLike, node_type: str | None = None) -> list[str]:
        """The string ids of node ids."""
        snap = self.snapshot()
        return snap.version.names(snap.with_dictionary(node_type), as_ids(ids))


class Version(Reader):
    """All that is read from one version of a store. Every read is one batch; ids may repeat.

    Attributes:
        path: The store directory, absolute.
        lsn: The last commit in this version; 0 in a store that was never written to.
        fingerprint: A digest of the content; equal digests give equal batches.
    """

    path: str
    lsn: int
    fingerprint: str

    @property
    @abstractmethod
    def version(self) -> _core.Snapshot:
        """The compiled handle of this process."""

    @abstractmethod
    def share(self) -> None:
        """Makes sure that another process can open this version."""

    def dead_nodes(self, node_type: str | None = None) -> NDArray[np.int64]:
        """The ids of deleted nodes, ascending, [n]."""
        owner = self.schema.node_type(node_type)
        if owner.num_nodes_live == owner.num_nodes:
            return np.empty(0, np.int64)
        return self.version.dead_nodes(owner.index)

    def neighbors(self, edge_type: EdgeName, ids: ArrayLike) -> Neighbors:
        """The in-neighbours of `ids` under `edge_type` (None: the only one), in list order.

        Raises:
            NodeOutOfRange: An id is negative or not below the number of destination nodes.
            StoreDamaged: A page that holds the lists fails its checksum.

        Example:
            >>> indptr, indices, *_ = store.snapshot().neighbors(("paper", "cites", "paper"), [7])
        """
        index = self.schema.edge_type(edge_type).index
        found = with_room(self.version, lambda: self.version.neighbors(index, as_ids(ids)))
        return Neighbors(*found)

    def degrees(self, edge_type: EdgeName, ids: ArrayLike) -> NDArray[np.int64]:
        """In-degrees of `ids`, [n]; the lists themselves are not read."""
        return self.version.degrees(self.schema.edge_type(edge_type).index, as_ids(ids))

    def features(
        self,
        node_type: str | None,
        ids: ArrayLike,
        name: str = "x",
        dtype: DtypeLike = None,
        format: XFormat = "dense",
    ) -> Any:
        """Rows `ids` of the node tensor `name`, [n, *shape]. bf16 comes as raw uint16.

        Args:
            node_type: None where there is one type.
            ids: Node ids, [n].
            name: The tensor.
            dtype: None gives float32 for a narrow ``x`` and for scaled int8, else what is stored;
                ``"stored"`` always what is stored (int8 as steps of the scales), ``"f32"``,
                ``"f16"``, ``"bf16"``, or a dtype of NumPy or torch the same converted.
            format: ``"sparse"`` gives `SparseRows`, of a tensor that is stored without its zeros.

        Raises:
            NameNotFound: No such node type or tensor.
            NodeOutOfRange: An id is out of range.
            UnsupportedArgument: The tensor cannot be read as `dtype` or `format`.
        """
        owner = self.schema.node_type(node_type)
        meta = self.schema.tensor(owner, name)
        wanted = read_as(meta, dtype)
        if format == "sparse":
            if not meta.sparse or wanted not in (None, "f32"):
                raise UnsupportedArgument(
                    f"tensor {name!r} cannot be read sparse: only what is stored so can, as float32"
                )
            sparse = self.version.sparse_rows
            rows = with_room(self.version, lambda: sparse("node", owner.index, name, as_ids(ids)))
            return SparseRows(*rows, (len(rows[0]) - 1, meta.num_columns))
        return self._rows("node", owner.index, name, ids, wanted)

    def edge_features(
        self, edge_type: EdgeName, edge_ids: ArrayLike, name: str = "edge_attr"
    ) -> NDArray[Any]:
        """Rows of the edge tensor `name` by edge id, [n, *shape]."""
        owner = self.schema.edge_type(edge_type)
        self.schema.tensor(owner, name)
        return self._rows("edge", owner.index, name, edge_ids)

    def _rows(self, kind: Kind, owner: int, name: str, ids: ArrayLike, *how: Any) -> NDArray[Any]:
        make = self.version.rows
        return with_room(self.version, lambda: make(kind, owner, name, as_ids(ids), *how))

    def with_dictionary(self, node_type: str | None) -> int:
        """The index of a node type with string ids; `NameNotFound` if it has none."""
        owner = self.schema.node_type(node_type)
        if not owner.has_dictionary:
            raise NameNotFound(f"node type {owner.name!r} was imported without string ids")
        return owner.index

    def scan(self, owner: NodeType, tensor: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """The whole column of a node tensor in parts, each with the id of its first row."""
        if owner.num_nodes <= _SCAN_ROWS:
            yield 0, self.version.column("node", owner.index, tensor)
            return
        for start in range(0, owner.num_nodes, _SCAN_ROWS):
            ids = np.arange(start, min(start + _SCAN_ROWS, owner.num_nodes), dtype=np.int64)
            yield start, self.version.rows("node", owner.index, tensor, ids)


def as_ids(ids: Any) -> NDArray[np.int64]:
    """Node or edge ids as a contiguous int64 array [n]; torch tensors and lists are accepted.

    Raises:
        NodeOutOfRange: An id does not fit int64.
        TypeError: The ids are no integers.
    """
    array = np.asarray(ids)
    if array.dtype == np.int64 and array.ndim == 1 and array.flags.c_contiguous:
        return array
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == object and all(isinstance(one, int) for one in array.flat):
        raise NodeOutOfRange(f"id {max(array.flat, key=abs)} does not fit 64 bits")
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) >= 2**63:
        raise NodeOutOfRange(f"id {int(array.max())} is beyond 2^63")
    return np.ascontiguousarray(array.reshape(-1), dtype=np.int64)
