"""Models of each kind that `ng.export` takes, with the arguments to export them by.

`CASES` has a name and a function that makes (model, example). Sizes of the examples differ from
each other, so that each count is told apart.
"""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric import nn as gnn
from torch_geometric.utils import degree, scatter

NODES, EDGES, WIDTH = 37, 111, 16
TYPES = (["a", "b"], [("a", "x", "b"), ("b", "y", "a"), ("a", "z", "a")])


def graph(seed=0):
    """x [37, 16] and edge_index [2, 111] with loops and repeated edges."""
    draws = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, NODES, (2, EDGES), generator=draws)
    edge_index[:, :3] = torch.tensor([[1, 1, 2], [1, 1, 5]])
    return torch.randn(NODES, WIDTH, generator=draws), edge_index


class Two(nn.Module):
    """Two layers with ReLU between them."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class One(nn.Module):
    """One layer that takes something of each edge."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, edge_index, edge_attr):
        return self.layer(x, edge_index, edge_attr)


class Normed(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.layer, self.norm = gnn.SAGEConv(WIDTH, 8), norm

    def forward(self, x, edge_index):
        return self.norm(self.layer(x, edge_index)).relu()


class Jumping(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(WIDTH, 8), gnn.SAGEConv(8, 8)
        self.jump = gnn.JumpingKnowledge(mode, 8, 2)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).relu()
        return self.jump([h, self.second(h, edge_index).relu()])


class Pooled(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.layer, self.last, self.pool = gnn.GINConv(nn.Linear(WIDTH, 8)), nn.Linear(8, 3), pool

    def forward(self, x, edge_index, batch, num_graphs: int):
        return self.last(self.pool(self.layer(x, edge_index).relu(), batch, num_graphs))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.aggr = gnn.aggr.AttentionalAggregation(nn.Linear(8, 1))

    def forward(self, x, batch, num_graphs):
        return self.aggr(x, batch, dim_size=num_graphs)


class Decoded(nn.Module):
    """Scores of pairs of nodes."""

    def __init__(self, kind):
        super().__init__()
        self.layer, self.kind = gnn.SAGEConv(WIDTH, 8), kind
        self.mlp = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
        self.relations = nn.Parameter(torch.randn(5, 8))

    def forward(self, x, edge_index, pairs, relation):
        z = self.layer(x, edge_index)
        a, b = z[pairs[0]], z[pairs[1]]
        if self.kind == "mlp":
            return self.mlp(torch.cat([a, b], -1)).squeeze(-1)
        return (a * b if self.kind == "dot" else a * self.relations[relation] * b).sum(-1)


class Ngcf(gnn.MessagePassing):
    """As Wang et al., SIGIR 2019, one layer."""

    def __init__(self):
        super().__init__(aggr="add")
        self.one, self.two = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, edge_index):
        source, target = edge_index
        root = degree(target, x.size(0), x.dtype).clamp(min=1).pow(-0.5)
        out = self.propagate(edge_index, x=x, norm=root[source] * root[target])
        return functional.normalize(functional.leaky_relu(out + self.one(x), 0.2), dim=-1)

    def message(self, x_i, x_j, norm):
        return norm.view(-1, 1) * (self.one(x_j) + self.two(x_i * x_j))


class PinSage(gnn.MessagePassing):
    """As Ying et al., KDD 2018, one layer."""

    def __init__(self):
        super().__init__(aggr="add")
        self.q, self.w = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, edge_index, weight):
        h = self.propagate(edge_index, x=self.q(x).relu(), w=weight)
        total = scatter(weight, edge_index[1], 0, x.size(0), "sum").clamp(min=1)
        z = self.w(torch.cat([h / total.view(-1, 1), x], -1)).relu()
        return z / z.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def message(self, x_j, w):
        return x_j * w.view(-1, 1)


class Custom(gnn.MessagePassing):
    def __init__(self, aggr="max"):
        super().__init__(aggr=aggr)
        self.m, self.u = nn.Linear(2 * WIDTH, 8), nn.Linear(WIDTH + 8, 4)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return functional.elu(self.m(torch.cat([x_i, x_j - x_i], -1)))

    def update(self, aggr, x):
        return self.u(torch.cat([x, aggr], -1))


class Typed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x_dict, edge_index_dict):
        return self.layer(x_dict, edge_index_dict)


def two(layer, *args, **options):
    first = layer(WIDTH, 8, *args, **options)
    return Two(first, layer(8, 8, *args, **options)), graph()


def one(layer, rows):
    return One(layer), (*graph(), rows)


def weights():
    return torch.rand(EDGES, generator=torch.Generator().manual_seed(1))


def attributes():
    return torch.randn(EDGES, 5, generator=torch.Generator().manual_seed(2))


def relations():
    return torch.randint(0, 4, (EDGES,), generator=torch.Generator().manual_seed(3))


def pooled(pool):
    batch = torch.randint(0, 6, (NODES,), generator=torch.Generator().manual_seed(4))
    return Pooled(pool), (*graph(), batch.sort().values, 6)


def decoded(kind):
    draws = torch.Generator().manual_seed(5)
    pairs = torch.randint(0, NODES, (2, 29), generator=draws)
    return Decoded(kind), (*graph(), pairs, torch.randint(0, 5, (29,), generator=draws))


def typed_example():
    draws = torch.Generator().manual_seed(6)
    counts = {"a": NODES, "b": NODES + 3}
    rows = {name: torch.randn(n, WIDTH, generator=draws) for name, n in counts.items()}
    edges = {
        kind: torch.stack(
            [
                torch.randint(counts[end], (EDGES + i,), generator=draws)
                for end in (kind[0], kind[2])
            ]
        )
        for i, kind in enumerate(TYPES[1])
    }
    return rows, edges


