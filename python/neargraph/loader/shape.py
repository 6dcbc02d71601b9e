"""The shape of batches in PyG's words: disjoint subgraphs, times, and which edges a batch has.

What must not live here: how neighbours are chosen. The invariant: a combination that PyG refuses,
or that the store has nothing for, is refused by name when a loader is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from neargraph import _core
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.schema import EdgeType, Schema

TemporalStrategy = Literal["uniform", "last"]
"""`temporal_strategy=` of loaders and samplers."""
SubgraphName = Literal["directional", "bidirectional", "induced"]
"""`subgraph_type=` of loaders and samplers; PyG's enumeration is taken as well."""

EDGE_TIME = "edge_time"
"""What batches call the time that neighbour lists carry."""
PYG_TIME = "time"
"""PyG's usual name of it, which `time_attr` takes as well."""

_EDGE_TIMES = (EDGE_TIME, PYG_TIME)
_SUBGRAPHS = ("directional", "bidirectional", "induced")
_STRATEGIES = ("uniform", "last")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a batch has beside the nodes that its hops reach.

    Attributes:
        disjoint: Each seed has a subgraph of its own.
        times: ``"uniform"`` or ``"last"`` where sampling looks at times, else None.
        node_times: By node type, the tensor of its times, where nodes have them; None where edges
            do.
        subgraph: PyG's `subgraph_type`.
        columns: Batches carry times and weights of edges, or edges are chosen by their times. Else
            two directions of which one alone has them can be joined.
    """

    disjoint: bool = False
    times: str | None = None
    node_times: tuple[str | None, ...] | None = None
    subgraph: str = "directional"
    # It shapes no batch, so fingerprints do not have it.
    columns: bool = field(default=True, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether batches are neighbourhoods that share one subgraph, as drawn."""
        return self == Shape()

    @property
    def words(self) -> str:
        """The same in words, for fingerprints."""
        return "" if self.is_plain else repr(self)

    def core(
        self, schema: Schema, snapshot: _core.Snapshot, spread: _core.Spread | None = None
    ) -> _core.Shape | None:
        """The same for the compiled core, of batches that grow by `spread`; None for plain ones.

        Raises:
            UnsupportedArgument: Edges of a type cannot be turned round.
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
    """What PyG's arguments ask for; `columns` says whether batches carry times and weights.

    Raises:
        NameNotFound: Nothing in the store has times of that name.
        UnsupportedArgument: An argument that has no effect.
        ValueError: A value that PyG does not take.
    """
    subgraph = getattr(subgraph_type, "value", subgraph_type)
    _check_choice("subgraph_type", subgraph, _SUBGRAPHS)
    _check_choice("temporal_strategy", temporal_strategy, _STRATEGIES)
    if time_attr is None:
        if temporal_strategy != "uniform":
            raise UnsupportedArgument(
                f"temporal_strategy={temporal_strategy!r} has no effect without time_attr; name "
                "the attribute that holds the times, or leave it out"
            )
        columns = columns or subgraph != "bidirectional"
        return Shape(disjoint=disjoint, subgraph=subgraph, columns=columns)
    # As in PyG, sampling by time keeps the subgraphs of seeds apart.
    node_times = _node_times(schema, time_attr)
    return Shape(disjoint=True, times=temporal_strategy, node_times=node_times, subgraph=subgraph)


def _check_choice(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, known))}")


def _node_times(schema: Schema, name: str) -> tuple[str | None, ...] | None:
    """By node type, whether a tensor `name` holds its times; None if edges have the times."""
    found = [
        next((t for t in owner.tensors if t.name == name), None) for owner in schema.node_types
    ]
    timed = [t for t in schema.edge_types if t.has_time]
    if any(found):
        wrong = [t for t in found if t is not None and (t.dtype != "i64" or t.num_columns != 1)]
        if wrong:
            raise UnsupportedArgument(
                f"time_attr={name!r}: times are one int64 for each node, and this tensor has "
                f"dtype {wrong[0].dtype} and rows of shape {list(wrong[0].shape)}"
            )
        if timed and name in _EDGE_TIMES:
            raise UnsupportedArgument(
                f"time_attr={name!r} is the name of a node tensor, and edge types "
                f"{[t.triple for t in timed]} have times, too; store the times of the nodes under "
                "another name"
            )
        return tuple(None if t is None else name for t in found)
    of_nodes = sorted({t.name for owner in schema.node_types for t in owner.tensors})
    of_edges = sorted({t.name for owner in schema.edge_types for t in owner.tensors})
    if name in _EDGE_TIMES and timed and name in of_edges:
        raise UnsupportedArgument(
            f"time_attr={name!r} is the name of an edge tensor, which edges are not sampled by, "
            f"and edge types {[t.triple for t in timed]} have a time beside it; to sample by that "
            f"give time_attr={EDGE_TIME if name == PYG_TIME else PYG_TIME!r}"
        )
    if name in _EDGE_TIMES and timed:
        return None
    kept = f"; edge types with times: {[t.triple for t in timed]}" if timed else ""
    raise NameNotFound(
        f"time_attr={name!r} is neither a node tensor nor the time of edges (node tensors: "
        f"{of_nodes}; edge tensors: {of_edges}{kept}). Edges have a time if they are imported with "
        "one: from PyG data the attribute edge_time or time, one whole number for each edge"
    )


def turned_round(schema: Schema, edge_type: EdgeType, columns: bool = True) -> EdgeType:
    """The edge type that the edges of `edge_type` belong to in the other direction.

    That is ``rev_`` of its relation where there is one, the type itself where it joins a node type
    with itself, and else the only type that joins the two the other way, unless its name says that
    it is the other direction of a third type.

    Raises:
        UnsupportedArgument: There is none; or `columns` matter, and edges have times or weights in
            one direction alone.
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
                f"subgraph_type='bidirectional' joins {having.triple!r}, whose edges have {what}, "
                f"with {lacking.triple!r}, whose edges have none; import both with their {what}, "
                "or use subgraph_type='directional'"
            )
    return found


def reverse_by_name(schema: Schema, edge_type: EdgeType) -> EdgeType | None:
    """The other direction of `edge_type` as names say it: ``rev_`` and its relation, or the
    relation behind its own ``rev_``, or the same relation; None where there is none, or where that
    is by preference the other direction of a third type."""
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
    there = f"this store has {len(others)} from {edge_type.destination!r} to {edge_type.source!r}"
    if named is not None:
        there = f"{others[0].triple!r} is the other direction of {named.triple!r}"
    raise UnsupportedArgument(
        f"subgraph_type='bidirectional' needs an edge type that holds {edge_type.triple!r} the "
        f"other way, and {there}; import 'rev_{edge_type.relation}' and give it fanouts, or use "
        "subgraph_type='directional'"
    )
