"""The schema of a store: node types, edge types and tensors, parsed from the catalog.

Only this module resolves names to ids. An edge type is the triple (source, relation,
destination); a name such as ``"a__to__b"`` or a pair is accepted wherever it is unambiguous.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from neargraph.exceptions import NameNotFound

EdgeTriple = tuple[str, str, str]
Kind = Literal["node", "edge"]

# NumPy has no bfloat16: such columns arrive as the raw 16 bits.
NUMPY_OF = {
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "bool": np.bool_,
}


@dataclass(frozen=True)
class TensorMeta:
    """One tensor. `shape` is the shape of a row, so the whole tensor is [num_rows, *shape].

    `dtype` is the stored dtype. `read_dtype` is the default dtype for reading: f32 for an ``x`` of
    f16 or bf16 and for int8 with a scale for each column (`scaled`), otherwise `dtype`. If `sparse`
    is true, rows are stored without their zeros. `class_names` are the names of the integers
    0, 1, 2, ..., if known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_rows: int
    mask_width: int | None = None
    read_dtype: str = ""
    scaled: bool = False
    sparse: bool = False
    class_names: tuple[str, ...] = ()

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The stored dtype in NumPy; uint16 for bf16."""
        return np.dtype(NUMPY_OF[self.dtype])

    @property
    def num_columns(self) -> int:
        """Number of elements of a row."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_number(self) -> bool:
        """Whether the elements are floats that can be read as f32, f16 and bf16."""
        return self.scaled or self.dtype in ("f32", "f16", "bf16")

    @property
    def is_split(self) -> bool:
        """Whether this is one of the u8 tensors ``split_0``, ``split_1``, ... of splits."""
        return self.name.startswith("split_") and self.name[6:].isdigit()


@dataclass(frozen=True)
class NodeType:
    """One node type. Ids are 0 .. num_nodes - 1; `num_nodes_live` counts nodes not deleted."""

    kind: ClassVar[Kind] = "node"
    index: int
    name: str
    num_nodes: int
    num_nodes_live: int
    has_dictionary: bool
    has_order: bool
    tensors: tuple[TensorMeta, ...]


@dataclass(frozen=True)
class EdgeType:
    """One edge type. Sampling goes from `destination` to `source`."""

    kind: ClassVar[Kind] = "edge"
    index: int
    source: str
    relation: str
    destination: str
    source_index: int
    destination_index: int
    num_edges: int
    num_edge_ids: int
    undirected: bool
    is_reverse_index: bool
    has_edge_ids: bool
    has_time: bool
    has_weight: bool
    tensors: tuple[TensorMeta, ...]

    @property
    def triple(self) -> EdgeTriple:
        """(source, relation, destination), as in PyG."""
        return (self.source, self.relation, self.destination)


T = TypeVar("T", TensorMeta, NodeType, EdgeType)


