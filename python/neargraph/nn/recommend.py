"""LightGCN (He et al., SIGIR 2020) and NGCF (Wang et al., SIGIR 2019): users and items as a graph.

Both add neighbours' rows times 1 / sqrt(degree of one end x degree of the other). The graph has two
node types with edges in both directions, or one node type for users and items. The invariant:
degrees are those of the whole graph, and a sampled sum is scaled by in-degree / sampled in-degree,
so that its expectation is the full sum. LightGCN is linear, so two layers of it are also unbiased.
From the third layer on, paths may use one draw twice, which adds a small bias. NGCF has
activations, so its sums are unbiased given the rows of the previous layer, but its outputs are not.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import Linear, functional
from torch_geometric.utils import scatter

from neargraph.schema import EdgeTriple

from .adjacency import weighted_sum
from .dropout import dropout as dropped
from .layered import check_layers
from .typed import PLAIN, Cut, Edges, Rows, by_edge_type, by_node_type, cut, hops_of


class _Propagation(torch.nn.Module, ABC):
    """The common part of both models: rows and edges by type, weights, layers, trimming."""

    num_layers: int

    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        in_degree: Tensor | None = None,
        num_sampled_nodes: Sequence[int] | None = None,
        num_sampled_edges: Sequence[int] | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Mapping[str, Tensor],
        edge_index: Mapping[EdgeTriple, Tensor],
        in_degree: Mapping[EdgeTriple, Tensor] | None = None,
        num_sampled_nodes: Mapping[str, Sequence[int]] | None = None,
        num_sampled_edges: Mapping[EdgeTriple, Sequence[int]] | None = None,
    ) -> Rows: ...

    def forward(
        self,
        x: Any,
        edge_index: Any,
        in_degree: Any = None,
        num_sampled_nodes: Any = None,
        num_sampled_edges: Any = None,
    ) -> Tensor | Rows:
        """Returns embeddings [n, out_channels]; with per-hop counts only the rows of the seeds.

        Args:
            x: Rows of the nodes, float [n, in_channels], such as those of a `StoreEmbedding`. Or a
                dictionary by node type; then all arguments and the result are by type.
            edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
            in_degree: In-degrees in the whole graph, float [n], from `InDegrees` with ``loops``;
                None: those of ``edge_index``, which are correct for a full graph.
            num_sampled_nodes: Number of nodes per hop, [hops + 1]. Enables trimming.
            num_sampled_edges: Number of edges per hop, [hops].
        """
        rows, edges = by_node_type(x), by_edge_type(edge_index)
        degrees = None if in_degree is None else by_edge_type(in_degree)
        counts = {name: row.size(0) for name, row in rows.items()}
        weights = symmetric_weights(edges, counts, degrees)
        hops = hops_of(num_sampled_nodes, num_sampled_edges)
        found = [rows]
        for layer in range(self.num_layers):
            part = cut(hops, layer, self.num_layers, rows, edges, weights)
            rows = self._layer(layer, part, _sums(part))
            found.append(rows)
        # The last layer returns the requested rows, which are the first ones in each step.
        out = {
            name: self._joined([step[name][: row.size(0)] for step in found])
            for name, row in rows.items()
        }
        return out[PLAIN] if isinstance(x, Tensor) else out

    @abstractmethod
    def _layer(self, layer: int, part: Cut, sums: Rows) -> Rows:
        """Returns the rows after a layer, from the weighted sums of neighbours."""

    @abstractmethod
    def _joined(self, steps: list[Tensor]) -> Tensor:
        """Returns the embedding from the rows after each layer."""


class LightGCN(_Propagation):
    """The mean of the rows and their propagations (equations 7 and 8). It has no parameters.

    Args:
        num_layers: Number of propagations. A batch needs as many hops.

    Example:
        >>> model, degrees = LightGCN(3), InDegrees(store, loops=True)         # doctest: +SKIP
        >>> x = {kind: emb[kind](ids) for kind, ids in batch.n_id_dict.items()}  # doctest: +SKIP
        >>> z = model(x, batch.edge_index_dict, degrees(batch.n_id_dict))      # doctest: +SKIP
    """

    def __init__(self, num_layers: int = 3) -> None:
        super().__init__()
        check_layers(num_layers)
        self.num_layers = num_layers

    def _layer(self, layer: int, part: Cut, sums: Rows) -> Rows:
        return sums

    def _joined(self, steps: list[Tensor]) -> Tensor:
        return torch.stack(steps).mean(dim=0)


class NGCF(_Propagation):
    """The concatenated rows after each layer (equations 3, 4, 7 and 9), with LeakyReLU of 0.2.

    The message from i to u is p (W1 e_i + W2 (e_i * e_u)), so it depends on the similarity of both.
    As e_u is equal in all messages to u, rows are summed before the products.

    Args:
        in_channels: Width of the rows.
        hidden_channels: Width of each layer.
        num_layers: Number of layers. A batch needs as many hops.
        dropout: Dropout probability of each layer's rows in training (message dropout).

    Attributes:
        out_channels: in_channels + num_layers x hidden_channels.

    Example:
        >>> NGCF(64, 64, num_layers=3).out_channels
        256
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__()
        check_layers(num_layers)
        self.num_layers, self.dropout = num_layers, dropout
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.own = _linears(widths, hidden_channels)
        self.alike = _linears(widths, hidden_channels)
        self.out_channels = self.width(in_channels, hidden_channels, num_layers)

    @staticmethod
    def width(in_channels: int, hidden_channels: int, num_layers: int) -> int:
        """Returns the output width of a model with these settings."""
        return in_channels + num_layers * hidden_channels

    def _layer(self, layer: int, part: Cut, sums: Rows) -> Rows:
        out = {}
        for name, summed in sums.items():
            x = part.x[name][: summed.size(0)]
            made = self.own[layer](summed + x) + self.alike[layer](summed * x)
            out[name] = dropped(functional.leaky_relu(made, 0.2), self.dropout, self.training)
        return out

    def _joined(self, steps: list[Tensor]) -> Tensor:
        return torch.cat(steps, dim=1)


