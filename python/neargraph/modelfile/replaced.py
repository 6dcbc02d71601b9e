"""Forwards of layers of PyG that cannot be traced, or not whole: the same values, marked.

PyG sorts rows by type and slices them, by counts that depend on the data, or puts rows of several
types into one tensor. Several aggregations at once are fused into arithmetic.
Only `marking.py` puts these in place. The invariant: each equals the forward that it replaces.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import HeteroDictLinear, HeteroLinear, HGTConv, RGCNConv
from torch_geometric.nn.aggr import MultiAggregation

from neargraph.nn import GraphSAGE

from . import ops


def hetero_linear(self: Any, x: Tensor, type_vec: Tensor) -> Tensor:
    """`HeteroLinear.forward`: `x` [n, i] and types [n] to [n, o]."""
    out: Tensor = ops.segment_matmul(x, type_vec, self.weight)
    return out if self.bias is None else out + self.bias[type_vec]


def hetero_dict_linear(self: Any, x_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """`HeteroDictLinear.forward`: a linear layer for each type."""
    return {
        key: functional.linear(x_dict[key], linear.weight, linear.bias)
        for key, linear in self.lins.items()
        if key in x_dict
    }


def rgcn(self: Any, x: Any, edge_index: Tensor, edge_type: Tensor) -> Tensor:
    """`RGCNConv.forward` for rows of floats, with or without bases.

    One reduction keyed by (destination, relation), then one product: sum over relations of
    aggregate times matrix (Schlichtkrull et al., ESWC 2018, equation 2).
    """
    source, target = x if isinstance(x, tuple) else (x, x)
    if self.num_blocks is not None or source is None or not source.is_floating_point():
        raise ValueError(
            "RGCNConv with num_blocks, or on node ids instead of rows, cannot be exported: "
            "use num_bases, and nn.Embedding before the layer"
        )
    relations, width, nodes = self.num_relations, self.in_channels_l, target.size(0)
    weight = self.weight
    if self.num_bases is not None:
        weight = self.comp @ weight.view(self.num_bases, -1)
    key = edge_index[1] * relations + edge_type
    reduce = "mean" if self.aggr == "mean" else "sum"
    rows = ops.scatter(source.index_select(0, edge_index[0]), key, nodes * relations, reduce)
    out: Tensor = rows.view(nodes, relations * width) @ weight.reshape(relations * width, -1)
    if self.root is not None:
        out = out + target @ self.root
    return out if self.bias is None else out + self.bias


def hgt(
    self: Any, x_dict: dict[str, Tensor], edge_index_dict: dict[Any, Tensor]
) -> dict[str, Tensor]:
    """`HGTConv.forward`, one edge type after the other.

    The softmax of a node goes over its edges of all types (Hu et al., WWW 2020, equations 3 to 5).
    So the largest logits, the sums and the messages are reduced for each type, and then combined.
    """
    heads, width = self.heads, self.out_channels // self.heads
    rows = {key: torch.tensor_split(kqv, 3, dim=1) for key, kqv in self.kqv_lin(x_dict).items()}

    def related(of: Tensor, layer: Any, kind: int) -> Tensor:
        matrices = layer.weight[kind :: len(self.edge_types)]
        parts = of.split(width, dim=1)
        return torch.cat([part @ matrices[head] for head, part in enumerate(parts)], dim=1)

    logits, tops = {}, {}
    for triple, (source, target) in edge_index_dict.items():
        kind, count = self.edge_types_map[triple], x_dict[triple[2]].size(0)
        keys = related(rows[triple[0]][0], self.k_rel, kind).index_select(0, source)
        queries = rows[triple[2]][1].index_select(0, target)
        products = (queries * keys).view(-1, heads, width).sum(dim=-1)
        logits[triple] = products * self.p_rel["__".join(triple)] / width**0.5
        top = ops.scatter(logits[triple], target, count, "max")
        # The largest of no edges is 0, which may be more than that of other types.
        has_edges = ops.degree(target, count).unsqueeze(-1) > 0
        top = torch.where(has_edges, top, torch.full_like(top, -1e30))
        known = tops.get(triple[2])
        tops[triple[2]] = top if known is None else torch.maximum(known, top)
    sums: dict[str, Tensor] = {}
    messages: dict[str, Tensor] = {}
    for triple, (source, target) in edge_index_dict.items():
        key, count = triple[2], x_dict[triple[2]].size(0)
        powers = (logits[triple] - tops[key].index_select(0, target)).exp()
        values = related(rows[triple[0]][2], self.v_rel, self.edge_types_map[triple])
        values = values.index_select(0, source).view(-1, heads, width) * powers.unsqueeze(-1)
        total = ops.scatter(powers, target, count, "sum")
        message = ops.scatter(values, target, count, "sum")
        sums[key] = sums[key] + total if key in sums else total
        messages[key] = messages[key] + message if key in messages else message
    out = {}
    for key, message in messages.items():
        mean = message / (sums[key] + 1e-16).unsqueeze(-1)
        linear = self.out_lin.lins[key]
        hidden = functional.gelu(mean.view(-1, self.out_channels))
        out[key] = functional.linear(hidden, linear.weight, linear.bias)
        if out[key].size(-1) == x_dict[key].size(-1):
            share = self.skip[key].sigmoid()
            out[key] = share * out[key] + (1 - share) * x_dict[key]
    return out


def multi_aggregation(
    self: Any,
    x: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    dim: int = -2,
) -> Tensor:
    """`MultiAggregation.forward` without the fused one, so that each mean is one operator."""
    out: Tensor = self.combine([aggr(x, index, ptr, dim_size, dim) for aggr in self.aggrs])
    return out


# What `marking.py` puts in place: (class, attribute, value).
REPLACED: list[tuple[Any, str, Any]] = [
    (HeteroLinear, "forward", hetero_linear),
    (HeteroDictLinear, "forward", hetero_dict_linear),
    (RGCNConv, "forward", rgcn),
    (HGTConv, "forward", hgt),
    (MultiAggregation, "forward", multi_aggregation),
    # Messages instead of a sparse product, which sorts edges that are not sorted.
    (GraphSAGE, "fused", False),
]
