"""Attention over past edges: the embedding of a node at a time, from its earlier edges.

The layers are those of TGAT (Xu et al., ICLR 2020) with PyG's TransformerConv as attention, as in
PyG's TGN. The invariant: no edge of a batch is later than the time of its seed. A batch with such
an edge raises an error, because its loss would include the future.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import TransformerConv
from torch_geometric.nn.models.tgn import TimeEncoder

from neargraph.exceptions import UnsupportedArgument

from .layered import LayeredModel, Widths, input_layer
from .trim import Hops

# Periods of the encoding go from 1 to 10^9 units of time when training begins, as in TGAT.
_DECADES = 9


class TemporalGAT(LayeredModel):
    """Attention whose keys and values include the age of each edge.

    Args:
        in_channels: Number of node features; 0 if nodes have none.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the embeddings.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of hidden units in training.
        time_channels: Width of the learned encoding of time (equation 5).
        edge_channels: Number of edge features, without the time.
        time_unit: Unit of time differences, such that 1 is a short time: 1 for seconds.
        heads: Number of attention heads.

    Raises:
        ValueError: A width is not a multiple of `heads`.

    Example:
        >>> model = TemporalGAT(16, 32, 32)
        >>> z = model(batch.x, batch.edge_index, batch.edge_time, batch.seed_time,
        ...           batch.batch)                                           # doctest: +SKIP
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.1,
        time_channels: int = 32,
        edge_channels: int = 0,
        time_unit: float = 1.0,
        heads: int = 2,
    ) -> None:
        if heads < 1 or hidden_channels % heads or out_channels % heads:
            raise ValueError(
                f"hidden_channels={hidden_channels}, out_channels={out_channels} and "
                f"heads={heads} are not valid: heads= must be at least 1, and divide "
                "hidden_channels= and out_channels="
            )
        super().__init__(
            hidden_channels,
            hidden_channels,
            out_channels,
            num_layers,
            dropout,
            heads=heads,
            edge_dim=time_channels + edge_channels,
        )
        self.lin = input_layer(in_channels, hidden_channels)
        self.time = TimeEncoder(time_channels)
        with torch.no_grad():
            steps = torch.linspace(0, _DECADES, time_channels)
            self.time.lin.weight.copy_((10**-steps).unsqueeze(1))
            self.time.lin.bias.zero_()
        self.time_unit, self.edge_channels = time_unit, edge_channels

    @staticmethod
    def _layers(widths: Widths, heads: int, edge_dim: int) -> list[TransformerConv]:
        return [TransformerConv(a, b // heads, heads, edge_dim=edge_dim) for a, b in widths]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_time: Tensor,
        seed_time: Tensor,
        batch: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Returns embeddings [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            edge_time: Time of each edge, int64 [e].
            seed_time: Time of each seed, int64 [s].
            batch: The seed for which each node was sampled, int64 [n] (disjoint batches).
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
            edge_attr: Edge features, float [e, edge_channels].

        Raises:
            UnsupportedArgument: An edge is later than the time of its seed.
        """
        ago = seed_time[batch[edge_index[1]]] - edge_time
        if not torch.compiler.is_compiling() and bool((ago < 0).any()):
            raise UnsupportedArgument(
                f"an edge of the batch is {int(-ago.min())} later than the time of its seed: "
                "sample with a time for each seed, so that batches contain only the past"
            )
        beside = self.time(ago.to(x.dtype) / self.time_unit)
        if self.edge_channels:
            beside = torch.cat([beside, _checked(edge_attr, self.edge_channels)], dim=1)
        hops = Hops.of(num_sampled_nodes, num_sampled_edges)
        return self._run(self.lin(x).relu(), edge_index, hops, beside)

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        out: Tensor = conv((x, x[:targets]), edge_index, beside[0])
        return out


def _checked(edge_attr: Tensor | None, width: int) -> Tensor:
    if edge_attr is None or edge_attr.dim() != 2 or edge_attr.size(1) != width:
        what = "is missing" if edge_attr is None else f"has shape {list(edge_attr.shape)}"
        raise UnsupportedArgument(f"edge_attr= {what}: expected shape [edges, {width}]")
    return edge_attr
