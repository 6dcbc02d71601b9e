"""`neargraph stats G.ng`."""

from typing import Any

from .options import Memory, Recover, StoreArgument, opened
from .settings import Json
from .show import bars, console, pairs_table, print_json, titled

_CLASSES = 10
_BAR = 30


def stats(
    store: StoreArgument,
    memory: Memory = None,
    recover: Recover = True,
    as_json: Json = False,
) -> None:
    """Compute statistics of a store: degrees, labels, splits and value ranges.

    The command reads the whole store once, in pieces. It counts out-degrees and isolated nodes only
    if the counters fit into a quarter of --memory.
    """
    from neargraph.store_stats import store_stats

    with opened(store, memory, recover=recover) as handle, bars() as progress:
        found = store_stats(handle, progress=progress)
    if as_json:
        print_json(found)
        return
    out = console()
    for node in found["node_types"]:
        out.print(pairs_table(f"Nodes {node['type']}", _node_rows(node)))
        if node["tensors"]:
            out.print(_ranges(f"Values of {node['type']}", node["tensors"]))
    for edge in found["edge_types"]:
        kinds = " - ".join(edge["type"])
        out.print(pairs_table(f"Edges {kinds}", _edge_rows(edge)))
        inline = {name: edge[name] for name in ("time", "weight") if name in edge}
        if inline or edge["tensors"]:
            out.print(_ranges(f"Values of {kinds}", inline | edge["tensors"]))


def _node_rows(node: dict[str, Any]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("nodes", node["num_nodes"]), ("deleted", node["deleted"])]
    rows.append(
        (
            "isolated",
            "not counted; raise --memory" if node["isolated"] is None else node["isolated"],
        )
    )
    for name, counts in node["splits"].items():
        rows.append((name, ", ".join(f"{part} {count:,}" for part, count in counts.items())))
    for name, found in node["labels"].items():
        rows.append((f"classes of {name}", _classes(found)))
    return rows


def _classes(found: dict[str, Any]) -> str:
    classes = found["classes"]
    if classes is None:
        return f"more than 65,536: {found['min']} to {found['max']}"
    shown = [f"{c.get('name', c['class'])} {c['count']:,}" for c in classes[:_CLASSES]]
    more = f", ... {len(classes) - _CLASSES:,} more" if len(classes) > _CLASSES else ""
    missing = f"; {found['unlabelled']:,} unlabelled" if found["unlabelled"] else ""
    return f"{len(classes):,}: {', '.join(shown)}{more}{missing}"


def _edge_rows(edge: dict[str, Any]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("edges", edge["num_edges"])]
    if edge["self_loops"] is not None:
        rows.append(("self-loops", edge["self_loops"]))
    for name in ("in_degree", "out_degree"):
        found = edge[name]
        label = name.replace("_", "-")
        if found is None:
            rows.append((label, "not counted; raise --memory" if edge["num_edges"] else "none"))
            continue
        figures = ", ".join(f"{key} {found[key]:,}" for key in ("min", "median", "p99", "max"))
        rows.append((label, f"{figures}, mean {found['mean']:.2f}"))
        rows.append(("", _histogram(found["histogram"])))
    return rows


def _histogram(pairs: list[list[int]]) -> str:
    """A line for each range of degrees.

    >>> print(_histogram([[0, 1], [4, 2]]))
          0            1 ###############
        4-7            2 ##############################
    """
    most = max(count for _, count in pairs)
    lines = []
    for low, count in pairs:
        span = str(low) if low < 2 else f"{low}-{2 * low - 1}"
        lines.append(f"{span:>7} {count:>12,} {'#' * max(1, round(_BAR * count / most))}")
    return "\n".join(lines)


def _ranges(title: str, tensors: dict[str, dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table()
    for column in ("tensor", "min", "max", "mean", "zeros", "NaN", "infinite"):
        table.add_column(column, justify="left" if column == "tensor" else "right")
    for name, found in tensors.items():
        kind = f" {found['dtype']} {found['shape']}" if "dtype" in found else ""
        figures = [_figure(found[key]) for key in ("min", "max", "mean")]
        zeros = "-" if found["zero_share"] is None else f"{100 * found['zero_share']:.1f} %"
        counted = (f"{found['nan']:,}", f"{found['infinite']:,}")
        table.add_row(f"{name}{kind}", *figures, zeros, *counted)
    return titled(title, table)


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
