"""GCN (Kipf and Welling, ICLR 2017) from PyG's GCNConv, normalised by degrees of the whole graph.

With full neighbourhoods, the logits of a batch's seeds are equal to those of PyG's GCN on the full
graph. With sampled neighbourhoods, each sum is scaled by in-degree / sampled in-degree, so that its
expectation is the full sum.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.utils import add_self_loops, scatter

from .dropout import dropout
from .layered import LayeredModel, Widths
from .trim import Hops


class GCN(LayeredModel):
    """GCN with ReLU and dropout. Its state dict is that of plain GCNConv layers.

    Args:
        in_channels: Number of node features.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of the inputs of each layer in training.
        norm: ``"batch"``: batch normalisation of each hidden layer, as in `LayeredModel`.

    Example:
        >>> model, degrees = GCN(1433, 16, 7), InDegrees(store)            # doctest: +SKIP
        >>> out = model(batch.x, batch.edge_index, degrees(batch.n_id))    # doctest: +SKIP
    """

    @staticmethod
    def _layers(widths: Widths) -> list[GCNConv]:
        return [GCNConv(a, b, normalize=False, add_self_loops=False) for a, b in widths]

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
            in_degree: In-degrees in the whole graph without self-loops, float [n], from
                `InDegrees`. None: those of ``edge_index``, which are correct for a full graph.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
        """
        hops = Hops.of(num_sampled_nodes, num_sampled_edges)
        weight, loop_weight = gcn_weights(edge_index, x.size(0), in_degree)
        layers = len(self.convs)
        for layer, conv in enumerate(self.convs):
            if hops is not None:
                nodes, edges = hops.kept(layer, layers)
                x, edge_index, weight = x[:nodes], edge_index[:, :edges], weight[:edges]
            with_loops, _ = add_self_loops(edge_index, num_nodes=x.size(0))
            x = dropout(x, self.dropout, self.training)
            x = conv(
                x,
                with_loops,
                torch.cat([weight, loop_weight[: x.size(0)]]),
            )
            if layer + 1 < layers:
                x = self._normed(layer, x).relu()
        return x if hops is None else x[: hops.nodes[0]]


def gcn_weights(
    edge_index: Tensor, num_nodes: int, in_degree: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the weights of edges [e] and of self-loops [n] in D^-1/2 (A + I) D^-1/2.

    Self-loops in ``edge_index`` have weight 0, because every node gets exactly one, as in PyG.
    """
    source, destination = edge_index
    real = (source != destination).to(torch.float32)
    sampled = scatter(real, destination, dim_size=num_nodes, reduce="sum")
    degree = sampled if in_degree is None else in_degree
    root = (degree + 1).rsqrt()
    scale = torch.where(sampled > 0, degree / sampled.clamp(min=1), sampled)
    weight = real * root[source] * root[destination] * scale[destination]
    return weight, root * root
