"""Models of each kind that `ng.export` takes, with the arguments to export them by.

`CASES` has a name and a function that makes (model, example) for rows of a width. Sizes of the
examples differ from each other, so that each count is told apart.
"""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric import nn as gnn
from torch_geometric.utils import degree, scatter

NODES, EDGES, WIDTH = 37, 111, 16
TYPES = (["a", "b"], [("a", "x", "b"), ("b", "y", "a"), ("a", "z", "a")])


def graph(width=WIDTH, seed=0):
    """x [37, width] and edge_index [2, 111] with loops and repeated edges."""
    draws = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, NODES, (2, EDGES), generator=draws)
    edge_index[:, :3] = torch.tensor([[1, 1, 2], [1, 1, 5]])
    return torch.randn(NODES, width, generator=draws), edge_index


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
    def __init__(self, norm, width):
        super().__init__()
        self.layer, self.norm = gnn.SAGEConv(width, 8), norm

    def forward(self, x, edge_index):
        return self.norm(self.layer(x, edge_index)).relu()


class Jumping(nn.Module):
    def __init__(self, mode, width):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(width, 8), gnn.SAGEConv(8, 8)
        self.jump = gnn.JumpingKnowledge(mode, 8, 2)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index).relu()
        return self.jump([h, self.second(h, edge_index).relu()])


class Pooled(nn.Module):
    def __init__(self, pool, width=WIDTH):
        super().__init__()
        self.layer, self.last, self.pool = gnn.GINConv(nn.Linear(width, 8)), nn.Linear(8, 3), pool

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

    def __init__(self, kind, layer, out=8):
        super().__init__()
        self.layer, self.kind = layer, kind
        self.mlp = nn.Sequential(nn.Linear(2 * out, 8), nn.ReLU(), nn.Linear(8, 1))
        self.relations = nn.Parameter(torch.randn(5, out))

    def forward(self, x, edge_index, pairs, relation):
        z = self.layer(x, edge_index)
        a, b = z[pairs[0]], z[pairs[1]]
        if self.kind == "mlp":
            return self.mlp(torch.cat([a, b], -1)).squeeze(-1)
        return (a * b if self.kind == "dot" else a * self.relations[relation] * b).sum(-1)


class Ngcf(gnn.MessagePassing):
    """As Wang et al., SIGIR 2019, one layer."""

    def __init__(self, width, out=WIDTH):
        super().__init__(aggr="add")
        self.one, self.two = nn.Linear(width, out), nn.Linear(width, out)

    def forward(self, x, edge_index):
        source, target = edge_index
        root = degree(target, x.size(0), x.dtype).clamp(min=1).pow(-0.5)
        out = self.propagate(edge_index, x=x, norm=root[source] * root[target])
        return functional.normalize(functional.leaky_relu(out + self.one(x), 0.2), dim=-1)

    def message(self, x_i, x_j, norm):
        return norm.view(-1, 1) * (self.one(x_j) + self.two(x_i * x_j))


class PinSage(gnn.MessagePassing):
    """As Ying et al., KDD 2018, one layer."""

    def __init__(self, width, out=WIDTH):
        super().__init__(aggr="add")
        self.q, self.w = nn.Linear(width, WIDTH), nn.Linear(WIDTH + width, out)

    def forward(self, x, edge_index, weight):
        h = self.propagate(edge_index, x=self.q(x).relu(), w=weight)
        total = scatter(weight, edge_index[1], 0, x.size(0), "sum").clamp(min=1)
        z = self.w(torch.cat([h / total.view(-1, 1), x], -1)).relu()
        return z / z.norm(dim=-1, keepdim=True).clamp(min=1e-6)

    def message(self, x_j, w):
        return x_j * w.view(-1, 1)


class Custom(gnn.MessagePassing):
    def __init__(self, width, aggr="max"):
        super().__init__(aggr=aggr)
        self.m, self.u = nn.Linear(2 * width, 8), nn.Linear(width + 8, 4)

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


