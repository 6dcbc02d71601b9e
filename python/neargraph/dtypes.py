"""What rows are read as: dtypes of torch, of NumPy and by name, and rows without their zeros."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.schema import TensorMeta

_NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
_FLOATS = ("f32", "f16", "bf16")

DtypeLike = Any
"""A torch dtype, a NumPy dtype or its name, or ``"f32"``, ``"f16"``, ``"bf16"``."""

Stored = Literal["stored"]
XFormat = Literal["dense", "sparse"]


class SparseRows(NamedTuple):
    """Rows of float32 without their zeros, as CSR.

    Row i has ``values[indptr[i]:indptr[i + 1]]`` in columns ``indices[indptr[i]:indptr[i + 1]]``,
    which ascend; ``scipy.sparse.csr_array((values, indices, indptr), shape)`` is the same.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float32]
    shape: tuple[int, int]

    def to_dense(self) -> NDArray[np.float32]:
        """The same rows with their zeros."""
        out = np.zeros(self.shape, np.float32)
        out[np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)), self.indices] = self.values
        return out


def dtype_name(dtype: DtypeLike) -> str:
    """The store's name of a dtype: ``"f32"`` of `torch.float32`, `numpy.float32`, ``"float32"``.

    Raises:
        UnsupportedArgument: It is no dtype.
    """
    text = str(dtype).removeprefix("torch.")
    if text in _NAMES.values() or text == "stored":
        return text
    try:
        return _NAMES.get(text) or _NAMES.get(np.dtype(dtype).name, text)
    except TypeError:
        raise UnsupportedArgument(
            f"{dtype!r} is no dtype; use torch.float32, 'f16', 'bf16', ... or 'stored'"
        ) from None


def read_as(meta: TensorMeta, wanted: DtypeLike | Stored | None) -> str | None:
    """What the compiled store shall read a tensor as; None leaves it to `meta.read_dtype`.

    Raises:
        UnsupportedArgument: The store cannot read it so.
    """
    if wanted is None:
        return None
    name = dtype_name(wanted)
    if name in ("stored", meta.dtype):
        return meta.dtype
    if meta.is_number and name in _FLOATS:
        return name
    can = ", ".join(_FLOATS) if meta.is_number else meta.dtype
    raise UnsupportedArgument(
        f"tensor {meta.name!r}, stored as {meta.dtype}, cannot be read as {name}; use {can}"
    )
