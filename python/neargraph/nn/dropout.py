"""Dropout whose random numbers cost little on a CPU.

torch draws one Bernoulli variable at a time on a CPU without MKL's generator: on a batch's hidden
layer that took longer than all of its products. Here 64 random bits decide four elements.
"""

import torch
from torch import Tensor
from torch.nn import functional

_STEPS = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """As `torch.nn.functional.dropout`; on a CPU the share ``p`` is rounded to 1 / 65,536.

    What stays is scaled by the share that is really kept, so that the expectation is exact.
    Follows `torch.manual_seed`. A share outside 0 ... 1 is a ValueError, as torch's.

    Example:
        >>> dropout(torch.ones(4), 0.0, training=True)
        tensor([1., 1., 1., 1.])
    """
    kept = _kept(p, training, x)
    if kept is None:
        return functional.dropout(x, p, training)
    return x * _scaled(_draws(x) < kept - _STEPS // 2, kept, x.dtype)


def relu_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """`dropout(x.relu(), p, training)` in one pass: the same values, and the same gradients.

    Example:
        >>> relu_dropout(torch.tensor([-1.0, 1.0]), 0.0, training=True)
        tensor([0., 1.])
    """
    kept = _kept(p, training, x)
    if kept is None:
        return functional.dropout(x.relu(), p, training)
    stays = _draws(x) < kept - _STEPS // 2
    # What is not a number passes, as `relu` lets it.
    positive = (x.detach() <= 0).logical_not_()
    return x * _scaled(stays.logical_and_(positive), kept, x.dtype)


def _kept(p: float, training: bool, x: Tensor) -> int | None:
    """How many of 65,536 elements stay; None where torch's own dropout does it."""
    kept = round((1 - p) * _STEPS)
    return kept if training and 0 <= kept < _STEPS and x.device.type == "cpu" else None


def _draws(x: Tensor) -> Tensor:
    """Random int16, of the shape of ``x``."""
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return words.view(torch.int16)[: x.numel()].view(x.shape)


def _scaled(stays: Tensor, kept: int, dtype: torch.dtype) -> Tensor:
    return stays.to(dtype).mul_(_STEPS / max(kept, 1))
