"""What both sides of a recommendation share: the test's visits, the loss, the ranking.

What must not live here: models and batches. The invariant: visits of training are not ranked.
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


def visited_in_test(num_items: int) -> tuple[Any, Any]:
    """(users, items) of the test, int64 [n] each; items that no user trained on are left out."""
    users, items = [], []
    with gzip.open(data_folder(_TEST), "rt") as lines:
        for line in lines:
            user, *visited = map(int, line.split())
            users += [user] * len(visited)
            items += visited
    found = np.array([users, items])
    found = found[:, found[1] < num_items]
    return found[0], found[1]


def bpr(positive: Tensor, negative: Tensor) -> Tensor:
    """The BPR loss (Rendle et al., UAI 2009) of scores of visits and of others [n]."""
    return -functional.logsigmoid(positive - negative).mean()
