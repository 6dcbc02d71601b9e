"""GIN (Xu et al., ICLR 2019) from PyG's GINConv.

The sum over a sampled neighbourhood is smaller than that over the whole one. With degrees of the
whole graph, each message is scaled by in-degree / sampled in-degree. The expectation of a sum is
then the full sum, and a model that was trained on samples can run on all neighbours.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP, GINConv
from torch_geometric.utils import scatter

from .adjacency import weighted_sum
from .layered import LayeredModel, Norm, RowNorm, Widths
from .trim import Hops


class GIN(LayeredModel):
    """GIN with MLPs of two layers and a learned weight of the node's own row (equation 4.1).

    ReLU and dropout are applied between layers.

    Args:
        in_channels: Number of node features.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of hidden units in training.
        norm: ``"batch"``: batch normalisation of each hidden layer, as in `LayeredModel`, and of
            the hidden layers of the MLPs (section 7).

    Example:
        >>> model, degrees = GIN(16, 32, 2), InDegrees(store, loops=True)   # doctest: +SKIP
        >>> out = model(batch.x, batch.edge_index, degrees(batch.n_id))     # doctest: +SKIP
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        norm: Norm = "none",
    ) -> None:
        widths = (in_channels, hidden_channels, out_channels)
        super().__init__(*widths, num_layers, dropout, norm, inner=norm)

    @staticmethod
    def _layers(widths: Widths, inner: Norm) -> list[GINConv]:
        mlps = [MLP([a, b, b], norm=RowNorm(b) if inner == "batch" else None) for a, b in widths]
        return [GINConv(mlp, train_eps=True) for mlp in mlps]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        in_degree: Tensor | None = None,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
    ) -> Tensor:
        """Returns logits [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            in_degree: In-degrees in the whole graph, float [n], from `InDegrees` with ``loops``;
                None: sums are not scaled, which is correct for all neighbours.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
        """
        hops = Hops.of(num_sampled_nodes, num_sampled_edges)
        if in_degree is None:
            return self._run(x, edge_index, hops)
        ones = x.new_ones(edge_index.size(1))
        sampled = scatter(ones, edge_index[1], 0, x.size(0), "sum")
        scale = in_degree / sampled.clamp(min=1)
        return self._run(x, edge_index, hops, scale[edge_index[1]])

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        weight = beside[0] if beside else torch.ones_like(edge_index[0], dtype=x.dtype)
        summed = weighted_sum(x, edge_index, weight, targets)
        out: Tensor = conv.nn(summed + (1 + conv.eps) * x[:targets])
        return out
