"""What a store holds: node types, edge types and their tensors, parsed from the catalog.

Names are resolved to ids here and nowhere else. An edge type is the triple (source, relation,
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
    """One tensor: `shape` is that of a row, so the whole tensor is [num_rows, *shape].

    `dtype` is what is stored, `read_dtype` what rows are read as unless another is asked for: f32
    for ``x`` of f16 or bf16, and for int8 that stands for floats by a scale for each column
    (`scaled`); else the same. Rows may be stored without their zeros (`sparse`). `class_names` says
    what the integers 0, 1, 2, ... stand for, where that is known.
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
        """What is stored, as NumPy has it; bf16 is uint16 there."""
        return np.dtype(NUMPY_OF[self.dtype])

    @property
    def num_columns(self) -> int:
        """Elements of a row, dimensions flattened."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_number(self) -> bool:
        """Whether it stands for floats that can be read as f32, f16 and bf16."""
        return self.scaled or self.dtype in ("f32", "f16", "bf16")

    @property
    def is_split(self) -> bool:
        """Whether this is one of the u8 columns ``split_0``, ``split_1``, ..."""
        return self.name.startswith("split_") and self.name[6:].isdigit()


@dataclass(frozen=True)
class NodeType:
    """One node type; ids are 0 .. num_nodes - 1, of which `num_nodes_live` were not deleted."""

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
    """One edge type; sampling walks from `destination` to `source`."""

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
        """(source, relation, destination), PyG's edge type."""
        return (self.source, self.relation, self.destination)


T = TypeVar("T", TensorMeta, NodeType, EdgeType)


@dataclass(frozen=True)
class Schema:
    """All types of one snapshot, in the order of their ids.

    `edge_types` are those of the graph; `reverse_types` are the reverses that the import kept,
    which are indexes: nothing samples them or counts their edges unless they are named; training
    names those that make a store bipartite. An `EdgeType.index` counts both, so it is not a place
    in either tuple.
    """

    node_types: tuple[NodeType, ...]
    edge_types: tuple[EdgeType, ...]
    reverse_types: tuple[EdgeType, ...]
    raw: dict[str, Any]

    @property
    def is_homogeneous(self) -> bool:
        """One node type and at most one edge type: batches are `Data`, not `HeteroData`."""
        return len(self.node_types) == 1 and len(self.edge_types) <= 1

    @property
    def num_tensors(self) -> int:
        """Tensors of all types, which only grow in number while a store is open."""
        owners: list[NodeType | EdgeType] = [*self.node_types, *self.edge_types]
        owners += self.reverse_types
        return sum(len(owner.tensors) for owner in owners)

    def edge_type_at(self, index: int) -> EdgeType:
        """The edge type whose index is `index`."""
        return next(t for t in (*self.edge_types, *self.reverse_types) if t.index == index)

    def with_reverse(self, wanted: Collection[int]) -> "Schema":
        """The same with those reverse types among the edge types whose indices are `wanted`."""
        named = tuple(t for t in self.reverse_types if t.index in wanted)
        kept = tuple(t for t in self.reverse_types if t.index not in wanted)
        edge_types = sorted((*self.edge_types, *named), key=lambda t: t.index)
        return replace(self, edge_types=tuple(edge_types), reverse_types=kept)

    @property
    def names(self) -> str:
        """All types, for messages."""
        types = [t.name for t in self.node_types] + [t.triple for t in self.edge_types]
        return ", ".join(map(repr, types))

    def node_type(self, name: str | None = None) -> NodeType:
        """The node type called `name`; without a name, the only one there is."""
        if name is None and len(self.node_types) == 1:
            return self.node_types[0]
        for node_type in self.node_types:
            if node_type.name == name:
                return node_type
        known = ", ".join(repr(t.name) for t in self.node_types)
        what = "a node type must be named" if name is None else f"no node type {name!r}"
        raise NameNotFound(f"{what}; this store has {known}")

    def edge_type(self, name: str | Sequence[str] | None = None) -> EdgeType:
        """The edge type called `name`: a triple, a pair of node types, ``"a__to__b"`` or the
        relation alone; without a name, the only one there is. A reverse that is kept is found where
        no other type has the name."""
        if name is None:
            found = list(self.edge_types)
        else:
            found = _named(self.edge_types, name) or _named(self.reverse_types, name)
        if len(found) == 1:
            return found[0]
        known = ", ".join(repr(t.triple) for t in self.edge_types)
        if name is None:
            what = "an edge type must be named"
        else:
            what = f"{name!r} names {len(found) or 'no'} edge type{'s' if found else ''}"
        raise NameNotFound(f"{what}; this store has {known or 'none'}")

    @staticmethod
    def tensor(owner: NodeType | EdgeType, name: str) -> TensorMeta:
        """The tensor `name` of a node or edge type."""
        for tensor in owner.tensors:
            if tensor.name == name:
                return tensor
        of = owner.name if isinstance(owner, NodeType) else owner.triple
        known = ", ".join(repr(t.name) for t in owner.tensors) or "none"
        raise NameNotFound(f"{of!r} has no tensor {name!r}; it has {known}")


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
    """Parses the JSON that the compiled store gives; it is checked there already."""
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
    """What an entry of the catalog stands for: fields of its names, and those of `more`."""
    return kind(**{f.name: entry[f.name] for f in fields(kind) if f.name in entry} | more)
