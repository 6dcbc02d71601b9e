"""The loss of labels: which rows and entries are known, and what an error costs.

The invariant: what is unknown, -1 of classes and NaN of the others, has no part in a loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from neargraph.metrics.names import Kind
from neargraph.nn.decoders import Task, known_labels

from .labels import Target

_TASKS: dict[Kind, Task] = {
    "classes": "classification",
    "labels": "multilabel",
    "values": "regression",
}

_ENTRY_LOSSES: dict[str, Callable[..., Tensor]] = {
    "bce": functional.binary_cross_entropy_with_logits,
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
}


@dataclass(slots=True)
class Prediction:
    """Outputs of a batch, and what they should be.

    Of labels: ``outputs`` [n, k], and ``targets`` [n] or [n, k]. Of links: scores of positives [n],
    and of their negatives [n, m]. ``weight`` [n] is that of each row, where a sampler asks for one.
    """

    outputs: Tensor
    targets: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.outputs)


def known_rows(target: Target, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(outputs, labels, which) of the rows that have a label."""
    shape = (-1,) if target.kind == "classes" else (len(labels), -1)
    labels, known = known_labels(_TASKS[target.kind], labels.reshape(shape))
    if target.kind != "classes":
        labels = torch.where(known, labels.to(torch.float32), torch.nan)
        known = known.any(dim=1)
    return outputs[known], labels[known], known


def label_loss(target: Target, prediction: Prediction) -> Tensor:
    """The mean loss over what is known; with weights the weighted sum over rows, as GraphSAINT's.

    A batch in which nothing is known has no loss: the caller asks `len` first.
    """
    outputs, targets, weight = prediction.outputs, prediction.targets, prediction.weight
    reduction = "mean" if weight is None else "none"
    if target.kind == "classes":
        loss = functional.cross_entropy(outputs, targets, reduction=reduction)
        return loss if weight is None else (loss * weight).sum()
    known = targets.isfinite()
    if weight is not None:
        weight = weight.unsqueeze(1).expand_as(targets)[known] / targets.size(1)
    found = _ENTRY_LOSSES[target.loss](outputs[known], targets[known], reduction=reduction)
    return found if weight is None else (found * weight).sum()
