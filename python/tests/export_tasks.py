"""Graphs and pairs that `ng.Engine` answers for, beside PyG on the same graphs.

Whole sets of graphs come from PyG's own reader, or from the arrays of the set, so that the store is
compared, too. Pairs are check-ins: the reference is PyG on the batch that the engine samples, and
onnxruntime gets the arrays of PyG. The invariant: each model is one that `ng.export` has written.
"""

import gzip
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from export_cases import Attention, Ngcf, PinSage
from export_sets import OF_GRAPHS, SETS
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.io import read_tu_data
from torch_geometric.utils import scatter

import neargraph as ng
from neargraph.modelfile.comparing import relative_difference

WIDTH, CLASSES = 32, 3
# Of sets with labels of nodes: how many there are, columns of attributes, the first label.
LABELS = {"MUTAG": (7, 0, 0), "ENZYMES": (3, 18, 1), "PROTEINS": (3, 1, 0)}
# As many as eager PyG takes at once, and as onnxruntime is asked for: it is slow at scatters.
GRAPHS_AT_ONCE, GRAPHS_IN_ONNXRUNTIME = 2_000, 200
FANOUTS = [10, 5]

LAYERS = {
    "GIN": lambda width: gnn.GINConv(nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU())),
    "GCN": lambda width: gnn.GCNConv(width, WIDTH),
    "SAGE": lambda width: gnn.SAGEConv(width, WIDTH),
    "GAT": lambda width: gnn.GATConv(width, WIDTH // 4, heads=4),
}
POOLS = {
    "add": gnn.global_add_pool,
    "mean": gnn.global_mean_pool,
    "max": gnn.global_max_pool,
    "attention": None,
}
GRAPH_MODELS = [f"{layer}, {pool}" for layer, pool in zip(LAYERS, POOLS, strict=True)]


