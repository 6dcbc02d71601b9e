"""PyG's side of NGCF (Wang et al., SIGIR 2019): its `LinkNeighborLoader`, and messages of PyG.

What must not live here: training. The invariant: sums over drawn neighbours are scaled to all of
them, as in our model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.nn import MessagePassing

from .recommend_peer import Recommender, learned

Rows = dict[str, Tensor]


class Layer(MessagePassing):
    """W1 (sum + own) + W2 (sum * own) with LeakyReLU, of sums that are weighted by degrees."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.own = torch.nn.Linear(width, width, bias=False)
        self.alike = torch.nn.Linear(width, width, bias=False)

    def forward(self, x: tuple[Tensor, Tensor], edge_index: Tensor, weight: Tensor) -> Tensor:
        """New rows of the destinations, the second part of ``x``."""
        size = (x[0].size(0), x[1].size(0))
        summed = self.propagate(edge_index, x=x[0], weight=weight, size=size)
        made = self.own(summed + x[1]) + self.alike(summed * x[1])
        return functional.leaky_relu(made, 0.2)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


class Model(Recommender):
    """The model on batches of users and items, each with the other's edges alone."""

    def __init__(self, settings: Mapping[str, Any], data: Any) -> None:
        super().__init__()
        self.settings, self.data = settings, data
        (self.kind,) = (kind for kind in data.edge_types if kind[0] == "user")
        self.visits = data[self.kind].edge_index
        counts = {name: data[name].num_nodes for name in data.node_types}
        self.num_items = counts["item"]
        self.degrees = {
            name: ends.bincount(minlength=counts[name]).float()
            for name, ends in zip(("user", "item"), self.visits, strict=True)
        }
        self.keys = (self.visits[0] * self.num_items + self.visits[1]).sort().values
        width = settings["hidden"]
        self.embeddings = torch.nn.ModuleDict(
            {name: learned(count, width) for name, count in counts.items()}
        )
        self.layers = torch.nn.ModuleList(Layer(width) for _ in settings["fanouts"])

    def forward(self, ids: Rows, edges: Mapping[Any, Tensor], seeds: dict[str, int]) -> Rows:
        """Rows of the seeds, those of all layers side by side; ids and counts by node type."""
        x: Rows = {name: self.embeddings[name](part) for name, part in ids.items()}
        found, last = [x], len(self.layers) - 1
        for place, layer in enumerate(self.layers):
            counts = seeds if place == last else {name: len(part) for name, part in ids.items()}
            made: Rows = {}
            for kind, ends in edges.items():
                source, _, target = kind
                if target not in counts:
                    continue
                weight = self._weight(kind, ids, ends)
                kept = ends[1] < counts[target]
                pair = (x[source], x[target][: counts[target]])
                out = layer(pair, ends[:, kept], weight[kept])
                made[target] = functional.dropout(out, self.settings["dropout"], self.training)
            x = made
            found.append(x)
        return {name: torch.cat([rows[name][:n] for rows in found], 1) for name, n in seeds.items()}

    def _weight(self, kind: Any, ids: Rows, ends: Tensor) -> Tensor:
        """1 / root of both degrees, times all neighbours / those that were drawn, [e]."""
        of_source, of_target = (self.degrees[name][ids[name]].clamp(min=1) for name in kind[::2])
        drawn = ends[1].bincount(minlength=len(of_target)).clamp(min=1)
        return of_source.rsqrt()[ends[0]] * (of_target.rsqrt() * of_target / drawn)[ends[1]]

    def scores(self) -> Iterator[tuple[Tensor, Tensor]]:
        loader = LinkNeighborLoader(
            self.data,
            list(self.settings["fanouts"]),
            edge_label_index=self.kind,
            neg_sampling="triplet",
            batch_size=self.settings["batch_size"],
            shuffle=True,
        )
        for batch in loader:
            users, items = batch["user"].src_index, batch["item"]
            chosen, others = items.dst_pos_index, items.dst_neg_index
            last = (users.max(), torch.maximum(chosen.max(), others.max()))
            seeds = {name: int(n) + 1 for name, n in zip(("user", "item"), last, strict=True)}
            z = self(batch.n_id_dict, batch.edge_index_dict, seeds)
            # PyG draws from all items, and leaves the user's own among them.
            drawn = batch["user"].n_id[users] * self.num_items + items.n_id[others]
            at = torch.searchsorted(self.keys, drawn).clamp(max=len(self.keys) - 1)
            is_other = self.keys[at] != drawn
            of_users = z["user"][users]
            positive, negative = (
                (of_users * z["item"][ends]).sum(-1)[is_other] for ends in (chosen, others)
            )
            yield positive, negative

    def all_rows(self) -> tuple[Tensor, Tensor]:
        return self._all("user"), self._all("item")

    def _all(self, kind: str) -> Tensor:
        loader = NeighborLoader(
            self.data,
            list(self.settings["ranked_fanouts"]),
            input_nodes=kind,
            batch_size=self.settings["ranked_batch_size"],
        )
        parts = []
        for batch in loader:
            seeds = {kind: batch[kind].batch_size}
            parts.append(self(batch.n_id_dict, batch.edge_index_dict, seeds)[kind])
        return torch.cat(parts)
