"""The loss of labels over the rows and entries that are known.

The invariant: unknown labels (-1 of classes, NaN of the others) never affect a loss.
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
    """Outputs of a batch with their targets.

    Attributes:
        outputs: For labels [n, k]. For links: scores of positive links [n].
        targets: For labels [n] or [n, k]. For links: scores of negative links [n, m].
        weight: Weight of each row [n], if the sampler needs one.
    """

    outputs: Tensor
    targets: Tensor
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.outputs)


def known_rows(target: Target, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (outputs, labels, mask) of the rows with a known label."""
    shape = (-1,) if target.kind == "classes" else (len(labels), -1)
    labels, known = known_labels(_TASKS[target.kind], labels.reshape(shape))
    if target.kind != "classes":
        labels = torch.where(known, labels.to(torch.float32), torch.nan)
        known = known.any(dim=1)
    return outputs[known], labels[known], known


def label_loss(target: Target, prediction: Prediction) -> Tensor:
    """Returns the mean loss over known labels; with weights the weighted sum, as in GraphSAINT.

    The prediction must not be empty.
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
