"""Fanouts as users write them, checked and converted to one list per edge type.

All spellings of PyG are valid: a list for all edge types, a dictionary by edge type (triples, pairs
or ``"a__to__b"``), or a `torch_geometric.sampler.NumNeighbors`. -1 means all neighbours. A reverse
that the store keeps as an index is sampled only if a dictionary names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from neargraph.schema import Schema

# The compiled sampler counts draws of one destination in 32 bits.
_FANOUT_MAX = 2**31 - 1


def resolve_fanouts(schema: Schema, fanouts: Any) -> list[list[int]]:
    """Returns one list of fanouts per edge type, in the order of their ids, all of equal length.

    A reverse that the store keeps as an index has zeros, unless a dictionary names it.

    Raises:
        NameNotFound: A key is not an edge type of the store.
        ValueError: An edge type is missing or named twice, the number of hops differs, or a fanout
            is not valid.

    Example:
        >>> resolve_fanouts(store.schema, [15, 10])
        [[15, 10]]
    """
    default = getattr(fanouts, "default", None)
    values = getattr(fanouts, "values", fanouts)
    if callable(values):  # A dictionary: `values` is its method, not NumNeighbors' field.
        values = fanouts
    if isinstance(values, Mapping):
        given: dict[int, list[Any]] = {}
        for key, hops in values.items():
            named = schema.edge_type(_plain(key))
            if named.index in given:
                raise ValueError(
                    f"fanouts contain two lists for edge type {named.triple!r}; leave one list out"
                )
            given[named.index] = _hops(hops)
        lists = {}
        for edge_type in schema.edge_types:
            chosen = given.pop(edge_type.index, default)
            if chosen is None:
                raise ValueError(
                    f"fanouts have no list for edge type {edge_type.triple!r}; give a list for "
                    "this type, with zeros if the type is not to be sampled"
                )
            lists[edge_type.index] = _hops(chosen)
        lists |= given
    elif isinstance(values, Sequence) and not isinstance(values, str):
        lists = {edge_type.index: list(values) for edge_type in schema.edge_types}
    else:
        raise ValueError(f"fanouts must be a list or a dictionary by edge type, got {fanouts!r}")
    lengths = {len(hops) for hops in lists.values()}
    if len(lengths) > 1:
        raise ValueError(
            f"fanouts of all edge types must have the same number of hops, got {[*lists.values()]}"
        )
    unused = [0] * max(lengths, default=0)
    count = len(schema.edge_types) + len(schema.reverse_types)
    return [[_fanout(value) for value in lists.get(index, unused)] for index in range(count)]


def _plain(key: Any) -> Any:
    # PyG's EdgeTypeStr is a subclass of str with its triple.
    return key.to_tuple() if hasattr(key, "to_tuple") else key


def _hops(given: Any) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        raise ValueError(
            f"fanouts of an edge type must be a list with one number per hop, got {given!r}"
        ) from None


def _fanout(value: Any) -> int:
    try:
        whole = None if isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or whole != value or not -1 <= whole <= _FANOUT_MAX:
        raise ValueError(f"a fanout must be -1 (all) or a count up to {_FANOUT_MAX}, got {value!r}")
    return whole
