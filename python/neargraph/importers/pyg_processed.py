"""The processed/ folder of a PyG data set: data.pt, as InMemoryDataset saves it.

The file is read by `torch_file.py`, which runs nothing of it: (attributes, slices, class) of PyG
2.4 and later, (Data, slices) before. One graph goes the way of `from_pyg`, its tensors mapped from
the file. Many graphs are one block-diagonal graph as of a TUDataset: what has a row for each node
or edge is a tensor by its name, what has one for each graph is repeated on its nodes as `graph_y`
or `graph_NAME`. Invariant: an attribute that is not stored has a note.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from neargraph._optional import torch_for

from .arrays import drop_pages
from .blocks import block_edges, block_fact, by_graph, graph_ids, graph_labels
from .check import fail, to_i64
from .chunks import spans
from .graphbolt import any_tensor
from .memory import hold
from .notes import Note, left_out
from .npz import split_tensors
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan
from .pyg_times import time_name, time_notes
from .torch_file import BrainFloats, TorchClass, TorchObject, contents, load_torch

_AGAIN = "process the data set again with PyG"
_SETTINGS = ("pre_filter.pt", "pre_transform.pt")
_MASKS = ("train_mask", "val_mask", "test_mask")
# Attributes that PyG itself takes the number of nodes from.
_OF_NODES = ("x", "pos", "z", "feature", "node_type", "n_id", "batch")

Attributes = dict[Any, Any]


def processed_file(path: Path) -> Path | None:
    """The file of all graphs of a PyG data set: of its folder, its processed/, or itself."""
    if path.is_file():
        return path if path.suffix == ".pt" else None
    for folder in (path, path / "processed") if path.name == "processed" else (path / "processed",):
        files = [f for f in sorted(folder.glob("*.pt")) if f.name not in _SETTINGS]
        if len(files) > 1:
            names = ", ".join(f.name for f in files[:8])
            fail(folder, f"holds several files of graphs ({names})", "give one of them")
        if files:
            return files[0]
    return None


def plan_processed(path: Path | str) -> GraphPlan:
    """The plan of processed/data.pt.

    Raises `ImportFailed` for a file that asks for code, and for slices that do not fit.
    """
    file = processed_file(Path(path))
    if file is None:
        fail(path, "holds no processed/data.pt", "give the folder of a PyG data set")
    found = contents(load_torch(file))
    if isinstance(found, TorchObject):
        found = (found, None)
    # Some data sets, such as TUDataset, put sizes of their own before the class.
    if not isinstance(found, tuple) or len(found) not in (2, 3, 4):
        what = "is not a file that InMemoryDataset.save has written"
        fail(file, what, "save the data set with InMemoryDataset.save")
    held, slices = found[0], found[1]
    name = found[-1].name if isinstance(found[-1], TorchClass) else ""
    if isinstance(held, TorchObject):
        name = held.name
    kind = name.rpartition(" ")[2] or "Data"
    attributes = _attributes(held, str(file))
    if _num_graphs(slices, str(file)) is not None:
        if kind != "Data":
            what = f"holds several graphs of class {kind}, expected several of class Data"
            fail(file, what, "save each graph in a file of its own")
        return _plan_many(file, attributes, slices)
    return _plan_one(file, attributes, kind)


def _attributes(held: Any, where: str) -> Attributes:
    """The attributes of a Data, or by type those of a HeteroData, of any release of PyG."""
    if isinstance(held, TorchObject):
        state = held.state if isinstance(held.state, dict) else {}
        if "_node_store_dict" in state:
            found: Attributes = {"_global_store": _mapping(state.get("_global_store"))}
            for part in ("_node_store_dict", "_edge_store_dict"):
                stores = state.get(part)
                if not isinstance(stores, dict):
                    fail(where, f"has a HeteroData without {part}", _AGAIN)
                found |= {key: _mapping(store) for key, store in stores.items()}
            return found
        held = _mapping(state["_store"]) if "_store" in state else state
        held = {
            ("num_nodes" if key == "__num_nodes__" else key): value
            for key, value in held.items()
            if value is not None and (key == "__num_nodes__" or not str(key).startswith("_"))
        }
    if not isinstance(held, dict):
        fail(where, "holds a graph without attributes", _AGAIN)
    return {
        key: {k: contents(v) for k, v in value.items()}
        if isinstance(value, dict)
        else contents(value)
        for key, value in held.items()
    }


def _mapping(store: Any) -> Attributes:
    state = store.state if isinstance(store, TorchObject) else None
    found = state.get("_mapping") if isinstance(state, dict) else None
    return {k: contents(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _num_graphs(slices: Any, where: str) -> int | None:
    """How many graphs a file holds by its slices; None where it is one."""
    if not isinstance(slices, dict) or not slices:
        return None
    first = next(iter(slices.values()))
    if isinstance(first, dict):
        first = next((one for part in slices.values() for one in part.values()), None)
    pointers = np.asarray(contents(first)) if first is not None else np.zeros(2)
    if pointers.ndim != 1 or len(pointers) == 0:
        fail(where, "has slices that are not lists of integers", _AGAIN)
    return None if len(pointers) == 2 else len(pointers) - 1


def _plan_one(file: Path, attributes: Attributes, kind: str) -> GraphPlan:
    """One graph as `from_pyg` plans it, over tensors that are mapped from the file."""
    from .pyg import plan_pyg

    with torch_for(f"reading {file.name}"):
        from torch_geometric.data import Data, HeteroData

    mapped: list[Array] = []
    if kind == "HeteroData":
        attributes.setdefault("_global_store", {})
        plain = {key: _tensors(value, mapped) for key, value in attributes.items()}
        if not all(isinstance(value, dict) for value in plain.values()):
            fail(
                file,
                "has a HeteroData with an entry that is neither a node type nor an edge type",
                _AGAIN,
            )
        data: Any = HeteroData.from_dict(plain)
    elif kind == "Data":
        attributes.pop("_num_nodes", None)
        data = Data.from_dict(_tensors(attributes, mapped))
    else:
        what = f"holds a graph of class {kind}, expected Data or HeteroData"
        fail(file, what, "convert the graph, and save it again")
    plan = plan_pyg(data)
    owners: list[NodePlan | EdgePlan] = [*plan.nodes, *plan.edges]
    for owner in owners:
        for tensor in owner.tensors:
            tensor.chunks = _dropping(tensor.chunks, mapped)
        if isinstance(owner, EdgePlan) and owner.chunks is not None:
            owner.chunks = _dropping(owner.chunks, mapped)
    plan.origin, plan.format = str(file), f"PyG processed, {kind}"
    return plan


def _dropping(chunks: Callable[[], Iterator[Any]], mapped: list[Array]) -> Any:
    def read() -> Iterator[Any]:
        for chunk in chunks():
            yield chunk
            for array in mapped:
                drop_pages(array)

    return read


def _tensors(attributes: Attributes, mapped: list[Array]) -> Attributes:
    import torch

    found: Attributes = {}
    for key, value in attributes.items():
        if isinstance(value, BrainFloats):
            mapped.append(value.array)
            found[key] = torch.from_numpy(value.array).view(torch.bfloat16)
        elif isinstance(value, np.ndarray):
            mapped.append(value)
            found[key] = torch.from_numpy(value)
        else:
            found[key] = value
    return found


class _Many:
    """Many graphs: their attributes, and where each begins."""

    def __init__(self, file: Path, attributes: Attributes, slices: Attributes) -> None:
        self.file, self.attributes = file, attributes
        self.slices = {key: self._pointers(key, value) for key, value in slices.items()}
        index = attributes.get("edge_index")
        if not isinstance(index, np.ndarray) or index.ndim != 2 or len(index) != 2:
            fail(file, "has no edge_index of shape [2, E]", _AGAIN)
        self.index = index
        self.edge_ptr = self.of("edge_index", index.shape[1])
        self.node_ptr = self._node_ptr()
        self.num_graphs = len(self.edge_ptr) - 1
        if len(self.node_ptr) != len(self.edge_ptr):
            fail(file, "has different numbers of graphs for nodes and for edges", _AGAIN)

    def _pointers(self, key: Any, value: Any) -> Array:
        found = np.asarray(contents(value))
        if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
            fail(f"{self.file} [{key}]", "has slices that are not lists of integers", _AGAIN)
        pointers = found.astype(np.int64)
        if pointers[0] != 0 or (np.diff(pointers) < 0).any():
            fail(
                f"{self.file} [{key}]",
                "has slices that do not start at 0, or that decrease",
                _AGAIN,
            )
        hold(str(self.file), pointers.nbytes)
        return pointers

    def of(self, key: str, rows: int) -> Array:
        """The slices of an attribute of so many rows."""
        pointers = self.slices.get(key)
        if pointers is None or pointers[-1] != rows:
            found = "no slices" if pointers is None else f"slices that end at {pointers[-1]}"
            fail(f"{self.file} [{key}]", f"has {rows} rows, but {found}", _AGAIN)
        return pointers

    def _node_ptr(self) -> Array:
        counts = self.attributes.get("_num_nodes", self.attributes.get("num_nodes"))
        if isinstance(counts, list | np.ndarray) and len(counts) == len(self.edge_ptr) - 1:
            array = np.asarray(counts)
            if array.dtype.kind not in "iu" or (array.size and int(array.min()) < 0):
                what = "the numbers of nodes of the graphs are not non-negative integers"
                fail(self.file, what, _AGAIN)
            return np.concatenate([[0], np.cumsum(array, dtype=np.int64)])
        for key in _OF_NODES:
            rows = _rows(self.attributes.get(key))
            if rows is not None:
                return self.of(key, rows)
        what = "does not say how many nodes the graphs have"
        return fail(self.file, what, "set data.num_nodes of each graph, and save the graphs again")


def _rows(value: Any) -> int | None:
    array = value.array if isinstance(value, BrainFloats) else value
    return len(array) if isinstance(array, np.ndarray) and array.ndim else None


def _plan_many(file: Path, attributes: Attributes, slices: Attributes) -> GraphPlan:
    many, notes = _Many(file, attributes, slices), list[Note]()
    num_nodes, num_edges = int(many.node_ptr[-1]), many.index.shape[1]
    node = NodePlan(num_nodes=num_nodes)
    edge = EdgePlan(num_edges=num_edges)
    inline: dict[str, Array] = {}
    masks: dict[str, Array] = {}
    time = time_name(attributes)
    for key, value in attributes.items():
        if key in ("edge_index", "num_nodes", "_num_nodes"):
            continue
        rows, where = _rows(value), f"{file} [{key}]"
        if isinstance(value, np.ndarray) and value.ndim > 1 and ("index" in key or key == "face"):
            # PyG joins these along their columns, so that their slices count no rows.
            why = "it holds node ids, and an import stores only those of edge_index"
            notes += left_out("attributes-dropped", [key], where, why)
            continue
        if rows is None:
            why = f"its type is {type(value).__name__}, but only tensors with rows are stored"
            notes += left_out("attributes-dropped", [key], where, why)
            continue
        pointers = many.of(key, rows)
        if key in _MASKS and value.dtype == bool and np.array_equal(pointers, many.node_ptr):
            masks[key] = value.T  # [k, N] if there are several
        elif key == "edge_weight" and _is_column(many, (key, value, pointers), np.float32):
            inline["weights"], edge.has_weight = value, True
        elif key == time and _is_column(many, (key, value, pointers), np.integer):
            inline["times"], edge.has_time = value, True
            notes += time_notes(key, num_edges, str(file))
        else:
            _add_attribute(many, node, edge, (key, value, pointers), notes)
    given = [masks.get(key) for key in _MASKS]
    node.tensors += split_tensors(given, num_nodes, str(file))
    node.tensors.append(graph_ids(many.node_ptr))
    edge.has_edge_ids = True
    edge.chunks = lambda: _edges(many, inline)
    facts = [block_fact(many.node_ptr)]
    return GraphPlan(str(file), "PyG processed, graphs", [node], [edge], notes, facts)


def _is_column(many: _Many, given: tuple[str, Any, Array], kind: Any) -> bool:
    """Whether an attribute has one number of ``kind`` for each edge, and is not one of nodes."""
    key, value, pointers = given
    plain = isinstance(value, np.ndarray) and value.ndim == 1 and np.issubdtype(value.dtype, kind)
    of_nodes = not key.startswith("edge_") and np.array_equal(pointers, many.node_ptr)
    return plain and np.array_equal(pointers, many.edge_ptr) and not of_nodes


def _add_attribute(
    many: _Many, node: NodePlan, edge: EdgePlan, given: tuple[str, Any, Array], notes: list[Note]
) -> None:
    """An attribute by what its slices go by: graphs, nodes or edges."""
    key, value, pointers = given
    where = f"{many.file} [{key}]"
    by_graphs = np.array_equal(pointers, np.arange(many.num_graphs + 1))
    of_nodes = np.array_equal(pointers, many.node_ptr)
    of_edges = np.array_equal(pointers, many.edge_ptr)
    # Graphs of one node, or one edge, each: the name decides.
    if by_graphs and (key == "y" or not (of_nodes or of_edges)):
        node.tensors.append(_of_graphs(many, key, value, where))
    elif of_nodes and not (of_edges and key.startswith("edge_")):
        node.tensors.append(any_tensor(value, key, where, node.num_nodes or 0))
    elif of_edges:
        edge.tensors.append(any_tensor(value, key, where, edge.num_edges or 0))
    else:
        why = "its rows are not one for each node, each edge or each graph"
        notes += left_out("attributes-dropped", [key], where, why)


def _of_graphs(many: _Many, key: str, value: Any, where: str) -> TensorPlan:
    if isinstance(value, BrainFloats):
        bits = value.array.astype(np.uint32) << 16
        value = bits.view(np.float32)
    hold(where, value.nbytes)
    if key == "y":
        return graph_labels(np.asarray(value), many.node_ptr, where)
    plain = any_tensor(value, f"graph_{key}", where, many.num_graphs)
    rows = np.concatenate([np.zeros((0, *plain.shape), value.dtype), *plain.chunks()])
    return by_graph(plain.name, plain.dtype, rows, many.node_ptr)


def _edges(many: _Many, inline: dict[str, Array]) -> Iterator[EdgeChunk]:
    where = f"{many.file} [edge_index]"
    if many.index.dtype.kind not in "iu":
        fail(where, f"node ids have dtype {many.index.dtype}", "store them as integers")
    for span in spans(many.index.shape[1]):
        left, right = (np.ascontiguousarray(row[span]) for row in many.index)
        chunk = block_edges(where, span.start, left, right, many.node_ptr, many.edge_ptr)
        columns = {name: np.ascontiguousarray(values[span]) for name, values in inline.items()}
        if "times" in columns:
            columns["times"] = to_i64(columns["times"], f"{many.file} [time]", span.start)
        yield EdgeChunk(chunk.sources, chunk.destinations, **columns)
        drop_pages(many.index)
