"""Byte sizes as users write them: MB is 10^6 bytes, MiB is 2^20 bytes."""

import re

from neargraph._core import format_bytes as _format_bytes

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


def parse_bytes(size: str | int) -> int:
    """Converts a size such as ``"256MB"`` or ``"1.5 GiB"`` to bytes.

    Args:
        size: A number of bytes, or a number with one of B, kB, MB, GB, TB (powers of 1000),
            KiB, MiB, GiB, TiB (powers of 1024). Case does not matter.

    Raises:
        ValueError: The text is not a valid size, or the size is not positive.

    Example:
        >>> parse_bytes("256MB"), parse_bytes("1MiB")
        (256000000, 1048576)
    """
    if isinstance(size, int) and not isinstance(size, bool):
        count = size
    else:
        match = _SIZE.fullmatch(size) if isinstance(size, str) else None
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(
                f"{size!r} is not a valid size: expected a number of bytes, e.g. 256MB or 1.5GiB"
            )
        count = int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
    if not 0 < count < 2**63:
        raise ValueError(f"{size!r} is not a valid size: expected 1 byte to 2^63 - 1 bytes")
    return count


def format_bytes(count: int, up: bool = False) -> str:
    """Formats a number of bytes with three significant digits, in powers of 1000.

    Args:
        count: The number of bytes.
        up: Round up, for lower bounds.

    Example:
        >>> format_bytes(256_000_000)
        '256 MB'
    """
    return _format_bytes(count, up)
