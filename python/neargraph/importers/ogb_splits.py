"""Splits of OGB folders: split/NAME/{train,valid,test}.csv.gz, or split_dict.pt, or pairs as .pt.

Ids of nodes or graphs become `split_k`, one for each folder in the order of their names: 1 train, 2
valid, 3 test. Splits of graphs are repeated on their nodes. Pairs are supervision: a note says how
to read them. Memory is the codes of a split and the ids of one part.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .blocks import by_graph
from .check import fail, need_file, node_ids, part_beside
from .memory import hold
from .notes import Note
from .number_csv import NumberCsv
from .plan import Array, TensorPlan
from .torch_file import BrainFloats, contents, load_torch

PARTS = {"train": 1, "valid": 2, "test": 3}
_AGAIN = "download the data set again"


def split_folders(root: Path) -> list[Path]:
    """The folders of the splits of a set, by name."""
    found = root / "split"
    return sorted(f for f in found.iterdir() if f.is_dir()) if found.is_dir() else []


def is_link_set(root: Path) -> bool:
    """Whether the splits of a set are pairs."""
    return any((folder / "train.pt").is_file() for folder in split_folders(root))


def link_note(root: Path) -> Note:
    """The note of pairs that are not stored."""
    folders = split_folders(root)
    message = (
        "left out the pairs of the splits: pairs to predict are not edges of the graph; read them "
        "with neargraph.datasets.link_splits"
    )
    return Note("link-splits-left-out", len(folders), str(root / "split"), message)


def node_splits(
    root: Path, num_nodes: int, node_type: str | None = None
) -> tuple[list[TensorPlan], list[str]]:
    """The splits of nodes, and their names; of typed sets those of one node type."""
    folders = [f / node_type if node_type else f for f in split_folders(root)]
    return _splits([f for f in folders if _is_split(f)], num_nodes, "node", None, node_type)


def graph_splits(root: Path, node_ptr: Array) -> tuple[list[TensorPlan], list[str]]:
    """The splits of graphs, repeated on their nodes, and their names."""
    folders = [f for f in split_folders(root) if _is_split(f)]
    return _splits(folders, len(node_ptr) - 1, "graph", node_ptr, None)


def _is_split(folder: Path) -> bool:
    return (folder / "split_dict.pt").is_file() or part_beside(folder / "train.csv") is not None


def _splits(
    folders: list[Path], count: int, what: str, node_ptr: Array | None, node_type: str | None
) -> tuple[list[TensorPlan], list[str]]:
    plans, width = list[TensorPlan](), len(folders) if len(folders) > 1 else None
    for k, folder in enumerate(folders):
        codes = _codes(folder, count, what)
        if node_ptr is None:
            plan = TensorPlan(f"split_{k}", "u8", (), _whole(codes), count)
        else:
            plan = by_graph(f"split_{k}", "u8", codes, node_ptr)
        plan.mask_width = width
        plans.append(plan)
    return plans, [folder.parent.name if node_type else folder.name for folder in folders]


def _whole(codes: Array) -> Any:
    return lambda: iter([codes])


def _codes(folder: Path, count: int, what: str) -> Array:
    hold(str(folder), count)
    codes = np.zeros(count, dtype=np.uint8)
    for name, ids, where in _parts(folder):
        ids = node_ids(ids, where, 0, count)
        twice = np.flatnonzero(codes[ids])
        if twice.size:
            bad = int(ids[twice[0]])
            fail(where, f"{what} {bad} is in two parts of the split", "make the parts disjoint")
        codes[ids] = PARTS[name]
    return codes


def _parts(folder: Path) -> Iterator[tuple[str, Array, str]]:
    """(part, ids, file) of a split."""
    packed = folder / "split_dict.pt"
    found = load_torch(packed) if packed.is_file() else None
    if found is not None and not isinstance(found, dict):
        fail(packed, "holds no dictionary of ids", _AGAIN)
    for name in PARTS:
        if found is not None:
            ids = contents(found.get(name))
            if not isinstance(ids, np.ndarray) or ids.ndim != 1:
                fail(packed, f"holds no list of ids for {name!r}", _AGAIN)
            yield name, ids, str(packed)
            continue
        file = need_file(part_beside(folder / f"{name}.csv") or folder / f"{name}.csv.gz")
        yield name, NumberCsv.open(file).column(), str(file)


def ogb_links(root: Path, split: str | None) -> dict[str, dict[str, Any]]:
    """The pairs of a set; see `neargraph.datasets.link_splits`."""
    folders = [f for f in split_folders(root) if (f / "train.pt").is_file()]
    if split is not None:
        folders = [f for f in folders if f.name == split]
    if len(folders) != 1:
        if not folders and split is None:
            return {}
        names = ", ".join(f.name for f in split_folders(root))
        what = "has several splits" if split is None else f"has no link split {split!r}"
        fail(root / "split", what, f"choose a split with split=: {names}")
    found = {}
    for name in PARTS:
        file = folders[0] / f"{name}.pt"
        pairs = load_torch(file)
        if not isinstance(pairs, dict):
            fail(file, "holds no dictionary of pairs", _AGAIN)
        arrays = {key: contents(value) for key, value in pairs.items()}
        for key, value in arrays.items():
            texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
            if isinstance(value, BrainFloats) or not (isinstance(value, np.ndarray) or texts):
                fail(
                    file,
                    f"the entry {str(key)[:40]!r} is neither an array nor a list of strings",
                    _AGAIN,
                )
        found[name] = arrays
    return found
