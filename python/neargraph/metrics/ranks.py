"""Ranks of positive links among their own negatives.

The invariant: one sum per metric is kept, for any number of links. A negative with the score of its
positive counts half. So the rank is the mean of the best and the worst possible rank (as in OGB, Hu
et al., NeurIPS 2020), and equal scores for all links give a rank in the middle.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from .names import MetricName


class LinkRanks(Metric):  # type: ignore[misc]
    """MRR, Hits@K, Recall@K and NDCG@K of links, each ranked among its negatives.

    Each positive link is a query with one relevant answer. For rank r, MRR is the mean of 1 / r,
    Hits@K and Recall@K are the share with r <= K, and NDCG@K is the mean of 1 / log2(1 + r) if
    r <= K, else 0.

    Args:
        names: The metrics, from `metric_names("links", ...)`.

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
        """Adds scores of positive links [n] and of the negative links of each [n, m]."""
        rank = ranks(positive, negative)
        for at, name in enumerate(self._names):
            self.sums[at] += _gain(name, rank).sum()
        self.count += len(rank)

    def compute(self) -> dict[str, float]:
        """Returns the means over all links so far, by name."""
        means = self.sums / self.count.clamp(min=1)
        return {name.text: float(mean) for name, mean in zip(self._names, means, strict=True)}


def ranks(positive: Tensor, negative: Tensor) -> Tensor:
    """Returns the rank of each positive [n] among its negatives [n, m], from 1, float64 [n].

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
