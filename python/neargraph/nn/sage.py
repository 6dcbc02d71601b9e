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
        in_channels: Number of node features.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of hidden units in training.
        aggr: Aggregation of neighbours: ``"mean"``, ``"max"``, or ``"pool"`` (a dense layer with
            ReLU on each neighbour, then the maximum; equation 3, GS-Pool in GLIST).
        norm: ``"batch"``: batch normalisation of each hidden layer, as in `LayeredModel`.

    Attributes:
        fused: Whether one sparse product computes means. If False, PyG computes them message by
            message, and a profile shows the parts.

    Raises:
        ValueError: `aggr` is not valid.

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
            raise ValueError(f"aggr={aggr!r} is not valid: expected 'mean', 'max' or 'pool'")
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
        """Returns logits [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
            sum_weight: A weight for each edge, float [e]. Neighbours are then summed with these
                weights instead of averaged, as in GraphSAINT (see `saint_weights`). Only with
                ``aggr="mean"``.
        """
        if sum_weight is not None and self.aggr != "mean":
            raise ValueError(
                "sum_weight= is supported only for aggr='mean', but this model has "
                f"aggr={self.aggr!r}"
            )
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
