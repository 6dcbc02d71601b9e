"""A model for graphs of any schema: PyG's HeteroConv with a layer for each edge type.

Each layer also has a linear layer per node type for the node's own row, so node types without
incoming edges stay in the model. The invariant: with full neighbourhoods, the rows of the seeds are
equal to those of the full graph.
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
from .typed import Cut, Edges, Rows, check_edge_types, cut, hops_of


class HeteroGNN(torch.nn.Module):
    """SAGEConv or GATConv per edge type, summed by node type, with ReLU and dropout between layers.

    A linear layer first maps the features of each node type to the hidden width. Node types without
    features have ``x`` of shape [n, 0]; all their nodes share the bias as their row.

    Args:
        in_channels: Number of features by node type, for all types of the graph; 0 for none.
        edge_types: The (source, relation, destination) triples.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the outputs of every node type.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of hidden units in training.
        conv: ``"sage"`` (mean of neighbours) or ``"gat"`` (attention).
        heads: Number of attention heads of ``"gat"``, which are averaged.
        attention_dropout: Dropout probability of its attention weights in training.

    Attributes:
        fused: Whether one sparse product computes means, as in `GraphSAGE`.

    Raises:
        ValueError: `conv` is not valid, or `in_channels` lacks a node type of an edge type.

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
            raise ValueError(f"conv={conv!r} is not valid: expected 'sage' or 'gat'")
        self.lins = input_layers(in_channels, edge_types, hidden_channels)
        widths = [*[hidden_channels] * num_layers, out_channels]
        self.convs, self.owns = torch.nn.ModuleList(), torch.nn.ModuleList()
        for width, made in pairwise(widths):
            of_type = {t: _conv(conv, width, made, heads, attention_dropout) for t in edge_types}
            self.convs.append(_hetero_conv(of_type))
            self.owns.append(ModuleDict({name: Linear(width, made) for name in in_channels}))
        self.dropout, self.conv, self.out_channels = dropout, conv, out_channels
        self.edge_types = list(edge_types)

    def forward(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeTriple, Tensor],
        num_sampled_nodes: Mapping[str, Sequence[int]] | None = None,
        num_sampled_edges: Mapping[EdgeTriple, Sequence[int]] | None = None,
    ) -> Rows:
        """Returns rows by node type [n, out_channels]; with per-hop counts only those of the seeds.

        Args:
            x: Node features by node type, float [n, in_channels]. See `features_of`.
            edge_index: Edges as local ids by edge type, int64 [2, e], with sources in row 0.
            num_sampled_nodes: Number of nodes per hop by node type, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop by edge type, [hops].

        Raises:
            UnsupportedArgument: An edge type is not one of the model.
        """
        check_edge_types(self.edge_types, edge_index)
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
        """Returns (rows of both ends, edges) by edge type, as the layers take them."""
        is_fused = self.fused and self.conv == "sage" and not torch.compiler.is_compiling()
        pairs, edges = {}, {}
        for triple, ends in part.edge_index.items():
            source, targets = part.x[triple[0]], part.x[triple[2]][: part.targets[triple[2]]]
            pairs[triple] = (source, targets)
            size = (source.size(0), targets.size(0))
            edges[triple] = adjacency(ends, *size) if is_fused else ends
        return pairs, edges


def _hetero_conv(of_type: dict[EdgeTriple, Any]) -> HeteroConv:
    # PyG warns about types without incoming edges, but here they have a layer for their own row.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return HeteroConv(of_type, aggr="sum")


def _conv(kind: str, width: int, made: int, heads: int, attention_dropout: float) -> Any:
    # One linear layer per node type, not per edge type, maps the node's own row.
    if kind == "sage":
        return SAGEConv((width, width), made, root_weight=False, bias=False)
    settings = {"concat": False, "add_self_loops": False, "bias": False}
    return GATConv((width, width), made, heads, dropout=attention_dropout, **settings)


def input_layers(
    in_channels: Mapping[str, int], edge_types: Sequence[EdgeTriple], out_channels: int
) -> ModuleDict:
    """Returns a linear layer for each node type, from its features to ``out_channels``.

    Raises:
        ValueError: `in_channels` lacks a node type of an edge type.
    """
    for triple in edge_types:
        for name in (triple[0], triple[2]):
            if name not in in_channels:
                raise ValueError(
                    f"edge type {triple!r} needs in_channels= for node type {name!r}, but "
                    f"in_channels= contains only {', '.join(map(repr, in_channels))}; add "
                    f"{name!r}, with 0 if its nodes have no features"
                )
    return ModuleDict({name: input_layer(w, out_channels) for name, w in in_channels.items()})


def projected(lins: ModuleDict, x: Mapping[str, Tensor]) -> Rows:
    """Returns the input rows, mapped to the hidden width with ReLU, by node type.

    Raises:
        ValueError: A node type has no rows.
    """
    missing = [name for name in lins if name not in x]
    if missing:
        raise ValueError(
            f"x= has no rows of node type {missing[0]!r}; give rows of shape [n, 0] for a type "
            "without features"
        )
    return {name: lin(x[name]).relu() for name, lin in lins.items()}
