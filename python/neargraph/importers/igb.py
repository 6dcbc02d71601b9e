"""Folders of the Illinois Graph Benchmark: TYPE/node_feat.npy and A__relation__B/edge_index.npy.

`processed` holds a folder for each node type (paper, author, fos, institute, journal, conference)
and each edge type; edges are [E, 2]. `node_feat` is `x`; `node_label_19` of papers is `y`, and
`node_label_2K` is `y_2k` (`y` where it is the only one). Splits are not in the files. In the two
largest sizes node_feat.npy and the labels are plain float32 without a header. Everything is mapped.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .arrays import drop_pages, open_npy
from .check import fail, need_file, node_ids, same_rows
from .chunks import spans
from .labels import number_labels
from .notes import Note, left_out
from .npy import array_tensor, pair_layout
from .plan import Array, EdgeChunk, EdgePlan, GraphPlan, NodePlan, TensorPlan

_WIDTH = 1024
_LABEL = re.compile(r"node_label_(19|2K)\.npy")
_EDGE_FILE = "edge_index.npy"
_AGAIN = "download the data set again"


def igb_root(path: Path) -> Path | None:
    """The processed/ folder of an IGB set, given itself or what holds it; None for others."""
    for folder in (path, path / "processed"):
        if any(folder.glob(f"*__*__*/{_EDGE_FILE}")):
            return folder
    return None


def plan_igb(path: Path | str) -> GraphPlan:
    """The plan of an IGB folder, homogeneous (papers alone) or heterogeneous."""
    root = igb_root(Path(path))
    if root is None:
        fail(
            path,
            "holds no paper__cites__paper/edge_index.npy",
            "give the folder that holds processed/",
        )
    notes: list[Note] = []
    nodes = {
        folder.name: _node_type(folder, notes)
        for folder in sorted(root.iterdir())
        if folder.is_dir() and "__" not in folder.name
    }
    edges, used = [], {f"{name}" for name in nodes}
    for folder in sorted(root.glob("*__*__*")):
        file = folder / _EDGE_FILE
        if not file.is_file():
            continue
        used.add(folder.name)
        parts = folder.name.split("__")
        if len(parts) != 3:
            what = "the name of the folder is not SOURCE__RELATION__DESTINATION"
            fail(folder, what, "rename the folder")
        for end in (parts[0], parts[2]):
            nodes.setdefault(end, NodePlan(end))
        edges.append(_edge_type(file, parts, nodes))
        rest = [f.name for f in folder.iterdir() if f.name != _EDGE_FILE]
        notes += left_out(
            "files-unused", rest, str(folder), "the format has no files with these names"
        )
    rest = sorted(f.name for f in root.iterdir() if f.name not in used)
    notes += left_out("files-unused", rest, str(root), "the format has no files with these names")
    facts = [
        "the files have no split; IGB trains on the first 60 % of the papers, validates on the "
        "next 20 % and tests on the rest"
    ]
    return GraphPlan(str(root), "igb", list(nodes.values()), edges, notes, facts)


def _node_type(folder: Path, notes: list[Note]) -> NodePlan:
    node, labels = NodePlan(folder.name), dict[str, Path]()
    features = folder / "node_feat.npy"
    rest = []
    if features.exists():
        array = _array(features, _WIDTH)
        if array.ndim != 2:
            fail(features, f"has shape {list(array.shape)}, expected [nodes, width]", _AGAIN)
        node.num_nodes = len(array)
        node.tensors.append(array_tensor(array, "x", str(features), len(array)))
    for file in sorted(folder.iterdir()):
        if match := _LABEL.fullmatch(file.name):
            labels[match[1]] = file
        elif file.suffix == ".npy" and file != features and _has_rows(file, node.num_nodes):
            node.tensors.append(array_tensor(open_npy(file), file.stem, str(file), node.num_nodes))
        elif file != features:
            rest.append(file.name)
    for kind, file in labels.items():
        name = "y_2k" if kind == "2K" and "19" in labels else "y"
        node.tensors.append(_labels(name, file, node, notes))
    notes += left_out(
        "files-unused", rest, str(folder), "only .npy files with one row for each node are read"
    )
    return node


def _has_rows(file: Path, num_nodes: int | None) -> bool:
    array = open_npy(file)
    return num_nodes is not None and array.ndim > 0 and len(array) == num_nodes


def _array(file: Path, width: int | None) -> Array:
    """A .npy file, or the same without a header: float32, rows of ``width``."""
    need_file(file)
    with file.open("rb") as stream:
        if stream.read(6) == b"\x93NUMPY":
            return open_npy(file)
    size, row = file.stat().st_size, 4 * (width or 1)
    if size == 0 or size % row:
        what = f"has {size} bytes and no .npy header, expected a multiple of {row} bytes"
        fail(file, what, _AGAIN)
    shape = (size // row, width) if width else (size // row,)
    return np.asarray(np.memmap(file, np.float32, "r", shape=shape))


def _labels(name: str, file: Path, node: NodePlan, notes: list[Note]) -> TensorPlan:
    array = _array(file, None).reshape(-1)
    node.num_nodes = len(array) if node.num_nodes is None else node.num_nodes
    same_rows(len(array), node.num_nodes, str(file), "the file")

    def pieces() -> Iterator[Array]:
        for span in spans(len(array)):
            yield np.asarray(array[span])
            drop_pages(array)

    return number_labels(name, pieces, len(array), str(file), notes)


def _edge_type(file: Path, parts: list[str], nodes: dict[str, NodePlan]) -> EdgePlan:
    array, where = open_npy(file), str(file)
    by_edge = array.ndim == 2 and array.shape[1] == 2
    columns = array.T if by_edge else array
    if not by_edge and pair_layout(array, where) != "rows":
        fail(where, f"has shape {list(array.shape)}, expected [E, 2] or [2, E]", _AGAIN)
    bounds = nodes[parts[0]].num_nodes, nodes[parts[2]].num_nodes

    def chunks() -> Iterator[EdgeChunk]:
        for span in spans(columns.shape[1]):
            left, right = (np.ascontiguousarray(column[span]) for column in columns)
            yield EdgeChunk(
                node_ids(left, where, span.start, bounds[0]),
                node_ids(right, where, span.start, bounds[1]),
            )
            drop_pages(array)

    return EdgePlan(parts[0], parts[1], parts[2], chunks, num_edges=int(columns.shape[1]))
