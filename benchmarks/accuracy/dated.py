"""Links by time: which train, validate and test, and how a ranking is scored.

What must not live here: sampling and models. The invariant: splits are cut at times, so every link
of validation is later than all that train, and every link of the test later still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

TRAIN_LINKS, EVAL_LINKS = 30_000, 2_000
_DRAW_SEED = 20
_HELD_OUT_TIMES = {"val": -2, "test": -1}


@dataclass(frozen=True)
class Links:
    """Links in order of time: ends int64 [2, n], times int64 [n]."""

    ends: Tensor
    times: Tensor


def links_of(ends: Tensor, times: Tensor) -> dict[str, Links]:
    """The links of "train", "val" and "test" of edges that are there in both directions.

    The last time is the test, the one before it validation. Each split is drawn once, the same for
    all seeds.
    """
    once = ends[0] < ends[1]
    dated = torch.cat([times[None], ends])[:, once].unique(dim=1)
    steps = dated[0].unique()
    of_split = {name: dated[0] == steps[at] for name, at in _HELD_OUT_TIMES.items()}
    of_split["train"] = dated[0] < steps[_HELD_OUT_TIMES["val"]]
    found = {}
    for name, inside in of_split.items():
        part = dated[:, inside]
        generator = torch.Generator().manual_seed(_DRAW_SEED)
        most = TRAIN_LINKS if name == "train" else EVAL_LINKS
        kept = torch.randperm(part.size(1), generator=generator)[:most].sort().values
        found[name] = Links(part[1:, kept].contiguous(), part[0, kept].contiguous())
    return found


def loss_of(positive: Tensor, negative: Tensor) -> Tensor:
    """Binary cross entropy of scores [n] of links and [n, m] of pairs that are none."""
    scores = torch.cat([positive, negative.reshape(-1)])
    answers = torch.cat([torch.ones_like(positive), torch.zeros(negative.numel())])
    return functional.binary_cross_entropy_with_logits(scores, answers)


def reciprocal_ranks(positive: Tensor, negative: Tensor) -> Tensor:
    """1 / rank of each link among its negatives [n, m]; ties count by half."""
    above = (negative > positive[:, None]).sum(dim=1)
    equal = (negative == positive[:, None]).sum(dim=1)
    return 1 / (1 + above + equal / 2)


def time_unit(times: Any) -> float:
    """The difference of the first two times that there are."""
    steps = times.unique()
    return float(steps[1] - steps[0])
