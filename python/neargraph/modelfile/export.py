"""`ng.export`: writes a trained PyG model as a model file, and compares the file with the model.

This module defines the order of the steps, each of which is in another module. The invariant: the
file gets its name after all comparisons, so the output of an existing file was equal to the
model's.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from neargraph.exceptions import ExportFailed
from neargraph.reader import Reader

from .comparing import Wanted
from .functions import DOMAIN
from .inputs import Inputs, output_names
from .refusals import refuse_unfit
from .result import Exported
from .sampling import by_name, described, sampled
from .tracing import onnx_model, traced
from .writing import write


def export(
    model: nn.Module,
    example: Reader | Sequence[Any],
    path: str | os.PathLike[str],
    *,
    fanouts: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> Exported:
    """Writes a trained model to a model file, which needs neither torch nor the model's code.

    The file is ONNX with variable numbers of nodes and edges. Operators of graph layers are
    functions of the domain ``ai.neargraph`` whose bodies are standard operators, so any ONNX
    runtime can run it. Before the file gets its name, it is compared with the model on the example,
    on a larger and a smaller graph, and on one without edges.

    Args:
        model: The model in evaluation mode, on the CPU.
        example: The open store that the model was trained on. A small batch is sampled from it for
            the arguments of ``forward`` without a default. Or these arguments: tensors,
            dictionaries of tensors by type, and integers, such as ``x`` [n, width] and
            ``edge_index`` [2, e], where n and e are different and at least 2. Equal sizes are
            treated as the same count.
        path: The path of the file. With the suffix ``.ngm`` it becomes a zip archive, otherwise a
            directory. It contains ``model.onnx``, ``model.safetensors`` and ``manifest.json``
            with the SHA-256 of both.
        fanouts: Neighbours per node and hop, as for `NeighborLoader`, to store in the file.
            Required with a store.
        metadata: Additional entries by name, stored as JSON.

    Returns:
        The written file and the result of the comparison.

    Raises:
        ExportFailed: The model cannot be exported, or the outputs differ. Nothing is written.

    Example:
        >>> model.eval()                                                # doctest: +SKIP
        >>> ng.export(model, store, "sage.ngm", fanouts=[25, 10])       # doctest: +SKIP
        >>> ng.export(model, (x, edge_index), "sage.ngm")               # doctest: +SKIP
    """
    refuse_unfit(model)
    example, said = _example(model, example, fanouts)
    inputs = Inputs(model, example)
    wanted = Wanted(model, inputs)
    with torch.no_grad():
        outputs = output_names(model(*example))
    program = traced(model, inputs)
    run = program.module()
    largest = wanted.largest_difference(lambda values: run(*values), "the traced program")
    proto = onnx_model(program, inputs, outputs)
    for name, value in (said | dict(metadata or {})).items():
        proto.metadata_props.add(key=f"neargraph.{name}", value=json.dumps(value))
    result = Exported(
        path=Path(path),
        inputs=tuple(inputs.names),
        outputs=tuple(outputs),
        num_nodes=len(proto.graph.node),
        functions=tuple(sorted({f.name for f in proto.functions if f.domain == DOMAIN})),
        largest_difference=largest,
        checked_in=None,
        notes=tuple(wanted.notes),
    )
    checked: list[Exported] = []
    write(proto, Path(path), lambda file: checked.append(_checked(file, wanted, result)))
    return checked[0]


def _example(
    model: nn.Module, example: Reader | Sequence[Any], fanouts: Any
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Returns the arguments of the model, and their metadata for the file."""
    if not isinstance(example, Reader):
        return example, {} if fanouts is None else {"fanouts": by_name(fanouts)}
    if fanouts is None:
        raise ExportFailed(
            "an export with a store needs fanouts= (neighbours per node and hop): give for "
            "example fanouts=[25, 10]"
        )
    return sampled(model, example, fanouts), described(example, fanouts)


def _checked(file: Path, wanted: Wanted, result: Exported) -> Exported:
    """Returns the result after onnx has checked the file and onnxruntime, if installed, ran it."""
    try:
        onnx.checker.check_model(file, full_check=True)
    except Exception as error:
        raise ExportFailed(f"the checker of onnx rejects the model: {error}") from error
    try:
        import onnxruntime
    except ImportError:
        unchecked = "onnxruntime is not installed, so the file was not run"
        return replace(result, notes=(*result.notes, unchecked))
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
            for name, value in zip(result.inputs, values, strict=True)
            if name in taken
        }
        found: Sequence[Any] = session.run(None, feed)
        return found

    difference = wanted.largest_difference(run, "the model file in onnxruntime")
    largest = max(difference, result.largest_difference)
    return replace(result, checked_in="onnxruntime", largest_difference=largest)
