"""Real sets as stores, and batches of them as arguments of the models in `export_cases`.

What the sets lack is drawn with a fixed seed: features where a set has none (16 columns), values of
edges, relations, pairs. Typed models get a typed split of the batch: even seeds are of type ``a``,
odd ones of type ``b``. The invariant: a set gives the same batch in each run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from export_cases import CASES, EDGES, NODES, TYPES, Typed, to_hetero
from torch_geometric import nn as gnn

import neargraph as ng
from neargraph.importers import import_graph

FANOUTS, SEEDS = [5, 3], 64
DRAWN = 16
# Sets with features of their own, then sets of edges alone.
WITH_ROWS = {
    "cora": "npz_graphs/cora.npz",
    "citeseer": "npz_graphs/citeseer.npz",
    "cora_ml": "npz_graphs/cora_ml.npz",
    "amazon_photo": "npz_graphs/amazon_electronics_photo.npz",
    "coauthor_cs": "npz_graphs/ms_academic_cs.npz",
    "coauthor_physics": "npz_graphs/ms_academic_phy.npz",
    "planetoid_cora": "planetoid_raw/ind.cora.graph",
    "planetoid_citeseer": "planetoid_raw/ind.citeseer.graph",
    "actor": "heterophilous/actor.npz",
    "minesweeper": "heterophilous/minesweeper.npz",
    "chameleon": "musae/chameleon_edges.csv.gz",
    "squirrel": "musae/squirrel_edges.csv.gz",
}
EDGES_ALONE = {
    "polblogs": "npz_graphs/polblogs.npz",
    "cnr-2000": "cnr-2000/cnr-2000_csr.npz",
    "dblp_coauthor": "dblp_coauthor_temporal/dblp.txt.gz",
    "gowalla": "gowalla_checkins/gowalla_train.txt.gz",
    "git_trace": "git_trace/git_trace.npz",
}
TYPED = {"debian": "debian_bookworm/debian_packages.npz"}
OF_GRAPHS = {
    "MUTAG": "tudataset/MUTAG",
    "ENZYMES": "tudataset/ENZYMES",
    "PROTEINS": "tudataset/PROTEINS",
    "bbbp": "molecules/bbbp_graphs.npz",
    "hiv": "molecules/hiv_graphs.npz",
}
NODE_SETS = [*WITH_ROWS, *EDGES_ALONE, *TYPED]
SETS = {**WITH_ROWS, **EDGES_ALONE, **TYPED, **OF_GRAPHS}
# ind.pubmed.allx is missing, so the set cannot be imported.
LEFT_OUT = {"planetoid_pubmed": "the file ind.pubmed.allx is not among the data"}

POOLS = [name for name in CASES if name.startswith("pool ")]
PACKAGE, SOURCE = "package", "source"
DEPENDS = (PACKAGE, "depends", PACKAGE)
DEBIAN = ([PACKAGE, SOURCE], [DEPENDS, (PACKAGE, "built_from", SOURCE)])


@dataclass
class Sample:
    """A batch: rows and edges; nodes of each hop, or the graph of each node of whole graphs."""

    x: torch.Tensor
    edge_index: torch.Tensor
    hops: list[int] | None = None
    graph_of: torch.Tensor | None = None


def store_of(name: str, data: Path, folder: Path) -> Path:
    """The store of a set, made at the first call."""
    path = folder / f"{name}.ng"
    if path.exists():
        return path
    source = data / SETS[name]
    if name not in EDGES_ALONE:
        import_graph(source, path, memory="1GB")
        return path
    edges = _git_edges(source) if name == "git_trace" else _edges_of(source, folder / "edges.ng")
    arrays = folder / f"{name}_arrays"
    arrays.mkdir(exist_ok=True)
    count = int(edges.max()) + 1
    rows = np.random.default_rng(7).standard_normal((count, DRAWN), dtype=np.float32)
    np.save(arrays / "edge_index.npy", edges)
    np.save(arrays / "x.npy", rows)
    import_graph(arrays, path, memory="1GB")
    return path


def _edges_of(source, path):
    """Edges of a set without features; items of users follow the users, in both directions."""
    import_graph(source, path, memory="1GB", overwrite=True)
    with ng.open(path, memory="1GB") as store:
        (kind,) = store.schema.edge_types
        counts = {one.name: one.num_nodes for one in store.schema.node_types}
        lists = store.snapshot().neighbors(kind.triple, np.arange(counts[kind.triple[2]]))
        ends = np.repeat(np.arange(len(lists.indptr) - 1), np.diff(lists.indptr))
        edges = np.stack([lists.indices, ends]).astype(np.int64)
    if kind.triple[0] == kind.triple[2]:
        return edges
    edges[1] += counts[kind.triple[0]]
    return np.concatenate([edges, edges[::-1]], axis=1)


def _git_edges(source):
    """Files, then folders, then authors: who changed which file, what lies in which folder."""
    with np.load(source) as npz:
        files, folders = int(npz["num_files"]), int(npz["num_dirs"])
        authors = npz["author_id"].astype(np.int64) + files + folders
        changes = np.unique(np.stack([authors, npz["file_id"].astype(np.int64)]), axis=1)
        lies = np.stack([np.arange(files), npz["file_dir"].astype(np.int64) + files])
        parents = npz["dir_parent"].astype(np.int64)
        within = np.stack([np.arange(folders), parents])[:, parents >= 0] + files
    edges = np.concatenate([changes, lies, within], axis=1)
    return np.concatenate([edges, edges[::-1]], axis=1)


def sample(name: str, store: ng.Store) -> Sample:
    """A batch of the store: a sampled neighbourhood, or some whole graphs."""
    if name in OF_GRAPHS:
        return _graphs(name, store)
    batch = _batch(store, PACKAGE if name in TYPED else None)
    if name in TYPED:
        return _uneven(Sample(batch[PACKAGE].x.float(), batch[DEPENDS].edge_index))
    return _uneven(Sample(batch.x.float(), batch.edge_index, list(batch.num_sampled_nodes)))


def _batch(store, kind=None):
    count = store.schema.node_type(kind).num_nodes
    seeds = np.random.default_rng(3).choice(count, SEEDS, replace=False)
    nodes = seeds if kind is None else (kind, seeds)
    return next(iter(ng.NeighborLoader(store, FANOUTS, nodes, batch_size=SEEDS, seed=5)))


def _graphs(name, store):
    """Twelve graphs from the middle of the set."""
    graph_of = store.snapshot().features(
        "node", np.arange(min(store.num_nodes, 50_000)), "graph_id"
    )
    first = int(graph_of[len(graph_of) // 2])
    nodes = np.flatnonzero((graph_of >= first) & (graph_of < first + 12))
    loader = ng.NeighborLoader(
        store, [-1], nodes, batch_size=len(nodes), reading=ng.Reading(threads=1)
    )
    batch = next(iter(loader))
    if name == "MUTAG":
        batch.x = torch.nn.functional.one_hot(batch.node_label, 7)
    return _uneven(Sample(batch.x.float(), batch.edge_index, None, batch.graph_id - first))


def _uneven(made):
    """As many edges as nodes would not say which size is which."""
    if made.edge_index.size(1) == len(made.x):
        made.edge_index = made.edge_index[:, 1:]
    return made


def arguments(example, made: Sample):
    """The arguments of a model on a batch; values of edges and pairs are drawn from the example."""
    if isinstance(example[0], dict):
        return _split(made)
    draws = torch.Generator().manual_seed(11)
    counts = {NODES: len(made.x), EDGES: made.edge_index.size(1)}

    def other(value):
        if isinstance(value, int):
            return value if made.graph_of is None else int(made.graph_of.max()) + 1
        if value.dim() == 2 and value.size(0) == 2:
            # Pairs of seeds: others may have no edges in the batch.
            return torch.randint(min(SEEDS, len(made.x)), (2, 29), generator=draws)
        if value.size(0) == NODES and made.graph_of is not None:
            return made.graph_of
        count = counts.get(value.size(0), value.size(0))
        rows = value[torch.randint(value.size(0), (count,), generator=draws)]
        return rows.sort().values if value.size(0) == NODES else rows

    return (made.x, made.edge_index, *map(other, example[2:]))


def _split(made):
    is_b = torch.arange(len(made.x)) % 2
    place = torch.arange(len(made.x)) // 2
    of_ends = is_b[made.edge_index]
    ends = {"a": 0, "b": 1}
    edges = {}
    for triple in TYPES[1]:
        chosen = (of_ends[0] == ends[triple[0]]) & (of_ends[1] == ends[triple[2]])
        edges[triple] = place[made.edge_index[:, chosen]]
    return {name: made.x[is_b == end] for name, end in ends.items()}, edges


def typed_sample(store: ng.Store):
    """Packages and their sources: rows of both (those of sources are drawn), and their edges."""
    batch = _batch(store, SOURCE)
    drawn = np.random.default_rng(7).standard_normal((40_000, DRAWN), dtype=np.float32)
    rows = {PACKAGE: batch[PACKAGE].x.float(), SOURCE: torch.from_numpy(drawn)[batch[SOURCE].n_id]}
    return rows, {triple: batch[triple].edge_index for triple in DEBIAN[1]}


def typed_models(widths: dict[str, int]):
    """By layer, models of packages and sources."""
    package, source = widths[PACKAGE], widths[SOURCE]
    layers = {
        DEBIAN[1][0]: gnn.GATConv(package, 8, add_self_loops=False),
        DEBIAN[1][1]: gnn.SAGEConv((package, source), 8),
    }
    return {
        "HGT": lambda _: Typed(gnn.HGTConv(widths, 8, DEBIAN, heads=2)),
        "HeteroConv": lambda _: Typed(gnn.HeteroConv(layers, aggr="sum")),
        "to_hetero": lambda example: to_hetero(0, DEBIAN, example)[0],
    }
