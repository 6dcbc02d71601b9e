"""Named metrics of one kind of prediction, computed over the batches of a pass.

The invariant: only counts and sums of a batch are kept, and the scores for exact areas under
curves, whose number is bounded (`curves.py`).
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
    """Metrics over the batches of a pass.

    Args:
        kind: Kind of prediction: ``"classes"``, ``"labels"``, ``"values"`` or ``"links"``.
        names: Names of the metrics; empty: the default ones of the kind.
        outputs: Number of classes, labels or values per prediction. Not used for links.

    Raises:
        UnsupportedArgument: The kind does not have a metric, or one is named twice.

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
        """The metric that determines the best parameters."""
        return self.names[0]

    def update(self, outputs: Tensor, targets: Tensor, loss: float | None = None) -> None:
        """Adds a batch.

        Args:
            outputs: Classes: logits [n, C]. Labels: logits [n, k]. Values: numbers [n, k]. Links:
                scores of positive links [n].
            targets: Classes: int64 [n]. Labels: 0, 1 or NaN (unknown), [n, k]. Values: numbers or
                NaN (unknown), [n, k]. Links: scores of negative links [n, m].
            loss: The mean loss over the batch, for the metric ``"loss"``.
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
        """Returns the first metric over the batches so far; None if that is expensive."""
        name = self.first.text
        if name not in self._counted:
            return None
        return _plain(self._counted[name].compute())

    def compute(self) -> dict[str, float]:
        """Returns all metrics over the batches so far by name, in the order of `names`.

        Raises:
            UnsupportedArgument: The area under a curve is not defined, as only one class occurs.
        """
        found = {name: _plain(metric.compute()) for name, metric in self._counted.items()}
        found |= {name: curve.compute() for name, curve in self._curves.items()}
        if self._ranks is not None:
            found |= self._ranks.compute()
        return {name.text: found[name.text] for name in self.names}

    def left_out(self) -> dict[str, int]:
        """Returns by metric how many classes or labels an area leaves out.

        The area of a class or label is not defined if all its targets are equal.
        """
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
    """Returns the metric of torchmetrics that keeps counts or sums; None if it needs more."""
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
    """Returns the shortest decimal of a float32: 0.44, not 0.4399999976."""
    return float(str(value.cpu().numpy()))
