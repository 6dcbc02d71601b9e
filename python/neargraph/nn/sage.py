"""GraphSAGE (Hamilton et al., NeurIPS 2017) from PyG's SAGEConv."""

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor
from torch_geometric.nn import SAGEConv

from .adjacency import adjacency, weighted_sum
from .layered import LayeredModel, Norm, Widths
from .trim import Hops

Aggregation = Literal["mean", "max", "pool"]


class GraphSAGE(LayeredModel):
    """GraphSAGE with ReLU and dropout between layers.

    Args:
        in_channels: Features of a node.
        hidden_channels: Width of the hidden layers.
        out_channels: Classes.
        num_layers: Layers; a batch needs that many hops for exact seeds.
        dropout: Share of hidden units dropped in training.
        aggr: ``"mean"`` or ``"max"`` of the neighbours, or ``"pool"``: a fully connected layer with
            ReLU on each neighbour, then the maximum (equation 3; GLIST calls it GS-Pool).
        norm: ``"batch"`` for batch normalisation of each hidden layer, as of `LayeredModel`.

    Attributes:
        fused: Means are taken by one sparse product; else message by message, as PyG does
            it with an `edge_index`, which a profile can take apart.

    Raises:
        ValueError: `aggr` is not one of these.

    Example:
        >>> model = GraphSAGE(1433, 64, 7)
        >>> out = model(batch.x, batch.edge_index)[: batch.batch_size]      # doctest: +SKIP
    """

    fused = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        aggr: Aggregation = "mean",
        norm: Norm = "none",
    ) -> None:
        if aggr not in ("mean", "max", "pool"):
            raise ValueError(f"aggr is {aggr!r}; use mean, max or pool")
        widths = (in_channels, hidden_channels, out_channels)
        super().__init__(*widths, num_layers, dropout, norm, aggr=aggr)
        self.aggr = aggr

    @staticmethod
    def _layers(widths: Widths, aggr: Aggregation) -> list[SAGEConv]:
        is_pool = aggr == "pool"
        taken = "max" if is_pool else aggr
        return [SAGEConv(a, b, aggr=taken, project=is_pool) for a, b in widths]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
        sum_weight: Tensor | None = None,
    ) -> Tensor:
        """Logits, [n, out_channels]; with per-hop counts only the seeds' rows, [seeds, ...].

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Local ids, int64 [2, e]; row 0 the sources.
            num_sampled_nodes: Nodes per hop of the batch, [hops + 1]; turns on trimming.
            num_sampled_edges: Edges per hop of the batch, [hops].
            sum_weight: A weight for each edge, float [e]: neighbours are summed with these weights
                in place of their mean, as GraphSAINT does (see `saint_weights`). Only with the
                aggregation "mean".
        """
        if sum_weight is not None and self.aggr != "mean":
            raise ValueError(f"sum_weight is for aggr='mean', and this model has {self.aggr!r}")
        beside = () if sum_weight is None else (sum_weight,)
        return self._run(x, edge_index, Hops.of(num_sampled_nodes, num_sampled_edges), *beside)

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        size = (x.size(0), targets)
        out: Tensor
        if beside:
            out = conv.lin_l(weighted_sum(x, edge_index, beside[0], targets))
            out = out + conv.lin_r(x[:targets])
        elif self.fused and self.aggr == "mean":
            out = conv((x, x[:targets]), adjacency(edge_index, *size))
        else:
            out = conv((x, x[:targets]), edge_index, size=size)
        return out
