"""The names of metrics by kind of prediction, and whether larger or smaller values are better.

What must not live here: how a metric is computed. The invariant: a name that is not in the table
raises an error that lists the valid ones. This module needs neither torch nor torchmetrics.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from neargraph.exceptions import UnsupportedArgument

Kind = Literal["classes", "labels", "values", "links"]
"""The kind of prediction: one of C classes, k binary labels, k numbers, or whether links exist."""

METRICS: dict[Kind, tuple[str, ...]] = {
    "classes": (
        "accuracy",
        "f1-micro",
        "f1-macro",
        "roc-auc",
        "roc-auc-binned",
        "ap",
        "ap-binned",
        "loss",
    ),
    "labels": (
        "f1-micro",
        "f1-macro",
        "accuracy",
        "roc-auc",
        "roc-auc-binned",
        "ap",
        "ap-binned",
        "loss",
    ),
    "values": ("mae", "rmse", "loss"),
    "links": (
        "mrr",
        "hits@K",
        "recall@K",
        "ndcg@K",
        "roc-auc",
        "roc-auc-binned",
        "ap",
        "ap-binned",
        "accuracy",
        "loss",
    ),
}
"""The metrics of each kind. K stands for a count of at least 1, as in "hits@10"."""

DEFAULTS: dict[Kind, tuple[str, ...]] = {
    "classes": ("accuracy",),
    "labels": ("f1-micro",),
    "values": ("mae", "rmse"),
    "links": ("mrr", "hits@10", "roc-auc"),
}
"""The default metrics of each kind. The first one determines the best parameters."""

_SMALLER_IS_BETTER = ("mae", "rmse", "loss")
_AT = re.compile(r"(hits|recall|ndcg)@([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class MetricName:
    """The name of a metric.

    Attributes:
        text: The name as it is written, such as "hits@10".
        base: The name in `METRICS`, such as "hits@K".
        k: The K; None if the metric has none.
    """

    text: str
    base: str
    k: int | None = None

    @property
    def mode(self) -> Literal["max", "min"]:
        """Whether larger or smaller values are better."""
        return "min" if self.base in _SMALLER_IS_BETTER else "max"


def metric_names(kind: Kind, given: Sequence[str] = ()) -> tuple[MetricName, ...]:
    """Returns the metrics `given`, or the default ones of a kind.

    Raises:
        UnsupportedArgument: The kind does not have a metric, or one is named twice.

    Example:
        >>> [name.k for name in metric_names("links", ["mrr", "hits@10"])]
        [None, 10]
    """
    texts = tuple(given) or DEFAULTS[kind]
    for text in texts:
        if texts.count(text) > 1:
            raise UnsupportedArgument(f"metric {text!r} is given twice; leave one of the two out")
    return tuple(_named(kind, text) for text in texts)


def _named(kind: Kind, text: str) -> MetricName:
    match = _AT.fullmatch(text)
    base, k = (f"{match[1]}@K", int(match[2])) if match else (text, None)
    if base not in METRICS[kind] or text.endswith("@K") or k == 0:
        known = ", ".join(METRICS[kind])
        counts = ", where K is 1 or more" if "@K" in known else ""
        raise UnsupportedArgument(f"{text!r} is not a metric of {kind}: expected {known}{counts}")
    return MetricName(text, base, k)
