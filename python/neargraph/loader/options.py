"""Checks of numbers that arguments have in common."""

import math
from numbers import Real
from typing import Any

# What the compiled core takes of counts; those of draws and steps are narrower.
_LARGEST = 2**63 - 1
LARGEST_DRAWS = 2**32 - 1


def check_count(
    name: str, value: Any, least: int, most: int = _LARGEST, *, optional: bool = False
) -> None:
    """Refuses what is not a whole number from `least` to `most`, or None where it is `optional`.

    Raises:
        ValueError: It is something else.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"from {least} on" if most == _LARGEST else f"in {least} ... {most}"
        raise ValueError(f"{name} must be a whole number {span}, got {value!r}")


def is_number(value: Any) -> bool:
    """Whether it is one finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
