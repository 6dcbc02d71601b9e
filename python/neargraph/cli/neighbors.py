"""`neargraph neighbors G.ng NODE`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Memory, NodeType, Recover, StoreArgument, opened
from .settings import Json
from .show import bars, print_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from neargraph.schema import EdgeType
    from neargraph.schema import NodeType as Kind
    from neargraph.snapshot import Snapshot

    from .progress import Bars

    # The other ends of edges, and their inline columns.
    _Found = tuple[NDArray[Any], dict[str, NDArray[Any] | None]]

# Values of the rows of edge tensors.
_WIDTH = 8

_EdgeTypes = Annotated[
    str | None,
    typer.Option(
        "--edge-type",
        help="Edge type such as user,buys,item. Default: all edge types of the node.",
        metavar="TYPE",
    ),
]
_Out = Annotated[
    bool,
    typer.Option(
        "--out/--in",
        help="--out: list the nodes to which NODE has an edge. --in: list the nodes that have "
        "an edge to NODE, as sampling does.",
    ),
]
_ByNumber = Annotated[
    bool, typer.Option("--by-number", help="Read NODE as a number even if nodes have string ids.")
]


def neighbors(
    store: StoreArgument,
    node: Annotated[str, typer.Argument(help="String id or number of the node.", metavar="NODE")],
    node_type: NodeType = None,
    edge_type: _EdgeTypes = None,
    out: _Out = False,
    limit: Annotated[
        int, typer.Option(help="Number of neighbours to print for each edge type; 0 = all.", min=0)
    ] = 20,
    by_number: _ByNumber = False,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """List the neighbours of a node, with edge ids, times and weights.

    With --out, the command reads the reverse edges if `neargraph import --reverse` stored them.
    Otherwise, --out reads all neighbour lists, which takes longer.
    """
    from .head import print_rows

    with opened(store, memory, recover=recover) as handle:
        snap = handle.snapshot()
        kind, edges = _chosen(snap, node_type, edge_type, out)
        number = _number(snap, kind, node, by_number)
        with bars() as progress:
            lists = [_list(snap, edge, number, out, limit, progress) for edge in edges]
        name = snap.names([number], kind.name)[0] if kind.has_dictionary else None
    report = {"store": str(store), "node_type": kind.name, "node": number}
    report |= {} if name is None else {"name": name}
    report |= {"direction": "out" if out else "in", "lists": lists}
    if as_json:
        print_json(report)
        return
    for one in lists:
        shown = len(one["rows"])
        some = f" (first {shown:,} shown)" if shown < one["count"] else ""
        which = f"{'out' if out else 'in'}-neighbour{'' if one['count'] == 1 else 's'} of {node}"
        print_rows(f"{' - '.join(one['type'])}: {one['count']:,} {which}{some}", one["rows"])


def _chosen(
    snap: "Snapshot", node_type: str | None, edge_type: str | None, out: bool
) -> tuple["Kind", list["EdgeType"]]:
    """The type of the node, and the edge types to list."""
    from neargraph.exceptions import UnsupportedArgument

    from .rows import edge_type_of

    schema = snap.schema
    named = None if edge_type is None else edge_type_of(schema, edge_type)
    if named is not None and node_type is None:
        node_type = named.source if out else named.destination
    kind = schema.node_type(node_type)
    fitting = [t for t in schema.edge_types if (t.source if out else t.destination) == kind.name]
    if named is None:
        return kind, fitting
    if named not in fitting and (named.source if out else named.destination) != kind.name:
        end = "start" if out else "end"
        raise UnsupportedArgument(
            f"edges of type {named.triple!r} do not {end} at nodes of type {kind.name!r}; "
            f"give {'--in' if out else '--out'} or another --edge-type"
        )
    return kind, [named]


def _number(snap: "Snapshot", kind: "Kind", node: str, by_number: bool) -> int:
    """The number of a node, which exists."""
    import numpy as np

    from neargraph.exceptions import NodeNotFound, UnsupportedArgument

    if kind.has_dictionary and not by_number:
        number = int(snap.lookup([node], kind.name)[0])
        if number < 0:
            raise NodeNotFound(
                f"{snap.path}: no node of type {kind.name!r} has the string id {node!r}; give "
                "--by-number to read NODE as a number"
            )
    elif node.isdigit():
        number = int(node)
    else:
        raise UnsupportedArgument(
            f"node {node!r} is not a valid number, and nodes of type {kind.name!r} have no "
            "string ids"
        )
    if number >= kind.num_nodes:
        raise NodeNotFound(
            f"{snap.path}: node {number} does not exist; type {kind.name!r} has {kind.num_nodes:,} "
            "nodes"
        )
    if np.isin(number, snap.dead_nodes(kind.name)):
        raise NodeNotFound(f"{snap.path}: node {number} of type {kind.name!r} was deleted")
    return number


def _list(
    snap: "Snapshot", edge: "EdgeType", number: int, out: bool, limit: int, progress: "Bars"
) -> dict[str, Any]:
    """The neighbours of a node under one edge type."""
    from .rows import edge_entries

    if out:
        others, inline = _out_edges(snap, edge, number, progress)
    else:
        others, inline = _in_edges(snap, edge, number)
    most = slice(None, limit or None)
    mine, theirs = ("source", "destination") if out else ("destination", "source")
    kept = others[most]
    ends = {theirs: kept, mine: kept * 0 + number}
    columns = {name: None if c is None else c[most] for name, c in inline.items()}
    rows = edge_entries(snap, edge, (ends["source"], ends["destination"]), columns, _WIDTH)
    for row in rows:
        row.pop(mine)
        row.pop(f"{mine}_name", None)
    return {"type": list(edge.triple), "count": len(others), "rows": rows}


def _in_edges(snap: "Snapshot", edge: "EdgeType", number: int) -> "_Found":
    found = snap.neighbors(edge.triple, [number])
    inline = {"edge_id": found.edge_ids, "time": found.times, "weight": found.weights}
    return found.indices, inline


def _out_edges(snap: "Snapshot", edge: "EdgeType", number: int, progress: "Bars") -> "_Found":
    """From the reverse of the type, or from all of its lists."""
    import numpy as np

    from neargraph._lists import lists_of

    reverse = snap.schema.raw["edge_types"][edge.index].get("reverse")
    if reverse is not None:
        return _in_edges(snap, snap.schema.edge_type_at(reverse), number)
    done = 0
    others = [np.empty(0, np.int64)]
    kept: dict[str, list[NDArray[Any]]] = {"edge_id": [], "time": [], "weight": []}
    for ids, found in lists_of(snap, edge):
        places = np.flatnonzero(found.indices == number)
        others.append(ids[np.searchsorted(found.indptr, places, side="right") - 1])
        inline = {"edge_id": found.edge_ids, "time": found.times, "weight": found.weights}
        for name, column in inline.items():
            if column is not None:
                kept[name].append(column[places])
        done += len(found.indices)
        progress(f"reading {edge.relation}", done, edge.num_edges)
    joined = {name: np.concatenate(parts) if parts else None for name, parts in kept.items()}
    return np.concatenate(others), joined