class Narrowed(nn.Module):
    """Rows of 64 columns first: some layers hold a matrix of width by width."""

    def __init__(self, model, width):
        super().__init__()
        self.narrow, self.model = nn.Linear(width, 64), model

    def forward(self, x, edge_index):
        return self.model(self.narrow(x), edge_index)


def narrowed(make, width):
    """The model that `make` gives for a width, of at most 1,024 columns."""
    if width <= 1024:
        return make(width), graph(width)
    return Narrowed(make(64), width), graph(width)


def two(layer, width, *args, **options):
    first = layer(width, 8, *args, **options)
    return Two(first, layer(8, 8, *args, **options)), graph(width)


def one(layer, width, rows):
    return One(layer), (*graph(width), rows)


def weights():
    return torch.rand(EDGES, generator=torch.Generator().manual_seed(1))


def attributes():
    return torch.randn(EDGES, 5, generator=torch.Generator().manual_seed(2))


def relations():
    return torch.randint(0, 4, (EDGES,), generator=torch.Generator().manual_seed(3))


def pooled(pool, width):
    batch = torch.randint(0, 6, (NODES,), generator=torch.Generator().manual_seed(4))
    return Pooled(pool, width), (*graph(width), batch.sort().values, 6)


def decoded(kind, layer, width, out=8):
    draws = torch.Generator().manual_seed(5)
    pairs = torch.randint(0, NODES, (2, 29), generator=draws)
    example = (*graph(width), pairs, torch.randint(0, 5, (29,), generator=draws))
    return Decoded(kind, layer, out), example


def typed_example(width):
    draws = torch.Generator().manual_seed(6)
    counts = {"a": NODES, "b": NODES + 3}
    rows = {name: torch.randn(n, width, generator=draws) for name, n in counts.items()}
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


def hetero_conv(width):
    layers = {
        ("a", "x", "b"): gnn.SAGEConv((width, width), 8),
        ("b", "y", "a"): gnn.GATConv((width, width), 8, add_self_loops=False),
        ("a", "z", "a"): gnn.SAGEConv(width, 8),
    }
    return Typed(gnn.HeteroConv(layers, aggr="sum")), typed_example(width)


def to_hetero(width, types=TYPES, example=None):
    model = Two(gnn.SAGEConv((-1, -1), 8), gnn.SAGEConv((-1, -1), 8))
    example = example or typed_example(width)
    model = gnn.to_hetero(model, types)
    with torch.no_grad():
        model(*example)
    return model, example


def pna(width):
    scalers = ["identity", "amplification", "attenuation"]
    histogram = torch.tensor([0, 3, 5, 4, 2, 1])
    return gnn.PNAConv(width, 8, ["mean", "min", "max", "std"], scalers, histogram)


def gin(width):
    norm = nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU())
    return Two(gnn.GINConv(norm), gnn.GINConv(nn.Linear(8, 8)))


def heads(layer, width, **options):
    return Two(layer(width, 4, heads=2, **options), layer(8, 8, **options)), graph(width)


def pool_sage(width):
    return Two(*(gnn.SAGEConv(n, 8, aggr="max", project=True) for n in (width, 8)))


def hgt(width):
    return Typed(gnn.HGTConv(width, 8, TYPES, heads=2)), typed_example(width)


