"""Reads from a store: by id, by name, by column.

`Reader` is common to stores and snapshots. `Version` reads one version; subclasses decide which
version, and in which process. This module does not depend on the open store, PyG or loaders, which
read through it. Invariant: each call reads one version.
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

# Rows that a scan reads at once, so that it needs memory only for its result.
_SCAN_ROWS = 1 << 20

EdgeName = str | Sequence[str] | None


class Neighbors(NamedTuple):
    """In-neighbours of n nodes in the order of their lists, as CSC.

    The neighbours of node k of the call are ``indices[indptr[k]:indptr[k + 1]]``. `edge_ids`,
    `times` and `weights` are parallel to `indices`. Each is None if the edge type does not store
    it.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    edge_ids: NDArray[np.int64] | None
    times: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None


class Reader(ABC):
    """The properties and methods that stores and snapshots share."""

    @abstractmethod
    def snapshot(self) -> "Version":
        """Returns the version to read."""

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
        """The edge types as triples (source, relation, destination)."""
        return [t.triple for t in self.schema.edge_types]

    @property
    def num_nodes(self) -> int:
        """Number of node ids of all types, including the ids of deleted nodes.

        For one type, use ``store.schema.node_type("paper").num_nodes``.
        """
        return sum(t.num_nodes for t in self.schema.node_types)

    @property
    def num_nodes_live(self) -> int:
        """Number of nodes of all types, without deleted nodes."""
        return sum(t.num_nodes_live for t in self.schema.node_types)

    @property
    def num_edges(self) -> int:
        """Number of entries in the lists of all edge types.

        An undirected edge counts twice. Stored reverses do not count.
        """
        return sum(t.num_edges for t in self.schema.edge_types)

    def metadata(self) -> tuple[list[str], list[EdgeTriple]]:
        """Returns (node types, edge types), like `torch_geometric.data.HeteroData.metadata`."""
        return self.node_types, self.edge_types

    @property
    def labels(self) -> NDArray[Any]:
        """The whole tensor ``y`` of the only node type that has one, [num_nodes, ...].

        Raises:
            NameNotFound: No node type has a tensor ``y``, or several have one.
        """
        snap = self.snapshot()
        owners = [t for t in snap.schema.node_types if any(m.name == "y" for m in t.tensors)]
        if len(owners) != 1:
            if not owners:
                raise NameNotFound(
                    "store.labels requires a tensor 'y', but no node type of this store has one"
                )
            names = ", ".join(repr(t.name) for t in owners)
            raise NameNotFound(
                "store.labels requires exactly one node type with a tensor 'y', but this store "
                f"has {len(owners)} ({names}); use store.column('y', node_type)"
            )
        return snap.column("y", owners[0].name)

    def column(
        self, name: str, node_type: str | None = None, dtype: DtypeLike = None
    ) -> NDArray[Any]:
        """Returns a whole node tensor, [num_nodes, *shape].

        The memory budget does not cover the array. `dtype` is as in `Snapshot.features`.
        """
        snap = self.snapshot()
        owner = snap.schema.node_type(node_type)
        wanted = read_as(snap.schema.tensor(owner, name), dtype)
        return snap.version.column("node", owner.index, name, wanted)

    def split(self, name: str, node_type: str | None = None, index: int = 0) -> NDArray[np.int64]:
        """Returns the node ids of a split in ascending order, [n], without deleted nodes.

        Args:
            name: ``"train"``, ``"val"`` or ``"test"``.
            node_type: May be left out if one node type exists, or one has splits.
            index: Number of the split if there are several (columns of PyG's [N, k] masks).

        Raises:
            NameNotFound: The store has no such split.
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
        """Returns a split as a boolean mask, [num_nodes], or [num_nodes, k] for k splits.

        Deleted nodes are in no split.
        """
        snap = self.snapshot()
        owner = split_owner(snap.schema, node_type)
        mask = split_mask(owner, name, lambda tensor: snap.column(tensor, owner.name))
        mask[snap.dead_nodes(owner.name)] = False
        return mask

    def lookup(self, keys: Sequence[str], node_type: str | None = None) -> NDArray[np.int64]:
        """Returns the node ids of string ids, [n]; -1 for a string that the store does not have."""
        snap = self.snapshot()
        return snap.version.lookup(snap.with_dictionary(node_type), list(keys))

    def names(self, ids: ArrayLike, node_type: str | None = None) -> list[str]:
        """Returns the string ids of node ids."""
        snap = self.snapshot()
        return snap.version.names(snap.with_dictionary(node_type), as_ids(ids))


class Version(Reader):
    """One version of a store. Each call reads its rows or lists together; ids may repeat.

    Attributes:
        path: The store directory, absolute.
        lsn: The number of the last commit in this version; 0 if there is none.
        fingerprint: A digest of the content. Versions with equal fingerprints give equal batches.
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
        """Ensures that other processes can open this version."""

    def dead_nodes(self, node_type: str | None = None) -> NDArray[np.int64]:
        """Returns the ids of deleted nodes in ascending order, [n]."""
        owner = self.schema.node_type(node_type)
        if owner.num_nodes_live == owner.num_nodes:
            return np.empty(0, np.int64)
        return self.version.dead_nodes(owner.index)

    def neighbors(self, edge_type: EdgeName, ids: ArrayLike) -> Neighbors:
        """Returns the in-neighbours of `ids` under `edge_type`, in the order of their lists.

        Args:
            edge_type: The triple, or any of its short forms; None if there is one edge type.
            ids: Ids of destination nodes, [n].

        Raises:
            NodeOutOfRange: An id is negative, or not below the number of destination nodes.
            StoreDamaged: A page of the lists fails its checksum.

        Example:
            >>> indptr, indices, *_ = store.snapshot().neighbors(("paper", "cites", "paper"), [7])
        """
        index = self.schema.edge_type(edge_type).index
        found = with_room(self.version, lambda: self.version.neighbors(index, as_ids(ids)))
        return Neighbors(*found)

    def degrees(self, edge_type: EdgeName, ids: ArrayLike) -> NDArray[np.int64]:
        """Returns the in-degrees of `ids`, [n], without reading the lists."""
        return self.version.degrees(self.schema.edge_type(edge_type).index, as_ids(ids))

    def features(
        self,
        node_type: str | None,
        ids: ArrayLike,
        name: str = "x",
        dtype: DtypeLike = None,
        format: XFormat = "dense",
    ) -> Any:
        """Returns rows `ids` of the node tensor `name`, [n, *shape].

        Args:
            node_type: The node type; None if there is one.
            ids: Node ids, [n].
            name: The name of the tensor.
            dtype: None: float32 for an ``x`` of f16 or bf16 and for scaled int8, otherwise the
                stored dtype. ``"stored"``: the stored dtype; scaled int8 as steps of its scales.
                ``"f32"``, ``"f16"``, ``"bf16"``, or a dtype of NumPy or torch: rows are converted.
                Rows of bf16 arrive as raw uint16.
            format: ``"dense"``, or ``"sparse"`` for `SparseRows` of a tensor that is stored sparse.

        Raises:
            NameNotFound: The store has no such node type or tensor.
            NodeOutOfRange: An id is negative, or not below the number of nodes.
            UnsupportedArgument: The tensor cannot be read as `dtype` or `format`.
        """
        owner = self.schema.node_type(node_type)
        meta = self.schema.tensor(owner, name)
        wanted = read_as(meta, dtype)
        if format == "sparse":
            if not meta.sparse or wanted not in (None, "f32"):
                raise UnsupportedArgument(
                    f"tensor {name!r} cannot be read as sparse rows; format='sparse' is only for "
                    "tensors that are stored as sparse rows, with dtype float32"
                )
            sparse = self.version.sparse_rows
            rows = with_room(self.version, lambda: sparse("node", owner.index, name, as_ids(ids)))
            return SparseRows(*rows, (len(rows[0]) - 1, meta.num_columns))
        return self._rows("node", owner.index, name, ids, wanted)

    def edge_features(
        self, edge_type: EdgeName, edge_ids: ArrayLike, name: str = "edge_attr"
    ) -> NDArray[Any]:
        """Returns rows of the edge tensor `name` by edge id, [n, *shape]."""
        owner = self.schema.edge_type(edge_type)
        self.schema.tensor(owner, name)
        return self._rows("edge", owner.index, name, edge_ids)

    def _rows(self, kind: Kind, owner: int, name: str, ids: ArrayLike, *how: Any) -> NDArray[Any]:
        make = self.version.rows
        return with_room(self.version, lambda: make(kind, owner, name, as_ids(ids), *how))

    def with_dictionary(self, node_type: str | None) -> int:
        """Returns the index of a node type with string ids.

        Raises:
            NameNotFound: The node type has no string ids.
        """
        owner = self.schema.node_type(node_type)
        if not owner.has_dictionary:
            raise NameNotFound(
                f"node type {owner.name!r} was imported without string ids; use its integer ids"
            )
        return owner.index

    def scan(self, owner: NodeType, tensor: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yields a whole node tensor in parts, each with the id of its first row."""
        if owner.num_nodes <= _SCAN_ROWS:
            yield 0, self.version.column("node", owner.index, tensor)
            return
        for start in range(0, owner.num_nodes, _SCAN_ROWS):
            ids = np.arange(start, min(start + _SCAN_ROWS, owner.num_nodes), dtype=np.int64)
            yield start, self.version.rows("node", owner.index, tensor, ids)


def as_ids(ids: Any) -> NDArray[np.int64]:
    """Converts node or edge ids to a contiguous int64 array, [n].

    Args:
        ids: A NumPy array, a torch tensor or a list of integers.

    Raises:
        NodeOutOfRange: An id does not fit in int64.
        TypeError: The ids are not integers.
    """
    array = np.asarray(ids)
    if array.dtype == np.int64 and array.ndim == 1 and array.flags.c_contiguous:
        return array
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == object and all(isinstance(one, int) for one in array.flat):
        raise NodeOutOfRange(f"id {max(array.flat, key=abs)} does not fit in 64 bits")
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, got {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) >= 2**63:
        raise NodeOutOfRange(f"id {int(array.max())} does not fit in 64 bits")
    return np.ascontiguousarray(array.reshape(-1), dtype=np.int64)
