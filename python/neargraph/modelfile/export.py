"""`ng.export`: a trained PyG model as a model file that was compared with the model.

This module is the order of the steps; each step lives in its own module. The invariant: the file
gets its name after every comparison, so a file that exists gave what the model gives.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from neargraph.exceptions import ExportFailed

from .comparing import Wanted
from .inputs import Inputs, output_names
from .refusals import refuse_unfit
from .result import Exported
from .tracing import onnx_model, traced
from .writing import write


def export(
    model: nn.Module,
    example: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, Any] | None = None,
) -> Exported:
    """Writes a trained model, so that it can be served without torch and without its Python code.

    The file is ONNX with dynamic counts of nodes and edges. Operators of graph layers are functions
    of the domain ``ai.neargraph`` with bodies of standard operators, so that any ONNX runtime runs
    it. Before the file gets its name, it is compared with the model on the example, on a larger and
    a smaller graph, and on one without edges.

    Args:
        model: The model in evaluation mode, on the CPU.
        example: Arguments of the model: tensors, dictionaries of tensors by type, integers. In
            order of PyG: ``x`` [n, width], ``edge_index`` [2, e], and what else the model takes,
            with n and e at least 2 and not equal. Sizes that are equal are taken for the same
            count.
        path: A path that ends in ``.ngm`` becomes a zip archive, another one a folder. It has
            ``model.onnx``, ``model.safetensors`` and ``manifest.json`` with the SHA-256 of both.
        metadata: Kept in the file by name, as JSON: fanouts, names of tensors, hash of the schema.

    Returns:
        What was written and how it was compared.

    Raises:
        ExportFailed: The model cannot be exported, or gives something else; nothing is written.

    Example:
        >>> model.eval()                                                # doctest: +SKIP
        >>> ng.export(model, (x, edge_index), "sage.ngm")               # doctest: +SKIP
    """
    refuse_unfit(model)
    inputs = Inputs(model, example)
    wanted = Wanted(model, inputs)
    with torch.no_grad():
        outputs = output_names(model(*example))
    program = traced(model, inputs)
    run = program.module()
    largest = wanted.largest_difference(lambda values: run(*values), "the traced program")
    proto = onnx_model(program, inputs, outputs)
    for name, value in (metadata or {}).items():
        proto.metadata_props.add(key=f"neargraph.{name}", value=json.dumps(value))
    num_nodes = len(proto.graph.node)
    checks: list[tuple[str | None, float]] = []

    def check(file: Path) -> None:
        checks.append(_checked(file, wanted, inputs.names))

    write(proto, Path(path), check)
    ((runtime, difference),) = checks
    notes = wanted.notes
    if runtime is None:
        notes = [*notes, "onnxruntime is not installed, so the file was not run"]
    return Exported(
        path=Path(path),
        inputs=tuple(inputs.names),
        outputs=tuple(outputs),
        num_nodes=num_nodes,
        functions=tuple(sorted({f.name for f in proto.functions if f.domain == "ai.neargraph"})),
        largest_difference=max(largest, difference),
        checked_in=runtime,
        notes=tuple(notes),
    )


def _checked(file: Path, wanted: Wanted, names: Sequence[str]) -> tuple[str | None, float]:
    """Checks a file by onnx, and runs it where onnxruntime is installed."""
    try:
        onnx.checker.check_model(file, full_check=True)
    except Exception as error:
        raise ExportFailed(f"the checker of onnx rejects the model: {error}") from error
    try:
        import onnxruntime
    except ImportError:
        return None, 0.0
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExportFailed(f"onnxruntime cannot run the model: {error}") from error
    taken = {entry.name for entry in session.get_inputs()}

    def run(values: Sequence[Any]) -> Sequence[Any]:
        feed = {
            name: torch.as_tensor(value).numpy()
            for name, value in zip(names, values, strict=True)
            if name in taken
        }
        found: Sequence[Any] = session.run(None, feed)
        return found

    return "onnxruntime", wanted.largest_difference(run, "the model file in onnxruntime")
