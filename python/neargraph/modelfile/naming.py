"""Names in an ONNX model: names of weights as in `state_dict`, and names of counts.

The names of torch's exporter are arbitrary. The invariant: only names change, and no path of the
exporting machine stays in the file.
"""

import re
from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram

# `inputs.Flat` holds the model under this name.
_PREFIX = "model."
_TRANSPOSES = ("aten.permute.default", "aten.t.default", "aten.transpose.int")


def weight_names(program: ExportedProgram) -> dict[str, str]:
    """Returns new names of constants: as in `state_dict`, with the suffix ``.T`` if transposed.

    Example:
        >>> weight_names(program)                                       # doctest: +SKIP
        {'model.lin.weight': 'lin.weight', 'permute': 'lin.weight.T'}
    """
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    names = {name: name.removeprefix(_PREFIX) for name in weights.values()}
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target) in _TRANSPOSES:
            weight = weights.get(getattr(node.args[0], "name", ""))
            turned = f"{weight.removeprefix(_PREFIX)}.T" if weight else ""
            if turned and turned not in names.values():
                names[node.name] = turned
    return names


def tidy(model: Any, names: Mapping[str, str], sizes: Mapping[str, str]) -> None:
    """Renames constants by `names` and size symbols by `sizes`, and removes torch's metadata."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    names = {name: new for name, new in names.items() if name in constants}
    for entry in (*graph.initializer, *graph.value_info):
        entry.name = names.get(entry.name, entry.name)
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    for entry in (*graph.input, *graph.output, *graph.value_info):
        entry.ClearField("metadata_props")
        entry.ClearField("doc_string")
        for dimension in entry.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = _renamed(dimension.dim_param, sizes)
    for part in (model, graph, *graph.initializer):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Replaces names in an expression such as ``s48 + u0``."""
    return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), text)
