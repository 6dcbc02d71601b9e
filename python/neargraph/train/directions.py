"""Which edge types a run samples: those of the graph, and the reverses that make it bipartite.

An import of users and items has one direction alone, so that users would get no message. Where it
kept the other one (``neargraph import --reverse``), a run passes messages both ways. The invariant:
a kept reverse is sampled in stores of two node types that it makes bipartite, and nowhere else.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from neargraph.nn import InDegrees
from neargraph.nn.models import kind_of
from neargraph.schema import EdgeTriple, EdgeType, Schema
from neargraph.store import Store


def both_ways(schema: Schema) -> Schema:
    """The schema with all kept reverses among its edge types where that makes it bipartite; else
    the schema as it is."""
    if kind_of(schema) == "bipartite":
        return schema
    both = schema.with_reverse([t.index for t in schema.reverse_types])
    return both if kind_of(both) == "bipartite" else schema


def kept_reverses(schema: Schema) -> list[EdgeType]:
    """The kept reverses that `both_ways` adds."""
    return [t for t in both_ways(schema).edge_types if t.is_reverse_index]


def lead_one_way(schema: Schema) -> bool:
    """Whether edges join two node types in one direction alone, so that reverses are missing."""
    crosses = all(t.source != t.destination for t in schema.edge_types)
    return len(schema.node_types) == 2 and crosses and kind_of(schema) != "bipartite"


def fanouts_by_type(schema: Schema, fanouts: Sequence[int]) -> Any:
    """Fanouts as loaders take them; by edge type where kept reverses have to be named."""
    if not kept_reverses(schema):
        return list(fanouts)
    return {t.triple: list(fanouts) for t in both_ways(schema).edge_types}


class DegreesBothWays:
    """In-degrees by edge type as of `InDegrees`, of kept reverses, too.

    Args:
        store: The open store.
        loops: As of `InDegrees`.
    """

    def __init__(self, store: Store, *, loops: bool) -> None:
        types = both_ways(store.schema).edge_types
        self._each = [InDegrees(store, t.triple, loops=loops) for t in types]

    def __call__(self, n_id: Mapping[str, Tensor]) -> dict[EdgeTriple, Tensor]:
        """The degrees of the destinations of each edge type, float32 [n of the node type]."""
        return {triple: row for one in self._each for triple, row in one(n_id).items()}
