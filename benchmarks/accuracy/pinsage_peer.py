"""PyG's side of PinSAGE (Ying et al., KDD 2018): walks over the edges in memory, layers of PyG.

PyG has no sampler of visits, so here is one in torch, with the rule and the defaults of ours. What
must not live here: training. The invariant: a node's neighbours are those most visited, and their
shares add up to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import MessagePassing

from .recommend_peer import Recommender, learned

_WALKS, _LENGTH, _RESTART = 10, 2, 0.5


class Walks:
    """Neighbours by visits, over edges [2, e] of one node type."""

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        order = edge_index[1].argsort(stable=True)
        self.sources, self.num_nodes = edge_index[0][order], num_nodes
        self.degrees = edge_index[1].bincount(minlength=num_nodes)
        self.starts = self.degrees.cumsum(0) - self.degrees

    def neighbors(self, nodes: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """(place of a node among ``nodes``, neighbour, share of the visits), [e] each."""
        begin = nodes.repeat_interleave(_WALKS)
        owner = torch.arange(len(nodes)).repeat_interleave(_WALKS)
        at, keys = begin, []
        for _ in range(_LENGTH):
            degree = self.degrees[at]
            drawn = (torch.rand(len(at), dtype=torch.float64) * degree).long()
            place = (self.starts[at] + drawn).clamp(max=len(self.sources) - 1)
            at = torch.where(degree > 0, self.sources[place], begin)
            away = at != begin
            keys.append(owner[away] * self.num_nodes + at[away])
            at = torch.where(torch.rand(len(at)) < _RESTART, begin, at)
        visited, visits = torch.cat(keys).unique(return_counts=True)
        # Keys ascend, so ties stay in the order of ids; the second sort brings owners together.
        order = visits.argsort(descending=True, stable=True)
        order = order[(visited[order] // self.num_nodes).argsort(stable=True)]
        owners = visited[order] // self.num_nodes
        sizes = owners.bincount(minlength=len(nodes))
        rank = torch.arange(len(owners)) - (sizes.cumsum(0) - sizes)[owners]
        kept = order[rank < count]
        owners, chosen = visited[kept] // self.num_nodes, visited[kept] % self.num_nodes
        totals = torch.zeros(len(nodes)).index_add_(0, owners, visits[kept].float())
        return owners, chosen, visits[kept] / totals[owners]

    def batch(self, seeds: Tensor, counts: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """(ids [n] that begin with the seeds, local edges [2, e], shares [e]), hop by hop."""
        local = torch.full((self.num_nodes,), -1)
        local[seeds] = torch.arange(len(seeds))
        ids, first, edges, shares = seeds, 0, [], []
        for count in counts:
            owners, chosen, share = self.neighbors(ids[first:], count)
            new = chosen[local[chosen] < 0].unique()
            local[new] = torch.arange(len(ids), len(ids) + len(new))
            edges.append(torch.stack([local[chosen], owners + first]))
            shares.append(share)
            first, ids = len(ids), torch.cat([ids, new])
        return ids, torch.cat(edges, dim=1), torch.cat(shares)


class Convolve(MessagePassing):
    """One convolution (algorithm 1): rows of unit length."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(aggr="add")
        self.neighbor = torch.nn.Linear(before, after)
        self.both = torch.nn.Linear(before + after, after)

    def forward(self, x: Tensor, edge_index: Tensor, share: Tensor) -> Tensor:
        """Rows of all nodes, [n, after]."""
        pooled = self.propagate(edge_index, x=self.neighbor(x).relu(), share=share)
        both: Tensor = self.both(torch.cat([x, pooled], dim=1))
        return functional.normalize(both.relu(), dim=1)

    def message(self, x_j: Tensor, share: Tensor) -> Tensor:
        return share[:, None] * x_j


class Model(Recommender):
    """Convolutions and two layers on top (algorithm 2); users and items are nodes of one type."""

    def __init__(self, settings: Mapping[str, Any], data: Any) -> None:
        super().__init__()
        self.settings, self.num_nodes = settings, data.num_nodes
        self.num_items = int(data.is_item.sum())
        self.num_users = self.num_nodes - self.num_items
        self.walks = Walks(data.edge_index, self.num_nodes)
        self.links = data.edge_index[:, data.edge_index[0] < self.num_users]
        self.visits = self.links - torch.tensor([[0], [self.num_users]])
        self.keys = (self.links[0] * self.num_nodes + self.links[1]).sort().values
        width, depth = settings["hidden"], len(settings["fanouts"])
        self.embeddings = learned(self.num_nodes, width)
        self.layers = torch.nn.ModuleDict(
            {
                "convs": torch.nn.ModuleList(Convolve(width, width) for _ in range(depth)),
                "lin": torch.nn.Linear(width, width),
                "out": torch.nn.Linear(width, width, bias=False),
            }
        )

    def forward(self, ids: Tensor, edge_index: Tensor, share: Tensor) -> Tensor:
        """Rows of all nodes of a batch; those of its seeds are right."""
        x: Tensor = self.embeddings(ids)
        for conv in self.layers["convs"]:
            x = functional.dropout(x, self.settings["dropout"], self.training)
            x = conv(x, edge_index, share)
        out: Tensor = self.layers["out"](self.layers["lin"](x).relu())
        return out

    def scores(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(self.links.size(1))
        for chosen in order.split(self.settings["batch_size"]):
            users, items = self.links[:, chosen]
            others = self._others(users)
            seeds, place = torch.cat([users, items, others]).unique(return_inverse=True)
            z = self(*self.walks.batch(seeds, list(self.settings["fanouts"])))[place]
            of_users, of_items, of_others = z.split(len(users))
            # Users are drawn as well, as from the store; they are not recommended.
            is_item = others >= self.num_users
            positive, negative = (of_users * of_items).sum(-1), (of_users * of_others).sum(-1)
            yield positive[is_item], negative[is_item]

    def _others(self, users: Tensor) -> Tensor:
        """A node for each user that is neither itself nor an item of its own."""
        drawn = torch.randint(self.num_nodes, users.shape)
        while len(open_ := self._is_wrong(users, drawn).nonzero().flatten()):
            drawn[open_] = torch.randint(self.num_nodes, open_.shape)
        return drawn

    def _is_wrong(self, users: Tensor, drawn: Tensor) -> Tensor:
        keys = users * self.num_nodes + drawn
        at = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return (self.keys[at] == keys) | (users == drawn)

    def all_rows(self) -> tuple[Tensor, Tensor]:
        parts = []
        for seeds in torch.arange(self.num_nodes).split(self.settings["batch_size"]):
            z = self(*self.walks.batch(seeds, list(self.settings["fanouts"])))
            parts.append(z[: len(seeds)])
        users, items = torch.cat(parts).split([self.num_users, self.num_items])
        return users, items
