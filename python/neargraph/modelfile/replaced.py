"""Replacements for `forward` of PyG layers that cannot be traced, or not as marked operators.

PyG sorts rows by type and slices them by counts that depend on the data, and fuses several
aggregations into arithmetic. Only `marking.py` applies these functions. The invariant: each
computes the same as the method that it replaces.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import HeteroDictLinear, HeteroLinear, RGCNConv
from torch_geometric.nn.aggr import MultiAggregation

from neargraph.nn import GraphSAGE

from . import ops


def hetero_linear(self: Any, x: Tensor, type_vec: Tensor) -> Tensor:
    """Replaces `HeteroLinear.forward`: maps `x` [n, i] and types [n] to [n, o]."""
    out: Tensor = ops.segment_matmul(x, type_vec, self.weight)
    return out if self.bias is None else out + self.bias[type_vec]


def hetero_dict_linear(self: Any, x_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Replaces `HeteroDictLinear.forward`: a linear layer for each type."""
    return {
        key: functional.linear(x_dict[key], linear.weight, linear.bias)
        for key, linear in self.lins.items()
        if key in x_dict
    }


def rgcn(self: Any, x: Any, edge_index: Tensor, edge_type: Tensor) -> Tensor:
    """Replaces `RGCNConv.forward` for rows of floats, with or without bases.

    It makes one reduction by (destination, relation), then one product: the sum over relations of
    aggregate times matrix (Schlichtkrull et al., ESWC 2018, equation 2).
    """
    source, target = x if isinstance(x, tuple) else (x, x)
    if self.num_blocks is not None or source is None or not source.is_floating_point():
        raise ValueError(
            "RGCNConv with num_blocks, or with node ids as input, cannot be exported: use "
            "num_bases, and nn.Embedding before the layer"
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


def multi_aggregation(
    self: Any,
    x: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    dim: int = -2,
) -> Tensor:
    """Replaces `MultiAggregation.forward` without fusion, so that each mean is one operator."""
    out: Tensor = self.combine([aggr(x, index, ptr, dim_size, dim) for aggr in self.aggrs])
    return out


# The attributes that `marking.py` sets: (class, attribute, value).
REPLACED: list[tuple[Any, str, Any]] = [
    (HeteroLinear, "forward", hetero_linear),
    (HeteroDictLinear, "forward", hetero_dict_linear),
    (RGCNConv, "forward", rgcn),
    (MultiAggregation, "forward", multi_aggregation),
    # Messages instead of a sparse product, which would sort unsorted edges.
    (GraphSAGE, "fused", False),
]
