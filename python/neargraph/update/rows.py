"""Conversion of Python values to the bytes of rows.

Invariant: a value changes only by rounding to the stored dtype. A value that does not fit is
rejected before the transaction has any effect.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import RowWidth, UnsupportedArgument, advised
from neargraph.schema import TensorMeta

_SHOWN_MAX = 60


def to_rows(
    meta: TensorMeta, value: Any, count: int | None
) -> NDArray[np.uint8] | NDArray[np.float32]:
    """Returns the bytes of rows of a tensor, one row after the other.

    For tensors of f16, bf16 and scaled int8 it may return float32 instead, which the core rounds.

    Args:
        meta: The tensor.
        value: [count, *shape], or [*shape] for a single row: a NumPy array, a torch tensor or
            lists. A bf16 tensor accepts torch.bfloat16, uint16 as raw bits, and other numbers,
            which are rounded. A tensor of scaled int8 accepts unscaled numbers.
        count: Number of rows; None for a single row.

    Raises:
        RowWidth: `value` has another shape.
        UnsupportedArgument: Values of this dtype do not fit the tensor, or it is stored sparse.
    """
    if meta.sparse:
        what = f"tensor {meta.name!r} is stored with sparse rows, which cannot be changed"
        raise advised(UnsupportedArgument(what), "StoreDense")
    array = as_array(meta.name, value)
    wanted = meta.shape if count is None else (count, *meta.shape)
    if array.shape != wanted:
        raise RowWidth(
            f"tensor {meta.name!r}: expected an array of shape {list(wanted)}, got "
            f"{list(array.shape)}"
        )
    dtype = meta.numpy_dtype
    if meta.scaled or (meta.dtype in ("f16", "bf16") and array.dtype != dtype):
        return np.ascontiguousarray(_cast(meta, array, np.dtype(np.float32))).reshape(-1)
    return np.ascontiguousarray(_cast(meta, array, dtype)).reshape(-1).view(np.uint8)


def as_array(name: str, value: Any) -> NDArray[Any]:
    """Returns the values for tensor `name` as an array.

    Raises:
        UnsupportedArgument: They do not form an array, such as lists of unequal lengths.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            value = value.contiguous().view(torch.int16).numpy().view(np.uint16)
    try:
        return np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise UnsupportedArgument(f"tensor {name!r}: {error}") from None


def shown(value: Any) -> str:
    """Returns the text of a value for messages, shortened if it is long."""
    # Formatting a huge integer takes minutes, and Python limits its digits.
    if isinstance(value, int) and abs(value) >= 1 << 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def to_float32(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    """Converts an array to float32.

    Raises:
        UnsupportedArgument: A finite value would become infinite.
    """
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    lost = np.isinf(rounded) & np.isfinite(array)
    if lost.any():
        raise UnsupportedArgument(
            f"{name} is stored as float32, which cannot hold {array[lost].flat[0]}: expected a "
            "value between -3.4e38 and 3.4e38"
        )
    return rounded


def _cast(meta: TensorMeta, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    kind = array.dtype.kind
    if array.dtype == dtype or array.size == 0:
        return array.astype(dtype, copy=False)
    if dtype == np.float32 and kind in "fiub":
        return to_float32(f"tensor {meta.name!r}", array)
    if dtype.kind == "f" and kind in "fiub":
        return array.astype(dtype)
    if dtype.kind in "iu" and kind in "iub":
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise UnsupportedArgument(
                f"tensor {meta.name!r} has dtype {meta.dtype}: expected values from {limits.min} "
                f"to {limits.max}, got {low if low < limits.min else high}"
            )
        return array.astype(dtype)
    raise UnsupportedArgument(
        f"tensor {meta.name!r} has dtype {meta.dtype}, and values of dtype {array.dtype} cannot "
        f"be converted to {meta.dtype} without loss; convert the values first"
    )
