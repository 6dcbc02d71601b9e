"""ROC-AUC and average precision: exact within a bound, or by thresholds in constant memory.

The exact area needs every score at once. The invariant: at most `EXACT_SCORES` of them are kept;
what comes after that is refused by a line that names the binned form, which keeps one count per
threshold.
"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import classification

from neargraph.exceptions import UnsupportedArgument

from .names import Kind, MetricName

EXACT_SCORES = 1 << 24
"""Scores that an exact area keeps at most: 12 bytes each, about 200 MB."""

_THRESHOLDS = 1000
_MISSING = -1


class Curve:
    """The area under one curve of all labels that have both answers.

    Classes are taken one against the rest, and the mean is over classes; with two classes it is
    the area of the second. Labels are averaged likewise. A class or label of which only one
    answer occurs has no area and is left out of the mean.

    Args:
        name: "roc-auc" or "ap", exact or "-binned" (1,000 thresholds).
        kind: What is predicted.
        outputs: Classes or labels.
    """

    def __init__(self, name: MetricName, kind: Kind, outputs: int) -> None:
        self._name, self._kind = name, kind
        self._columns = 1 if kind == "links" or (kind == "classes" and outputs == 2) else outputs
        family = "AUROC" if name.base.startswith("roc-auc") else "AveragePrecision"
        self._bins = _THRESHOLDS if name.base.endswith("-binned") else None
        options: dict[str, Any] = {"thresholds": self._bins, "validate_args": False}
        options["ignore_index"] = _MISSING
        maker = getattr(classification, f"Binary{family}")
        self._areas = [maker(**options) for _ in range(self._columns)]
        self._kept = 0
        self._positives = torch.zeros(self._columns, dtype=torch.int64)
        self._known = torch.zeros(self._columns, dtype=torch.int64)

    def update(self, scores: Tensor, targets: Tensor) -> None:
        """Adds probabilities [n, columns] and answers of 0 and 1, -1 where unknown, the same."""
        if self._bins is None:
            self._kept += scores.numel()
            if self._kept > EXACT_SCORES:
                raise UnsupportedArgument(
                    f"{self._name.text} keeps every score, at most {EXACT_SCORES:,} of them; use "
                    f"{self._name.text}-binned, which needs constant memory"
                )
        self._positives += (targets == 1).sum(dim=0).cpu()
        self._known += (targets >= 0).sum(dim=0).cpu()
        for column, area in enumerate(self._areas):
            area.update(scores[:, column], targets[:, column])

    @property
    def left_out(self) -> int:
        """Classes or labels that have no area."""
        return int(self._columns - self._usable().sum())

    def _usable(self) -> Tensor:
        return (self._positives > 0) & (self._positives < self._known)

    def compute(self) -> float:
        """The mean area.

        Raises:
            UnsupportedArgument: Only one answer occurs.
        """
        usable = self._usable()
        if not bool(usable.any()):
            answer = "yes" if int(self._positives.sum()) else "no"
            raise UnsupportedArgument(
                f"{self._name.text} needs both answers, and all {int(self._known.sum()):,} are "
                f"{answer!r}: there is one class only; use another metric or split"
            )
        areas = [area for area, use in zip(self._areas, usable.tolist(), strict=True) if use]
        return float(sum(float(area.compute()) for area in areas) / len(areas))
