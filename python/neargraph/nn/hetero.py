"""A model for graphs of any schema: PyG's HeteroConv with a layer for each edge type.

Every node type has a product of its own row in each layer, so types that no edge leads to stay in
the model. The invariant: with full neighbourhoods the rows of the seeds are those of the full
graph.
"""

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Linear
from torch_geometric.nn import GATConv, HeteroConv, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict

from neargraph.schema import EdgeTriple

from .adjacency import adjacency
from .dropout import relu_dropout
from .layered import check_layers, input_layer
from .typed import Cut, Edges, Rows, cut, hops_of


class HeteroGNN(torch.nn.Module):
    """SAGEConv or GATConv for each edge type, summed by node type, with ReLU and dropout between.

    Features of each node type are brought to the hidden width first. Node types without features
    have ``x`` of shape [n, 0], and the bias is a row that all of their nodes share.

    Args:
        in_channels: Features of a node by node type; all types of the graph, 0 for none.
        edge_types: The (source, relation, destination) triples.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the outputs of every node type.
        num_layers: Layers; a batch needs that many hops for exact seeds.
        dropout: Share of hidden units dropped in training.
        conv: ``"sage"`` takes means of neighbours, ``"gat"`` attends to them.
        heads: Attention heads of ``"gat"``, which are averaged.
        attention_dropout: Share of its attention coefficients dropped in training.

    Attributes:
        fused: Means are taken by one sparse product, as in `GraphSAGE`.

    Raises:
        ValueError: `conv` is not one of these, or an edge type names a node type that is missing.

    Example:
        >>> model = HeteroGNN({"user": 0, "item": 16}, [("user", "buys", "item")], 32, 8)
        >>> out = model(features_of(batch), batch.edge_index_dict)["item"]    # doctest: +SKIP
    """

    fused = True

    def __init__(
        self,
        in_channels: Mapping[str, int],
        edge_types: Sequence[EdgeTriple],
        hidden_channels: int,
        out_channels: int,
        num_layers: int = 2,
        dropout: float = 0.5,
        conv: Literal["sage", "gat"] = "sage",
        heads: int = 2,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_layers(num_layers)
        if conv not in ("sage", "gat"):
            raise ValueError(f"conv is {conv!r}; use sage or gat")
        self.lins = input_layers(in_channels, edge_types, hidden_channels)
        widths = [*[hidden_channels] * num_layers, out_channels]
        self.convs, self.owns = torch.nn.ModuleList(), torch.nn.ModuleList()
        for width, made in pairwise(widths):
            of_type = {t: _conv(conv, width, made, heads, attention_dropout) for t in edge_types}
            self.convs.append(_hetero_conv(of_type))
            self.owns.append(ModuleDict({name: Linear(width, made) for name in in_channels}))
        self.dropout, self.conv, self.out_channels = dropout, conv, out_channels

    def forward(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeTriple, Tensor],
        num_sampled_nodes: Mapping[str, Sequence[int]] | None = None,
        num_sampled_edges: Mapping[EdgeTriple, Sequence[int]] | None = None,
    ) -> Rows:
        """Rows by node type, [n, out_channels]; with per-hop counts only those of the seeds.

        Args:
            x: Node features by node type, float [n, in_channels]; see `features_of`.
            edge_index: Local ids by edge type, int64 [2, e]; row 0 the sources.
            num_sampled_nodes: Nodes per hop by node type, [hops + 1]; turns on trimming.
            num_sampled_edges: Edges per hop by edge type, [hops].
        """
        rows = projected(self.lins, x)
        hops = hops_of(num_sampled_nodes, num_sampled_edges)
        layers = len(self.convs)
        conv: Any
        owns: Any
        for layer, (conv, owns) in enumerate(zip(self.convs, self.owns, strict=True)):
            part = cut(hops, layer, layers, rows, dict(edge_index), {})
            summed, rows = conv(*self._edges(part)), {}
            for name, own in owns.items():
                out = own(part.x[name][: part.targets[name]])
                rows[name] = out if name not in summed else out + summed[name]
                if layer + 1 < layers:
                    rows[name] = relu_dropout(rows[name], self.dropout, self.training)
        return rows

    def _edges(self, part: Cut) -> tuple[dict[EdgeTriple, tuple[Tensor, Tensor]], Edges]:
        """(rows of both ends, edges) by edge type, as the layers of each take them."""
        is_fused = self.fused and self.conv == "sage" and not torch.compiler.is_compiling()
        pairs, edges = {}, {}
        for triple, ends in part.edge_index.items():
            source, targets = part.x[triple[0]], part.x[triple[2]][: part.targets[triple[2]]]
            pairs[triple] = (source, targets)
            size = (source.size(0), targets.size(0))
            edges[triple] = adjacency(ends, *size) if is_fused else ends
        return pairs, edges


def _hetero_conv(of_type: dict[EdgeTriple, Any]) -> HeteroConv:
    # PyG warns of types that no edge leads to, which have a product of their own row here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return HeteroConv(of_type, aggr="sum")


def _conv(kind: str, width: int, made: int, heads: int, attention_dropout: float) -> Any:
    # The own row has a product of its own, once for all edge types.
    if kind == "sage":
        return SAGEConv((width, width), made, root_weight=False, bias=False)
    settings = {"concat": False, "add_self_loops": False, "bias": False}
    return GATConv((width, width), made, heads, dropout=attention_dropout, **settings)


def input_layers(
    in_channels: Mapping[str, int], edge_types: Sequence[EdgeTriple], out_channels: int
) -> ModuleDict:
    """A layer for each node type, from its features to ``out_channels``.

    Raises:
        ValueError: An edge type names a node type that is missing.
    """
    for triple in edge_types:
        for name in (triple[0], triple[2]):
            if name not in in_channels:
                raise ValueError(
                    f"edge type {triple!r} needs in_channels of {name!r}; there are "
                    f"{', '.join(map(repr, in_channels))}"
                )
    return ModuleDict({name: input_layer(w, out_channels) for name, w in in_channels.items()})


def projected(lins: ModuleDict, x: Mapping[str, Tensor]) -> Rows:
    """Rows of the hidden width by node type, with ReLU.

    Raises:
        ValueError: A node type has no rows.
    """
    missing = [name for name in lins if name not in x]
    if missing:
        raise ValueError(f"x has no rows of node type {missing[0]!r}; give [n, 0] for no features")
    return {name: lin(x[name]).relu() for name, lin in lins.items()}
