"""Rows and edges by type, trimmed for each layer. A graph without types has one type.

The computation of a layer must not live here. The invariant: node types without incoming edges in a
batch are kept, so that a model runs on any schema.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from neargraph.exceptions import UnsupportedArgument
from neargraph.schema import EdgeTriple

from .trim import TypedHops

Rows = dict[str, Tensor]
Edges = dict[EdgeTriple, Tensor]

# The node type and the edge type of a graph without types.
PLAIN = ""
PLAIN_EDGES: EdgeTriple = (PLAIN, PLAIN, PLAIN)


def by_node_type(value: Tensor | Mapping[str, Tensor]) -> Rows:
    """Returns the rows by node type."""
    return {PLAIN: value} if isinstance(value, Tensor) else dict(value)


def by_edge_type(value: Tensor | Mapping[EdgeTriple, Tensor]) -> Edges:
    """Returns the columns by edge type."""
    return {PLAIN_EDGES: value} if isinstance(value, Tensor) else dict(value)


def check_edge_types(known: Collection[EdgeTriple], given: Iterable[EdgeTriple]) -> None:
    """Rejects edges for which a model has no weights.

    Raises:
        UnsupportedArgument: An edge type of a batch is not one of the model.
    """
    for triple in given:
        if triple not in known:
            raise UnsupportedArgument(
                f"the batch has edges of type {triple!r}, for which the model has no weights; "
                "build the model for the schema of the loader, with `build(name, loader.schema)`"
            )


def hops_of(nodes: Any, edges: Any) -> TypedHops | None:
    """Returns the counts of a batch, with or without types; None if it has none."""
    if nodes is None or edges is None or isinstance(nodes, Mapping):
        return TypedHops.of(nodes, edges)
    return TypedHops.of({PLAIN: nodes}, {PLAIN_EDGES: edges})


@dataclass(slots=True)
class Cut:
    """The input of one layer: rows, edges and their columns, and the number of output rows."""

    x: Rows
    edge_index: Edges
    beside: Edges
    targets: dict[str, int]


def cut(
    hops: TypedHops | None, layer: int, num_layers: int, x: Rows, edge_index: Edges, beside: Edges
) -> Cut:
    """Returns the input of layer ``layer`` of ``num_layers``; all of it if ``hops`` is None."""
    if hops is None:
        return Cut(x, edge_index, beside, {name: rows.size(0) for name, rows in x.items()})
    nodes, edges = hops.kept(layer, num_layers)
    targets, _ = hops.kept(layer + 1, num_layers)
    return Cut(
        {name: rows[: nodes[name]] for name, rows in x.items()},
        {triple: ends[:, : edges[triple]] for triple, ends in edge_index.items()},
        {triple: column[: edges[triple]] for triple, column in beside.items()},
        targets,
    )
