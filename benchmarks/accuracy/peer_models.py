"""PyG's side of the models: layers of PyG, one after the other.

What must not live here: training. The invariant: widths, activations and dropout stand where they
stand in the model of the same name in `neargraph.nn`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric import nn as gnn

from .rows import Row

_POOLS = {"mean": gnn.global_mean_pool, "sum": gnn.global_add_pool, "max": gnn.global_max_pool}


class Layers(torch.nn.Module):
    """A row of layers with an activation and dropout in between."""

    def __init__(self, row: Row, before: int, after: int) -> None:
        super().__init__()
        settings = row.settings
        depth = len(settings["fanouts"])
        widths = [before, *[settings["hidden"]] * (depth - 1), after]
        pairs = list(pairwise(widths))
        self.convs = torch.nn.ModuleList(
            _layer(row, a, b, place == depth - 1) for place, (a, b) in enumerate(pairs)
        )
        normed = widths[1:-1] if settings.get("norm") == "batch" else []
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(width) for width in normed)
        self.name, self.share = row.model, settings.get("dropout", 0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Rows of the last layer, [n, after]."""
        for place, conv in enumerate(self.convs):
            if place and len(self.norms):
                x = self.norms[place - 1](x)
            if place:
                x = functional.elu(x) if self.name == "gat" else x.relu()
            # Kipf and Welling drop the features of the input as well, and so do Velickovic et al.
            if place or self.name in ("gcn", "gat"):
                x = functional.dropout(x, self.share, self.training)
            x = conv(x, edge_index)
        return x


def _layer(row: Row, before: int, after: int, is_last: bool) -> Any:
    name, settings = row.model, row.settings
    if name == "gcn":
        return gnn.GCNConv(before, after)
    if name == "sage":
        return gnn.SAGEConv(before, after)
    if name == "gin":
        norm = "batch_norm" if settings.get("norm") == "batch" else None
        return gnn.GINConv(gnn.MLP([before, after, after], norm=norm), train_eps=True)
    heads, share = settings["heads"], settings["attention_dropout"]
    if is_last:
        return gnn.GATConv(before, after, heads, concat=False, dropout=share)
    return gnn.GATConv(before, after // heads, heads, dropout=share)


def made(row: Row, before: int, after: int) -> Layers:
    """The model of a row of nodes."""
    return Layers(row, before, after)


class Graphs(torch.nn.Module):
    """Layers, the rows of each graph pooled to one, and an MLP."""

    def __init__(self, row: Row, before: int, classes: int) -> None:
        super().__init__()
        width = row.settings["hidden"]
        self.layers = Layers(row, before, width)
        self.pool = _POOLS[row.settings["pool"]]
        self.head = gnn.MLP(
            [width, width, classes], norm=None, dropout=row.settings.get("dropout", 0.5)
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, count: int) -> Tensor:
        """Logits of graphs, [count, classes]."""
        out: Tensor = self.head(self.pool(self.layers(x, edge_index), batch, count))
        return out


class Typed(torch.nn.Module):
    """`HeteroConv` of `SAGEConv`, each node type with a product of its own row in each layer."""

    def __init__(
        self, row: Row, widths: dict[str, int], edge_types: list[Any], classes: int
    ) -> None:
        super().__init__()
        hidden, depth = row.settings["hidden"], len(row.settings["fanouts"])
        self.share = row.settings.get("dropout", 0.5)
        self.lins = torch.nn.ModuleDict(
            {name: torch.nn.Linear(width, hidden) for name, width in widths.items()}
        )
        self.convs, self.owns = torch.nn.ModuleList(), torch.nn.ModuleList()
        for before, after in pairwise([*[hidden] * depth, classes]):
            of_type = {
                kind: gnn.SAGEConv((before, before), after, root_weight=False, bias=False)
                for kind in edge_types
            }
            self.convs.append(gnn.HeteroConv(of_type, aggr="sum"))
            self.owns.append(
                torch.nn.ModuleDict({name: torch.nn.Linear(before, after) for name in widths})
            )

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> dict[str, Tensor]:
        """Logits by node type, [n, classes]."""
        rows = {name: self.lins[name](part).relu() for name, part in x.items()}
        for place, (conv, owns) in enumerate(zip(self.convs, self.owns, strict=True)):
            if place:
                rows = {
                    name: functional.dropout(part.relu(), self.share, self.training)
                    for name, part in rows.items()
                }
            summed = conv(rows, edges)
            rows = {name: owns[name](part) + summed.get(name, 0.0) for name, part in rows.items()}
        return rows
