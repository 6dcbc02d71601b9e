"""GAT (Velickovic et al., ICLR 2018) from PyG's GATConv.

Attention is a softmax over the neighbours in a batch. With all neighbours it is exact. With sampled
neighbours it is an estimate that is consistent but not unbiased.
"""

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import GATConv

from .dropout import dropout as dropped
from .layered import LayeredModel, Norm, Widths
from .trim import Hops


class GAT(LayeredModel):
    """GAT with ELU between layers, dropout before each layer, and self-loops, as in PyG.

    Heads are concatenated in hidden layers (equation 5) and averaged in the last one (equation 6).

    Args:
        in_channels: Number of node features.
        hidden_channels: Width of the hidden layers, over all heads.
        out_channels: Number of classes.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of the inputs of each layer in training.
        heads: Number of attention heads.
        attention_dropout: Dropout probability of attention weights in training.
        norm: ``"batch"``: batch normalisation of each hidden layer, as in `LayeredModel`.

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
                f"hidden_channels={hidden_channels} and heads={heads} are not valid: expected "
                "heads= of 1 or more, and a multiple of heads= as hidden_channels="
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
        """Returns logits [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels].
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
        """
        x = dropped(x, self.dropout, self.training)
        return self._run(x, edge_index, Hops.of(num_sampled_nodes, num_sampled_edges))

    def _between(self, x: Tensor) -> Tensor:
        return dropped(functional.elu(x), self.dropout, self.training)
