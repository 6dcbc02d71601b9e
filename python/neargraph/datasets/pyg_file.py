"""Exports a store as a file of PyG's `Data` or `HeteroData`.

The whole graph has to fit into memory, which is checked before anything is read. The invariant:
`neargraph.from_pyg` restores the same graph, except for the properties that notes list.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._optional import torch_for
from neargraph.exceptions import BudgetTooSmall
from neargraph.importers.plan import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from neargraph.schema import EdgeType, NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.splits import SPLITS, split_columns
from neargraph.store import Store
from neargraph.units import format_bytes, parse_bytes

from .edge_rows import EdgeTable
from .leftovers import Leftovers
from .node_rows import name_pieces, node_pieces, numpy_kind
from .publishing import ExportReport, bytes_of, published_file

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

# The default limit, as a part of the machine's memory.
_RAM_SHARE = 0.75


def to_pyg(
    store: Store | Snapshot,
    out: Path | str,
    *,
    memory: str | int | None = None,
    progress: Progress | None = None,
) -> ExportReport:
    """Writes the newest version of a store as a `Data` or `HeteroData` with torch.save.

    Node tensors keep their names. Splits become `train_mask`, `val_mask` and `test_mask`. Edges
    have `edge_index`, `edge_time`, `edge_weight` and their tensors. String ids become the list
    `names`, class names the list `y_names`. Both directions of an undirected edge are in
    `edge_index`. Sparse rows are written densely.

    Args:
        store: The store, or one version of it.
        out: The new file, such as NAME.pt. It must not exist.
        memory: Memory limit of the graph, e.g. "8GB". Default: three quarters of RAM.
        progress: Called with (phase, rows done, total rows).

    Returns:
        The file's size, the options for an import of it, and a note for each property that the
        file does not keep.

    Raises:
        BudgetTooSmall: The graph needs more memory; the message says how much.
        UnsupportedArgument: `out` exists.
        MissingDependency: torch or PyG is not installed.

    Example:
        >>> neargraph.datasets.to_pyg(store, "graph.pt")                   # doctest: +SKIP
        >>> data = torch.load("graph.pt", weights_only=False)              # doctest: +SKIP
    """
    target, snap = Path(out), store.snapshot()
    with torch_for("export to PyG"):
        import torch
    with published_file(target) as (file, folder):
        maker = _Maker(snap, folder, progress or (lambda *_: None))
        maker.check(memory)
        torch.save(maker.make(), file)
    return {
        "path": str(target),
        "num_nodes": snap.num_nodes,
        "num_edges": snap.num_edges,
        "bytes": bytes_of(target),
        "import_options": maker.left.import_options,
        "notes": maker.left.report(),
    }


class _Maker:
    """One graph in memory, and the notes about it."""

    def __init__(self, snap: Snapshot, folder: Path, progress: Progress) -> None:
        self._snap, self._folder, self._progress = snap, folder, progress
        self.left = Leftovers(snap)

    def check(self, memory: str | int | None) -> None:
        """Raises `BudgetTooSmall` if the graph does not fit."""
        schema = self._snap.schema
        wanted = sum(t.num_rows * _row_bytes(t) for n in schema.node_types for t in n.tensors)
        for edge in schema.edge_types:
            row = 16 + 8 * edge.has_time + 4 * edge.has_weight
            wanted += edge.num_edges * (row + sum(_row_bytes(t) for t in edge.tensors))
        if memory is None:
            machine = json.loads(_core.probe("."))
            bounds = [machine["ram_bytes"], machine["memory_limit"]]
            limit = int(_RAM_SHARE * min(bound for bound in bounds if bound))
        else:
            limit = parse_bytes(memory)
        if wanted > limit:
            needed, available = format_bytes(wanted, up=True), format_bytes(limit)
            raise BudgetTooSmall(
                f"{self._snap.path}: the graph needs {needed} as PyG tensors, but the memory limit "
                f"is {available}; exports to graphbolt, parquet and npz need less memory",
                wanted,
            )

    def make(self) -> Any:
        """Reads the graph."""
        from torch_geometric.data import Data, HeteroData

        schema = self._snap.schema
        self.left.of_store(once=False)
        names = [node.name for node in schema.node_types]
        triples = [edge.triple for edge in schema.edge_types]
        if names == [HOMOGENEOUS_NODE] and triples in ([], [HOMOGENEOUS_EDGE]):
            data = Data()
            for node in schema.node_types:
                self._nodes(node, data)
            for edge in schema.edge_types:
                self._edges(edge, data, set(data.keys()))
            return data
        typed = HeteroData()
        for node in schema.node_types:
            self._nodes(node, typed[node.name])
        for edge in schema.edge_types:
            self._edges(edge, typed[edge.triple], set())
        return typed

    def _nodes(self, node: NodeType, data: Any) -> None:
        self.left.of_nodes(node)
        data.num_nodes = node.num_nodes
        for tensor in node.tensors:
            if tensor.is_split:
                continue
            rows = np.empty((node.num_nodes, *tensor.shape), _kind(tensor))
            self._fill(node, tensor, rows)
            data[tensor.name] = _torch(rows, tensor)
            if tensor.class_names:
                data[f"{tensor.name}_names"] = list(tensor.class_names)
        for name, mask in self._masks(node).items():
            data[name] = _torch(mask, None)
        if node.has_dictionary:
            data.names = [name for names in name_pieces(self._snap, node) for name in names]
            message = (
                f"the string ids of node type {node.name!r} are in the list 'names', which an "
                "import does not read; the format parquet keeps string ids"
            )
            self.left.note("string-ids-dropped", node.num_nodes, message)
        if lists := [f"{tensor.name}_names" for tensor in node.tensors if tensor.class_names]:
            listed = ", ".join(lists)
            message = f"an import does not read the class names of type {node.name!r} in {listed}"
            self.left.note("class-names-dropped", node.num_nodes, message)

    def _fill(self, node: NodeType, tensor: TensorMeta, rows: Array) -> None:
        if tensor.dtype == "bf16":
            step = max(1, (4 << 20) // max(1, 2 * tensor.num_columns))
            for first in range(0, node.num_nodes, step):
                ids = np.arange(first, min(first + step, node.num_nodes))
                part = self._snap.features(node.name, ids, tensor.name, "stored")
                rows[first : first + len(part)] = part
                self._progress(f"{node.name} {tensor.name}", first + len(part), node.num_nodes)
            return
        for first, part in node_pieces(self._snap, node, tensor):
            rows[first : first + len(part)] = part
            self._progress(f"{node.name} {tensor.name}", first + len(part), node.num_nodes)

    def _masks(self, node: NodeType) -> dict[str, Array]:
        if not split_columns(node):
            return {}
        return {f"{part}_mask": self._snap.mask(part, node.name) for part in SPLITS}

    def _edges(self, edge: EdgeType, data: Any, taken: set[str]) -> None:
        self.left.of_edges(edge)
        if not edge.has_edge_ids:
            message = f"an import adds edge ids to the edge type {'-'.join(edge.triple)}"
            self.left.note("edge-ids-added", edge.num_edges, message)
        table = EdgeTable(self._snap, edge, self._folder)
        count = table.num_rows
        index = np.empty((2, count), np.int64)
        columns: dict[str, Array] = {}
        if edge.has_time:
            columns["edge_time"] = np.empty(count, np.int64)
        if edge.has_weight:
            columns["edge_weight"] = np.empty(count, np.float32)
        if table.renumbered:
            columns["old_edge_id"] = np.empty(count, np.int64)
            gaps = edge.num_edge_ids - count
            message = (
                f"edge type {'-'.join(edge.triple)} has {gaps} unused edge ids, so edges are "
                "renumbered by row; the edge tensor old_edge_id has the old ids"
            )
            self.left.note("edge-ids-renumbered", gaps, message)
        named = {self._called(t, taken | set(columns)): t for t in edge.tensors}
        tensors = {name: np.empty((count, *t.shape), numpy_kind(t)) for name, t in named.items()}
        done = 0
        for rows in table.rows():
            span = slice(done, done + len(rows))
            index[0, span], index[1, span] = rows.sources, rows.destinations
            inline = {"edge_time": rows.times, "edge_weight": rows.weights, "old_edge_id": rows.ids}
            for name, column in columns.items():
                column[span] = inline[name]
            for name, tensor in named.items():
                tensors[name][span] = rows.tensors[tensor.name]
            done += len(rows)
            self._progress(f"edges {edge.relation}", done, count)
        data["edge_index"] = _torch(index, None)
        for name, column in (columns | tensors).items():
            data[name] = _torch(column, None)

    def _called(self, tensor: TensorMeta, taken: set[str]) -> str:
        """A name for an edge tensor that nothing else in the graph has."""
        if tensor.name not in taken:
            return tensor.name
        message = f"the edge tensor {tensor.name!r} is renamed to 'edge_{tensor.name}'"
        self.left.note("tensor-renamed", tensor.num_rows, message)
        return f"edge_{tensor.name}"


def _kind(tensor: TensorMeta) -> np.dtype[Any]:
    """The dtype of an array of node rows: raw bits for bf16, which torch supports."""
    return np.dtype(np.uint16) if tensor.dtype == "bf16" else numpy_kind(tensor)


def _torch(rows: Array, tensor: TensorMeta | None) -> Any:
    import torch

    if tensor is not None and tensor.dtype == "bf16":
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(rows)


def _row_bytes(tensor: TensorMeta) -> int:
    return numpy_kind(tensor).itemsize * math.prod(tensor.shape)
