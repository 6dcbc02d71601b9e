"""ROC-AUC and average precision: exact up to a bound, or by thresholds in constant memory.

The exact area needs all scores at once. The invariant: at most `EXACT_SCORES` of them are kept.
More scores raise an error that names the binned form, which keeps one count per threshold.
"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import classification

from neargraph.exceptions import UnsupportedArgument

from .names import Kind, MetricName

EXACT_SCORES = 1 << 24
"""Maximum number of scores for an exact area: 12 bytes each, about 200 MB."""

_THRESHOLDS = 1000
_MISSING = -1


class Curve:
    """The mean area under a curve over classes or labels.

    Classes are evaluated one against the rest. With two classes, the area is that of the second. A
    class or label whose targets are all equal has no area and is left out of the mean.

    Args:
        name: "roc-auc" or "ap", exact or with "-binned" (1,000 thresholds).
        kind: Kind of prediction.
        outputs: Number of classes or labels.
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
        """Adds probabilities [n, columns] and targets [n, columns]: 0, 1 or -1 (unknown).

        Raises:
            UnsupportedArgument: An exact area would need too many scores.
        """
        if self._bins is None:
            self._kept += scores.numel()
            if self._kept > EXACT_SCORES:
                raise UnsupportedArgument(
                    f"{self._name.text} keeps every score in memory, and supports at most "
                    f"{EXACT_SCORES:,} scores; use {self._name.text}-binned, which needs "
                    "constant memory"
                )
        self._positives += (targets == 1).sum(dim=0).cpu()
        self._known += (targets >= 0).sum(dim=0).cpu()
        for column, area in enumerate(self._areas):
            area.update(scores[:, column], targets[:, column])

    @property
    def left_out(self) -> int:
        """Number of classes or labels without an area."""
        return int(self._columns - self._usable().sum())

    def _usable(self) -> Tensor:
        return (self._positives > 0) & (self._positives < self._known)

    def compute(self) -> float:
        """Returns the mean area.

        Raises:
            UnsupportedArgument: All targets are equal.
        """
        usable = self._usable()
        if not bool(usable.any()):
            if self._columns > 1:
                found = f"none of the {self._columns} label columns has both"
            else:
                answer = "positive" if int(self._positives.sum()) else "negative"
                found = f"all {int(self._known.sum()):,} are {answer}"
            raise UnsupportedArgument(
                f"{self._name.text} needs positive and negative labels, but {found}; use another "
                "metric or split"
            )
        areas = [area for area, use in zip(self._areas, usable.tolist(), strict=True) if use]
        return float(sum(float(area.compute()) for area in areas) / len(areas))
