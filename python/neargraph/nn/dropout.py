"""Dropout with cheap random numbers on a CPU.

On a CPU without MKL's generator, torch draws one Bernoulli variable at a time. On a hidden layer of
a batch that took longer than all matrix products. Here 64 random bits decide about four elements.
"""

import torch
from torch import Tensor
from torch.nn import functional

_STEPS = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Like `torch.nn.functional.dropout`, but on a CPU ``p`` is rounded to multiples of 1 / 65,536.

    Kept elements are scaled by the rounded probability, so that the expectation is exact. Random
    numbers follow `torch.manual_seed`. A probability outside 0 to 1 is a ValueError, as in torch.

    Example:
        >>> dropout(torch.ones(4), 0.0, training=True)
        tensor([1., 1., 1., 1.])
    """
    kept = _kept(p, training, x)
    if kept is None:
        return functional.dropout(x, p, training)
    return x * _scaled(_draws(x) < kept - _STEPS // 2, kept, x.dtype)


def relu_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Computes `dropout(x.relu(), p, training)` in one pass, with equal values and gradients.

    Example:
        >>> relu_dropout(torch.tensor([-1.0, 1.0]), 0.0, training=True)
        tensor([0., 1.])
    """
    kept = _kept(p, training, x)
    if kept is None:
        return functional.dropout(x.relu(), p, training)
    stays = _draws(x) < kept - _STEPS // 2
    # NaN passes through, as in `relu`.
    positive = (x.detach() <= 0).logical_not_()
    return x * _scaled(stays.logical_and_(positive), kept, x.dtype)


def _kept(p: float, training: bool, x: Tensor) -> int | None:
    """Returns how many of 65,536 elements are kept; None if torch's own dropout is used."""
    kept = round((1 - p) * _STEPS)
    return kept if training and 0 <= kept < _STEPS and x.device.type == "cpu" else None


def _draws(x: Tensor) -> Tensor:
    """Returns random int16 of the shape of ``x``."""
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return words.view(torch.int16)[: x.numel()].view(x.shape)


def _scaled(stays: Tensor, kept: int, dtype: torch.dtype) -> Tensor:
    return stays.to(dtype).mul_(_STEPS / max(kept, 1))
