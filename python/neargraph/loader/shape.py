"""The shape of batches in PyG's terms: disjoint subgraphs, times, and the edges of a batch.

What must not live here: how neighbours are chosen. The invariant: a combination that PyG rejects,
or that the store lacks data for, raises an error with its name when a loader is created.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.schema import EdgeType, Schema

TemporalStrategy = Literal["uniform", "last"]
"""The values of `temporal_strategy=`."""
SubgraphName = Literal["directional", "bidirectional", "induced"]
"""The values of `subgraph_type=`; those of PyG's enumeration are also valid."""

EDGE_TIME = "edge_time"
"""The name of the times in neighbour lists."""
PYG_TIME = "time"
"""PyG's usual name of them, which `time_attr` also accepts."""

_EDGE_TIMES = (EDGE_TIME, PYG_TIME)
_SUBGRAPHS = ("directional", "bidirectional", "induced")
_STRATEGIES = ("uniform", "last")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of batches.

    Attributes:
        disjoint: Each seed has its own subgraph.
        times: ``"uniform"`` or ``"last"`` if sampling is by time, else None.
        node_times: The tensor with times by node type, if nodes have times; None if edges have
            them.
        subgraph: PyG's `subgraph_type`.
        columns: Batches have times and weights of edges, or edges are chosen by their times.
            Otherwise, two directions of edges can be joined if only one has times or weights.
    """

    disjoint: bool = False
    times: str | None = None
    node_times: tuple[str | None, ...] | None = None
    subgraph: str = "directional"
    # It does not affect batches, so it is not part of fingerprints.
    columns: bool = field(default=True, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether batches are drawn neighbourhoods in one shared subgraph."""
        return self == Shape()

    @property
    def words(self) -> str:
        """The shape in words, for fingerprints."""
        return "" if self.is_plain else repr(self)

    def core(
        self, schema: Schema, snapshot: _core.Snapshot, spread: _core.Spread | None = None
    ) -> _core.Shape | None:
        """Returns the shape for the compiled core; None for plain batches without `spread`.

        Raises:
            UnsupportedArgument: An edge type has no reverse for ``"bidirectional"``.
        """
        if self.is_plain and spread is None:
            return None
        both = induced = None
        count = 1 + max((t.index for t in (*schema.edge_types, *schema.reverse_types)), default=-1)
        if self.subgraph == "bidirectional":
            turned = {
                t.index: turned_round(schema, t, self.columns).index for t in schema.edge_types
            }
            both = [turned.get(index) for index in range(count)]
        if self.subgraph == "induced":
            wanted = {t.index for t in schema.edge_types}
            induced = [index in wanted for index in range(count)]
        return _core.Shape(
            snapshot,
            disjoint=self.disjoint,
            times=self.times,
            node_times=None if self.node_times is None else list(self.node_times),
            both_ways=both,
            induced=induced,
            spread=spread,
        )


def resolve_shape(
    schema: Schema,
    *,
    disjoint: bool = False,
    time_attr: str | None = None,
    temporal_strategy: str = "uniform",
    subgraph_type: Any = "directional",
    columns: bool = True,
) -> Shape:
    """Returns the shape for PyG's arguments; `columns`: batches have times and weights of edges.

    Raises:
        NameNotFound: The store has no times of this name.
        UnsupportedArgument: An argument has no effect, or the times are not valid.
        ValueError: A value is not valid.
    """
    subgraph = getattr(subgraph_type, "value", subgraph_type)
    _check_choice("subgraph_type", subgraph, _SUBGRAPHS)
    _check_choice("temporal_strategy", temporal_strategy, _STRATEGIES)
    if time_attr is None:
        if temporal_strategy != "uniform":
            raise UnsupportedArgument(
                f"temporal_strategy={temporal_strategy!r} has no effect without time_attr=; give "
                "the attribute with the times of the graph as time_attr=, or leave "
                "out temporal_strategy="
            )
        columns = columns or subgraph != "bidirectional"
        return Shape(disjoint=disjoint, subgraph=subgraph, columns=columns)
    # As in PyG, sampling by time keeps the subgraphs of seeds apart.
    node_times = _node_times(schema, time_attr)
    return Shape(disjoint=True, times=temporal_strategy, node_times=node_times, subgraph=subgraph)


def _check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is not valid: expected {', '.join(map(repr, known))}")


