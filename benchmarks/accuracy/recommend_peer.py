"""PyG's side of recommendations: the full graph of users and items in memory in each step.

The layer is NGCF's (Wang et al., SIGIR 2019) as a `MessagePassing` of PyG. The invariant: negative
items of a user are none of its own, as on our side.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from .rows import Row
from .sets import DATA
from .visits import METRICS, bpr, visited_in_test

_DEVIATION = 0.1


class _Layer(MessagePassing):
    """W1 (sum + own) + W2 (sum * own) with LeakyReLU, of sums that are weighted by degrees."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.own = torch.nn.Linear(width, width, bias=False)
        self.alike = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        summed = self.propagate(edge_index, x=x, weight=weight)
        return functional.leaky_relu(self.own(summed + x) + self.alike(summed * x), 0.2)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


class _Model(torch.nn.Module):
    def __init__(self, row: Row, nodes: int) -> None:
        super().__init__()
        width, depth = row.settings["hidden"], len(row.settings["fanouts"])
        self.embedding = torch.nn.Embedding(nodes, width)
        torch.nn.init.normal_(self.embedding.weight, std=_DEVIATION)
        self.layers = torch.nn.ModuleList(_Layer(width) for _ in range(depth))
        self.share = row.settings["dropout"]

    def forward(self, edge_index: Tensor, weight: Tensor) -> Tensor:
        """Rows of all nodes, those of all layers side by side."""
        found = [self.embedding.weight]
        for layer in self.layers:
            made = layer(found[-1], edge_index, weight)
            found.append(functional.dropout(made, self.share, self.training))
        return torch.cat(found, dim=1)


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed."""
    torch.manual_seed(seed)
    data = torch.load(folder / DATA, weights_only=False)
    num_users, num_items = data["user"].num_nodes, data["item"].num_nodes
    kind = next(kind for kind in data.edge_types if kind[0] == "user")
    visits = data[kind].edge_index
    there = torch.stack([visits[0], visits[1] + num_users])
    edge_index = torch.cat([there, there.flip(0)], dim=1)
    edge_index, weight = gcn_norm(
        edge_index, None, num_users + num_items, add_self_loops=False, dtype=torch.float32
    )
    model = _Model(row, num_users + num_items)
    settings = row.settings
    optimizers = [
        torch.optim.Adam(model.layers.parameters(), lr=settings["lr"]),
        # Rows without a gradient stay as they are, as in a sparse optimiser.
        torch.optim.Adagrad(model.embedding.parameters(), lr=settings["embedding_lr"]),
    ]
    keys = visits[0] * num_items + visits[1]
    for _ in range(settings["epochs"]):
        order = torch.randperm(visits.size(1))
        for chosen in order.split(settings["batch_size"]):
            users, items = visits[:, chosen]
            others = _others(users, num_items, keys)
            z = model(edge_index, weight)
            of_users = z[users]
            positive = (of_users * z[num_users + items]).sum(-1)
            loss = bpr(positive, (of_users * z[num_users + others]).sum(-1))
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model(edge_index, weight)
    found = _ranked(z[:num_users], z[num_users:], visits)
    return {"value": found[row.metric], "metrics": found}


def _others(users: Tensor, num_items: int, keys: Tensor) -> Tensor:
    """An item for each user that is none of its own."""
    drawn = torch.randint(num_items, users.shape)
    while bool((own := torch.isin(users * num_items + drawn, keys)).any()):
        drawn[own] = torch.randint(num_items, (int(own.sum()),))
    return drawn


def _ranked(users: Tensor, items: Tensor, visits: Tensor) -> dict[str, float]:
    """Recall and NDCG of the best 20 of all items, dense, means over users with a test."""
    scores = users @ items.T
    scores[visits[0], visits[1]] = float("-inf")
    wanted = torch.zeros(scores.shape, dtype=torch.bool)
    owners, visited = map(torch.from_numpy, visited_in_test(len(items)))
    wanted[owners, visited] = True
    best = scores.topk(20, dim=1).indices
    hits = wanted.gather(1, best).float()
    counts = wanted.sum(dim=1)
    gains = 1 / torch.arange(2, 22).float().log2()
    ideal = torch.cat([torch.zeros(1), gains.cumsum(0)])[counts.clamp(max=20)]
    tested = counts > 0
    recall = hits.sum(dim=1)[tested] / counts[tested]
    ndcg = (hits * gains).sum(dim=1)[tested] / ideal[tested]
    return dict(zip(METRICS, (float(recall.mean()), float(ndcg.mean())), strict=True))