def _linears(widths: list[int], out_channels: int) -> torch.nn.ModuleList:
    return torch.nn.ModuleList(Linear(width, out_channels, bias=False) for width in widths)


def symmetric_weights(
    edge_index: Edges, counts: Mapping[str, int], in_degree: Edges | None = None
) -> Edges:
    """Returns the weights of edges in D^-1/2 A D^-1/2 by edge type, [e], scaled for sampled lists.

    The degree of a node is its in-degree over all edge types. Without ``in_degree`` it is that of
    ``edge_index``.

    Args:
        edge_index: Edges as local ids by edge type, int64 [2, e].
        counts: Number of nodes by node type.
        in_degree: In-degrees of the destinations in the whole graph by edge type, float [n].
    """
    sampled = {
        triple: scatter(torch.ones_like(ends, dtype=torch.float32), ends, 0, counts[triple[2]])
        for triple, (_, ends) in edge_index.items()
    }
    degrees = sampled if in_degree is None else in_degree
    total: Rows = {}
    for triple in edge_index:
        known = total.get(triple[2])
        total[triple[2]] = degrees[triple] if known is None else known + degrees[triple]
    weights = {}
    for triple, (source, target) in edge_index.items():
        scale = degrees[triple] / sampled[triple].clamp(min=1)
        if triple[0] not in total:
            raise ValueError(
                f"no edge type leads to {triple[0]!r}, so its nodes have no degrees; give edges in "
                "both directions"
            )
        root = {name: _inverse_root(total[name]) for name in (triple[0], triple[2])}
        weights[triple] = root[triple[0]][source] * (root[triple[2]] * scale)[target]
    return weights


def _inverse_root(degree: Tensor) -> Tensor:
    return torch.where(degree > 0, degree.clamp(min=1).rsqrt(), torch.zeros_like(degree))


def _sums(part: Cut) -> Rows:
    """Returns the weighted sums of neighbours by node type, [targets, d]; 0 without neighbours."""
    out: Rows = {}
    for triple, ends in part.edge_index.items():
        source, _, target = triple
        made = weighted_sum(part.x[source], ends, part.beside[triple], part.targets[target])
        out[target] = made if target not in out else out[target] + made
    for name, x in part.x.items():
        if name not in out:
            out[name] = torch.zeros_like(x[: part.targets[name]])
    return out
