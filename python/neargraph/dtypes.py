"""Dtypes in which rows are read, by torch dtype, NumPy dtype or name; and sparse rows."""

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

    Row i has the values ``values[indptr[i]:indptr[i + 1]]`` in the columns
    ``indices[indptr[i]:indptr[i + 1]]``, in ascending order.
    ``scipy.sparse.csr_array((values, indices, indptr), shape)`` is the same matrix.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float32]
    shape: tuple[int, int]

    def to_dense(self) -> NDArray[np.float32]:
        """Returns the rows with their zeros, [rows, columns]."""
        out = np.zeros(self.shape, np.float32)
        out[np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)), self.indices] = self.values
        return out


def dtype_name(dtype: DtypeLike) -> str:
    """Returns the store's name of a dtype, such as ``"f32"`` for `torch.float32`.

    Raises:
        UnsupportedArgument: `dtype` is not a valid dtype.
    """
    text = str(dtype).removeprefix("torch.")
    if text in _NAMES.values() or text == "stored":
        return text
    try:
        return _NAMES.get(text) or _NAMES.get(np.dtype(dtype).name, text)
    except TypeError:
        raise UnsupportedArgument(
            f"{dtype!r} is not a valid dtype: expected torch.float32, 'f16', 'bf16', ... or "
            "'stored'"
        ) from None


def read_as(meta: TensorMeta, wanted: DtypeLike | Stored | None) -> str | None:
    """Returns the dtype that the compiled core reads a tensor as; None: `meta.read_dtype`.

    Raises:
        UnsupportedArgument: The tensor cannot be read as `wanted`.
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
