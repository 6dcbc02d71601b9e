"""PinSAGE (Ying et al., KDD 2018): convolutions that weight neighbours by their visit counts.

The neighbours of a node are those that short random walks from it visit most often. The weight of
an edge is its share of the visits (importance pooling, section 3.2). The sampler chooses the
neighbours. The invariant: weights are divided by their sum, so counts and shares give equal
results.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, functional
from torch_geometric.utils import scatter

from .adjacency import weighted_sum
from .dropout import dropout as dropped
from .layered import LayeredModel, Widths
from .trim import Hops


class PinSAGE(LayeredModel):
    """PinSAGE: convolutions (algorithm 1) and two dense layers after them (algorithm 2).

    Args:
        in_channels: Number of node features.
        hidden_channels: Width of the convolutions.
        out_channels: Width of the embeddings, which are not normalised.
        num_layers: Number of convolutions. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of a convolution's inputs in training.

    Example:
        >>> model = PinSAGE(16, 32, 32)
        >>> z = model(batch.x, batch.edge_index, batch.edge_weight)      # doctest: +SKIP
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(in_channels, hidden_channels, hidden_channels, num_layers, dropout)
        self.lin = Linear(hidden_channels, hidden_channels)
        self.out = Linear(hidden_channels, out_channels, bias=False)
        self.out_channels = out_channels

    @staticmethod
    def _layers(widths: Widths) -> list[torch.nn.Module]:
        return [_Convolve(a, b) for a, b in widths]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
    ) -> Tensor:
        """Returns embeddings [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            edge_weight: Visits of the source by walks from the destination, as counts or shares,
                float [e], at least 0.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
        """
        total = scatter(edge_weight, edge_index[1], 0, x.size(0), "sum")
        share = edge_weight / total.clamp(min=torch.finfo(total.dtype).tiny)[edge_index[1]]
        hops = Hops.of(num_sampled_nodes, num_sampled_edges)
        hidden = self._run(x, edge_index, hops, share)
        out: Tensor = self.out(self.lin(hidden).relu())
        return out

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        x = dropped(x, self.dropout, self.training)
        out: Tensor = conv(x, targets, edge_index, beside[0])
        return out

    def _between(self, x: Tensor) -> Tensor:
        return x


class _Convolve(torch.nn.Module):
    """One convolution, which returns rows of unit length (algorithm 1)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.neighbor = Linear(in_channels, out_channels)
        self.both = Linear(in_channels + out_channels, out_channels)

    def forward(self, x: Tensor, targets: int, edge_index: Tensor, share: Tensor) -> Tensor:
        """Returns rows of the first ``targets`` nodes, [targets, out_channels]."""
        pooled = weighted_sum(self.neighbor(x).relu(), edge_index, share, targets)
        both: Tensor = self.both(torch.cat([x[:targets], pooled], dim=1))
        return functional.normalize(both.relu(), dim=1)
