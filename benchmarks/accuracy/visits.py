"""What both sides of a recommendation share: the visits of the test, the loss, the metrics.

What must not live here: models and batches. The invariant: visits of training are neither ranked
nor wanted.
"""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from ..places import data_folder

_TEST = "gowalla_checkins/gowalla_test.txt.gz"
METRICS = ("recall@20", "ndcg@20")


def first_visits(seen: Any, num_items: int) -> tuple[Any, Any]:
    """(users, items) of the test, int64 [n] each, every pair once.

    Pairs of training and items that no user trained on are left out, since neither is ranked.

    Args:
        seen: The visits of training, (users, items) [2, n].
        num_items: Items that are ranked, from 0 on.
    """
    pairs = []
    with gzip.open(data_folder(_TEST), "rt") as lines:
        for line in lines:
            user, *items = map(int, line.split())
            pairs += [user * num_items + item for item in items if item < num_items]
    found = np.setdiff1d(pairs, seen[0] * num_items + seen[1])
    return found // num_items, found % num_items


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """The BPR loss (Rendle et al., UAI 2009) of scores of visits and of others [n]."""
    return -functional.logsigmoid(positive - negative).mean()
