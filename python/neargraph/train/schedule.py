"""The learning rate of each step, and early stopping.

Both are pure functions of the settings, the step and the values of past validations. So a training
state does not contain them. The invariant: a resumed run has the learning rates of an uninterrupted
one.
"""

import math
from collections.abc import Sequence

from .config import TrainConfig


def learning_rate(
    config: TrainConfig, step: int, epoch: int, steps_per_epoch: int, stale: int
) -> float:
    """Returns the learning rate of a step.

    Args:
        config: The settings, with ``schedule``.
        step: Number of steps before this one, over all epochs.
        epoch: Number of epochs before this one.
        steps_per_epoch: Number of batches per epoch.
        stale: Number of plateaus so far, from `plateaus`.

    Example:
        >>> learning_rate(TrainConfig(lr=1.0, warmup_steps=4), 1, 0, 10, 0)
        0.5
    """
    rate = config.lr
    if config.schedule == "cosine":
        total = max(1, config.epochs * steps_per_epoch)
        rate *= 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))
    elif config.schedule == "step":
        rate *= config.schedule_factor ** (epoch // config.schedule_epochs)
    elif config.schedule == "plateau":
        rate *= config.schedule_factor**stale
    if step < config.warmup_steps:
        rate *= (step + 1) / config.warmup_steps
    return rate


def best_at(values: Sequence[float], mode: str) -> int | None:
    """Returns the index of the best value, the first of equal ones; None if there are no values.

    >>> best_at([0.1, 0.5, 0.5], "max")
    1
    """
    if not values:
        return None
    best = max(values) if mode == "max" else min(values)
    return values.index(best)


def plateaus(values: Sequence[float], mode: str, wait: int) -> int:
    """Returns how often `wait` values in a row were not better than the best one before them.

    Counting starts again after each plateau.

    >>> plateaus([0.5, 0.4, 0.4, 0.4, 0.4], "max", 2)
    2
    """
    best: float | None = None
    stale = found = 0
    for value in values:
        if best is None or (value > best if mode == "max" else value < best):
            best, stale = value, 0
            continue
        stale += 1
        if stale == wait:
            found, stale = found + 1, 0
    return found


def is_over(values: Sequence[float], mode: str, patience: int) -> bool:
    """Whether none of the last `patience` values is the best; False if `patience` is 0.

    >>> is_over([0.5, 0.4, 0.4], "max", 2)
    True
    """
    best = best_at(values, mode)
    return bool(patience) and best is not None and len(values) - 1 - best >= patience
