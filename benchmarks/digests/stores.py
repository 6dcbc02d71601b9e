"""The graphs of the digests as stores: five real sets and more, and the standard graph in small.

Each is made once, under its name in a folder; ROWS says in which orders of rows.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng

from .. import graphs, planted
from ..places import data_folder

SEED = 7
BATCHES = 5
ROWS = ("natural", "heat", "locality")

Make = Callable[[Path], Any]


@dataclass(frozen=True)
class Graph:
    """How a graph is made, and what is sampled of it with which budgets."""

    make: Make
    node_type: str | None = None
    batch_size: int = 64
    fanouts: tuple[int, ...] = (6, 4)
    memory_mb: dict[str, int] = field(default_factory=lambda: {"small": 48, "large": 256})


def _real(folder: str, file: str, **options: Any) -> Make:
    def make(path: Path) -> None:
        from neargraph.importers import import_graph

        source = data_folder(folder) / file
        import_graph(source, path, memory="512MB", seed=SEED, overwrite=True, **options)

    return make


def _cnr(path: Path) -> None:
    _write(graphs.make_cnr(64, SEED, natural=True), path)


def _standard(nodes: int, path: Path, x_dtype: str = "f32") -> None:
    _write(graphs.make_planted(nodes, graphs.DEGREE, 128, SEED), path, x_dtype)


def _write(graph: graphs.Graph, path: Path, x_dtype: str = "f32") -> None:
    ids = graphs.split_ids(graph.nodes, SEED)
    graphs.write_store(graph, ids, graph.rows, path, x_dtype)


def _columns(path: Path) -> None:
    """The standard graph, smaller still, with all that an edge can have."""
    import torch
    from torch_geometric.data import Data

    graph = graphs.make_planted(20_000, graphs.DEGREE, 48, SEED)
    rng = np.random.default_rng(SEED)
    entries = len(graph.indices)
    destinations = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    arrays = {
        "edge_index": np.stack([graph.indices.astype(np.int64), destinations]),
        "edge_weight": rng.random(entries, dtype=np.float32),
        "edge_time": rng.integers(0, 1000, entries),
        "edge_attr": rng.standard_normal((entries, 3), dtype=np.float32),
        "x": np.concatenate(list(graph.rows())),
        "y": graph.labels,
        "train_mask": rng.random(graph.nodes) < 0.1,
    }
    data = Data(**{name: torch.from_numpy(array) for name, array in arrays.items()})
    ng.from_pyg(data, path, overwrite=True)


def standard_at(folder: Path) -> Graph:
    """The standard graph in full, which `benchmarks.graphs` has made."""
    return Graph(
        lambda path: shutil.copytree(folder, path),
        batch_size=256,
        fanouts=(10, 5),
        memory_mb={"small": 256, "large": 1000},
    )


WIDE = {"small": 128, "large": 384}
GRAPHS: dict[str, Graph] = {
    "cora": Graph(_real("npz_graphs", "cora.npz", split_sizes="60,20,20", dense=True)),
    "physics": Graph(
        _real("npz_graphs", "ms_academic_phy.npz", split_sizes="60,20,20", undirected=True),
        batch_size=16,
        memory_mb=WIDE,
    ),
    "cnr": Graph(_cnr, memory_mb=WIDE),
    "dblp": Graph(_real("dblp_coauthor_temporal", "dblp.txt.gz", edge_ids=True)),
    "debian": Graph(
        _real("debian_bookworm", "debian_packages.npz", edge_ids=True, split_sizes="60,20,20"),
        node_type="package",
        batch_size=16,
        fanouts=(3, 2),
        memory_mb=WIDE,
    ),
    "mutag": Graph(_real("tudataset", "MUTAG"), fanouts=(2, 2)),
    "columns": Graph(_columns, memory_mb={"small": 80, "large": 256}),
    "planted": Graph(partial(_standard, 100_000), memory_mb={"small": 80, "large": 256}),
    "planted_f16": Graph(
        partial(_standard, 50_000, x_dtype="f16"), memory_mb={"small": 64, "large": 256}
    ),
    "planted_i8": Graph(
        partial(_standard, 50_000, x_dtype="i8"), memory_mb={"small": 64, "large": 256}
    ),
}
QUICK = ("cora", "columns", "debian")
# What is made in the most ways: small graphs, and between them everything that a node or edge has.
WIDELY = ("cora", "columns")


def make_stores(name: str, graph: Graph, folder: Path) -> dict[str, Path]:
    """The stores of a graph by the order of rows; those that are there are kept."""
    stores = {rows: folder / f"{name}_{rows}.ng" for rows in ROWS}
    natural = stores["natural"]
    if not natural.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            graph.make(natural)
    for by in ("heat", "locality"):
        if not stores[by].exists():
            _reorganize(graph, natural, stores[by], by)
    return stores


def _reorganize(graph: Graph, natural: Path, path: Path, by: str) -> None:
    """A copy with its rows in another order, which has its name once it is whole."""
    partial_path = path.with_name(f"{path.name}.partial")
    shutil.rmtree(partial_path, ignore_errors=True)
    shutil.copytree(natural, partial_path, ignore=shutil.ignore_patterns("compiled"))
    with ng.open(partial_path, memory="1GB") as store:
        how: dict[str, Any] = {"num_neighbors": list(graph.fanouts), "batch_size": 256}
        store.reorganize(by, input_nodes=graph.node_type, **how)
    partial_path.rename(path)


def seed_ids(store: Any, graph: Graph) -> Any:
    """Nodes in no order, for BATCHES batches of which the last is smaller."""
    count = store.schema.node_type(graph.node_type).num_nodes
    wanted = min(count, BATCHES * graph.batch_size - graph.batch_size // 3)
    return planted.generator(SEED, 9).permutation(count)[:wanted].astype(np.int64)