class Pooled(nn.Module):
    """Two layers, a row for each graph, a linear layer."""

    def __init__(self, layer, pool, width):
        super().__init__()
        self.layers = nn.ModuleList([LAYERS[layer](width), LAYERS[layer](WIDTH)])
        self.pool = POOLS[pool] or Attention()
        if pool == "attention":
            self.pool.aggr.gate_nn = nn.Linear(WIDTH, 1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def pooled(self, x, edge_index, batch, size):
        for layer in self.layers:
            x = layer(x, edge_index).relu()
        return self.last(self.pool(x, batch, size))


class OfLabels(Pooled):
    def __init__(self, layer, pool, labels, columns, first):
        super().__init__(layer, pool, labels + columns)
        self.register_buffer("rows", torch.eye(first + labels)[:, first:].contiguous())

    def forward(self, node_label, edge_index, batch, size: int):
        return self.pooled(self.rows[node_label], edge_index, batch, size)


class OfAttributes(OfLabels):
    def forward(self, x, node_label, edge_index, batch, size: int):
        rows = torch.cat([x, self.rows[node_label]], dim=1)
        return self.pooled(rows, edge_index, batch, size)


class OfAtoms(Pooled):
    """Rows are nine whole numbers, each with an embedding, as in OGB's encoder of atoms."""

    def __init__(self, layer, pool, values):
        super().__init__(layer, pool, WIDTH)
        self.embeddings = nn.ModuleList(nn.Embedding(count, WIDTH) for count in values)

    def forward(self, x, edge_index, batch, size: int):
        columns = (embed(x[:, at]) for at, embed in enumerate(self.embeddings))
        return self.pooled(sum(columns), edge_index, batch, size)


class Graphs:
    """A set of graphs as arrays: of nodes, by argument of the model, and edges."""

    def __init__(self, name, data, folder):
        if name not in LABELS:
            with np.load(data / SETS[name]) as npz:
                self.of_nodes = {"x": torch.from_numpy(npz["x"].astype(np.int64))}
                self.nodes, self.edges = (npz[f"{kind}_ptr"].tolist() for kind in ("node", "edge"))
                edge_index = torch.from_numpy(npz["edge_index"].astype(np.int64))
                lengths = torch.from_numpy(np.diff(npz["edge_ptr"]))
        else:
            found, slices, *_ = read_tu_data(str(_unpacked(name, data, folder)), name)
            labels, columns, first = LABELS[name]
            self.of_nodes = {"x": found.x[:, :columns]} if columns else {}
            self.of_nodes["node_label"] = found.x[:, columns:].argmax(1) + first
            assert found.x.size(1) == labels + columns
            self.nodes, self.edges = slices["x"].tolist(), slices["edge_index"].tolist()
            edge_index, lengths = found.edge_index, slices["edge_index"].diff()
        # Both number the nodes of each graph from 0.
        firsts = torch.tensor(self.nodes[:-1]).repeat_interleave(lengths)
        self.edge_index = edge_index + firsts

    def __len__(self):
        return len(self.nodes) - 1

    def arguments(self, first, end):
        """What a model takes for the graphs from `first` to `end`."""
        nodes, edges = (slice(of[first], of[end]) for of in (self.nodes, self.edges))
        lengths = torch.tensor(self.nodes[first : end + 1]).diff()
        batch = torch.arange(end - first).repeat_interleave(lengths)
        rows = [rows[nodes] for rows in self.of_nodes.values()]
        return (*rows, self.edge_index[:, edges] - self.nodes[first], batch, end - first)


def _unpacked(name, data, folder):
    to = folder / "raw" / name
    to.mkdir(parents=True, exist_ok=True)
    for file in sorted((data / SETS[name]).glob("*.txt.gz")):
        (to / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return to


def graph_model(kind, name, graphs):
    layer, pool = kind.split(", ")
    torch.manual_seed(0)
    if name in LABELS:
        of = OfAttributes if LABELS[name][1] else OfLabels
        return of(layer, pool, *LABELS[name]).eval()
    values = (graphs.of_nodes["x"].max(0).values + 1).tolist()
    return OfAtoms(layer, pool, values).eval()


def compare_graphs(kind: str, name: str, store: ng.Store, graphs: Graphs, path: Path):
    """The differences of the engine and of onnxruntime from PyG, and how many graphs there are."""
    assert name in OF_GRAPHS
    model = graph_model(kind, name, graphs)
    ng.export(model, graphs.arguments(0, 5), path, fanouts=[1])
    parts = []
    for first in range(0, len(graphs), GRAPHS_AT_ONCE):
        end = min(len(graphs), first + GRAPHS_AT_ONCE)
        with torch.no_grad():
            parts.append(model(*graphs.arguments(first, end)))
    wanted = torch.cat(parts)
    with ng.Engine(store, path, threads=2) as engine:
        found = engine.graphs(np.arange(len(graphs)))
        # Other companions in a batch, and another order, change rounding at most.
        some = np.random.default_rng(3).integers(0, len(graphs), 50)
        again = engine.graphs(some)
    count = min(len(graphs), GRAPHS_IN_ONNXRUNTIME)
    return {
        "engine": _difference(found, wanted),
        "some again": _difference(again, wanted[some]),
        "onnxruntime": _difference(
            _in_onnxruntime(path, graphs.arguments(0, count)), wanted[:count]
        ),
        "answers": len(graphs),
    }


class Visits(nn.Module):
    """PinSAGE; the weight of an edge is how many edges its source has in the batch."""

    def __init__(self, width):
        super().__init__()
        self.layer = PinSage(width, WIDTH)

    def forward(self, x, edge_index):
        ones = x.new_ones(edge_index.size(1))
        visits = scatter(ones, edge_index[0], 0, x.size(0), "sum")
        return self.layer(x, edge_index, visits[edge_index[0]])


class Light(nn.Module):
    """LightGCN: the mean of the rows and of two propagations."""

    def __init__(self, _):
        super().__init__()
        self.layer = gnn.LGConv()

    def forward(self, x, edge_index):
        one = self.layer(x, edge_index)
        return (x + one + self.layer(one, edge_index)) / 3


EMBEDDERS = {
    "LightGCN": Light,
    "NGCF": lambda width: Ngcf(width, WIDTH),
    "PinSAGE": Visits,
    "GraphSAGE": lambda width: gnn.GraphSAGE(width, WIDTH, 2),
}
# `none`: the engine takes dot products of what the model gives for nodes.
SCORES = ["none", "dot", "mlp", "DistMult"]
PAIR_MODELS = [f"{embedder}, {score}" for embedder in EMBEDDERS for score in SCORES]


class Embedder(nn.Module):
    """Embeddings of nodes by their ids, as check-ins have no other features."""

    def __init__(self, kind, num_nodes):
        super().__init__()
        self.rows, self.layers = nn.Embedding(num_nodes, WIDTH), EMBEDDERS[kind](WIDTH)

    def forward(self, n_id, edge_index):
        return self.layers(self.rows(n_id), edge_index)


class Scored(Embedder):
    def __init__(self, kind, score, num_nodes):
        super().__init__(kind, num_nodes)
        self.score, self.relation = score, nn.Parameter(torch.randn(WIDTH))
        self.mlp = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, n_id, edge_index, edge_label_index):
        h = self.layers(self.rows(n_id), edge_index)
        a, b = h[edge_label_index[0]], h[edge_label_index[1]]
        if self.score == "mlp":
            return self.mlp(torch.cat([a, b], dim=-1)).squeeze(-1)
        return (a * b if self.score == "dot" else a * self.relation * b).sum(-1)


def compare_pairs(kind: str, store: ng.Store, path: Path, count: int = 300):
    """The differences of the engine's scores, and of onnxruntime's, from PyG's."""
    embedder, score = kind.split(", ")
    torch.manual_seed(0)
    is_plain = score == "none"
    args = (embedder, store.num_nodes) if is_plain else (embedder, score, store.num_nodes)
    model = (Embedder if is_plain else Scored)(*args).eval()
    pairs = _check_ins(store, count)
    unique, local = np.unique(pairs, return_inverse=True)
    first = list(dict.fromkeys(pairs.reshape(-1).tolist()))
    place = {node: at for at, node in enumerate(first)}
    local = torch.tensor([[place[node] for node in row] for row in pairs.tolist()])
    assert len(unique) == len(first)
    batch = ng.NumpySampler(store, FANOUTS, seed=0).sample(np.array(first), stream=7)
    taken = (torch.from_numpy(batch.nodes()), torch.from_numpy(batch.edge_index()))
    taken = taken if is_plain else (*taken, local)
    ng.export(model, taken, path, fanouts=FANOUTS)
    with torch.no_grad():
        wanted = model(*taken)
    in_onnxruntime = _difference(_in_onnxruntime(path, taken), wanted)
    if is_plain:
        wanted = (wanted[local[0]] * wanted[local[1]]).sum(-1)
    with ng.Engine(store, path, threads=2) as engine:
        found = engine.scores(pairs, seed=7)
    return {
        "engine": _difference(found, wanted),
        "onnxruntime": in_onnxruntime,
        "answers": count,
    }


def _check_ins(store, count):
    """Half of the pairs are edges of the store, the others are drawn; some are there twice."""
    draws = np.random.default_rng(5)
    nodes = draws.integers(0, store.num_nodes, (2, count))
    lists = store.snapshot().neighbors(None, nodes[1, : count // 2])
    has_any = np.flatnonzero(np.diff(lists.indptr))
    nodes[0, has_any] = lists.indices[lists.indptr[:-1][has_any]]
    nodes[:, -5:] = nodes[:, :5]
    return nodes


def _in_onnxruntime(path, arguments):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(path / "model.onnx", options)
    names = [entry.name for entry in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, arguments), strict=True)))[0]


def _difference(found, wanted) -> float:
    assert tuple(found.shape) == tuple(wanted.shape), (found.shape, wanted.shape)
    return relative_difference(torch.as_tensor(found), wanted)
