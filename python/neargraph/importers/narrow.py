"""`x` stored narrower than the input has it: f16, bf16, or int8 with a scale for each column.

Rows go to the extension as f32, which rounds them; this module only says so in the plan. Memory is
that of one chunk.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from neargraph.remedies import remedy

from .check import fail
from .plan import Array, GraphPlan, TensorPlan

_FLOATS = ("f16", "bf16", "f32", "f64")


def narrow_x(plan: GraphPlan, x_dtype: str) -> None:
    """Makes ``x`` of every node type be stored as `x_dtype`; to do it again changes nothing.

    Raises `ImportFailed` where no node type has an ``x`` of floats.
    """
    found = False
    for node in plan.nodes:
        for at, tensor in enumerate(node.tensors):
            if tensor.name != "x":
                continue
            if tensor.dtype not in _FLOATS:
                fail(
                    f"{plan.origin}, tensor 'x' of node type {node.name!r}",
                    f"has dtype {tensor.dtype}, but x_dtype= applies only to floats",
                    remedy("LeaveOutOrConvert", option="x_dtype", what="x to floats"),
                )
            found = True
            node.tensors[at] = _narrow(tensor, x_dtype)
    if not found:
        fail(
            plan.origin,
            "has no node tensor 'x', to which x_dtype= applies",
            remedy("LeaveOut", option="x_dtype"),
        )


def _narrow(tensor: TensorPlan, x_dtype: str) -> TensorPlan:
    if x_dtype in (tensor.stored, tensor.dtype):
        return tensor

    def as_f32() -> Iterator[Array]:
        for chunk in tensor.chunks():
            if tensor.dtype == "bf16":
                yield (chunk.astype(np.uint32) << 16).view(np.float32)
            else:
                yield chunk.astype(np.float32, copy=False)

    wider = tensor.dtype if tensor.narrowed_from is None else tensor.narrowed_from
    return replace(tensor, dtype="f32", stored=x_dtype, chunks=as_f32, narrowed_from=wider)
