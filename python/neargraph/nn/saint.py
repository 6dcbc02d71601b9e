"""Corrections of the sampling bias of GraphSAINT (Zeng et al., ICLR 2020).

A sampler draws some nodes and edges more often than others. Its loader counts how often, and
returns ``node_norm`` and ``edge_norm``. The invariant: with ``norms="paper"``, the expectations of
the loss and of each aggregation are those of the full graph (equations 2 and 3). PyG's
``edge_norm`` has the count of the source instead of the destination, so it is correct only if both
are equal.
"""

import torch
from torch import Tensor

from .degrees import InDegrees


def saint_loss(losses: Tensor, node_norm: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the sum of the losses of nodes, each times its ``node_norm``.

    Args:
        losses: Losses of all nodes of the batch, float [n], or of those in ``mask``, float [k].
        node_norm: Norms of all nodes of the batch, float [n].
        mask: The nodes that count, bool [n] with k true. None: all.

    Raises:
        ValueError: The number of losses is neither that of the nodes nor that of the mask.

    Example:
        >>> saint_loss(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.25]))
        tensor(1.)
    """
    norm = node_norm
    if mask is not None:
        norm = node_norm[mask]
        if losses.shape == node_norm.shape:
            losses = losses[mask]
    if losses.shape != norm.shape:
        raise ValueError(
            f"losses have shape {list(losses.shape)}: expected shape {list(norm.shape)}, one "
            "loss per node"
        )
    return (losses * norm).sum()


def saint_weights(
    edge_index: Tensor, edge_norm: Tensor, n_id: Tensor, degrees: InDegrees
) -> Tensor:
    """Returns ``sum_weight`` of `GraphSAGE` for a GraphSAINT batch, float [e].

    The weight of an edge is ``edge_norm`` divided by the in-degree of its destination in the whole
    graph. So the expectation of a weighted sum is the mean of all neighbours.

    Args:
        edge_index: Edges as local ids, int64 [2, e], with sources in row 0.
        edge_norm: Norm of each edge, float [e], from a loader with ``norms="paper"``.
        n_id: Node ids in the store, int64 [n].
        degrees: In-degrees of the store, with ``loops``, because the mean includes self-loops.

    Example:
        >>> ends = (batch.edge_index, batch.edge_norm, batch.n_id)            # doctest: +SKIP
        >>> weight = saint_weights(*ends, degrees)                            # doctest: +SKIP
        >>> out = model(batch.x, batch.edge_index, sum_weight=weight)         # doctest: +SKIP
    """
    degree = degrees(n_id).to(edge_norm.dtype).clamp(min=1)
    return edge_norm / torch.index_select(degree, 0, edge_index[1])
