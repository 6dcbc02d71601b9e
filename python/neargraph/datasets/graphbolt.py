"""Exports a store as GraphBolt's OnDiskDataset: a folder with metadata.yaml and .npy files.

Edges are written in the order of the in-neighbour lists, which takes one pass over the store. Row i
of every edge feature belongs to edge i of the file; the feature `edge_id` has the store's edge ids.
Node rows keep their ids. Properties that GraphBolt lacks become marks that an import reads
(`importers/graphbolt_marks.py`), or notes of the report. Invariant: one rename makes the complete
folder visible.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph._lists import lists_of
from neargraph.exceptions import UnsupportedArgument
from neargraph.importers.chunks import chunk_rows, spans
from neargraph.importers.graphbolt import METADATA
from neargraph.importers.graphbolt_marks import EDGE_ID, Marks
from neargraph.importers.notes import Note
from neargraph.importers.plan import HOMOGENEOUS_EDGE, HOMOGENEOUS_NODE
from neargraph.importers.yaml_file import yaml_for
from neargraph.reader import Neighbors
from neargraph.schema import EdgeType, NodeType, TensorMeta
from neargraph.snapshot import Snapshot
from neargraph.splits import SPLITS, split_columns
from neargraph.store import Store

from .node_rows import (
    is_widened,
    name_pieces,
    node_pieces,
    node_rows,
    numpy_kind,
    widened,
)
from .npy_writer import NpyWriter
from .publishing import ExportReport, bytes_of, published

Array = NDArray[Any]
Progress = Callable[[str, int, int | None], None]

_SETS = {"train": "train_set", "val": "validation_set", "test": "test_set"}
_ORIGINAL = {"x": "feat", "y": "label"}
_INLINE = {"weight": np.float32, "time": np.int64, EDGE_ID: np.int64}
_SHARED = ("weight", "time")


def to_graphbolt(
    store: Store | Snapshot, folder: Path | str, *, progress: Progress | None = None
) -> ExportReport:
    """Writes the newest version of a store as a raw `dgl.graphbolt.OnDiskDataset`.

    - Node and edge types are in `graph`, their tensors in `feature_data`. `x` becomes `feat`, `y`
      becomes `label`.
    - Each split of nodes becomes a task with its seeds, and with labels if the type has `y`.
    - Weights and times of edges become attributes of the graph, which GraphBolt can sample by.
    - Both entries of an undirected edge become edges.
    - bf16, scaled int8 and sparse rows become dense float32 rows.
    - Each edge type has an entry ``neargraph`` in metadata.yaml, which GraphBolt ignores. From it,
      an import restores edge ids, inline columns, `undirected`, `unique` and stored reverses.

    Args:
        store: The store, or one version of it.
        folder: The new folder. It must not exist.
        progress: Called with (phase, rows done, total rows).

    Returns:
        The files' sizes, and a note for each property that the folder does not keep.

    Raises:
        UnsupportedArgument: The folder exists, or the name of a type contains ":".
        MissingDependency: PyYAML is not installed.

    Example:
        >>> neargraph.datasets.to_graphbolt(store, "cora-graphbolt")       # doctest: +SKIP
        >>> dgl.graphbolt.OnDiskDataset("cora-graphbolt").load()           # doctest: +SKIP
    """
    target, snap = Path(folder), store.snapshot()
    with yaml_for("to_graphbolt"):
        import yaml
    with published(target) as staging:
        writer = _Writer(snap, staging, progress or (lambda *_: None))
        meta = writer.write(Path(store.path).stem)
        (staging / METADATA).write_text(yaml.safe_dump(meta, sort_keys=False))
    return {
        "path": str(target),
        "num_nodes": snap.num_nodes,
        "num_edges": snap.num_edges,
        "bytes": bytes_of(target),
        "import_options": [],
        "notes": writer.report(),
    }


class _Writer:
    """One export: the version, the folder, and the notes."""

    def __init__(self, snap: Snapshot, folder: Path, progress: Progress) -> None:
        self._snap, self._folder, self._progress = snap, folder, progress
        self._notes: list[Note] = []
        schema = snap.schema
        self._untyped = (
            schema.is_homogeneous
            and schema.node_types[0].name == HOMOGENEOUS_NODE
            and all(t.triple == HOMOGENEOUS_EDGE for t in schema.edge_types)
        )
        names = [t.name for t in schema.node_types] + [t.relation for t in schema.edge_types]
        for name in names:
            if ":" in name:
                raise UnsupportedArgument(
                    f"{snap.path}: the type name {name!r} is not valid in GraphBolt, which uses "
                    '":" as a separator; import the graph with another type name'
                )

    def report(self) -> list[dict[str, Any]]:
        return [asdict(note) for note in self._notes]

    def write(self, name: str) -> dict[str, Any]:
        """Writes all arrays, and returns the content of metadata.yaml."""
        schema = self._snap.schema
        if schema.raw["reuse_ids"]:
            message = (
                "the folder does not keep the setting reuse_ids=True, by which new nodes take the "
                "ids of deleted nodes"
            )
            self._note("reuse-ids-dropped", self._snap.num_nodes, message)
        for part in ("nodes", "edges", "sets"):
            (self._folder / part).mkdir()
        nodes: list[dict[str, Any]] = []
        features: list[dict[str, Any]] = []
        for node in schema.node_types:
            nodes.append({**self._typed(node), "num": node.num_nodes})
            features += self._node_features(node)
        graph: dict[str, Any] = {"nodes": nodes, "edges": []}
        attributes: list[dict[str, Any]] = []
        for edge in schema.edge_types:
            entry, inline, others = self._edges(edge)
            graph["edges"].append(entry)
            attributes += inline
            features += others
        # GraphBolt requires an attribute of all edge types, or of none.
        for shared in _SHARED:
            mine = [one for one in attributes if one["name"] == shared]
            if mine and len(mine) == len(schema.edge_types):
                graph.setdefault("feature_data", []).extend(mine)
            else:
                features += mine
        tasks = [task for node in schema.node_types for task in self._tasks(node)]
        return {"dataset_name": name, "graph": graph, "feature_data": features, "tasks": tasks}

    def _typed(self, owner: NodeType | EdgeType) -> dict[str, Any]:
        if self._untyped:
            return {}
        return {"type": owner.name if isinstance(owner, NodeType) else ":".join(owner.triple)}

    def _note(self, code: str, count: int, message: str) -> None:
        self._notes.append(Note(code, count, self._snap.path, message))

    def _node_features(self, node: NodeType) -> Iterator[dict[str, Any]]:
        if dead := node.num_nodes - node.num_nodes_live:
            self._note(
                "nodes-deleted",
                dead,
                f"{dead} deleted nodes of type {node.name!r} are written as nodes without edges",
            )
        if node.has_dictionary:
            self._write_names(node)
        taken = {tensor.name for tensor in node.tensors}
        for tensor in node.tensors:
            if tensor.is_split:
                continue
            name = _ORIGINAL.get(tensor.name, tensor.name)
            name = tensor.name if name in taken else name
            path = f"nodes/{node.index}_{_plain(node.name)}_{_plain(tensor.name)}.npy"
            self._write_rows(path, tensor, node)
            entry = {"domain": "node", **self._typed(node), "name": name, **_numpy(path)}
            if tensor.class_names:
                entry["class_names"] = list(tensor.class_names)
            yield entry

    def _write_names(self, node: NodeType) -> None:
        path = f"nodes/{node.index}_{_plain(node.name)}_names.jsonl"
        with (self._folder / path).open("w") as file:
            for names in name_pieces(self._snap, node):
                file.writelines(json.dumps(name) + "\n" for name in names)
        message = f"GraphBolt has no string ids; those of node type {node.name!r} are in {path}"
        self._note("names-beside", node.num_nodes, message)

    def _write_rows(self, path: str, tensor: TensorMeta, node: NodeType) -> None:
        kind = numpy_kind(tensor)
        if is_widened(tensor):
            owner = f"tensor {tensor.name!r} of node type {node.name!r}"
            message = f"{owner} is written as f32, not {tensor.dtype}"
            self._note("widened", node.num_nodes, message)
        with NpyWriter(self._folder / path, kind, (node.num_nodes, *tensor.shape)) as file:
            for first, rows in node_pieces(self._snap, node, tensor):
                file.write(rows)
                self._progress(tensor.name, first + len(rows), node.num_nodes)

    def _edges(self, edge: EdgeType) -> tuple[dict[str, Any], list[Any], list[Any]]:
        """Writes an edge type. Returns its entry, its inline attributes, and its features."""
        stem = f"edges/{edge.index}_{_plain('-'.join(edge.triple))}"
        total, named = edge.num_edges, _tensor_names(edge)
        for name, tensor in named.items():
            if name != tensor.name:
                owner = f"tensor {tensor.name!r} of edge type {edge.triple}"
                message = f"{owner} is renamed to {name!r}"
                self._note("tensor-renamed", edge.num_edge_ids, message)
        kinds: dict[str, tuple[Any, tuple[int, ...]]] = {
            name: (_INLINE[name], ()) for name in _inline_names(edge)
        }
        for name, tensor in named.items():
            bits = np.float32 if tensor.dtype == "bf16" else tensor.numpy_dtype
            kinds[name] = bits, tensor.shape
        paths = {name: f"{stem}_{_plain(name)}.npy" for name in kinds}
        files = {
            name: NpyWriter(self._folder / paths[name], np.dtype(bits), (total, *shape))
            for name, (bits, shape) in kinds.items()
        }
        ends = NpyWriter(self._folder / f"{stem}.npy", np.dtype(np.int64), (2, total))
        done = 0
        try:
            for ids, found in lists_of(self._snap, edge):
                destinations = np.repeat(ids, np.diff(found.indptr))
                ends.write_at(done, found.indices)
                ends.write_at(total + done, destinations)
                for name, rows in self._columns(edge, found, named):
                    files[name].write(rows)
                done += len(destinations)
                self._progress("edges", done, total)
        finally:
            for file in (ends, *files.values()):
                file.close()
        entries = {
            name: {"domain": "edge", **self._typed(edge), "name": name, **_numpy(path)}
            for name, path in paths.items()
        }
        marks = _marks(edge, self._snap.schema.raw["edge_types"][edge.index])
        entry = {**self._typed(edge), "format": "numpy", "path": f"{stem}.npy", **marks.entry()}
        shared = [one for name, one in entries.items() if name in _SHARED]
        return entry, shared, [one for name, one in entries.items() if name not in _SHARED]

    def _columns(
        self, edge: EdgeType, found: Neighbors, named: dict[str, TensorMeta]
    ) -> Iterator[tuple[str, Array]]:
        """Returns the inline columns and tensor rows of some lists, in their order."""
        inline = {"weight": found.weights, "time": found.times, EDGE_ID: found.edge_ids}
        yield from ((name, rows) for name, rows in inline.items() if rows is not None)
        for name, tensor in named.items():
            assert found.edge_ids is not None
            rows = self._snap.edge_features(edge.triple, found.edge_ids, tensor.name)
            yield name, widened(rows, tensor)

    def _tasks(self, node: NodeType) -> Iterator[dict[str, Any]]:
        labels = next((t for t in node.tensors if t.name == "y"), None)
        for column in split_columns(node):
            index = int(column.removeprefix("split_"))
            stem = f"sets/{node.index}_{_plain(node.name)}_{index}"
            several = sum(map(len, map(split_columns, self._snap.schema.node_types))) > 1
            more = f"_{_plain(node.name)}_{index}" if several else ""
            task: dict[str, Any] = {"name": f"node_classification{more}"}
            if labels is not None and labels.dtype != "i64":
                task["name"] = f"node_regression{more}"
            if labels is not None and labels.dtype == "i64" and not labels.shape:
                task["num_classes"] = len(labels.class_names) or self._num_classes(node)
            for part in SPLITS:
                data = self._set(node, column, SPLITS[part], labels, f"{stem}_{part}")
                task[_SETS[part]] = [{**self._typed(node), "data": data}]
            yield task

    def _set(
        self, node: NodeType, column: str, code: int, labels: TensorMeta | None, stem: str
    ) -> list[dict[str, Any]]:
        """Writes the nodes of one part of a split, and their labels."""
        count = sum(map(len, self._members(node, column, code)))
        data = [{"name": "seeds", **_in_memory(f"{stem}_seeds.npy")}]
        with NpyWriter(self._folder / data[0]["path"], np.dtype(np.int64), (count,)) as file:
            for ids in self._members(node, column, code):
                file.write(ids)
        if labels is None:
            return data
        data.append({"name": "labels", **_in_memory(f"{stem}_labels.npy")})
        kind = numpy_kind(labels)
        step = chunk_rows(kind.itemsize * labels.num_columns)
        with NpyWriter(self._folder / data[1]["path"], kind, (count, *labels.shape)) as file:
            for ids in self._members(node, column, code):
                for span in spans(len(ids), step):
                    file.write(node_rows(self._snap, node, labels, ids[span]))
        return data

    def _members(self, node: NodeType, column: str, code: int) -> Iterator[NDArray[np.int64]]:
        """Yields the nodes of one part of a split, ascending, without deleted nodes."""
        dead = self._snap.dead_nodes(node.name)
        for first, codes in self._snap.scan(node, column):
            yield np.setdiff1d(first + np.flatnonzero(codes == code), dead, assume_unique=True)

    def _num_classes(self, node: NodeType) -> int:
        most = -1
        for span in spans(node.num_nodes):
            values = self._snap.features(node.name, np.arange(span.start, span.stop), "y")
            most = max(most, int(values.max(initial=-1)))
        return most + 1


def _inline_names(edge: EdgeType) -> list[str]:
    there = {"weight": edge.has_weight, "time": edge.has_time, EDGE_ID: edge.has_edge_ids}
    return [name for name, is_there in there.items() if is_there]


def _marks(edge: EdgeType, raw: dict[str, Any]) -> Marks:
    return Marks(
        inline=tuple(_inline_names(edge)),
        num_edge_ids=edge.num_edge_ids,
        undirected=edge.undirected,
        unique=raw.get("unique", False),
        # An undirected type is its own reverse.
        reverse=raw.get("reverse") not in (None, edge.index),
    )


def _tensor_names(edge: EdgeType) -> dict[str, TensorMeta]:
    """Maps feature names, which differ from those of inline columns, to edge tensors."""
    inline = _inline_names(edge)
    return {t.name + ("_rows" if t.name in inline else ""): t for t in edge.tensors}


def _numpy(path: str) -> dict[str, Any]:
    return {"format": "numpy", "in_memory": False, "path": path}


def _in_memory(path: str) -> dict[str, Any]:
    return {"format": "numpy", "in_memory": True, "path": path}


def _plain(name: str) -> str:
    """A name in the form that is valid in a file name."""
    return re.sub(r"[^\w.-]", "_", name)[:80]
