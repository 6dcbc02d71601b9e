"""GraphBolt's OnDiskDataset: a folder with metadata.yaml, and arrays as .npy, .pt or .csv.

`graph` names node types with their numbers and edge types with their files; where a folder is only
preprocessed, `graph_topology` names one file of all edges (`graphbolt_fused.py`). `feature_data`
become tensors: `feat` is `x` and `label` is `y` where the type has no tensor of that name. Edge
attributes `weight` and `time` of `graph` become inline columns. `graphbolt_tasks.py` says what
tasks become, `graphbolt_marks.py` what exports of neargraph add. Everything is mapped and streamed.
Invariant: no path leaves the folder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .arrays import drop_pages, open_npy
from .check import fail, node_ids, same_rows, whole_times
from .chunks import CHUNK_EDGES, spans
from .graphbolt_marks import (
    EDGE_ID,
    EXPORT_AGAIN,
    MARKS,
    Marks,
    one_direction,
    row_of_ids,
)
from .notes import Note, left_out
from .npy import array_tensor, pair_layout
from .number_csv import NumberCsv
from .plan import (
    HOMOGENEOUS_EDGE,
    HOMOGENEOUS_NODE,
    Array,
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    NodePlan,
    TensorPlan,
)
from .torch_file import BrainFloats, contents, load_torch
from .yaml_file import load_yaml

METADATA = "metadata.yaml"
PREPROCESSED = "preprocessed"
RENAMED = {"feat": "x", "label": "y", "labels": "y"}
"""What this package calls the tensors that GraphBolt's own data sets call so."""

_WEIGHTS = ("weight", "edge_weight", "w")
_TIMES = ("time", "timestamp", "edge_time")
_LAYOUT = "see the layout of GraphBolt's OnDiskDataset"

Triple = tuple[str, str, str]


