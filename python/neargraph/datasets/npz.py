"""Exports a store as one .npz file, which NumPy and `neargraph import` read.

Members of node type T: `num_nodes_T`, `T_NAME` for each tensor, `T_y_names` (class names) and
`T_ids` (string ids). Members of edge type (A, r, B): `A__r__B` [2, E], and `A__r__B__NAME` for
`time`, `weight`, `edge_id` and each edge tensor. Members are written in pieces, uncompressed.
Properties that the file does not keep are notes of the report. The invariant: one rename makes the
complete file visible.
"""

import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.importers.chunks import spans
from neargraph.schema import EdgeType, NodeType
from neargraph.snapshot import Snapshot
from neargraph.store import Store

from .edge_rows import EdgeRows, EdgeTable
from .leftovers import Leftovers, all_undirected
from .node_rows import name_pieces, node_pieces, numpy_kind
from .npy_writer import NpyWriter
from .publishing import ExportReport, bytes_of, published_file

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

_INLINE = ("time", "weight", "edge_id")
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float32)


def to_npz(
    store: Store | Snapshot, out: Path | str, *, progress: Progress | None = None
) -> ExportReport:
    """Writes the newest version of a store as an .npz file.

    Members of node type T: `num_nodes_T`, `T_NAME` for each tensor, `T_y_names` (class names),
    `T_ids` (string ids) and `T_split_0` (0 none, 1 train, 2 val, 3 test). Members of edge type
    (A, r, B): `A__r__B` [2, E], and `A__r__B__NAME` for `time`, `weight`, `edge_id` and each edge
    tensor, in the order of the edges. An import reads all but string ids.

    Args:
        store: The store, or one version of it.
        out: The new file, NAME.npz. It must not exist.
        progress: Called with (phase, rows done, total rows).

    Returns:
        The file's size, the options for an import of it, and a note for each property that the
        file does not keep.

    Raises:
        UnsupportedArgument: `out` exists or does not end in .npz, or names of types are ambiguous.

    Example:
        >>> neargraph.datasets.to_npz(store, "graph.npz")                  # doctest: +SKIP
        >>> np.load("graph.npz")["node__to__node"]                         # doctest: +SKIP
    """
    target, snap = Path(out), store.snapshot()
    if target.suffix != ".npz":
        raise UnsupportedArgument(f"{target} is not a valid name: expected NAME.npz")
    with (
        published_file(target) as (file, folder),
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        writer = _Writer(snap, archive, folder, progress or (lambda *_: None))
        writer.write()
    return {
        "path": str(target),
        "num_nodes": snap.num_nodes,
        "num_edges": snap.num_edges,
        "bytes": bytes_of(target),
        "import_options": writer.left.import_options,
        "notes": writer.left.report(),
    }


class _Writer:
    """One export: its members and its notes."""

    def __init__(
        self, snap: Snapshot, archive: zipfile.ZipFile, folder: Path, progress: Progress
    ) -> None:
        self._snap, self._archive, self._folder = snap, archive, folder
        self._progress = progress
        self.left = Leftovers(snap)
        self._once = all_undirected(snap)
        names = [node.name for node in snap.schema.node_types]
        for name in (*names, *(edge.relation for edge in snap.schema.edge_types)):
            longer = [other for other in names if other.startswith(f"{name}_")]
            if "__" in name or name.startswith("_") or name.endswith("_") or longer:
                raise UnsupportedArgument(
                    f"{snap.path}: with the type name {name!r}, names of .npz members would "
                    "be ambiguous; export to the format pyg instead"
                )

    def write(self) -> None:
        """Writes all members."""
        schema = self._snap.schema
        self.left.of_store(self._once)
        for node in schema.node_types:
            self.left.of_nodes(node)
            self._nodes(node)
        for edge in schema.edge_types:
            self.left.of_edges(edge)
            self._edges(edge)

    def _member(
        self, name: str, kind: Any, shape: tuple[int, ...], pieces: Iterator[Array], **how: bool
    ) -> None:
        with (
            self._archive.open(f"{name}.npy", "w", force_zip64=True) as file,
            NpyWriter(file, np.dtype(kind), shape, **how) as rows,
        ):
            for piece in pieces:
                rows.write(piece)

    def _nodes(self, node: NodeType) -> None:
        self._member(f"num_nodes_{node.name}", _INT, (), iter([np.array(node.num_nodes)]))
        if node.has_dictionary:
            self._ids(node)
        if any(t.is_split and t.mask_width is not None for t in node.tensors):
            message = (
                f"masks of node type {node.name!r} are written as splits (split_0, ...), which an "
                "import does not turn back into masks"
            )
            self.left.note("mask-width-dropped", node.num_nodes, message)
        for tensor in node.tensors:
            name = f"{node.name}_{tensor.name}"
            pieces = self._counted(name, node.num_nodes, node_pieces(self._snap, node, tensor))
            shape = (node.num_nodes, *tensor.shape)
            self._member(name, numpy_kind(tensor), shape, pieces)
            if tensor.class_names and tensor.name == "y":
                names = np.array(tensor.class_names)
                self._member(f"{name}_names", names.dtype, names.shape, iter([names]))
            elif tensor.class_names:
                owner = f"tensor {tensor.name!r} of node type {node.name!r}"
                message = f"class names of {owner} are not written"
                self.left.note("class-names-dropped", len(tensor.class_names), message)

    def _ids(self, node: NodeType) -> None:
        longest = max((len(n) for names in name_pieces(self._snap, node) for n in names), default=1)
        kind = np.dtype(f"<U{max(1, longest)}")
        pieces = (np.array(names, kind) for names in name_pieces(self._snap, node))
        self._member(f"{node.name}_ids", kind, (node.num_nodes,), pieces)
        message = f"an import does not read the string ids in the member {node.name}_ids"
        self.left.note(
            "string-ids-dropped", node.num_nodes, f"{message}; the format parquet keeps them"
        )

    def _counted(
        self, phase: str, total: int, pieces: Iterator[tuple[int, Array]]
    ) -> Iterator[Array]:
        for first, rows in pieces:
            yield rows
            self._progress(phase, first + len(rows), total)

    def _edges(self, edge: EdgeType) -> None:
        name = "__".join(edge.triple)
        table = EdgeTable(self._snap, edge, self._folder, self._once)
        count = table.num_rows

        def column(take: Callable[[EdgeRows], Array], tensors: bool = False) -> Iterator[Array]:
            done = 0
            for rows in table.rows(tensors):
                yield take(rows)
                done += len(rows)
                self._progress(f"edges {edge.relation}", done, count)

        # In Fortran order, pairs lie side by side and can be written in pieces.
        pairs = column(lambda rows: np.stack([rows.sources, rows.destinations], axis=1))
        self._member(name, _INT, (2, count), pairs, fortran=True)
        if table.renumbered:
            gaps = edge.num_edge_ids - count
            message = (
                f"edge type {name} has {gaps} unused edge ids, so edges are renumbered by row; the "
                f"member {name}__old_edge_id has the old ids"
            )
            self.left.note("edge-ids-renumbered", gaps, message)
            old = column(lambda rows: _there(rows.ids))
            self._member(f"{name}__old_edge_id", _INT, (count,), old)
        if edge.has_time:
            times = column(lambda rows: _there(rows.times))
            self._member(f"{name}__time", _INT, (count,), times)
        if edge.has_weight:
            weights = column(lambda rows: _there(rows.weights))
            self._member(f"{name}__weight", _FLOAT, (count,), weights)
        if edge.has_edge_ids and not edge.tensors and (self._once or not edge.undirected):
            self._member(f"{name}__edge_id", _INT, (count,), _counting(count))
        for tensor in edge.tensors:
            called = tensor.name + ("_rows" if tensor.name in _INLINE else "")
            if called != tensor.name:
                owner = f"tensor {tensor.name!r} of edge type {name}"
                message = f"{owner} is written as the member {name}__{called}"
                self.left.note("tensor-renamed", count, message)
            kind = np.dtype(np.float32) if tensor.dtype == "bf16" else tensor.numpy_dtype
            take = partial(_tensor_rows, tensor.name)
            rows = column(take, tensors=True)
            self._member(f"{name}__{called}", kind, (count, *tensor.shape), rows)


def _tensor_rows(name: str, rows: EdgeRows) -> Array:
    return rows.tensors[name]


def _counting(count: int) -> Iterator[Array]:
    for span in spans(count):
        yield np.arange(span.start, span.stop)


def _there(column: Array | None) -> Array:
    assert column is not None
    return column