def hetero_conv():
    layers = {
        ("a", "x", "b"): gnn.SAGEConv((WIDTH, WIDTH), 8),
        ("b", "y", "a"): gnn.GATConv((WIDTH, WIDTH), 8, add_self_loops=False),
        ("a", "z", "a"): gnn.SAGEConv(WIDTH, 8),
    }
    return Typed(gnn.HeteroConv(layers, aggr="sum")), typed_example()


def to_hetero():
    model = Two(gnn.SAGEConv((-1, -1), 8), gnn.SAGEConv((-1, -1), 8))
    example = typed_example()
    model = gnn.to_hetero(model, TYPES)
    with torch.no_grad():
        model(*example)
    return model, example


def pna():
    scalers = ["identity", "amplification", "attenuation"]
    histogram = torch.tensor([0, 3, 5, 4, 2, 1])
    return gnn.PNAConv(WIDTH, 8, ["mean", "min", "max", "std"], scalers, histogram), graph()


def gin():
    norm = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU())
    return Two(gnn.GINConv(norm), gnn.GINConv(nn.Linear(8, 8))), graph()


def heads(layer, **options):
    return Two(layer(WIDTH, 4, heads=2, **options), layer(8, 8, **options)), graph()


CASES = {
    "SAGE mean": lambda: two(gnn.SAGEConv),
    "SAGE sum": lambda: two(gnn.SAGEConv, aggr="sum"),
    "SAGE max": lambda: two(gnn.SAGEConv, aggr="max"),
    "SAGE pool": lambda: two(gnn.SAGEConv, aggr="max", project=True),
    "SAGE softmax": lambda: two(gnn.SAGEConv, aggr="softmax"),
    "SAGE std": lambda: two(gnn.SAGEConv, aggr="std"),
    "SAGE mean, std, max": lambda: two(gnn.SAGEConv, aggr=["mean", "std", "max"]),
    "GCN": lambda: two(gnn.GCNConv),
    "GCN improved": lambda: two(gnn.GCNConv, improved=True),
    "GCN without loops": lambda: two(gnn.GCNConv, add_self_loops=False),
    "GCN with weights": lambda: one(gnn.GCNConv(WIDTH, 8), weights()),
    "GCN normalized before": lambda: one(gnn.GCNConv(WIDTH, 8, normalize=False), weights()),
    "GIN": gin,
    "GINE": lambda: one(gnn.GINEConv(nn.Linear(WIDTH, 8), edge_dim=5), attributes()),
    "GAT": lambda: heads(gnn.GATConv),
    "GAT without loops": lambda: heads(gnn.GATConv, add_self_loops=False),
    "GAT with attributes": lambda: one(gnn.GATConv(WIDTH, 4, 2, edge_dim=5), attributes()),
    "GATv2": lambda: heads(gnn.GATv2Conv),
    "GATv2 without loops": lambda: heads(gnn.GATv2Conv, add_self_loops=False),
    "Transformer": lambda: heads(gnn.TransformerConv, beta=True),
    "PNA": pna,
    "RGCN": lambda: one(gnn.RGCNConv(WIDTH, 8, 4), relations()),
    "RGCN sum": lambda: one(gnn.RGCNConv(WIDTH, 8, 4, aggr="sum"), relations()),
    "RGCN bases": lambda: one(gnn.RGCNConv(WIDTH, 8, 4, num_bases=2), relations()),
    "FastRGCN": lambda: one(gnn.FastRGCNConv(WIDTH, 8, 4), relations()),
    "HGT": lambda: (Typed(gnn.HGTConv(WIDTH, 8, TYPES, heads=2)), typed_example()),
    "HeteroConv": hetero_conv,
    "to_hetero": to_hetero,
    "JK cat": lambda: (Jumping("cat"), graph()),
    "JK max": lambda: (Jumping("max"), graph()),
    "JK lstm": lambda: (Jumping("lstm"), graph()),
    "BatchNorm": lambda: (Normed(gnn.BatchNorm(8)), graph()),
    "LayerNorm node": lambda: (Normed(gnn.LayerNorm(8, mode="node")), graph()),
    "LayerNorm graph": lambda: (Normed(gnn.LayerNorm(8)), graph()),
    "GraphNorm": lambda: (Normed(gnn.GraphNorm(8)), graph()),
    "pool mean": lambda: pooled(gnn.global_mean_pool),
    "pool add": lambda: pooled(gnn.global_add_pool),
    "pool max": lambda: pooled(gnn.global_max_pool),
    "pool attention": lambda: pooled(Attention()),
    "decoder dot": lambda: decoded("dot"),
    "decoder mlp": lambda: decoded("mlp"),
    "decoder DistMult": lambda: decoded("distmult"),
    "NGCF": lambda: (Ngcf(), graph()),
    "PinSAGE": lambda: one(PinSage(), weights()),
    "custom max": lambda: (Custom(), graph()),
    "custom min": lambda: (Custom("min"), graph()),
    "custom mul": lambda: (Custom("mul"), graph()),
    "LightGCN": lambda: (gnn.LGConv(), graph()),
    "APPNP": lambda: (gnn.APPNP(3, 0.1), graph()),
    "SGConv": lambda: (gnn.SGConv(WIDTH, 8, K=2), graph()),
    "GraphConv": lambda: one(gnn.GraphConv(WIDTH, 8), weights()),
    "EdgeConv": lambda: (gnn.EdgeConv(nn.Linear(2 * WIDTH, 8)), graph()),
    "GraphSAGE": lambda: (gnn.GraphSAGE(WIDTH, 8, 2, 4), graph()),
}
