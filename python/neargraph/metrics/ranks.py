"""Ranks of positive links among their own negatives.

The invariant: what is kept is one sum per metric, however many links come. Ties: a negative with
the score of its positive counts half, so the rank is the mean of the best and the worst that the
scores allow (as in OGB, Hu et al., NeurIPS 2020); a model that gives every link the same score
gains nothing.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from .names import MetricName


class LinkRanks(Metric):  # type: ignore[misc]
    """MRR, Hits@K, Recall@K and NDCG@K of links, each ranked among its negatives.

    Each positive is a query with one right answer. With its rank r: MRR is the mean of 1 / r,
    Hits@K and Recall@K are the share with r <= K, and NDCG@K is the mean of 1 / log2(1 + r) where
    r <= K, else 0.

    Args:
        names: What to compute, of `metric_names("links", ...)`.

    Example:
        >>> ranks = LinkRanks(metric_names("links", ["mrr"]))             # doctest: +SKIP
        >>> ranks.update(torch.tensor([2.0]), torch.tensor([[3.0, 1.0]]))  # doctest: +SKIP
        >>> ranks.compute()                                                # doctest: +SKIP
        {'mrr': 0.5}
    """

    full_state_update = False
    sums: Tensor
    count: Tensor

    def __init__(self, names: Sequence[MetricName]) -> None:
        super().__init__()
        self._names = tuple(names)
        zeros = torch.zeros(len(self._names), dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, positive: Tensor, negative: Tensor) -> None:
        """Adds links: scores of positives [n], and of the negatives of each [n, m]."""
        rank = ranks(positive, negative)
        for at, name in enumerate(self._names):
            self.sums[at] += _gain(name, rank).sum()
        self.count += len(rank)

    def compute(self) -> dict[str, float]:
        """The means over all links so far, by name."""
        means = self.sums / self.count.clamp(min=1)
        return {name.text: float(mean) for name, mean in zip(self._names, means, strict=True)}


def ranks(positive: Tensor, negative: Tensor) -> Tensor:
    """The rank of each positive [n] among its negatives [n, m], from 1 on, float64 [n].

    >>> ranks(torch.tensor([2.0]), torch.tensor([[3.0, 2.0, 1.0]])).tolist()
    [2.5]
    """
    own = positive.reshape(-1, 1)
    above = (negative > own).sum(dim=1).to(torch.float64)
    return 1 + above + (negative == own).sum(dim=1).to(torch.float64) / 2


def _gain(name: MetricName, rank: Tensor) -> Any:
    if name.k is None:
        return 1 / rank
    inside = (rank <= name.k).to(torch.float64)
    return inside / torch.log2(1 + rank) if name.base == "ndcg@K" else inside
