"""The first rows of an import as tables for people.

What must not live here: what the rows are (`importers.preview`). Invariant: a table fits 100
columns, so of wide rows the first values are shown and the width is told.
"""

from typing import Any

from rich.console import Group
from rich.table import Table

from .show import titled

_VALUES_SHOWN = 3
_COLUMNS_SHOWN = 6


def preview_tables(preview: dict[str, Any]) -> Group:
    """A table of the first nodes and of the first edges of each type."""
    nodes = [_node_table(one) for one in preview["nodes"] if one["tensors"] or one["names"]]
    return Group(*nodes, *(_edge_table(one) for one in preview["edges"]))


def _node_table(nodes: dict[str, Any]) -> Group:
    tensors = nodes["tensors"]
    count = max((len(one["rows"]) for one in tensors), default=len(nodes["names"] or ()))
    columns: list[tuple[str, list[Any]]] = [("node", list(range(count)))]
    if nodes["names"] is not None:
        columns.append(("name", nodes["names"]))
    return _table(f"First nodes of type {nodes['type']}", columns, tensors, count)


def _edge_table(edges: dict[str, Any]) -> Group:
    source, relation, destination = edges["type"]
    headings = {"source": f"source ({source})", "destination": f"destination ({destination})"}
    columns = [
        (headings.get(name, name), [row[at] for row in edges["rows"]])
        for at, name in enumerate(edges["columns"])
    ]
    title = f"First edges of type ({source}, {relation}, {destination})"
    return _table(title, columns, edges["tensors"], len(edges["rows"]))


def _table(
    title: str, columns: list[tuple[str, list[Any]]], tensors: list[dict[str, Any]], count: int
) -> Group:
    table, cells = Table(), list[list[str]]()
    for heading, values in columns:
        table.add_column(heading, overflow="fold")
        cells.append([str(value) for value in values])
    for tensor in tensors[:_COLUMNS_SHOWN]:
        shape = str(tensor["shape"]) if tensor["shape"] else ""
        table.add_column(f"{tensor['name']} {tensor['dtype']}{shape}", overflow="fold")
        cells.append([_cell(row, tensor["shape"]) for row in tensor["rows"]])
    for at in range(count):
        table.add_row(*(column[at] if at < len(column) else "" for column in cells))
    rest = [tensor["name"] for tensor in tensors[_COLUMNS_SHOWN:]]
    return titled(title + (f" (tensors not shown: {', '.join(rest)})" if rest else ""), table)


def _cell(row: Any, shape: list[int]) -> str:
    if not isinstance(row, list):
        return "none" if row is None else _number(row)
    width = 1
    for size in shape:
        width *= size
    shown = ", ".join(map(_number, row[:_VALUES_SHOWN]))
    return f"{shown}, ..." if width > _VALUES_SHOWN else shown


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
