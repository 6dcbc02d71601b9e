"""R-GCN (Schlichtkrull et al., ESWC 2018) from PyG's RGCNConv: a matrix for each relation.

Relations are the edge types of a store, or the values of a column of its only edge type. The
invariant: relation i is ``edge_types[i]``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import RGCNConv

from neargraph.schema import EdgeTriple

from .hetero import input_layers, projected
from .layered import LayeredModel, Widths
from .trim import Hops
from .typed import Cut, Rows, check_edge_types, cut, hops_of


class RGCN(LayeredModel):
    """R-GCN with ReLU and dropout between layers, and means by relation (equation 2).

    With several node types, a linear layer first maps their features to the hidden width. Types
    without features have ``x`` of shape [n, 0], as in `HeteroGNN`.

    Args:
        in_channels: Number of node features, or these numbers by node type.
        hidden_channels: Width of the hidden layers.
        out_channels: Number of classes.
        relations: For a graph with one edge type and a column `edge_type`: the number of relations.
            For a graph with several edge types: the (source, relation, destination) triples.
        num_layers: Number of layers. For exact outputs of seeds, a batch needs as many hops.
        dropout: Dropout probability of hidden units in training.
        num_bases: Number of basis matrices, whose combinations are the matrices of the relations
            (equation 3). None: a separate matrix for each relation.

    Example:
        >>> model = RGCN({"a": 4, "b": 0}, 16, 3, [("a", "to", "b"), ("b", "to", "a")])
        >>> out = model(features_of(batch), batch.edge_index_dict)["a"]       # doctest: +SKIP
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        hidden_channels: int,
        out_channels: int,
        relations: int | Sequence[EdgeTriple],
        num_layers: int = 2,
        dropout: float = 0.5,
        num_bases: int | None = None,
    ) -> None:
        self.edge_types = [] if isinstance(relations, int) else list(relations)
        is_typed = not isinstance(in_channels, int)
        if is_typed == isinstance(relations, int):
            raise ValueError(
                f"in_channels={in_channels!r} and relations={relations!r} do not fit together: "
                "give a mapping by node type and a list of edge types, or two integers"
            )
        super().__init__(
            hidden_channels if not isinstance(in_channels, int) else in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            dropout,
            num_relations=relations if isinstance(relations, int) else len(relations),
            num_bases=num_bases,
        )
        if not isinstance(in_channels, int):
            self.lins = input_layers(in_channels, self.edge_types, hidden_channels)

    @staticmethod
    def _layers(widths: Widths, num_relations: int, num_bases: int | None) -> list[RGCNConv]:
        return [RGCNConv(a, b, num_relations, num_bases=num_bases) for a, b in widths]

    def forward(
        self,
        x: Tensor | Mapping[str, Tensor],
        edge_index: Any,
        edge_type: Tensor | None = None,
        num_sampled_nodes: Any = None,
        num_sampled_edges: Any = None,
    ) -> Tensor | Rows:
        """Returns logits [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Node features, float [n, in_channels]. Or a dictionary by node type; then all
                arguments and the result are by type.
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            edge_type: The relation of each edge, int64 [e]. Only for one edge type.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].

        Raises:
            ValueError: `edge_type` is missing, or is given although the model has edge types.
            UnsupportedArgument: An edge type is not one of the model.
        """
        if isinstance(x, Tensor) == bool(self.edge_types) or (
            isinstance(x, Tensor) == (edge_type is None)
        ):
            raise ValueError(
                "this model was created with edge types; give x= and edge_index= as "
                "dictionaries by type, and leave out edge_type="
                if self.edge_types
                else (
                    "this model was created with a number of relations; give x=, edge_index= "
                    "and edge_type= as tensors"
                )
            )
        if isinstance(x, Tensor) and edge_type is not None:
            hops = Hops.of(num_sampled_nodes, num_sampled_edges)
            return self._run(x, edge_index, hops, edge_type)
        check_edge_types(self.edge_types, edge_index)
        rows: Rows = projected(self.lins, x)  # type: ignore[arg-type]
        typed_hops = hops_of(num_sampled_nodes, num_sampled_edges)
        layers = len(self.convs)
        for layer, conv in enumerate(self.convs):
            rows = self._typed(conv, cut(typed_hops, layer, layers, rows, dict(edge_index), {}))
            if layer + 1 < layers:
                rows = {name: self._between(row) for name, row in rows.items()}
        return rows

    def _convolve(
        self, conv: Any, x: Tensor, targets: int, edge_index: Tensor, *beside: Tensor
    ) -> Tensor:
        out: Tensor = conv((x, x[:targets]), edge_index, beside[0])
        return out

    def _typed(self, conv: Any, part: Cut) -> Rows:
        """Runs one layer on all types as one graph, whose nodes are numbered type by type."""
        sources, targets, begin, end = {}, {}, 0, 0
        for name, x in part.x.items():
            sources[name], targets[name] = begin, end
            begin, end = begin + x.size(0), end + part.targets[name]
        ends, kinds = [], []
        for relation, triple in enumerate(self.edge_types):
            edges = part.edge_index[triple]
            source, target = edges[0] + sources[triple[0]], edges[1] + targets[triple[2]]
            ends.append(torch.stack([source, target]))
            kinds.append(torch.full_like(edges[0], relation))
        before = torch.cat(list(part.x.values()))
        after = torch.cat([x[: part.targets[name]] for name, x in part.x.items()])
        out = conv((before, after), torch.cat(ends, dim=1), torch.cat(kinds))
        parts = out.split([part.targets[name] for name in part.x])
        return dict(zip(part.x, parts, strict=True))
