"""`neargraph head G.ng`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json
from .show import console, print_json, titled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from neargraph.schema import EdgeType, NodeType
    from neargraph.snapshot import Snapshot

_SPAN = 1 << 16

_Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        help="Node type, or edge type such as user,buys,item. Default: all types.",
        metavar="TYPE",
    ),
]
_Width = Annotated[
    int, typer.Option(help="Number of values to print for each tensor row; 0 = all.", min=0)
]


def head(
    store: StoreArgument,
    type_: _Type = None,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", help="Number of nodes or edges to print for each type.", min=1
        ),
    ] = 10,
    width: _Width = 8,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Show the first nodes and edges of a store with their tensors.

    Nodes are listed by ascending id, without deleted nodes. Edges are listed by destination.
    """
    with opened(store, memory, recover=recover) as handle:
        snap = handle.snapshot()
        nodes, edges = _chosen(snap, type_)
        report: dict[str, Any] = {
            "store": str(store),
            "lsn": snap.lsn,
            "nodes": [_nodes(snap, node, count, width) for node in nodes],
            "edges": [_edges(snap, edge, count, width) for edge in edges],
        }
    if as_json:
        print_json(report)
        return
    for one in report["nodes"]:
        print_rows(f"{one['type']}: {one['count']:,} nodes", one["rows"])
    for one in report["edges"]:
        print_rows(f"{' - '.join(one['type'])}: {one['count']:,} edges", one["rows"])


def _chosen(
    snap: "Snapshot", named: str | None
) -> tuple[tuple["NodeType", ...], tuple["EdgeType", ...]]:
    from .rows import edge_type_of

    schema = snap.schema
    if named is None:
        return schema.node_types, schema.edge_types
    nodes = tuple(node for node in schema.node_types if node.name == named)
    return nodes, () if nodes else (edge_type_of(schema, named),)


def _nodes(snap: "Snapshot", node: "NodeType", count: int, width: int) -> dict[str, Any]:
    import numpy as np

    from .rows import node_entries

    ids = np.empty(0, np.int64)
    dead = snap.dead_nodes(node.name)
    for first in range(0, node.num_nodes, _SPAN):
        span = np.arange(first, min(first + _SPAN, node.num_nodes))
        ids = np.concatenate([ids, np.setdiff1d(span, dead, assume_unique=True)])[:count]
        if len(ids) == count:
            break
    rows = node_entries(snap, node, ids, width)
    return {"type": node.name, "count": node.num_nodes_live, "rows": rows}


def _edges(snap: "Snapshot", edge: "EdgeType", count: int, width: int) -> dict[str, Any]:
    import numpy as np

    from .rows import edge_entries

    ids = _destinations(snap, edge, count)
    found = snap.neighbors(edge.triple, ids)
    destinations = np.repeat(ids, np.diff(found.indptr))[:count]
    inline = {"edge_id": found.edge_ids, "time": found.times, "weight": found.weights}
    columns = {name: None if c is None else c[:count] for name, c in inline.items()}
    ends = (found.indices[:count], destinations)
    rows = edge_entries(snap, edge, ends, columns, width)
    return {"type": list(edge.triple), "count": edge.num_edges, "rows": rows}


def _destinations(snap: "Snapshot", edge: "EdgeType", count: int) -> "NDArray[np.int64]":
    """The first nodes whose lists have `count` entries together."""
    import numpy as np

    total = snap.schema.node_type(edge.destination).num_nodes
    found: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for first in range(0, total, _SPAN):
        ids = np.arange(first, min(first + _SPAN, total))
        degrees = snap.degrees(edge.triple, ids)
        enough = int(np.searchsorted(np.cumsum(degrees), count)) + 1
        found.append(ids[:enough][degrees[:enough] > 0])
        count -= int(degrees.sum())
        if count <= 0:
            break
    return np.concatenate(found)


def print_rows(title: str, rows: list[dict[str, Any]]) -> None:
    """A table of nodes or edges."""
    from rich.table import Table

    from .rows import table_rows

    columns, lines = table_rows(rows)
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*line)
    console().print(titled(title, table))
