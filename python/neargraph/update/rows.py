"""Values from Python as the bytes of rows.

The invariant: no value is changed on the way other than by rounding to what is stored. What does
not fit is refused before a batch has done anything.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import RowWidth, UnsupportedArgument
from neargraph.schema import TensorMeta


def to_rows(
    meta: TensorMeta, value: Any, count: int | None
) -> NDArray[np.uint8] | NDArray[np.float32]:
    """The bytes of `count` rows of a tensor, one after the other; None stands for a single row.

    Floats for a tensor of narrower elements come as float32, for the core to round.

    Args:
        meta: The tensor.
        value: [count, *shape], or [*shape] for a single row: NumPy, torch or lists. A bf16 tensor
            takes torch.bfloat16, uint16 as the raw bits, and other numbers, which are rounded. A
            tensor of scaled int8 takes the numbers that it stands for.

    Raises:
        RowWidth: The shape differs.
        UnsupportedArgument: Values of this dtype do not fit the tensor's, or its rows are sparse.
    """
    if meta.sparse:
        raise UnsupportedArgument(
            f"tensor {meta.name!r} is stored sparse, and rows of it cannot be changed: import the "
            "store again with --dense (dense=True), or keep what changes in a tensor of its own"
        )
    array = _as_array(value)
    wanted = meta.shape if count is None else (count, *meta.shape)
    if array.shape != wanted:
        raise RowWidth(
            f"tensor {meta.name!r} needs an array of shape {list(wanted)}, got {list(array.shape)}"
        )
    dtype = meta.numpy_dtype
    if meta.scaled or (meta.dtype in ("f16", "bf16") and array.dtype != dtype):
        return np.ascontiguousarray(_cast(meta, array, np.dtype(np.float32))).reshape(-1)
    return np.ascontiguousarray(_cast(meta, array, dtype)).reshape(-1).view(np.uint8)


def _as_array(value: Any) -> NDArray[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            value = value.contiguous().view(torch.int16).numpy().view(np.uint16)
    return np.asarray(value)


def _cast(meta: TensorMeta, array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    kind = array.dtype.kind
    if array.dtype == dtype or array.size == 0:
        return array.astype(dtype, copy=False)
    if dtype.kind == "f" and kind in "fiub":
        return array.astype(dtype)
    if dtype.kind in "iu" and kind in "iub":
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise UnsupportedArgument(
                f"tensor {meta.name!r} is {meta.dtype}, which goes from {limits.min} to "
                f"{limits.max}; got {low if low < limits.min else high}"
            )
        return array.astype(dtype)
    raise UnsupportedArgument(
        f"tensor {meta.name!r} is {meta.dtype}, which {array.dtype} does not fit without loss; "
        "convert the values first"
    )