_MAKERS = {
    "SAGE mean": lambda w: two(gnn.SAGEConv, w),
    "SAGE sum": lambda w: two(gnn.SAGEConv, w, aggr="sum"),
    "SAGE max": lambda w: two(gnn.SAGEConv, w, aggr="max"),
    "SAGE pool": lambda w: narrowed(pool_sage, w),
    "SAGE softmax": lambda w: two(gnn.SAGEConv, w, aggr="softmax"),
    "SAGE std": lambda w: two(gnn.SAGEConv, w, aggr="std"),
    "SAGE mean, std, max": lambda w: two(gnn.SAGEConv, w, aggr=["mean", "std", "max"]),
    "GCN": lambda w: two(gnn.GCNConv, w),
    "GCN improved": lambda w: two(gnn.GCNConv, w, improved=True),
    "GCN without loops": lambda w: two(gnn.GCNConv, w, add_self_loops=False),
    "GCN with weights": lambda w: one(gnn.GCNConv(w, 8), w, weights()),
    "GCN normalized before": lambda w: one(gnn.GCNConv(w, 8, normalize=False), w, weights()),
    "GIN": lambda w: (gin(w), graph(w)),
    "GINE": lambda w: one(gnn.GINEConv(nn.Linear(w, 8), edge_dim=5), w, attributes()),
    "GAT": lambda w: heads(gnn.GATConv, w),
    "GAT without loops": lambda w: heads(gnn.GATConv, w, add_self_loops=False),
    "GAT with attributes": lambda w: one(gnn.GATConv(w, 4, 2, edge_dim=5), w, attributes()),
    "GATv2": lambda w: heads(gnn.GATv2Conv, w),
    "GATv2 without loops": lambda w: heads(gnn.GATv2Conv, w, add_self_loops=False),
    "Transformer": lambda w: heads(gnn.TransformerConv, w, beta=True),
    "PNA": lambda w: narrowed(pna, w),
    "RGCN": lambda w: one(gnn.RGCNConv(w, 8, 4), w, relations()),
    "RGCN sum": lambda w: one(gnn.RGCNConv(w, 8, 4, aggr="sum"), w, relations()),
    "RGCN bases": lambda w: one(gnn.RGCNConv(w, 8, 4, num_bases=2), w, relations()),
    "FastRGCN": lambda w: one(gnn.FastRGCNConv(w, 8, 4), w, relations()),
    "HGT": hgt,
    "HeteroConv": hetero_conv,
    "to_hetero": to_hetero,
    "JK cat": lambda w: (Jumping("cat", w), graph(w)),
    "JK max": lambda w: (Jumping("max", w), graph(w)),
    "JK lstm": lambda w: (Jumping("lstm", w), graph(w)),
    "BatchNorm": lambda w: (Normed(gnn.BatchNorm(8), w), graph(w)),
    "LayerNorm node": lambda w: (Normed(gnn.LayerNorm(8, mode="node"), w), graph(w)),
    "LayerNorm graph": lambda w: (Normed(gnn.LayerNorm(8), w), graph(w)),
    "GraphNorm": lambda w: (Normed(gnn.GraphNorm(8), w), graph(w)),
    "pool mean": lambda w: pooled(gnn.global_mean_pool, w),
    "pool add": lambda w: pooled(gnn.global_add_pool, w),
    "pool max": lambda w: pooled(gnn.global_max_pool, w),
    "pool attention": lambda w: pooled(Attention(), w),
    "decoder dot": lambda w: decoded("dot", gnn.SAGEConv(w, 8), w),
    "decoder mlp": lambda w: decoded("mlp", gnn.SAGEConv(w, 8), w),
    "decoder DistMult": lambda w: decoded("distmult", gnn.SAGEConv(w, 8), w),
    "NGCF": lambda w: (Ngcf(w), graph(w)),
    "PinSAGE": lambda w: one(PinSage(w), w, weights()),
    "custom max": lambda w: (Custom(w), graph(w)),
    "custom min": lambda w: (Custom(w, "min"), graph(w)),
    "custom mul": lambda w: (Custom(w, "mul"), graph(w)),
    "LightGCN": lambda w: (gnn.LGConv(), graph(w)),
    "APPNP": lambda w: (gnn.APPNP(3, 0.1), graph(w)),
    "SGConv": lambda w: (gnn.SGConv(w, 8, K=2), graph(w)),
    "GraphConv": lambda w: one(gnn.GraphConv(w, 8), w, weights()),
    "EdgeConv": lambda w: (gnn.EdgeConv(nn.Linear(2 * w, 8)), graph(w)),
    "GraphSAGE": lambda w: (gnn.GraphSAGE(w, 8, 2, 4), graph(w)),
}


def _case(make):
    def case(width=WIDTH):
        torch.manual_seed(0)
        model, example = make(width)
        return model.eval(), example

    return case


CASES = {name: _case(make) for name, make in _MAKERS.items()}
