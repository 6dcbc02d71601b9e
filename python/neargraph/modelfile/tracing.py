"""Traces a model to a torch program, and converts the program to an ONNX model.

Tracing uses marked helpers of PyG and variable counts. The invariant: a program never contains a
size of the example, and each failure is an `ExportFailed` with the operator and the line.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from neargraph.exceptions import ExportFailed

from . import functions, translations
from .blame import cause_of, line_of, line_of_node
from .inputs import Flat, Inputs
from .marking import marked
from .naming import tidy, weight_names


def traced(model: nn.Module, inputs: Inputs) -> ExportedProgram:
    """Returns the program of a model, with flat inputs and flat outputs.

    Raises:
        ExportFailed: The model branches on data, or works for one size only.
    """
    names = inputs.count_names()
    # torch rejects a named size for an integer.
    has_ints = any(isinstance(value, int) for value in inputs.values)
    named = {count: Dim(name, min=0) for count, name in names.items()}
    shapes: list[Any] = [
        Dim.AUTO
        if isinstance(value, int)
        else {at: Dim.AUTO if has_ints else named[count] for at, count in counts.items()}
        for value, counts in zip(inputs.values, inputs.counts, strict=True)
    ]
    flat = Flat(model, inputs).eval()
    try:
        with marked(), torch.no_grad(), _quiet():
            program: ExportedProgram = torch.export.export(
                flat, tuple(inputs.values), dynamic_shapes=(tuple(shapes),), strict=False
            ).run_decompositions()
    except ExportFailed:
        raise
    except Exception as error:
        where = line_of(error)
        raise ExportFailed(
            f"the model cannot be traced{f' at {where}' if where else ''}: {cause_of(error)}; "
            "the control flow of a layer must not depend on values or sizes of its inputs"
        ) from error
    _refuse_frozen(program, inputs)
    return program


def _refuse_frozen(program: ExportedProgram, inputs: Inputs) -> None:
    """Rejects programs in which a size of the example became a constant."""
    wanted = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for node_name, name, counts in zip(wanted, inputs.names, inputs.counts, strict=True):
        value = nodes[str(node_name)].meta["val"]
        # torch writes a size that became a constant as a number.
        if not isinstance(value, torch.Tensor) and str(value).isdecimal():
            raise ExportFailed(
                f"the model works only for {name}={value}, as in the example: wrap the model in a "
                "module that sets this argument"
            )
        for dimension in counts:
            size = value.shape[dimension]
            if str(size).isdecimal():
                raise ExportFailed(
                    f"the model works only for {name} of size {size} in dimension {dimension}, "
                    "as in the example: a layer depends on that size"
                )


def onnx_model(program: ExportedProgram, inputs: Inputs, outputs: list[str]) -> Any:
    """Returns the `onnx.ModelProto` of a program, with the functions that it calls.

    Raises:
        ExportFailed: An operator does not exist in ONNX.
    """
    try:
        with torch.no_grad(), _quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                opset_version=functions.OPSET,
                optimize=True,
                input_names=inputs.names,
                output_names=outputs,
                custom_translation_table=translations.table(),
                verbose=False,
            )
    except Exception as error:
        raise ExportFailed(
            f"the model cannot be converted to ONNX: {cause_of(error)}{_culprit(program, error)}"
        ) from error
    assert made is not None
    proto = made.model_proto
    functions.append(proto)
    tidy(proto, weight_names(program), _size_names(program, inputs))
    return proto


def _size_names(program: ExportedProgram, inputs: Inputs) -> dict[str, str]:
    """Returns the names of counts by torch's symbols."""
    known = inputs.count_names()
    wanted = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return {
        str(nodes[str(node_name)].meta["val"].shape[dimension]): known[count]
        for node_name, counts in zip(wanted, inputs.counts, strict=True)
        for dimension, count in counts.items()
    }


def _culprit(program: ExportedProgram, error: BaseException) -> str:
    """Returns the operator in an error of the exporter, with the line that called it."""
    text, link = "", error
    while link is not None:
        text += str(link)
        link = link.__cause__ or link.__context__  # type: ignore[assignment]
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target).removesuffix(".default") in text:
            return f" ({node.target} at {line_of_node(node)})"
    return ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the output of torch's exporters. Their errors contain the same information."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
