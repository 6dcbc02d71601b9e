"""The edge types that a run samples: those of the graph, and reverses that make it bipartite.

An import of users and items has one direction only, so users would receive no messages. If the
import kept the reverse (``neargraph import --reverse``), a run passes messages in both directions.
The invariant: a stored reverse is sampled only in stores of two node types that it makes bipartite.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from neargraph.nn import InDegrees
from neargraph.nn.models import kind_of
from neargraph.schema import EdgeTriple, EdgeType, Schema
from neargraph.store import Store


def both_ways(schema: Schema) -> Schema:
    """Returns the schema with stored reverses as edge types if that makes it bipartite, else the
    schema unchanged."""
    if kind_of(schema) == "bipartite":
        return schema
    both = schema.with_reverse([t.index for t in schema.reverse_types])
    return both if kind_of(both) == "bipartite" else schema


def kept_reverses(schema: Schema) -> list[EdgeType]:
    """Returns the stored reverses that `both_ways` adds."""
    return [t for t in both_ways(schema).edge_types if t.is_reverse_index]


def lead_one_way(schema: Schema) -> bool:
    """Whether all edges lead from one of two node types to the other, without reverses."""
    crosses = all(t.source != t.destination for t in schema.edge_types)
    return len(schema.node_types) == 2 and crosses and kind_of(schema) != "bipartite"


def fanouts_by_type(schema: Schema, fanouts: Sequence[int]) -> Any:
    """Returns the fanouts for loaders: by edge type if stored reverses are sampled."""
    if not kept_reverses(schema):
        return list(fanouts)
    return {t.triple: list(fanouts) for t in both_ways(schema).edge_types}


class DegreesBothWays:
    """In-degrees by edge type, as from `InDegrees`, including stored reverses.

    Args:
        store: The open store.
        loops: As for `InDegrees`.
    """

    def __init__(self, store: Store, *, loops: bool) -> None:
        types = both_ways(store.schema).edge_types
        self._each = [InDegrees(store, t.triple, loops=loops) for t in types]

    def __call__(self, n_id: Mapping[str, Tensor]) -> dict[EdgeTriple, Tensor]:
        """Returns the degrees of the destinations of each edge type, float32 [n]."""
        return {triple: row for one in self._each for triple, row in one(n_id).items()}
