"""GraphSAINT (Zeng et al., ICLR 2020): what undoes the bias of its samples.

A sampler draws some nodes and edges more often than others. Its loader counts how often, and gives
``node_norm`` and ``edge_norm``. The invariant: with those of ``norms="paper"`` the expectations of
the loss and of each aggregation are those of the full graph (equations 2 and 3). PyG's
``edge_norm`` has the count of the source in place of the destination's, so it is right only where
both are equal.
"""

import torch
from torch import Tensor

from .degrees import InDegrees


def saint_loss(losses: Tensor, node_norm: Tensor, mask: Tensor | None = None) -> Tensor:
    """The sum of the losses of single nodes, each times its ``node_norm``.

    Args:
        losses: Of all nodes of the batch, float [n], or of those of ``mask``, float [k].
        node_norm: Of all nodes of the batch, float [n].
        mask: Which nodes have a part in the loss, bool [n] with k true; None is all.

    Raises:
        ValueError: There are not as many losses as nodes, or as nodes of the mask.

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
        raise ValueError(f"losses have shape {list(losses.shape)}, nodes {list(norm.shape)}")
    return (losses * norm).sum()


def saint_weights(
    edge_index: Tensor, edge_norm: Tensor, n_id: Tensor, degrees: InDegrees
) -> Tensor:
    """``sum_weight`` of `GraphSAGE` for a GraphSAINT batch, float [e].

    Each edge weighs ``edge_norm`` over the in-degree of its destination in the whole graph, so that
    the expectation of a weighted sum is the mean of all neighbours.

    Args:
        edge_index: Local ids, int64 [2, e]; row 0 the sources.
        edge_norm: Of each edge, float [e], of a loader with ``norms="paper"``.
        n_id: Node ids in the store, int64 [n].
        degrees: Of the store, with ``loops``, since the mean counts self-loops.

    Example:
        >>> ends = (batch.edge_index, batch.edge_norm, batch.n_id)            # doctest: +SKIP
        >>> weight = saint_weights(*ends, degrees)                            # doctest: +SKIP
        >>> out = model(batch.x, batch.edge_index, sum_weight=weight)         # doctest: +SKIP
    """
    degree = degrees(n_id).to(edge_norm.dtype).clamp(min=1)
    return edge_norm / torch.index_select(degree, 0, edge_index[1])
