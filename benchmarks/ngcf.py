"""A layer of NGCF (Wang et al., SIGIR 2019), as the benchmarks export it."""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric import nn as gnn
from torch_geometric.utils import degree


class Ngcf(gnn.MessagePassing):
    """Messages are products of the rows of both ends, beside the source's row."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(aggr="add")
        self.one, self.two = nn.Linear(width, hidden), nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        root = degree(target, x.size(0), x.dtype).clamp(min=1).pow(-0.5)
        weights = (root[source] * root[target]).view(-1, 1)
        # Products are linear, so they come after the sums: one for each node, not for each edge.
        rows, pairs = self.propagate(edge_index, x=x, weights=weights).chunk(2, -1)
        return functional.leaky_relu(self.one(rows + x) + self.two(pairs), 0.2)

    def message(self, x_i: torch.Tensor, x_j: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return torch.cat([weights * x_j, weights * (x_i * x_j)], -1)
