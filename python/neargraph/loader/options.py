"""Checks of numbers that several arguments share."""

import math
from numbers import Real
from typing import Any

# The largest count that the compiled core accepts; that of draws and steps is smaller.
_LARGEST = 2**63 - 1
LARGEST_DRAWS = 2**32 - 1


def check_count(
    name: str, value: Any, least: int, most: int = _LARGEST, *, optional: bool = False
) -> None:
    """Rejects a value that is not a whole number from `least` to `most`, or an `optional` None.

    Raises:
        ValueError: The value is not valid.
    """
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
        raise ValueError(f"{name}={value!r} is not valid: expected a whole number {span}")


def is_number(value: Any) -> bool:
    """Returns whether the value is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
