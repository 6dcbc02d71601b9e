"""The header of a .npy array, read without evaluating it.

NumPy reads the header as a Python literal, whose parser can be made to fail in many ways. Here it
is matched against the three fields that it has. Invariant: a decoded header has a plain dtype, no
negative dimension, and fewer than 2^63 bytes of data.
"""

import math
import re
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from .check import fail

_HEADER_BYTES_MAX = 64 << 10
_AGAIN = "write the file again with numpy.save"
_DIMENSIONS_MAX = 32
_PAIR = r"""['"]%s['"]\s*:\s*%s\s*"""
_DESCR = re.compile(_PAIR % ("descr", r"""['"]([^'"\\]*)['"]"""))
_ORDER = re.compile(_PAIR % ("fortran_order", "(True|False)"))
_SHAPE = re.compile(_PAIR % ("shape", r"\(([\d\s,L]*)\)"))
_STRUCTURED = re.compile(_PAIR % ("descr", r"[\[({]"))
_DTYPE = re.compile(r"[<>|=]?([?biufcmMSUVO])(\d{0,9})(\[\d{0,9}[a-z]{1,7}\])?")


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a header says; ``start`` is where the data begins, in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def data_bytes(self) -> int:
        """Bytes of all rows."""
        return self.dtype.itemsize * math.prod(self.shape)


def read_header(stream: IO[bytes], where: str) -> NpyHeader:
    """The header at the beginning of ``stream``; `ImportFailed` where it is not a valid one."""
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY":
        fail(where, "is not a readable .npy array (wrong magic bytes)", _AGAIN)
    if len(magic) < 8 or magic[6] not in (1, 2, 3):
        found = ".".join(str(part) for part in magic[6:]) or "missing"
        what = f"is not a readable .npy array (format version {found})"
        fail(where, what, "use format version 1.0, 2.0 or 3.0")
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > _HEADER_BYTES_MAX:
        bounds = f"{length} bytes, expected at most {_HEADER_BYTES_MAX}"
        fail(where, f"is not a readable .npy array (its header has {bounds})", _AGAIN)
    text = stream.read(length)
    if len(text) < length:
        fail(where, "is not a readable .npy array (its header is truncated)", _AGAIN)
    return _decode(text.decode("latin1"), 8 + width + length, where)


def _decode(text: str, start: int, where: str) -> NpyHeader:
    shown = f"its header is {text.strip()[:60]!r}"
    if _STRUCTURED.search(text):
        fail(
            where,
            f"has a structured dtype, which is not supported ({shown})",
            "save each field as an array of its own",
        )
    fields = [pattern.findall(text) for pattern in (_DESCR, _ORDER, _SHAPE)]
    rest = text.strip()
    for pattern in (_DESCR, _ORDER, _SHAPE):
        rest = pattern.sub("", rest)
    if [len(found) for found in fields] != [1, 1, 1] or not re.fullmatch(r"\{[\s,]*\}", rest):
        fail(where, f"is not a readable .npy array ({shown})", _AGAIN)
    kind = _DTYPE.fullmatch(fields[0][0])
    if kind is not None and kind[1] == "O":
        fail(
            where,
            "the array holds Python objects, which an import does not read",
            "save the array as numbers, with allow_pickle=False",
        )
    try:
        dtype = np.dtype(fields[0][0]) if kind else None
    except (TypeError, ValueError, OverflowError):
        dtype = None
    if dtype is None:
        fail(where, f"is not a readable .npy array (dtype {fields[0][0][:40]!r})", _AGAIN)
    parts = [part.strip().removesuffix("L") for part in fields[2][0].split(",")]
    digits = [part for part in parts if part]
    # More digits than 2^63 has are not worth converting.
    if len(digits) > _DIMENSIONS_MAX or not all(re.fullmatch(r"\d{1,19}", d) for d in digits):
        fail(where, f"is not a readable .npy array ({shown})", _AGAIN)
    shape = tuple(int(part) for part in digits)
    if max(shape, default=0) >= 2**63 or dtype.itemsize * math.prod(n or 1 for n in shape) >= 2**63:
        fail(where, f"an array of shape {list(shape)} takes 2^63 bytes or more", _AGAIN)
    return NpyHeader(dtype, shape, fields[1][0] == "True", start)