def _node_times(schema: Schema, name: str) -> tuple[str | None, ...] | None:
    """Returns the tensor with times by node type; None if edges have the times.

    Raises:
        NameNotFound: Neither nodes nor edges have times of this name.
        UnsupportedArgument: The times are not valid, or the name is ambiguous.
    """
    found = [
        next((t for t in owner.tensors if t.name == name), None) for owner in schema.node_types
    ]
    timed = [t for t in schema.edge_types if t.has_time]
    if any(found):
        wrong = [t for t in found if t is not None and (t.dtype != "i64" or t.num_columns != 1)]
        if wrong:
            raise UnsupportedArgument(
                f"time_attr={name!r} is not valid: expected a tensor with one int64 per node, got "
                f"dtype {wrong[0].dtype} and rows of shape {list(wrong[0].shape)}"
            )
        if timed and name in _EDGE_TIMES:
            raise UnsupportedArgument(
                f"time_attr={name!r} is ambiguous: a node tensor has this name, and edge types "
                f"{[t.triple for t in timed]} also have times; store the times of the nodes "
                "under another name"
            )
        return tuple(None if t is None else name for t in found)
    of_nodes = sorted({t.name for owner in schema.node_types for t in owner.tensors})
    of_edges = sorted({t.name for owner in schema.edge_types for t in owner.tensors})
    if name in _EDGE_TIMES and timed and name in of_edges:
        raise UnsupportedArgument(
            f"time_attr={name!r} is the name of an edge tensor, which sampling does not use as "
            f"times; to sample by the times of edge types {[t.triple for t in timed]}, give "
            f"time_attr={EDGE_TIME if name == PYG_TIME else PYG_TIME!r}"
        )
    if name in _EDGE_TIMES and timed:
        return None
    kept = f"; edge types with times: {[t.triple for t in timed]}" if timed else ""
    raise NameNotFound(
        f"time_attr={name!r} is neither a node tensor nor the time of edges (node tensors: "
        f"{of_nodes}; edge tensors: {of_edges}{kept}); to sample by times of edges, import the "
        "edges with times (in PyG data: the attribute 'edge_time' or 'time', with one whole "
        "number per edge)"
    )


def turned_round(schema: Schema, edge_type: EdgeType, columns: bool = True) -> EdgeType:
    """Returns the edge type of the reverse of edges of `edge_type`.

    It is the first of these that exists: the type whose name says so (`reverse_by_name`); the type
    itself, if it joins a node type with itself; the only type from its destination to its source,
    unless that is by name the reverse of a third type.

    Raises:
        UnsupportedArgument: It does not exist, or `columns` is True and only one of the two has
            times or weights.
    """
    found = reverse_by_name(schema, edge_type)
    if found is None:
        found = edge_type if edge_type.source == edge_type.destination else None
    if found is None:
        found = _only_other_way(schema, edge_type)
    if not columns:
        return found
    for what, one, other in (
        ("times", edge_type.has_time, found.has_time),
        ("weights", edge_type.has_weight, found.has_weight),
    ):
        if one != other:
            having, lacking = (edge_type, found) if one else (found, edge_type)
            raise UnsupportedArgument(
                f"edges of {having.triple!r} have {what}, but edges of the reverse type "
                f"{lacking.triple!r} have none, so subgraph_type='bidirectional' cannot join "
                f"them; import both types with {what}, or use "
                "subgraph_type='directional'"
            )
    return found


def reverse_by_name(schema: Schema, edge_type: EdgeType) -> EdgeType | None:
    """Returns the reverse of `edge_type` by name, or None.

    Its relation is ``rev_`` and the relation of `edge_type`, or that relation without its ``rev_``,
    or the same relation. The result is None if by this rule it is the reverse of a third type.
    """
    found = _named_other(schema, edge_type)
    mutual = found is not None and _named_other(schema, found) == edge_type
    return found if mutual else None


def _named_other(schema: Schema, edge_type: EdgeType) -> EdgeType | None:
    relation, others = edge_type.relation, _other_way(schema, edge_type)
    for name in (f"rev_{relation}", relation.removeprefix("rev_")):
        for other in others:
            if other.relation == name:
                return other
    return None


def _other_way(schema: Schema, edge_type: EdgeType) -> list[EdgeType]:
    ends = (edge_type.destination, edge_type.source)
    return [
        other
        for other in schema.edge_types
        if (other.source, other.destination) == ends and other.index != edge_type.index
    ]


def _only_other_way(schema: Schema, edge_type: EdgeType) -> EdgeType:
    others = _other_way(schema, edge_type)
    named = reverse_by_name(schema, others[0]) if len(others) == 1 else None
    if len(others) == 1 and named is None:
        return others[0]
    ends = f"from {edge_type.destination!r} to {edge_type.source!r}"
    there = f"this store has {len(others)} edge types {ends}"
    if named is not None:
        there = f"{others[0].triple!r} is the reverse of {named.triple!r}"
    raise UnsupportedArgument(
        "subgraph_type='bidirectional' needs exactly one edge type that is the reverse of "
        f"{edge_type.triple!r}, but {there}; import an edge type 'rev_{edge_type.relation}' and "
        "give fanouts for this type, or use subgraph_type='directional'"
    )
