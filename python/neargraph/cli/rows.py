"""Nodes and edges of a store as entries of a list: ids, string ids, shortened rows of tensors.

What must not live here: which nodes and edges are listed. The invariant: what is read is as much as
is shown, but for lists of neighbours, which are read whole.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neargraph.schema import EdgeType, NodeType, Schema, TensorMeta
from neargraph.splits import SPLITS

if TYPE_CHECKING:
    from neargraph.snapshot import Snapshot

Array = NDArray[Any]
Entry = dict[str, Any]

_PARTS = {code: part for part, code in SPLITS.items()}


def edge_type_of(schema: Schema, text: str) -> EdgeType:
    """The edge type of a word of the command line: user,buys,item, a relation, or user__buys__item.

    Raises:
        NameNotFound: It names no type, or several.
    """
    return schema.edge_type(tuple(text.split(",")) if "," in text else text)


def node_entries(snap: "Snapshot", node: NodeType, ids: Array, width: int) -> list[Entry]:
    """Nodes with the first `width` values of each row; 0 for all."""
    entries: list[Entry] = [{"id": int(one)} for one in ids]
    if node.has_dictionary and len(ids):
        for entry, name in zip(entries, snap.names(ids, node.name), strict=True):
            entry["name"] = name
    for tensor in node.tensors:
        dtype = "f32" if tensor.dtype == "bf16" else None
        _add(entries, tensor, snap.features(node.name, ids, tensor.name, dtype), width)
    return entries


def edge_entries(
    snap: "Snapshot",
    edge: EdgeType,
    ends: tuple[Array, Array],
    columns: dict[str, Array | None],
    width: int,
) -> list[Entry]:
    """Edges between sources and destinations, with the columns that the type has."""
    from neargraph.datasets.node_rows import widened

    schema = snap.schema
    entries: list[Entry] = [{} for _ in ends[0]]
    for role, kind, ids in (
        ("source", edge.source, ends[0]),
        ("destination", edge.destination, ends[1]),
    ):
        names: Sequence[str | None] = [None] * len(ids)
        if schema.node_type(kind).has_dictionary and len(ids):
            names = snap.names(ids, kind)
        for entry, one, name in zip(entries, ids.tolist(), names, strict=True):
            entry[role] = one
            if name is not None:
                entry[f"{role}_name"] = name
    for column, values in columns.items():
        if values is not None:
            for entry, value in zip(entries, values.tolist(), strict=True):
                entry[column] = value
    edge_ids = columns.get("edge_id")
    for tensor in edge.tensors:
        assert edge_ids is not None
        rows = snap.edge_features(edge.triple, edge_ids, tensor.name)
        _add(entries, tensor, widened(rows, tensor), width)
    return entries


def _add(entries: list[Entry], tensor: TensorMeta, rows: Array, width: int) -> None:
    for entry, row in zip(entries, rows, strict=True):
        flat = np.asarray(row).reshape(-1)
        shown = flat[:width] if width else flat
        values = {"shape": list(tensor.shape), "values": shown.tolist()}
        if tensor.is_split:
            values["part"] = _PARTS.get(int(flat[0]), "none")
        elif tensor.class_names and 0 <= int(flat[0]) < len(tensor.class_names):
            values["class"] = tensor.class_names[int(flat[0])]
        entry.setdefault("tensors", {})[tensor.name] = values


def table_rows(entries: list[Entry]) -> tuple[list[str], list[list[str]]]:
    """The columns of some entries, and what stands in them."""
    columns = [key for key in (entries[0] if entries else {}) if key != "tensors"]
    tensors = list(entries[0].get("tensors", {})) if entries else []
    rows = [
        [_plain(entry[key]) for key in columns] + [_row(entry["tensors"][name]) for name in tensors]
        for entry in entries
    ]
    return [column.replace("_", " ") for column in columns] + tensors, rows


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(found: Entry) -> str:
    """A row of a tensor in one line.

    >>> _row({"shape": [5], "values": [0.5, 1.0]})
    '0.5 1 ... (5)'
    """
    if "part" in found:
        return str(found["part"])
    shown = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in found["values"]]
    size = int(np.prod(found["shape"], dtype=np.int64))
    rest = f" ... ({size})" if size > len(shown) else ""
    named = f" ({found['class']})" if "class" in found else ""
    return " ".join(shown) + rest + named
