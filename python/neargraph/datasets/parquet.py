"""Exports a store as a folder of Parquet tables, which `neargraph import` reads.

`nodes_TYPE.parquet` has one row for each node, in the order of ids: `id` (the string id, or the
number), the tensors, and the split. `edges_SOURCE__RELATION__DESTINATION.parquet` has one row for
each edge: `src`, `dst`, `time`, `weight`, `edge_id`, and the tensors. Properties that the tables do
not keep are notes of the report. The invariant: one rename makes the complete folder visible.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._optional import arrow_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers.hints import COLUMN_NAMES
from neargraph.importers.plan import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from neargraph.schema import EdgeType, NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.splits import SPLITS, split_columns
from neargraph.store import Store

from .edge_rows import EdgeRows, EdgeTable
from .leftovers import Leftovers, all_undirected
from .node_rows import NAMES_AT_ONCE, node_rows, numpy_kind
from .publishing import ExportReport, bytes_of, published

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

_GROUP_BYTES = 16 << 20
# The part of the store's memory for a row group, which exists as rows, as a table, and packed.
_GROUP_SHARE = 8
_ROWS_MAX = 1 << 17
# The most rows at a time if string ids become Python strings.
_NAMED_ROWS = 1 << 15
_NODE_WORDS = {"id", "y", "label", "train_mask", "val_mask", "test_mask"}
_EDGE_WORDS = {"edge_id", "eid"} | {name for names in COLUMN_NAMES.values() for name in names}


def to_parquet(
    store: Store | Snapshot, out: Path | str, *, progress: Progress | None = None
) -> ExportReport:
    """Writes the newest version of a store as a folder of Parquet tables.

    A row group has at most 16 MiB, or an eighth of the store's memory. Tensors of several columns
    become lists of fixed size. Labels with class names become text, null for unlabelled nodes. Edge
    tensors are columns of the edge tables.

    Args:
        store: The store, or one version of it.
        out: The new folder. It must not exist.
        progress: Called with (phase, rows done, total rows).

    Returns:
        The folder's size, the options for an import of it, and a note for each property that the
        tables do not keep.

    Raises:
        UnsupportedArgument: `out` exists, or the name of a type cannot be part of a file name.
        MissingDependency: pyarrow is not installed.

    Example:
        >>> neargraph.datasets.to_parquet(store, "tables")                 # doctest: +SKIP
        >>> polars.scan_parquet("tables/nodes.parquet")                    # doctest: +SKIP
    """
    _pyarrow()
    target, snap = Path(out), store.snapshot()
    with published(target) as folder:
        writer = _Writer(snap, folder, progress or (lambda *_: None))
        writer.write()
    return {
        "path": str(target),
        "num_nodes": snap.num_nodes,
        "num_edges": snap.num_edges,
        "bytes": bytes_of(target),
        "import_options": writer.left.import_options,
        "notes": writer.left.report(),
    }


def _pyarrow() -> Any:
    with arrow_for("export to Parquet"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


class _Writer:
    """One export: its tables and its notes."""

    def __init__(self, snap: Snapshot, folder: Path, progress: Progress) -> None:
        self._snap, self._folder, self._progress = snap, folder, progress
        self.left = Leftovers(snap)
        self._once = all_undirected(snap)
        self._named = any(node.has_dictionary for node in snap.schema.node_types)
        self._rows_at_once = _NAMED_ROWS if self._named else _ROWS_MAX
        for node in snap.schema.node_types:
            _check_name(snap, node.name)
        for edge in snap.schema.edge_types:
            _check_name(snap, edge.relation)

    def write(self) -> None:
        """Writes all tables."""
        schema = self._snap.schema
        self.left.of_store(self._once)
        if self._named:
            self.left.keep_ids()
        for node in schema.node_types:
            self.left.of_nodes(node)
            plain = node.name == HOMOGENEOUS_NODE
            self._nodes(node, "nodes" if plain else f"nodes_{node.name}")
        for edge in schema.edge_types:
            self.left.of_edges(edge)
            plain = edge.triple == HOMOGENEOUS_EDGE
            self._edges(edge, "edges" if plain else f"edges_{'__'.join(edge.triple)}")

    def _table(self, stem: str, raw: dict[str, Any], pieces: Iterator[dict[str, Any]]) -> None:
        """Writes one table with a row group for each piece. There is at least one piece."""
        pa = _pyarrow()
        writer = None
        try:
            for columns in pieces:
                table = pa.table(columns)
                if writer is None:
                    said = {"neargraph": json.dumps(raw)}
                    kind = table.schema.with_metadata(said)
                    path = self._folder / f"{stem}.parquet"
                    # A dictionary of floats would be larger than the floats.
                    texts = [f.name for f in kind if _is_text(f.type)]
                    writer = pa.parquet.ParquetWriter(path, kind, use_dictionary=texts)
                writer.write_table(table, row_group_size=max(1, table.num_rows))
        finally:
            if writer is not None:
                writer.close()

    # Nodes

    def _nodes(self, node: NodeType, stem: str) -> None:
        if self._named and not node.has_dictionary:
            message = f"an import reads the node ids of type {node.name!r} as string ids"
            self.left.note("string-ids-added", node.num_nodes, message)
        splits = split_columns(node)
        if any(t.is_split and t.mask_width == 1 for t in node.tensors):
            message = f"an import reads the masks [n, 1] of node type {node.name!r} as [n]"
            self.left.note("mask-width-dropped", node.num_nodes, message)
        tensors = [t for t in node.tensors if not (t.is_split and len(splits) == 1)]
        named = self._renamed(node.name, tensors, _NODE_WORDS - {"y"})
        labels = _Labels(next((t for t in tensors if t.name == "y" and t.class_names), None))
        raw = self._snap.schema.raw["node_types"][node.index]
        self._table(stem, raw, self._node_pieces(node, named, splits, labels))
        labels.tell(self.left, node)

    def _node_pieces(
        self,
        node: NodeType,
        named: dict[str, TensorMeta],
        splits: list[str],
        labels: "_Labels",
    ) -> Iterator[dict[str, Any]]:
        pa = _pyarrow()
        memory = self._snap.store.core.memory_bytes
        width = sum(numpy_kind(t).itemsize * t.num_columns for t in named.values())
        for span in _groups(node.num_nodes, 16 + width, memory, node.has_dictionary):
            ids = np.arange(span.start, span.stop)
            has_names = node.has_dictionary and len(ids)
            names = self._snap.names(ids, node.name) if has_names else None
            kind = pa.string() if node.has_dictionary else pa.int64()
            columns: dict[str, Any] = {"id": pa.array(ids if names is None else names, kind)}
            for name, tensor in named.items():
                rows = node_rows(self._snap, node, tensor, ids)
                columns[name] = labels.text(rows) if tensor is labels.tensor else _lists(rows)
            if len(splits) == 1:
                codes = node_rows(self._snap, node, _tensor(node, splits[0]), ids)
                columns |= {f"{part}_mask": codes == code for part, code in SPLITS.items()}
            self._progress(f"nodes {node.name}", span.stop, node.num_nodes)
            yield columns

    # Edges

    def _edges(self, edge: EdgeType, stem: str) -> None:
        table = EdgeTable(self._snap, edge, self._folder, self._once, self._rows_at_once)
        named = self._renamed("-".join(edge.triple), list(edge.tensors), _EDGE_WORDS)
        both_ways = edge.undirected and not self._once
        has_ids = edge.has_edge_ids and not both_ways
        if table.renumbered:
            gaps = edge.num_edge_ids - table.num_rows
            message = (
                f"edge type {'-'.join(edge.triple)} has {gaps} unused edge ids, so edges are "
                "renumbered by row; the column old_edge_id has the old ids"
            )
            self.left.note("edge-ids-renumbered", gaps, message)
        raw = self._snap.schema.raw["edge_types"][edge.index]
        self._table(stem, raw, self._edge_pieces(table, named, has_ids and not self._named))

    def _edge_pieces(
        self, table: EdgeTable, named: dict[str, TensorMeta], has_ids: bool
    ) -> Iterator[dict[str, Any]]:
        done, edge = 0, table.edge
        for rows in _joined(table):
            columns: dict[str, Any] = {
                "src": self._ends(edge.source, rows.sources),
                "dst": self._ends(edge.destination, rows.destinations),
            }
            if rows.times is not None:
                columns["time"] = rows.times
            if rows.weights is not None:
                columns["weight"] = rows.weights
            if has_ids:
                columns["edge_id"] = np.arange(done, done + len(rows))
            if table.renumbered:
                columns["old_edge_id"] = rows.ids
            columns |= {name: _lists(rows.tensors[t.name]) for name, t in named.items()}
            done += len(rows)
            self._progress(f"edges {edge.relation}", done, table.num_rows)
            yield columns

    def _ends(self, node_type: str, ids: Array) -> Any:
        """Ends of edges: string ids if the type has them."""
        if not self._snap.schema.node_type(node_type).has_dictionary:
            return ids
        once, places = np.unique(ids, return_inverse=True)
        names: list[str] = []
        for first in range(0, len(once), NAMES_AT_ONCE):
            names += self._snap.names(once[first : first + NAMES_AT_ONCE], node_type)
        pa = _pyarrow()
        return pa.array(names, pa.string()).take(pa.array(places))

    def _renamed(
        self, owner: str, tensors: list[TensorMeta], words: set[str]
    ) -> dict[str, TensorMeta]:
        """Maps column names, none of which has a meaning of its own for an import, to tensors."""
        named = {}
        for tensor in tensors:
            name = tensor.name
            if name.lower() in words or re.fullmatch(r"x_?\d+", name):
                name += "_rows"
                message = f"tensor {tensor.name!r} of {owner!r} is written as the column {name!r}"
                self.left.note("tensor-renamed", tensor.num_rows, message)
            if len(tensor.shape) > 1:
                rows = f"rows of shape {list(tensor.shape)} of tensor {tensor.name!r}"
                message = f"{rows} of {owner!r} become flat lists"
                self.left.note("shape-flattened", tensor.num_rows, message)
            if tensor.class_names and tensor.name != "y":
                message = f"class names of tensor {tensor.name!r} of {owner!r} are not written"
                self.left.note("class-names-dropped", len(tensor.class_names), message)
            named[name] = tensor
        return named


class _Labels:
    """Labels with class names, as text."""

    def __init__(self, tensor: TensorMeta | None) -> None:
        self.tensor = tensor
        self._names = tensor.class_names if tensor is not None else ()
        self._used = np.zeros(len(self._names), bool)

    def text(self, codes: Array) -> Any:
        """The class names; null for unlabelled nodes."""
        pa = _pyarrow()
        known = (codes >= 0) & (codes < len(self._names))
        self._used[codes[known]] = True
        places = pa.array(np.where(known, codes, 0).astype(np.int32), mask=~known)
        return pa.DictionaryArray.from_arrays(places, pa.array(self._names, pa.string()))

    def tell(self, left: Leftovers, node: NodeType) -> None:
        """Adds a note if an import, which sorts classes by name, would renumber them."""
        met = [name for name, used in zip(self._names, self._used, strict=True) if used]
        if met != sorted(self._names):
            owner = f"y of node type {node.name!r}"
            message = f"an import renumbers the classes of {owner}, in the order of their names"
            left.note("classes-renumbered", len(self._names), message)


def _is_text(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_string(kind) or types.is_dictionary(kind))


def _tensor(node: NodeType, name: str) -> TensorMeta:
    return next(tensor for tensor in node.tensors if tensor.name == name)


def _groups(total: int, row_bytes: int, memory: int, has_names: bool) -> Iterator[slice]:
    """Yields the ranges of row groups; an empty one if there are no rows."""
    group = min(_GROUP_BYTES, memory // _GROUP_SHARE)
    step = min(NAMES_AT_ONCE if has_names else _ROWS_MAX, max(1, group // row_bytes))
    for first in range(0, max(1, total), step):
        yield slice(first, min(first + step, total))


def _joined(table: EdgeTable) -> Iterator[EdgeRows]:
    """Yields the rows of a table; an empty piece if there are none."""
    empty = True
    for rows in table.rows():
        empty = False
        yield rows
    if empty:
        yield EdgeRows.none(table.edge)


def _lists(rows: Array) -> Any:
    """Rows as a column: numbers, or lists of fixed size."""
    pa = _pyarrow()
    if rows.ndim == 1:
        return pa.array(rows)
    width = int(np.prod(rows.shape[1:], dtype=np.int64))
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), width)


def _check_name(snap: Snapshot, name: str) -> None:
    if "/" in name or "\0" in name or "__" in name or name.startswith("_"):
        raise UnsupportedArgument(
            f"{snap.path}: the type name {name!r} is not valid in a file name; export to the "
            "format npz or pyg instead"
        )
