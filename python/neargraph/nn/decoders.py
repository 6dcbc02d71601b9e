"""Decoders that turn embeddings into predictions for nodes, pairs and graphs, and their losses.

GLIST has these three kinds of analysis (equations 4 to 6). The computation of embeddings must not
live here. The invariant: decoders return logits or values, never probabilities, as the losses
require.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Embedding, functional
from torch_geometric.nn import (
    MLP,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

Task = Literal["classification", "multilabel", "regression"]
_LOSSES: dict[Task, Callable[..., Tensor]] = {
    "classification": functional.cross_entropy,
    "multilabel": functional.binary_cross_entropy_with_logits,
    "regression": functional.mse_loss,
}
_POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


class NodeDecoder(torch.nn.Module):
    """An MLP on each row (equation 4 of GLIST). With one layer it is linear.

    Args:
        in_channels: Width of the embeddings.
        out_channels: Number of classes, labels or values.
        num_layers: Number of layers. Hidden layers have the width of the embeddings.
        dropout: Dropout probability of hidden units in training.

    Example:
        >>> NodeDecoder(16, 3)(torch.zeros(5, 16)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self, in_channels: int, out_channels: int, num_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.mlp = _mlp(in_channels, in_channels, out_channels, num_layers, dropout)

    def forward(self, z: Tensor) -> Tensor:
        """Returns logits or values [n, out_channels] for embeddings [n, in_channels]."""
        out: Tensor = self.mlp(z)
        return out


class DotDecoder(torch.nn.Module):
    """The inner product of both ends. It has no parameters.

    Example:
        >>> z = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> DotDecoder()(z, z, torch.tensor([[0], [1]]))
        tensor([11.])
    """

    def forward(self, source: Tensor, target: Tensor, pairs: Tensor) -> Tensor:
        """Returns scores [p].

        Args:
            source: Embeddings of the first ends, [n, d].
            target: Embeddings of the second ends, [m, d]. With one node type, the same tensor.
            pairs: Row indices in both, int64 [2, p], such as ``batch.edge_label_index``.
        """
        return (source[pairs[0]] * target[pairs[1]]).sum(dim=1)


class MLPDecoder(torch.nn.Module):
    """An MLP on the concatenated rows of both ends. A pair and its reverse have different scores.

    Args:
        in_channels: Width of the embeddings.
        out_channels: Number of values per pair. With 1, the result has shape [p].
        num_layers: Number of layers. Hidden layers have the width of the embeddings.
        dropout: Dropout probability of hidden units in training.

    Example:
        >>> z, pairs = torch.zeros(4, 16), torch.tensor([[0, 1], [2, 3]])
        >>> MLPDecoder(16)(z, z, pairs).shape
        torch.Size([2])
    """

    def __init__(
        self, in_channels: int, out_channels: int = 1, num_layers: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.mlp = _mlp(2 * in_channels, in_channels, out_channels, num_layers, dropout)

    def forward(self, source: Tensor, target: Tensor, pairs: Tensor) -> Tensor:
        """Returns scores [p] or [p, out_channels]. The arguments are those of `DotDecoder`."""
        both = torch.cat([source[pairs[0]], target[pairs[1]]], dim=1)
        out: Tensor = self.mlp(both)
        return out.squeeze(1) if out.size(1) == 1 else out


class RelationDecoder(torch.nn.Module):
    """A score for each pair under a relation, by DistMult or by a bilinear form.

    DistMult (Yang et al., ICLR 2015) has a vector r per relation. Its score is the sum of
    s * r * t, which is equal for a pair and its reverse. ``"bilinear"`` (RESCAL, Nickel et al.,
    ICML 2011) has a matrix per relation and distinguishes them.

    Args:
        in_channels: Width of the embeddings.
        num_relations: Number of relations.
        form: ``"distmult"`` or ``"bilinear"``.

    Raises:
        ValueError: `form` is not valid.

    Example:
        >>> z, pairs = torch.zeros(4, 16), torch.tensor([[0, 1], [2, 3]])
        >>> RelationDecoder(16, 3)(z, z, pairs, torch.tensor([0, 2])).shape
        torch.Size([2])
    """

    def __init__(
        self,
        in_channels: int,
        num_relations: int,
        form: Literal["distmult", "bilinear"] = "distmult",
    ) -> None:
        super().__init__()
        if form not in ("distmult", "bilinear"):
            raise ValueError(f"form={form!r} is not valid: expected 'distmult' or 'bilinear'")
        self.form = form
        width = in_channels if form == "distmult" else in_channels * in_channels
        self.relation = Embedding(num_relations, width)
        # The expected squared length of a row is 1, so initial scores are as large as inner
        # products.
        torch.nn.init.normal_(self.relation.weight, std=in_channels**-0.5)

    def forward(self, source: Tensor, target: Tensor, pairs: Tensor, relation: Tensor) -> Tensor:
        """Returns scores [p] for relations int64 [p]. Other arguments are those of `DotDecoder`."""
        first, second = source[pairs[0]], target[pairs[1]]
        form: Tensor = self.relation(relation)
        if self.form == "bilinear":
            matrix = form.view(-1, first.size(1), second.size(1))
            first = (first.unsqueeze(1) @ matrix).squeeze(1)
            return (first * second).sum(dim=1)
        return (first * form * second).sum(dim=1)


class GraphDecoder(torch.nn.Module):
    """Pools the rows of each graph to one and applies an MLP (equation 6 of GLIST).

    Args:
        in_channels: Width of the embeddings.
        out_channels: Number of classes, labels or values.
        pool: Reduction of the rows of a graph: ``"mean"``, ``"sum"`` or ``"max"``.
        num_layers: Number of layers. Hidden layers have the width of the embeddings.
        dropout: Dropout probability of hidden units in training.

    Raises:
        ValueError: `pool` is not valid.

    Example:
        >>> GraphDecoder(16, 2)(torch.zeros(5, 16), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        pool: Literal["mean", "sum", "max"] = "mean",
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pool not in _POOLS:
            raise ValueError(f"pool={pool!r} is not valid: expected 'mean', 'sum' or 'max'")
        self.pool = pool
        self.mlp = _mlp(in_channels, in_channels, out_channels, num_layers, dropout)

    def forward(self, z: Tensor, batch: Tensor, num_graphs: int | None = None) -> Tensor:
        """Returns logits or values [graphs, out_channels].

        Args:
            z: Embeddings of the nodes, [n, in_channels].
            batch: The graph of each node, int64 [n].
            num_graphs: Number of graphs. None: the largest value of ``batch`` plus one.
        """
        out: Tensor = self.mlp(_POOLS[self.pool](z, batch, num_graphs))
        return out


def task_loss(task: Task, out: Tensor, labels: Tensor) -> Tensor:
    """Returns the mean loss over known labels: (binary) cross entropy or squared error.

    Unknown labels (see `known_labels`) are left out. If no label is known, the loss and its
    gradients are 0.

    Args:
        task: ``"classification"`` (one of several classes), ``"multilabel"`` (independent binary
            labels) or ``"regression"``.
        out: Output of a decoder, [n, out_channels].
        labels: Classes: int [n] or [n, 1]. Otherwise [n, out_channels], or [n] for one column.

    Raises:
        ValueError: The task is not valid, or the shapes differ.

    Example:
        >>> task_loss("regression", torch.tensor([[2.0]]), torch.tensor([1.0]))
        tensor(1.)
    """
    if task not in ("classification", "multilabel", "regression"):
        raise ValueError(
            f"task={task!r} is not valid: expected 'classification', 'multilabel' or 'regression'"
        )
    wanted = list(out.shape[:1]) if task == "classification" else list(out.shape)
    if labels.numel() != torch.Size(wanted).numel() or labels.size(0) != out.size(0):
        raise ValueError(
            f"labels have shape {list(labels.shape)}: expected shape {wanted} for task={task!r}"
        )
    labels, known = known_labels(task, labels.reshape(wanted))
    right = labels[known] if task == "classification" else labels[known].to(out.dtype)
    losses: Tensor = _LOSSES[task](out[known], right, reduction="sum")
    return losses / known.sum().clamp(min=1)


def known_labels(task: Task, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (labels, which of them are known), both of the shape of ``labels``.

    Classes become int64. For other tasks, integers become float32. A label is unknown if it is not
    finite, if it is a class below 0, or if it is -1 in ``"multilabel"``.

    Example:
        >>> known_labels("multilabel", torch.tensor([[1, 0, -1]]))[1]
        tensor([[ True,  True, False]])
    """
    if task == "classification":
        if labels.is_floating_point():
            labels = torch.where(labels.isfinite(), labels, -1)
        labels = labels.to(torch.int64)
        return labels, labels >= 0
    labels = labels if labels.is_floating_point() else labels.to(torch.float32)
    known = labels.isfinite()
    return labels, known & (labels != -1) if task == "multilabel" else known


def predictions(task: Task, out: Tensor) -> Tensor:
    """Returns the predictions of an output: classes int64 [n], labels bool [n, k], or the values.

    Example:
        >>> predictions("classification", torch.tensor([[0.1, 0.9]]))
        tensor([1])
    """
    if task == "classification":
        return out.argmax(dim=1)
    return out > 0 if task == "multilabel" else out


def _mlp(before: int, hidden: int, after: int, num_layers: int, dropout: float) -> MLP:
    if num_layers < 1:
        raise ValueError(f"num_layers={num_layers} is not valid: expected 1 or more")
    widths = [before, *[hidden] * (num_layers - 1), after]
    return MLP(widths, norm=None, dropout=dropout, plain_last=True)