@dataclass(frozen=True)
class Schema:
    """All types of one version, in the order of their ids.

    `edge_types` are the edge types of the graph. `reverse_types` are the reverses that the import
    kept as indexes. Their edges are neither sampled nor counted unless the type is named. Training
    names those that make a store bipartite. `EdgeType.index` numbers both kinds together, so it is
    not a position in either tuple.
    """

    node_types: tuple[NodeType, ...]
    edge_types: tuple[EdgeType, ...]
    reverse_types: tuple[EdgeType, ...]
    raw: dict[str, Any]

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and at most one edge type.

        Batches are then `Data`, otherwise `HeteroData`.
        """
        return len(self.node_types) == 1 and len(self.edge_types) <= 1

    @property
    def num_tensors(self) -> int:
        """Number of tensors of all types. It only grows while a store is open."""
        owners: list[NodeType | EdgeType] = [*self.node_types, *self.edge_types]
        owners += self.reverse_types
        return sum(len(owner.tensors) for owner in owners)

    def edge_type_at(self, index: int) -> EdgeType:
        """Returns the edge type with this `EdgeType.index`."""
        return next(t for t in (*self.edge_types, *self.reverse_types) if t.index == index)

    def with_reverse(self, wanted: Collection[int]) -> "Schema":
        """Returns this schema with the reverse types of these indexes among the edge types."""
        named = tuple(t for t in self.reverse_types if t.index in wanted)
        kept = tuple(t for t in self.reverse_types if t.index not in wanted)
        edge_types = sorted((*self.edge_types, *named), key=lambda t: t.index)
        return replace(self, edge_types=tuple(edge_types), reverse_types=kept)

    @property
    def names(self) -> str:
        """The names of all types, for messages."""
        types = [t.name for t in self.node_types] + [t.triple for t in self.edge_types]
        return ", ".join(map(repr, types))

    def node_type(self, name: str | None = None) -> NodeType:
        """Returns the node type `name`, or the only one if `name` is None.

        Raises:
            NameNotFound: The store has no such node type, or has several and none is named.
        """
        if name is None and len(self.node_types) == 1:
            return self.node_types[0]
        for node_type in self.node_types:
            if node_type.name == name:
                return node_type
        known = ", ".join(repr(t.name) for t in self.node_types)
        what = "a node type must be named" if name is None else f"no node type {name!r}"
        raise NameNotFound(f"{what}; this store has {known}")

    def edge_type(self, name: str | Sequence[str] | None = None) -> EdgeType:
        """Returns the edge type `name`, or the only one if `name` is None.

        A name is a triple, a pair (source, destination), ``"a__to__b"``, or the relation alone. A
        stored reverse is found if no other type has the name.

        Raises:
            NameNotFound: No edge type or several edge types have this name.
        """
        if name is None:
            found = list(self.edge_types)
        else:
            found = _named(self.edge_types, name) or _named(self.reverse_types, name)
        if len(found) == 1:
            return found[0]
        known = ", ".join(repr(t.triple) for t in self.edge_types)
        if name is None:
            what = "an edge type must be named"
        elif found:
            what = f"{name!r} is ambiguous: it names {len(found)} edge types"
        else:
            what = f"no edge type {name!r}"
        raise NameNotFound(f"{what}; this store has {known or 'none'}")

    @staticmethod
    def tensor(owner: NodeType | EdgeType, name: str) -> TensorMeta:
        """Returns the tensor `name` of a node or edge type.

        Raises:
            NameNotFound: The type has no such tensor.
        """
        for tensor in owner.tensors:
            if tensor.name == name:
                return tensor
        of = owner.name if isinstance(owner, NodeType) else owner.triple
        known = ", ".join(repr(t.name) for t in owner.tensors) or "none"
        kind = "node" if isinstance(owner, NodeType) else "edge"
        raise NameNotFound(f"{kind} type {of!r} has no tensor {name!r}; its tensors: {known}")


def _named(types: tuple[EdgeType, ...], name: str | Sequence[str]) -> list[EdgeType]:
    parts = tuple(name.split("__")) if isinstance(name, str) else tuple(name)
    found = [t for t in types if _matches(t, parts)]
    if not found and isinstance(name, str):
        found = [t for t in types if "__".join(t.triple) == name]
    return found


def _matches(edge_type: EdgeType, parts: tuple[str, ...]) -> bool:
    if len(parts) == 3:
        return edge_type.triple == parts
    if len(parts) == 2:
        return (edge_type.source, edge_type.destination) == parts
    return parts == (edge_type.relation,)


def parse_catalog(text: str) -> Schema:
    """Parses the catalog as JSON. The compiled core has validated it."""
    raw = json.loads(text)
    node_types = tuple(
        _made(NodeType, t, index=i, tensors=_tensors(t)) for i, t in enumerate(raw["node_types"])
    )
    edge_types = [
        _made(
            EdgeType,
            t,
            index=i,
            source_index=t["source_id"],
            destination_index=t["destination_id"],
            tensors=_tensors(t),
        )
        for i, t in enumerate(raw["edge_types"])
    ]
    return Schema(
        node_types,
        tuple(t for t in edge_types if not t.is_reverse_index),
        tuple(t for t in edge_types if t.is_reverse_index),
        raw,
    )


def _tensors(entry: dict[str, Any]) -> tuple[TensorMeta, ...]:
    return tuple(
        _made(TensorMeta, t, shape=tuple(t["shape"]), class_names=tuple(t.get("class_names", ())))
        for t in entry["tensors"]
    )


def _made(kind: type[T], entry: dict[str, Any], **more: Any) -> T:
    """Builds a `kind` from the fields of a catalog entry that it has, and from `more`."""
    return kind(**{f.name: entry[f.name] for f in fields(kind) if f.name in entry} | more)
