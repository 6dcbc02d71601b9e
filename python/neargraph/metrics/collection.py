"""Named metrics of one kind of prediction, streamed over the batches of a pass.

The invariant: nothing of a batch is kept but counts and sums, except the scores that exact areas
under curves need, which are bounded (`curves.py`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanAbsoluteError, MeanMetric, MeanSquaredError, classification

from .curves import Curve
from .names import Kind, MetricName, metric_names
from .ranks import LinkRanks

_RANKED = ("mrr", "hits@K", "recall@K", "ndcg@K")
_MISSING = -1


class Metrics:
    """What a pass over batches is measured by.

    Args:
        kind: What is predicted: "classes", "labels", "values" or "links".
        names: The metrics; empty for those that the kind has by default.
        outputs: Classes, labels or numbers of one prediction; of no meaning for links.

    Raises:
        UnsupportedArgument: The kind has no such metric.

    Example:
        >>> metrics = Metrics("classes", ["accuracy", "f1-macro"], outputs=3)
        >>> metrics.update(torch.eye(3), torch.tensor([0, 1, 1]))
        >>> round(metrics.compute()["accuracy"], 3)
        0.667
    """

    def __init__(self, kind: Kind, names: Sequence[str] = (), outputs: int = 1) -> None:
        self.names = metric_names(kind, names)
        self._kind, self._outputs = kind, outputs
        self._counted = {n.text: m for n in self.names if (m := _counted(n, kind, outputs))}
        ranked = [name for name in self.names if name.base in _RANKED]
        self._ranks = LinkRanks(ranked) if ranked else None
        of_curves = ("roc-auc", "ap", "roc-auc-binned", "ap-binned")
        curved = [name for name in self.names if name.base in of_curves]
        self._curves = {name.text: Curve(name, kind, outputs) for name in curved}

    @property
    def first(self) -> MetricName:
        """The metric that decides which parameters are best."""
        return self.names[0]

    def update(self, outputs: Tensor, targets: Tensor, loss: float | None = None) -> None:
        """Adds a batch.

        Args:
            outputs: Of classes logits [n, C]; of labels logits [n, k]; of values numbers [n, k];
                of links the scores of positives [n].
            targets: Of classes int64 [n]; of labels 0, 1 or NaN (unknown), [n, k]; of values the
                same shape, NaN where unknown; of links the scores of negatives [n, m].
            loss: The mean loss over the batch, for the metric "loss".
        """
        outputs, targets = outputs.detach(), targets.detach()
        if not len(outputs):
            return
        if "loss" in self._counted and loss is not None:
            self._counted["loss"].update(loss, weight=len(outputs))
        if self._kind == "links":
            self._links(outputs, targets)
        else:
            getattr(self, f"_{self._kind}")(outputs, targets)

    def running(self) -> float | None:
        """The first metric until now, where that costs nothing; else None."""
        name = self.first.text
        if name not in self._counted:
            return None
        return _plain(self._counted[name].compute())

    def compute(self) -> dict[str, float]:
        """All metrics over the batches so far, by name, in the order in which they were named.

        Raises:
            UnsupportedArgument: An area under a curve has one class only.
        """
        found = {name: _plain(metric.compute()) for name, metric in self._counted.items()}
        found |= {name: curve.compute() for name, curve in self._curves.items()}
        if self._ranks is not None:
            found |= self._ranks.compute()
        return {name.text: found[name.text] for name in self.names}

    def left_out(self) -> dict[str, int]:
        """Classes or labels that an area leaves out because one answer alone occurs, by metric."""
        return {name: curve.left_out for name, curve in self._curves.items() if curve.left_out}

    def _count(self, outputs: Tensor, targets: Tensor) -> None:
        for name, metric in self._counted.items():
            if name != "loss":
                metric.update(outputs, targets)

    def _classes(self, logits: Tensor, targets: Tensor) -> None:
        self._count(logits, targets)
        if not self._curves:
            return
        chances = logits.softmax(dim=1)
        answers = torch.nn.functional.one_hot(targets, self._outputs)
        if self._outputs == 2:
            chances, answers = chances[:, 1:], answers[:, 1:]
        for curve in self._curves.values():
            curve.update(chances, answers)

    def _labels(self, logits: Tensor, targets: Tensor) -> None:
        answers = targets.nan_to_num(nan=_MISSING).to(torch.int64)
        chances = logits.sigmoid()
        self._count(chances, answers)
        for curve in self._curves.values():
            curve.update(chances, answers)

    def _values(self, numbers: Tensor, targets: Tensor) -> None:
        known = targets.isfinite()
        if bool(known.any()):
            self._count(numbers[known], targets[known].to(numbers.dtype))

    def _links(self, positive: Tensor, negative: Tensor) -> None:
        if self._ranks is not None:
            self._ranks.update(positive, negative)
        chances = torch.cat([positive.reshape(-1), negative.reshape(-1)]).sigmoid()
        answers = torch.zeros(len(chances), dtype=torch.int64, device=chances.device)
        answers[: positive.numel()] = 1
        self._count(chances, answers)
        for curve in self._curves.values():
            curve.update(chances.reshape(-1, 1), answers.reshape(-1, 1))


def _counted(name: MetricName, kind: Kind, outputs: int) -> Any:
    """The metric of torchmetrics that counts or sums; None for those that need more."""
    if name.base == "loss":
        return MeanMetric()
    if name.base in ("mae", "rmse"):
        return MeanAbsoluteError() if name.base == "mae" else MeanSquaredError(squared=False)
    if name.base == "accuracy" or name.base.startswith("f1-"):
        family = "Accuracy" if name.base == "accuracy" else "F1Score"
        average = "macro" if name.base == "f1-macro" else "micro"
        options: dict[str, Any] = {"validate_args": False}
        if kind == "links":
            return getattr(classification, f"Binary{family}")(**options)
        options |= {"average": average, "ignore_index": _MISSING}
        if kind == "classes":
            return getattr(classification, f"Multiclass{family}")(outputs, **options)
        return getattr(classification, f"Multilabel{family}")(outputs, **options)
    return None


def _plain(value: Tensor) -> float:
    """The shortest decimal that stands for a float32: 0.44, not 0.4399999976."""
    return float(str(value.cpu().numpy()))
