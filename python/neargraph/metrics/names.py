"""Which metrics there are, for which kind of prediction, and which way is better.

One table. What must not live here: how a metric is computed. The invariant: a name that is not in
the table is refused by a line that lists what there is. It needs neither torch nor torchmetrics.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from neargraph.exceptions import UnsupportedArgument

Kind = Literal["classes", "labels", "values", "links"]
"""What is predicted: one of C classes, k yes-or-no labels, k numbers, or whether links exist."""

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
"""The names of each kind; K stands for a count from 1 on, as in "hits@10"."""

DEFAULTS: dict[Kind, tuple[str, ...]] = {
    "classes": ("accuracy",),
    "labels": ("f1-micro",),
    "values": ("mae", "rmse"),
    "links": ("mrr", "hits@10", "roc-auc"),
}
"""What is measured where nobody names a metric; the first is the one that decides."""

_SMALLER_IS_BETTER = ("mae", "rmse", "loss")
_AT = re.compile(r"(hits|recall|ndcg)@([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric of one kind: its name as it is written, its base, and the K of "hits@K"."""

    text: str
    base: str
    k: int | None = None

    @property
    def mode(self) -> Literal["max", "min"]:
        """Which way is better."""
        return "min" if self.base in _SMALLER_IS_BETTER else "max"


def metric_names(kind: Kind, given: Sequence[str] = ()) -> tuple[MetricName, ...]:
    """The metrics called `given`, or those that a kind has by default.

    Raises:
        UnsupportedArgument: The kind has no such metric, or one is named twice.

    Example:
        >>> [name.k for name in metric_names("links", ["mrr", "hits@10"])]
        [None, 10]
    """
    texts = tuple(given) or DEFAULTS[kind]
    for text in texts:
        if texts.count(text) > 1:
            raise UnsupportedArgument(f"metric {text!r} is named twice; leave one of them out")
    return tuple(_named(kind, text) for text in texts)


def _named(kind: Kind, text: str) -> MetricName:
    match = _AT.fullmatch(text)
    base, k = (f"{match[1]}@K", int(match[2])) if match else (text, None)
    if base not in METRICS[kind] or text.endswith("@K") or k == 0:
        known = ", ".join(METRICS[kind])
        counts = ", with a count from 1 on for K" if "@K" in known else ""
        raise UnsupportedArgument(f"{text!r} is not a metric of {kind}; use {known}{counts}")
    return MetricName(text, base, k)
