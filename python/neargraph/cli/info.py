"""`neargraph info G.ng`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Recover, StoreArgument, opened
from .settings import Json
from .show import console, pairs_table, print_json, size, titled

if TYPE_CHECKING:
    from rich.console import Group

    from neargraph.store import Store

_Times = Annotated[
    bool,
    typer.Option(
        "--times",
        help="Show the earliest and the latest time of the edges of each type. Reads "
        "all neighbour lists.",
    ),
]


def info(
    store: StoreArgument,
    times: _Times = False,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Show the size of a store and its node and edge types, with counts and tensors."""
    from neargraph.loader.direct import list_direct

    with opened(store, recover=recover) as handle:
        facts: dict[str, Any] = {**handle.info()}
        if times:
            _add_times(handle, facts)
    facts["direct_layouts"] = list_direct(facts["path"], facts["fingerprint"])
    if as_json:
        print_json(facts)
        return
    out = console()
    rows: list[tuple[str, Any]] = [
        ("nodes", facts["num_nodes_live"]),
        ("deleted nodes", facts["num_nodes"] - facts["num_nodes_live"]),
        ("edges", facts["num_edges"]),
        ("checkpoint", str(facts["checkpoint_id"])),
        ("last commit", str(facts["lsn"])),
        ("commits in the log", facts["commits_waiting"]),
        ("fingerprint", facts["fingerprint"]),
        ("on disk", size(facts["disk_bytes"])),
        ("log on disk", size(facts["log_bytes"])),
    ]
    if facts["commits_recovered"]:
        rows.append(("recovered", f"{facts['commits_recovered']} commits of a crashed writer"))
    if facts["read_only_because"]:
        rows.append(("read only", f"recovered in memory only: {facts['read_only_because']}"))
    if facts["reuse_ids"]:
        rows.append(("ids", "new nodes reuse the ids of deleted nodes"))
    rows += [(f"direct layout {d['file']}", _direct(d)) for d in facts["direct_layouts"]]
    rows.append(("page", f"{facts['page_bytes'] // 1024} KiB"))
    rows.append(("back end", facts["backend_note"]))
    out.print(pairs_table(str(store), rows))
    out.print(_types("Node types", facts["node_types"], _node_row))
    out.print(_types("Edge types", facts["edge_types"], _edge_row))
    if facts["reverse_types"]:
        title = "Reverse edge types, used by deletions and bipartite training"
        out.print(_types(title, facts["reverse_types"], _edge_row))


def _add_times(handle: "Store", facts: dict[str, Any]) -> None:
    """Adds ``first_time`` and ``last_time`` to edge types that have times, None without edges. No
    statistics of the store have them, so this reads the lists."""
    from neargraph._lists import lists_of

    snapshot = handle.snapshot()
    for place, edge in enumerate(snapshot.schema.edge_types):
        if not edge.has_time:
            continue
        first = last = None
        for _, found in lists_of(snapshot, edge):
            if found.times is not None and len(found.times):
                low, high = int(found.times.min()), int(found.times.max())
                first = low if first is None else min(first, low)
                last = high if last is None else max(last, high)
        entry = facts["edge_types"][place]
        facts["edge_types"][place] = {**entry, "first_time": first, "last_time": last}


def _direct(facts: dict[str, Any]) -> str:
    if "problem" in facts:
        return str(facts["problem"])
    version = "this version" if facts["is_current"] else "another version"
    state = f"compiled from {version} of the store"
    return f"{size(facts['file_bytes'])} with {', '.join(facts['tensors']) or 'no rows'}, {state}"


def _types(title: str, types: list[dict[str, Any]], row: Any) -> "Group":
    from rich.table import Table

    table = Table()
    for column in ("type", "count", "flags", "tensors"):
        table.add_column(column, justify="right" if column == "count" else "left", overflow="fold")
    for entry in types:
        table.add_row(*row(entry))
    return titled(title, table)


def _tensors(entry: dict[str, Any]) -> str:
    shown = []
    for tensor in entry["tensors"]:
        shape = ",".join(str(n) for n in (tensor["num_rows"], *tensor["shape"]))
        kinds = [kind for kind in ("scaled", "sparse") if tensor[kind]]
        dtype = " ".join([tensor["dtype"], *kinds])
        names = tensor.get("class_names", [])
        classes = f" of {len(names)} classes: {_listed(names)}" if names else ""
        shown.append(f"{tensor['name']} {dtype} [{shape}]{classes}")
    return "\n".join(shown)


def _listed(names: list[str]) -> str:
    first = ", ".join(f"{at} {name}" for at, name in enumerate(names[:20]))
    return first + (", ..." if len(names) > 20 else "")


def _node_row(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    known = {"string ids": entry["has_dictionary"], "reordered": entry["has_order"]}
    flags = ", ".join(name for name, there in known.items() if there)
    return entry["name"], f"{entry['num_nodes_live']:,}", flags, _tensors(entry)


def _edge_row(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    names = ("undirected", "unique", "has_edge_ids", "has_time", "has_weight")
    flags = [name.removeprefix("has_").replace("_", " ") for name in names if entry.get(name)]
    if entry.get("reverse") is not None and not entry["is_reverse_index"]:
        flags.append("reverse stored")
    if entry.get("first_time") is not None:
        flags[flags.index("time")] += f" {entry['first_time']} to {entry['last_time']}"
    triple = f"{entry['source']} - {entry['relation']} - {entry['destination']}"
    return triple, f"{entry['num_edges']:,}", ", ".join(flags), _tensors(entry)
