"""The sets, made once: a PyG object for PyG's side, and the store that ours reads.

Both come from one object, so edges, rows, labels and splits are the same. Sets that bring no split
get one here, drawn by a fixed seed: 60/20/20 of the nodes, or ten folds of the graphs. The
invariant: a folder is there whole or not at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..places import BENCH, data_folder
from .rows import VERSION

HOME = BENCH / "accuracy"
STORE, DATA = "set.ng", "data.pt"
SPLIT_SEED = 20
FOLDS = 10
CLASSES = 5
DRAWN_COLUMNS = 64
_SHARES = (0.6, 0.8)
_GRAPH_SHARES = (0.8, 0.9)


@dataclass(frozen=True)
class Set:
    """A set of `NEARGRAPH_DATA`: its file, how it is imported, what is done to it then.

    What `prepare` returns takes the place of the set; None leaves the set that it was given.
    """

    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Any], Any] | None = None


def folder_of(name: str) -> Path:
    """Where a set lies, or will; sets that were made otherwise lie elsewhere."""
    return HOME / "sets" / f"{name}-{VERSION}"


def prepared(name: str) -> Path:
    """The folder of a set, made at the first call."""
    folder = folder_of(name)
    if folder.exists():
        return folder
    partial = folder.with_name(f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _make(SETS[name], partial)
    partial.rename(folder)
    return folder


def _make(of: Set, folder: Path) -> None:
    import torch

    import neargraph as ng
    from neargraph.importers import import_graph

    raw = folder / "raw.ng"
    import_graph(data_folder(of.source), raw, memory="1GB", **of.options)
    with ng.open(raw, memory="1GB") as store:
        data = _data_of(store)
    shutil.rmtree(raw)
    if of.prepare is not None:
        made = of.prepare(data)
        data = data if made is None else made
    torch.save(data, folder / DATA)
    ng.from_pyg(data, folder / STORE, memory="1GB")


def _data_of(store: Any) -> Any:
    """All of a store as a `Data` or `HeteroData`; splits become masks [N] or [N, k]."""
    from torch_geometric.data import Data, HeteroData

    schema = store.schema
    data: Any = Data() if schema.is_homogeneous else HeteroData()
    for kind in schema.node_types:
        part = data if schema.is_homogeneous else data[kind.name]
        part.num_nodes = kind.num_nodes
        _add_columns(store, kind, part)
    for kind in schema.edge_types:
        part = data if schema.is_homogeneous else data[kind.triple]
        ends, times = edges_of(store, kind)
        part.edge_index = ends
        if times is not None:
            part.edge_time = times
    return data


def _add_columns(store: Any, kind: Any, part: Any) -> None:
    import torch

    codes = []
    for tensor in kind.tensors:
        values = np.ascontiguousarray(store.column(tensor.name, kind.name))
        if tensor.name.startswith("split_"):
            codes.append(values)
        else:
            part[tensor.name] = torch.from_numpy(values)
    if codes:
        _set_masks(part, np.stack(codes, axis=1))


def edges_of(store: Any, kind: Any) -> tuple[Any, Any]:
    """(ends int64 [2, e], times int64 [e] or None) of an edge type, as tensors."""
    import torch

    count = store.schema.node_type(kind.destination).num_nodes
    lists = store.snapshot().neighbors(kind.triple, np.arange(count))
    targets = np.repeat(np.arange(count), np.diff(lists.indptr))
    ends = torch.from_numpy(np.stack([lists.indices.astype(np.int64), targets]))
    return ends, None if lists.times is None else torch.from_numpy(np.array(lists.times))


def _set_masks(part: Any, codes: Any) -> None:
    """Masks of codes [N, k]; [N] of one column."""
    import torch

    codes = codes[:, 0] if codes.shape[1] == 1 else codes
    for code, name in enumerate(("train_mask", "val_mask", "test_mask"), start=1):
        part[name] = torch.from_numpy(codes == code)


def drawn_codes(count: int, shares: tuple[float, float]) -> Any:
    """1, 2 or 3 for each of `count`, u8: up to the first share train, up to the second val."""
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    codes = np.full(count, 3, np.uint8)
    codes[order[: round(shares[0] * count)]] = 1
    codes[order[round(shares[0] * count) : round(shares[1] * count)]] = 2
    return codes


def fold_codes(labels: Any) -> Any:
    """Codes u8 [graphs, FOLDS], stratified: fold k tests in column k, and fold k + 1 validates."""
    generator = np.random.default_rng(SPLIT_SEED)
    fold = np.empty(len(labels), np.int64)
    dealt = 0
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        fold[members] = (np.arange(len(members)) + dealt) % FOLDS
        dealt += len(members)
    distance = (fold[:, None] - np.arange(FOLDS)) % FOLDS
    return np.select([distance == 0, distance == 1], [3, 2], 1).astype(np.uint8)


def _split_nodes(data: Any) -> None:
    _set_masks(data, drawn_codes(data.num_nodes, _SHARES)[:, None])


def _split_packages(data: Any) -> None:
    """Reverses, so that packages hear of what they depend on; packages alone are divided."""
    import torch
    from torch_geometric.transforms import ToUndirected

    ToUndirected(merge=False).forward(data)
    for name in data.node_types:
        if "x" not in data[name]:
            # A type of which nothing is known but its edges.
            data[name].x = torch.ones(data[name].num_nodes, 1)
    _set_masks(data["package"], drawn_codes(data["package"].num_nodes, _SHARES)[:, None])


def _split_traffic(data: Any) -> None:
    """Five classes of equal size by traffic, as Pei et al. (ICLR 2020, section 4.1) make them."""
    import torch

    order = np.argsort(data.y.numpy(), kind="stable")
    classes = np.empty(len(order), np.int64)
    classes[order] = np.arange(len(order)) * CLASSES // len(order)
    data.y = torch.from_numpy(classes)
    _split_nodes(data)


def _fold_graphs(data: Any) -> None:
    import torch

    # Classes count from 0 on, as PyG's `TUDataset` has them; -1 is an unknown class elsewhere.
    data.graph_y = torch.unique(data.graph_y, return_inverse=True)[1]
    graph_of = data.graph_id.numpy()
    first = np.unique(graph_of, return_index=True)[1]
    codes = fold_codes(data.graph_y.numpy()[first])
    _set_masks(data, codes[np.searchsorted(graph_of[first], graph_of)])
    if "x" not in data:
        data.x = torch.nn.functional.one_hot(data.node_label).float()


def _split_graphs(data: Any) -> None:
    graph_of = data.graph_id.numpy()
    codes = drawn_codes(int(graph_of.max()) + 1, _GRAPH_SHARES)
    _set_masks(data, codes[graph_of][:, None])


def _date_edges(data: Any) -> None:
    """Each pair of authors once for each year, in both directions; rows are drawn, as the set has
    none."""
    import torch

    keep = data.edge_index[0] != data.edge_index[1]
    dated = torch.cat([data.edge_index, data.edge_time[None]])[:, keep].unique(dim=1)
    del data.y
    data.edge_index, data.edge_time = dated[:2].contiguous(), dated[2].contiguous()
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    data.x = torch.randn(data.num_nodes, DRAWN_COLUMNS, generator=generator)


def _pair_visits(data: Any) -> None:
    """Each place of a user once, and the way back from places to users."""
    from torch_geometric.transforms import ToUndirected

    (kind,) = data.edge_types
    data[kind].edge_index = data[kind].edge_index.unique(dim=1)
    # A place is once in the list of a user now, so no single time is its own.
    del data[kind].edge_time
    ToUndirected(merge=False).forward(data)


def _join_visits(data: Any) -> Any:
    """The same with users and items of one type, users first."""
    import torch
    from torch_geometric.data import Data

    _pair_visits(data)
    users, items = data["user"].num_nodes, data["item"].num_nodes
    (kind,) = (kind for kind in data.edge_types if kind[0] == "user")
    there = data[kind].edge_index + torch.tensor([[0], [users]])
    joined = Data(edge_index=torch.cat([there, there.flip(0)], dim=1), num_nodes=users + items)
    joined.is_item = (torch.arange(users + items) >= users).to(torch.uint8)
    return joined


_CITATION = {"unique": True, "self_loops": "remove"}
SETS: dict[str, Set] = {
    "cora": Set("planetoid_raw/ind.cora.graph", _CITATION),
    "citeseer": Set("planetoid_raw/ind.citeseer.graph", _CITATION),
    "coauthor_cs": Set("npz_graphs/ms_academic_cs.npz", prepare=_split_nodes),
    "coauthor_physics": Set("npz_graphs/ms_academic_phy.npz", prepare=_split_nodes),
    "chameleon": Set("musae/chameleon_edges.csv.gz", {"undirected": True}, _split_traffic),
    "squirrel": Set("musae/squirrel_edges.csv.gz", {"undirected": True}, _split_traffic),
    "minesweeper": Set("heterophilous/minesweeper.npz", {"undirected": True}),
    "mutag": Set("tudataset/MUTAG", prepare=_fold_graphs),
    "enzymes": Set("tudataset/ENZYMES", prepare=_fold_graphs),
    "proteins": Set("tudataset/PROTEINS", prepare=_fold_graphs),
    "hiv": Set("molecules/hiv_graphs.npz", prepare=_split_graphs),
    "dblp": Set("dblp_coauthor_temporal/dblp.txt.gz", {"undirected": True}, _date_edges),
    "gowalla": Set("gowalla_checkins/gowalla_train.txt.gz", prepare=_pair_visits),
    "gowalla_one": Set("gowalla_checkins/gowalla_train.txt.gz", prepare=_join_visits),
    "debian": Set("debian_bookworm/debian_packages.npz", prepare=_split_packages),
}