@dataclass(slots=True)
class Folder:
    """One data set: its folder, what metadata.yaml says, and what is found on the way."""

    path: Path
    file: Path
    meta: dict[str, Any]
    notes: list[Note] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def entries(self, owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
        """A list of mappings; empty where it is missing."""
        found = owner.get(key) or []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            fail(self.file, f"the entry {key!r} is not a list of mappings", _LAYOUT)
        return found

    def text(self, entry: dict[str, Any], key: str, what: str) -> str:
        """A text of an entry."""
        found = entry.get(key)
        if not isinstance(found, str) or not found:
            fail(self.file, f"{what} has no string in the entry {key!r}", _LAYOUT)
        return found

    def place(self, entry: dict[str, Any], what: str) -> Path:
        """The file of an entry, inside of the folder."""
        name = self.text(entry, "path", what)
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            found = f"{what} has the path {name[:80]!r}, which is absolute or has the part '..'"
            fail(self.file, found, "use a path inside the folder of the data set")
        return self.path / parts

    def array(self, entry: dict[str, Any], what: str) -> Any:
        """The array of an entry, mapped; `BrainFloats` for bfloat16."""
        file, format = self.place(entry, what), entry.get("format")
        if format == "numpy":
            return open_npy(file)
        if format != "torch":
            found = f"{what} has the format {format!r}, expected 'numpy' or 'torch'"
            fail(self.file, found, "correct the entry 'format'")
        found = contents(load_torch(file))
        if not isinstance(found, np.ndarray | BrainFloats):
            fail(file, "does not hold exactly one tensor", "save one tensor with torch.save")
        return found


@dataclass(slots=True)
class Inline:
    """Edge attributes that become inline columns, in the order of the edges; edge ids if known.

    ``row_of_ids`` is the row of a feature that belongs to each edge id, where it is not the id.
    """

    times: Array | None = None
    times_where: str = ""
    weights: Array | None = None
    edge_ids: Array | None = None
    ids_where: str = ""
    marks: Marks = field(default_factory=Marks)
    row_of_ids: Array | None = None

    def of(self, span: slice) -> dict[str, Array]:
        """The columns of some edges, for an `EdgeChunk`."""
        found = {}
        if self.times is not None:
            times = np.asarray(self.times[span])
            found["times"] = whole_times(times, self.times_where, span.start)
        if self.weights is not None:
            found["weights"] = np.asarray(self.weights[span])
        if self.edge_ids is not None:
            found["edge_ids"] = np.asarray(self.edge_ids[span], dtype=np.int64)
        return found


@dataclass(slots=True)
class Types:
    """Node and edge types of the graph, and the arrays that its edge types have inline.

    ``by_row``: row i of a feature belongs to edge i as it streams; else by edge id, where known.
    """

    by_row: bool = True
    nodes: dict[str, NodePlan] = field(default_factory=dict)
    edges: dict[Triple, EdgePlan] = field(default_factory=dict)
    inline: dict[Triple, Inline] = field(default_factory=dict)

    def node(self, folder: Folder, name: Any, what: str) -> NodePlan:
        """The node type of an entry; None stands for the only one."""
        if name is None and len(self.nodes) == 1:
            return next(iter(self.nodes.values()))
        if name not in self.nodes:
            known = ", ".join(self.nodes)
            found = "has no entry 'type'" if name is None else f"has the unknown node type {name!r}"
            fail(folder.file, f"{what} {found}", f"use one of the node types {known}")
        return self.nodes[name]

    def edge(self, folder: Folder, name: Any, what: str) -> EdgePlan:
        """The edge type of an entry, by "source:relation:destination"; None is the only one."""
        if name is None and len(self.edges) == 1:
            return next(iter(self.edges.values()))
        triple = parse_triple(name)
        if triple not in self.edges:
            known = ", ".join(":".join(one) for one in self.edges)
            found = "has no entry 'type'" if name is None else f"has the unknown edge type {name!r}"
            fail(folder.file, f"{what} {found}", f"use one of the edge types {known}")
        return self.edges[triple]


def are_texts(found: Any) -> bool:
    """Whether something is a list of text, as the names of classes are."""
    return isinstance(found, list) and all(isinstance(one, str) for one in found)


def parse_triple(name: Any) -> Triple | None:
    """The edge type of "source:relation:destination"; None for anything else."""
    parts = name.split(":") if isinstance(name, str) else []
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and all(parts) else None


def graphbolt_file(folder: Path) -> Path | None:
    """The metadata.yaml that describes a folder: its own, or that of its preprocessed part."""
    found = (folder / METADATA, folder / PREPROCESSED / METADATA)
    return next((file for file in found if file.is_file()), None)


def open_folder(path: Path | str) -> Folder:
    """A data set by its folder, or by a metadata.yaml of it; ImportFailed where it is neither."""
    given = Path(path)
    root = given.parent if given.name == METADATA else given
    root = root.parent if root.name == PREPROCESSED and not (root / PREPROCESSED).exists() else root
    file = graphbolt_file(root)
    if file is None:
        fail(given, "holds no metadata.yaml", "give the folder of an OnDiskDataset")
    return Folder(root, file, load_yaml(file))


def plan_graphbolt(path: Path | str) -> GraphPlan:
    """The plan of an OnDiskDataset, raw or preprocessed.

    Raises `ImportFailed` for metadata that do not fit the files, and for paths out of the folder.
    """
    from .graphbolt_tasks import add_tasks

    folder = open_folder(path)
    types = _raw_types(folder) if "graph" in folder.meta else _preprocessed_types(folder)
    features = folder.entries(folder.meta, "feature_data")
    # Edge ids first: rows of other features go by them.
    rest = [one for one in features if not _add_marked(folder, types, one)]
    _check_marked(folder, types)
    for entry in rest:
        _add_feature(folder, types, entry)
    for triple, edge in types.edges.items():
        if types.inline[triple].marks.undirected:
            edge.num_edges = (edge.num_edges or 0) // 2
    add_tasks(folder, types)
    known = {"dataset_name", "graph", "graph_topology", "feature_data", "tasks"}
    more = [key for key in folder.meta if key not in known | {"include_original_edge_id"}]
    folder.notes += left_out(
        "members-unused", more, str(folder.file), "an import does not store them"
    )
    name = folder.meta.get("dataset_name")
    folder.facts += [f"data set {name}"] if isinstance(name, str) else []
    nodes, edges = list(types.nodes.values()), list(types.edges.values())
    return GraphPlan(str(folder.path), "graphbolt", nodes, edges, folder.notes, folder.facts)


def _preprocessed_types(folder: Folder) -> Types:
    from .graphbolt_fused import fused_types

    if not isinstance(folder.meta.get("graph_topology"), dict):
        fail(folder.file, "has neither the entry 'graph' nor 'graph_topology'", _LAYOUT)
    return fused_types(folder, folder.meta["graph_topology"])


def _raw_types(folder: Folder) -> Types:
    graph = folder.meta["graph"]
    if not isinstance(graph, dict):
        fail(folder.file, "the entry 'graph' is not a mapping", _LAYOUT)
    types = Types()
    for entry in folder.entries(graph, "nodes"):
        name, count = entry.get("type") or HOMOGENEOUS_NODE, entry.get("num")
        if not isinstance(name, str):
            fail(folder.file, f"the node type {name!r} is not a string", _LAYOUT)
        if name in types.nodes:
            fail(folder.file, f"the node type {name!r} is listed twice", _LAYOUT)
        if type(count) is not int or count < 0:
            what = (
                f"the node type {name!r} has the entry num: {count!r}, expected its number of nodes"
            )
            fail(folder.file, what, _LAYOUT)
        types.nodes[name] = NodePlan(name, count)
    if not types.nodes:
        fail(folder.file, "the entry 'graph' has no list 'nodes' of node types", _LAYOUT)
    for entry in folder.entries(graph, "edges"):
        _add_edges(folder, types, entry)
    if not types.edges:
        fail(folder.file, "the entry 'graph' has no list 'edges' of edge types", _LAYOUT)
    for entry in folder.entries(graph, "feature_data"):
        add_attribute(folder, types, entry)
    return types


def _add_edges(folder: Folder, types: Types, entry: dict[str, Any]) -> None:
    name = entry.get("type")
    triple = parse_triple(name) if name is not None else HOMOGENEOUS_EDGE
    if triple is None:
        what = f"the edge type {name!r} does not have the form SOURCE:RELATION:DESTINATION"
        fail(folder.file, what, _LAYOUT)
    if triple in types.edges:
        fail(folder.file, f"the edge type {':'.join(triple)!r} is listed twice", _LAYOUT)
    what = f"the edge type {':'.join(triple)}"
    ends = tuple(types.node(folder, None if name is None else end, what) for end in triple[::2])
    bounds = tuple(node.num_nodes or 0 for node in ends)
    triple = (ends[0].name, triple[1], ends[1].name)
    marks = Marks.of(entry.get(MARKS), f"{folder.file}, {what}")
    if marks.undirected and ends[0] is not ends[1]:
        found = f"{what} is marked undirected, but joins two different node types"
        fail(folder.file, found, EXPORT_AGAIN)
    file, inline = folder.place(entry, what), Inline(marks=marks)
    if entry.get("format") == "numpy":
        count, pairs = _npy_pairs(open_npy(file), str(file))
    elif entry.get("format") == "csv":
        count, pairs = _csv_pairs(file)
    else:
        found = f"{what} has the format {entry.get('format')!r}, expected 'numpy' or 'csv'"
        fail(folder.file, found, "correct the entry 'format'")

    def chunks() -> Iterator[EdgeChunk]:
        for row, left, right in pairs():
            columns = inline.of(slice(row, row + len(left)))
            if inline.edge_ids is not None:
                marks.check_ids(columns["edge_ids"], inline.ids_where)
            yield EdgeChunk(
                node_ids(left, str(file), row, bounds[0]),
                node_ids(right, str(file), row, bounds[1]),
                **columns,
            )
            for mapped in (inline.times, inline.weights, inline.edge_ids):
                drop_pages(mapped)

    types.edges[triple] = EdgePlan(
        *triple,
        chunks=(lambda: one_direction(chunks(), str(file))) if marks.undirected else chunks,
        num_edges=count,
        undirected=marks.undirected,
        unique=marks.unique,
        reverse=marks.reverse,
    )
    types.inline[triple] = inline


_Pairs = Callable[[], Iterator[tuple[int, Array, Array]]]


def _npy_pairs(array: Array, where: str) -> tuple[int, _Pairs]:
    if pair_layout(array, where) != "rows":
        fail(where, f"has shape {list(array.shape)}, expected [2, E]", "transpose the array")

    def pairs() -> Iterator[tuple[int, Array, Array]]:
        for span in spans(array.shape[1]):
            left, right = (np.ascontiguousarray(row[span]) for row in array)
            yield span.start, left, right
            drop_pages(array)

    return int(array.shape[1]), pairs


def _csv_pairs(file: Path) -> tuple[int, _Pairs]:
    table = NumberCsv.open(file)
    if table.num_rows and (table.num_columns != 2 or not table.whole or table.num_missing):
        todo = "write each edge as source,destination, without a header"
        fail(file, "does not have two columns of node ids", todo)

    def pairs() -> Iterator[tuple[int, Array, Array]]:
        row = 0
        for part in table.rows(CHUNK_EDGES):
            yield row, np.ascontiguousarray(part[:, 0]), np.ascontiguousarray(part[:, 1])
            row += len(part)

    return table.num_rows, pairs


def add_attribute(folder: Folder, types: Types, entry: dict[str, Any]) -> None:
    """An attribute of the sampling graph: weights and times of edges inline, others as features."""
    name = folder.text(entry, "name", "an attribute of the graph")
    if entry.get("domain") != "edge" or name not in (*_WEIGHTS, *_TIMES):
        _add_feature(folder, types, entry)
        return
    what = f"the edge attribute {name!r}"
    edge = types.edge(folder, entry.get("type"), what)
    values = folder.array(entry, what)
    where = str(folder.place(entry, what))
    if not set_inline(edge, types.inline[_triple(edge)], name, values, where):
        _add_feature(folder, types, entry)


def set_inline(edge: EdgePlan, inline: Inline, name: str, values: Any, where: str) -> bool:
    """Makes an edge attribute an inline column; False where it is not fit for one."""
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        return False
    same_rows(len(values), edge.num_edges or 0, where, f"the attribute {name!r}")
    if name in _WEIGHTS and values.dtype.kind == "f" and inline.weights is None:
        inline.weights, edge.has_weight = values, True
        return True
    if name in _TIMES and values.dtype.kind in "iu" and inline.times is None:
        inline.times, inline.times_where, edge.has_time = values, where, True
        return True
    return False


def _triple(edge: EdgePlan) -> Triple:
    return edge.source, edge.relation, edge.destination


def _add_marked(folder: Folder, types: Types, entry: dict[str, Any]) -> bool:
    """Makes a feature the inline column that an export made it of; False for any other feature."""
    name = entry.get("name")
    if entry.get("domain") != "edge" or name not in (*_WEIGHTS, *_TIMES, EDGE_ID):
        return False
    what = f"the feature {name!r}"
    edge = types.edge(folder, entry.get("type"), what)
    inline = types.inline[_triple(edge)]
    if name not in inline.marks.inline:
        return False
    values, where = folder.array(entry, what), str(folder.place(entry, what))
    if name != EDGE_ID:
        fit = set_inline(edge, inline, name, values, where)
    else:
        fit = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu"
        same_rows(len(values), edge.num_edges or 0, where, what)
    if not fit:
        fail(where, f"{what} does not have one number for each edge", EXPORT_AGAIN)
    if name == EDGE_ID:
        inline.edge_ids, inline.ids_where, edge.has_edge_ids = values, where, True
    return True


def _check_marked(folder: Folder, types: Types) -> None:
    for triple, edge in types.edges.items():
        there = {"weight": edge.has_weight, "time": edge.has_time, EDGE_ID: edge.has_edge_ids}
        for name in types.inline[triple].marks.inline:
            if not there[name]:
                what = f"has no feature {name!r} of the edge type {':'.join(triple)}"
                fail(folder.file, what, EXPORT_AGAIN)


def _add_feature(folder: Folder, types: Types, entry: dict[str, Any]) -> None:
    name, domain = folder.text(entry, "name", "a feature"), entry.get("domain")
    what = f"the feature {name!r}"
    if domain == "graph":
        why = "a feature of the whole graph, not of nodes or edges"
        folder.notes += left_out("attributes-dropped", [name], str(folder.file), why)
        return
    if domain not in ("node", "edge"):
        found = f"{what} has the domain {domain!r}, expected 'node' or 'edge'"
        fail(folder.file, found, "correct the entry 'domain'")
    where = str(folder.place(entry, what))
    values = folder.array(entry, what)
    if domain == "node":
        node = types.node(folder, entry.get("type"), what)
        add_tensor(node, name, values, where, node.num_nodes or 0)
        classes = entry.get("class_names")
        if are_texts(classes) and node.tensors[-1].dtype == "i64":
            node.tensors[-1].class_names = classes
        return
    edge = types.edge(folder, entry.get("type"), what)
    if not types.by_row and not edge.has_edge_ids:
        why = "its rows belong to edge ids, but the preprocessed graph does not keep edge ids"
        folder.notes += left_out("attributes-dropped", [name], str(folder.file), why)
        return
    inline = types.inline[_triple(edge)]
    if EDGE_ID in inline.marks.inline and inline.row_of_ids is None:
        assert inline.edge_ids is not None
        inline.row_of_ids = row_of_ids(inline.marks, inline.edge_ids, inline.ids_where)
    add_tensor(edge, name, values, where, edge.num_edges or 0, inline.row_of_ids)
    edge.has_edge_ids = True


def add_tensor(
    owner: NodePlan | EdgePlan,
    name: str,
    values: Any,
    where: str,
    num_rows: int,
    order: Array | None = None,
) -> None:
    """A feature as a tensor, `feat` as `x` and `label` as `y` where these names are free.

    With ``order`` row i is row ``order[i]`` of ``values``, or zeros where that is -1.
    """
    taken = {tensor.name for tensor in owner.tensors}
    better = RENAMED.get(name, name) if isinstance(owner, NodePlan) else name
    name = name if better in taken else better
    if name in taken:
        fail(where, f"the feature {name!r} exists twice", "rename one of them")
    owner.tensors.append(any_tensor(values, name, where, num_rows, order))


def any_tensor(
    values: Any, name: str, where: str, num_rows: int, order: Array | None = None
) -> TensorPlan:
    """An array, or the raw bits of bfloat16, as a tensor."""
    brain = isinstance(values, BrainFloats)
    array = values.array if brain else values
    if array.ndim == 0:
        fail(where, "is a single number", "store one row for each node or edge")
    if brain:
        plain = array_tensor(array.view(np.int16), name, where, num_rows, order=order)

        def chunks() -> Iterator[Array]:
            return (chunk.view(np.uint16) for chunk in plain.chunks())

        return TensorPlan(name, "bf16", plain.shape, chunks, plain.num_rows)
    labels = name == "y" and array.ndim == 1
    return array_tensor(array, name, where, num_rows, as_labels=labels, order=order)
