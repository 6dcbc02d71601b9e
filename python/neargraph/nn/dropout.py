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
    kept = round((1 - p) * _STEPS)
    if not training or not 0 <= kept < _STEPS or x.device.type != "cpu":
        return functional.dropout(x, p, training)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    stays = draws < kept - _STEPS // 2
    return x * stays.to(x.dtype).mul_(_STEPS / max(kept, 1))
