"""GAT (Velickovic et al., ICLR 2018) from PyG's GATConv.

Attention is a softmax over the neighbours that a batch has. With sampled ones it is that of the
sample, an estimate that is consistent but not unbiased; with all neighbours it is exact.
"""

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import GATConv

from .dropout import dropout as dropped
from .layered import LayeredModel, Norm, Widths
from .trim import Hops


class GAT(LayeredModel):
    """GAT with ELU between layers and dropout before each; each node has a self-loop, as in PyG.

    Heads of hidden layers are concatenated (equation 5), those of the last one averaged
    (equation 6).

    Args:
        in_channels: Features of a node.
        hidden_channels: Width of the hidden layers, all heads together.
        out_channels: Classes.
        num_layers: Layers; a batch needs that many hops for exact seeds.
        dropout: Share of inputs of each layer dropped in training.
        heads: Attention heads.
        attention_dropout: Share of attention coefficients dropped in training.
        norm: ``"batch"`` for batch normalisation of each hidden layer, as of `LayeredModel`.

    Raises:
        ValueError: `hidden_channels` is not a multiple of `heads`.

    Example:
        >>> model = GAT(1433, 64, 7, heads=8)
        >>> out = model(batch.x, batch.edge_index)[: batch.batch_size]      # doctest: +SKIP
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        heads: int = 4,
        attention_dropout: float = 0.0,
        norm: Norm = "none",
    ) -> None:
        if heads < 1 or hidden_channels % heads:
            raise ValueError(
                f"hidden_channels is {hidden_channels} and heads {heads}; use a multiple of heads"
            )
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            dropout,
            norm,
            heads=heads,
            attention_dropout=attention_dropout,
        )

    @staticmethod
    def _layers(widths: Widths, heads: int, attention_dropout: float) -> list[GATConv]:
        settings = {"heads": heads, "dropout": attention_dropout}
        hidden = [GATConv(a, b // heads, **settings) for a, b in widths[:-1]]
        return [*hidden, GATConv(*widths[-1], concat=False, **settings)]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits, [n, out_channels]; with per-hop counts only the seeds' rows, [seeds, ...].

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Local ids, int64 [2, e]; row 0 the sources.
            num_sampled_nodes: Nodes per hop of the batch, [hops + 1]; turns on trimming.
            num_sampled_edges: Edges per hop of the batch, [hops].
        """
        x = dropped(x, self.dropout, self.training)
        return self._run(x, edge_index, Hops.of(num_sampled_nodes, num_sampled_edges))

    def _between(self, x: Tensor) -> Tensor:
        return dropped(functional.elu(x), self.dropout, self.training)
