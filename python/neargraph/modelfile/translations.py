"""The translation of the operators of `ops.py` to ONNX: one node of ``ai.neargraph`` each.

The exporter inlines functions whose bodies it knows, so it receives only schemas. The bodies of
`functions.py` are appended afterwards. The invariant: each operator of `ops.py` is here.
"""

from collections.abc import Callable
from typing import Any

import onnx.defs
import onnxscript
import torch

from . import ops as _registered  # noqa: F401
from .functions import DOMAIN, VERSION, function

_FLOATS = ["tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)"]
_IDS = {"index", "size", "edge_index", "edge_index_out", "kind"}


def _node(name: str) -> Callable[..., Any]:
    """Returns a callable that adds the node of a function and returns its outputs."""
    proto = function(name)
    parameter = onnx.defs.OpSchema.FormalParameter
    schema = onnx.defs.OpSchema(
        name,
        DOMAIN,
        VERSION,
        inputs=[parameter(one, "I" if one in _IDS else "F") for one in proto.input],
        outputs=[parameter(one, "I" if one in _IDS else "F") for one in proto.output],
        type_constraints=[("F", _FLOATS, ""), ("I", ["tensor(int64)"], "")],
    )
    domain = onnxscript.values.Opset(DOMAIN, VERSION)
    return onnxscript.values.Op(domain, name, schema)  # type: ignore[no-any-return]


def _scatter() -> Callable[..., Any]:
    nodes = {
        reduce: _node(f"Scatter{reduce.capitalize()}")
        for reduce in ("sum", "mean", "max", "min", "mul")
    }

    def scatter(src: Any, index: Any, size: Any, reduce: str) -> Any:
        return nodes[reduce](src, index, size)

    return scatter


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Returns the ``custom_translation_table=`` for `torch.onnx.export`."""
    names = [
        "edge_softmax",
        "degree",
        "gcn_norm",
        "remove_self_loops",
        "remove_self_loops_attr",
        "add_self_loops",
        "self_loop_attr",
        "segment_matmul",
    ]
    camel = {name: "".join(part.capitalize() for part in name.split("_")) for name in names}
    ours = torch.ops.neargraph
    found = {getattr(ours, name).default: _node(function) for name, function in camel.items()}
    return {ours.scatter.default: _scatter()} | found
