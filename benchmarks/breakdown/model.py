"""The model of the breakdown: GCN of two layers with a last product, as the publication's."""

from __future__ import annotations

from typing import Any

HIDDEN, OUTPUTS = 128, 16


def gcn(width: int) -> Any:
    """A model with the same weights each time."""
    import torch
    from torch import nn
    from torch_geometric import nn as gnn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = gnn.GCNConv(width, HIDDEN), gnn.GCNConv(HIDDEN, HIDDEN)
            self.last = nn.Linear(HIDDEN, OUTPUTS)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            x = self.one(x, edge_index).relu()
            return self.last(self.two(x, edge_index).relu())

    torch.manual_seed(7)
    return Model().eval()
