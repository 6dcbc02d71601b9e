"""Dataflow graphs: trained models as graphs of operations that run without torch.

The meaning of operations must not live here: the compiled core defines it.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from neargraph import _core, _drawing
from neargraph._computing import computing, table_of
from neargraph._modelfiles import MODEL, WEIGHTS, read_with_manifest, write_model
from neargraph.exceptions import InvalidModel, UnsupportedArgument
from neargraph.model_reports import ModelInfo, StepInfo, ValueInfo

if TYPE_CHECKING:
    from neargraph.plugins import Devices

DEVICES = ("cpu",)
"""The default devices."""

Kernel = Callable[..., Any]
"""A function of arrays that returns an array, or a tuple of them."""


@dataclass(frozen=True)
class Value:
    """A value of a graph, as `Dfg.create_in` and similar methods return it."""

    name: str
    _of: "Dfg" = field(repr=False)


class Dfg:
    """A dataflow graph: built node by node, or read from a model file or from the text form.

    A graph runs on arrays. `neargraph.Engine` runs it on a store.

    Example:
        >>> dfg = ng.Dfg()
        >>> x = dfg.create_in("x", "f32", ["nodes", 1])
        >>> edge_index = dfg.create_in("edge_index", "i64", [2, "edges"])
        >>> mean = dfg.create_op("SpMM_Mean", [edge_index, x])
        >>> dfg.create_out("mean", mean)
        >>> edges = np.array([[1, 2], [0, 0]])
        >>> dfg.run({"x": np.float32([[1], [2], [4]]), "edge_index": edges})["mean"].tolist()
        [[3.0], [0.0], [0.0]]
    """

    source: tuple[Path, bytes] | None = None
    """The file of the graph and its manifest; None if the graph was changed since."""

    def __init__(self) -> None:
        self.core = _core.Dfg()

    @classmethod
    def _of(cls, core: _core.Dfg) -> "Dfg":
        made = cls.__new__(cls)
        made.core = core
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Dfg":
        """Reads a model file from `neargraph.export` or `Dfg.save`.

        Args:
            path: A directory, or a zip archive.

        Raises:
            FileNotFoundError: The path does not exist.
            InvalidModel: The file is incomplete, or contains an unsupported element, which the
                message names.
        """
        files, manifest = read_with_manifest(Path(path))
        made = cls._of(_core.Dfg.from_onnx(files.pop(MODEL), files))
        made.source = (Path(path).absolute(), manifest)
        return made

    @classmethod
    def from_text(cls, text: str, weights: Mapping[str, Any] | None = None) -> "Dfg":
        """Reads HolisticGNN's text form (Figure 10c of its paper).

        Args:
            text: The graph. In this form, weights are inputs.
            weights: Arrays by the name of their input, as for `create_weight`.

        Raises:
            InvalidModel: A line or node is not valid, or a weight is not an input of the text. The
                message names it.
            UnsupportedArgument: The dtype of a weight is not supported.
        """
        arrays = {name: _weight(name, array) for name, array in (weights or {}).items()}
        return cls._of(_core.Dfg.from_text(text, arrays))

    def create_in(
        self, name: str, dtype: Any = None, shape: Sequence[int | str] | None = None
    ) -> Value:
        """Adds an input.

        Args:
            name: A unique name.
            dtype: ``"f32"``, ``"i64"`` or ``"bool"``, or the same as a NumPy dtype. None accepts
                any dtype, but `save` and `check` require one.
            shape: For each dimension a length, or the name of a count, such as ``["nodes", 16]``.
                Dimensions with one name have equal lengths in a run.

        Raises:
            InvalidModel: Another value has the name.
            UnsupportedArgument: The dtype is not supported, or is given without a shape.
        """
        _check_name("an input", name)
        if (dtype is None) != (shape is None):
            raise UnsupportedArgument(f"input {name!r}: give both dtype= and shape=, or neither")
        wanted = None if shape is None else (_dtype_name(dtype), list(shape))
        self.core.create_in(name, wanted)
        self.source = None
        return Value(name, self)

    def create_weight(self, name: str, array: Any) -> Value:
        """Adds a weight.

        Args:
            name: A unique name.
            array: An array of float32, float16, integers or bool.

        Raises:
            InvalidModel: Another value has the name, or an element is not finite.
            UnsupportedArgument: The dtype of the array is not supported.
        """
        _check_name("a weight", name)
        self.core.create_weight(name, _weight(name, array))
        self.source = None
        return Value(name, self)

    def create_op(self, name: str, inputs: Value | Sequence[Value], **attributes: Any) -> Any:
        """Adds a node.

        Args:
            name: The operation, as in the text form: ``"SpMM_Mean"``, ``"GEMM"``, ``"ReLU"``.
            inputs: The input values.
            **attributes: Attributes of the operation, such as ``axis=1``.

        Returns:
            The output `Value`, or a tuple of values if the operation has several outputs.

        Raises:
            InvalidModel: The operation or an attribute does not exist, or the number of inputs is
                wrong. The message names the node.
        """
        taken = [inputs] if isinstance(inputs, Value) else list(inputs)
        for value in taken:
            self._check_own(f"node of {name}", value)
        plain = {key: _plain(name, key, value) for key, value in attributes.items()}
        made = self.core.create_op(name, [value.name for value in taken], plain)
        self.source = None
        values = tuple(Value(one, self) for one in made)
        return values if len(values) > 1 else values[0]

    def create_out(self, name: str, value: Value) -> None:
        """Makes a value an output.

        Raises:
            InvalidModel: Another output has the name.
        """
        _check_name("an output", name)
        self._check_own(f"output {name!r}", value)
        self.core.create_out(name, value.name)
        self.source = None

    def _check_own(self, taker: str, value: Any) -> None:
        if not isinstance(value, Value) or value._of is not self:
            is_value = isinstance(value, Value)
            what = "belongs to another graph" if is_value else f"has type {type(value).__name__}"
            raise UnsupportedArgument(
                f"{taker}: {value!r} {what}: expected a value that this graph created"
            )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        fanouts: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the graph as a model file, as `neargraph.export` does.

        `BatchPre` does not exist in ONNX. Its outputs become inputs of the file, and an entry in
        the metadata restores the node when the file is opened.

        Args:
            path: The path of the file. With the suffix ``.ngm`` it becomes a zip archive,
                otherwise a directory.
            fanouts: Neighbours per node and hop, to store in the file.
            metadata: Additional entries by name, stored as JSON. Entries of the file from which the
                graph was opened are kept.

        Raises:
            ExportFailed: The path exists, or its parent directory does not.
            InvalidModel: Types do not match, an input has no type, or an operation does not exist
                in ONNX. The message names it. Nothing is written.
        """
        said: dict[str, str] = dict((self.core.file_facts() or {}).get("metadata", []))
        said.pop("neargraph.batch_pre", None)
        given = dict(metadata or {}) | ({} if fanouts is None else {"fanouts": _by_name(fanouts)})
        said |= {f"neargraph.{key}": json.dumps(value) for key, value in given.items()}
        model, weights = self.core.to_onnx(list(said.items()), WEIGHTS)
        write_model(Path(path), model, weights)

    def draw(
        self,
        path: str | os.PathLike[str],
        colours: Literal["kind", "device"] = "kind",
        *,
        devices: "Sequence[str] | Devices" = DEVICES,
    ) -> None:
        """Draws the graph from its inputs down to its outputs, as SVG.

        Weights are named in the nodes that use them.

        Args:
            path: The path of the picture, NAME.svg.
            colours: Colour nodes by the kind of operation, or by the device that would compute it.
            devices: As for `run`.

        Raises:
            UnsupportedArgument: The graph has too many nodes for a picture.
        """
        picture = _drawing.svg(self.core.parts(table_of(devices)), colours)
        Path(path).write_text(picture, encoding="utf-8")

    def info(self, devices: "Sequence[str] | Devices" = DEVICES) -> ModelInfo:
        """Returns the content of the graph as plain data, as `neargraph model` prints it.

        Args:
            devices: As for `run`.
        """
        parts, file = self.core.parts(table_of(devices)), self.core.file_facts() or {}
        inputs = [_typed(name, self.inputs[name]) for name in parts["inputs"]]
        types = parts["types"]
        outputs = [_typed(name, types.get(value)) for name, value in parts["outputs"]]
        lacking = {node["op"] for node in parts["nodes"] if node["device"] is None}
        problems = [] if parts["problem"] is None else [parts["problem"]]
        problems += [f"no device has a kernel for {op}" for op in sorted(lacking)]
        weights = file.get("weights")
        if weights is None:
            weights = [_sized(weight) for weight in parts["weights"]]
        return {
            "inputs": inputs,
            "outputs": outputs,
            "tensors": list(dict.fromkeys(name.split(".")[0] for name in parts["inputs"])),
            "weights": weights,
            "num_parameters": sum(prod(w["shape"]) for w in weights if _is_parameter(w)),
            "num_nodes": len(parts["nodes"]),
            "nodes": [
                {"name": node["name"], "op": node["op"], "device": node["device"]}
                for node in parts["nodes"]
            ],
            "steps": [] if problems else self.explain(devices=devices),
            "opset": file.get("opset"),
            "domains": file.get("domains", []),
            "functions": file.get("functions", []),
            "metadata": _metadata(file.get("metadata", []), problems),
            "problems": problems,
        }

    def text(self) -> str:
        """Returns the graph in HolisticGNN's text form. Weights become inputs."""
        return self.core.text()

    @property
    def inputs(self) -> dict[str, tuple[str, list[str]] | None]:
        """Dtype and shape of each input, with names for counts; None if any is accepted."""
        return dict(self.core.inputs())

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return self.core.outputs()

    def check(self) -> None:
        """Checks the types and shapes of all operations.

        Raises:
            InvalidModel: A type or shape is wrong, or an input has no type. The message names the
                node or input.
        """
        self.core.check()

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        kernels: Mapping[str, Kernel] | None = None,
        hops: Mapping[str, Sequence[int]] | None = None,
        devices: "Sequence[str] | Devices" = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> dict[str, NDArray[Any]]:
        """Runs the graph once.

        Args:
            inputs: Arrays of float32, int64 or bool, by name.
            kernels: Functions by operation, which compute it instead of a device. A function takes
                the input arrays of the node, and returns an array or a tuple of arrays. `BatchPre`
                needs one here. With kernels, operations are not fused.
            hops: Number of nodes per hop of a batch, seeds first, by the name of the count, such as
                ``"nodes"``. Rows are then computed only for the nodes that the seeds need.
                Outputs with a row for each node then have only the rows of the seeds.
            devices: The devices that compute:

                - Names, the preferred one first: ``"cpu"``, or ``"cpu-scalar"``, the exact and
                  slow reference, which has a kernel for every operation.
                - A `neargraph.Devices`, which may have plug-ins.
                - ``["onnxruntime"]``: the whole model in the installed ONNX Runtime, to compare
                  results. It does not support ``hops`` and ``kernels``.
            fuse: Whether to fuse operations where that is faster.
            threads: Number of threads. The bytes of the result do not depend on it.

        Returns:
            The outputs by name.

        Raises:
            WrongInput: An input is missing, unknown or has the wrong type or shape, or an operation
                fails. The message names it.
            UnsupportedModel: No device has a kernel for an operation.
            UnsupportedArgument: The dtype of an array is not supported, or a device does not exist.
            MissingDependency: ONNX Runtime is not installed.
        """
        plan = self.plan(kernels=kernels, devices=devices, fuse=fuse, threads=threads)
        return plan.run(inputs, hops=hops)

    def plan(
        self,
        *,
        kernels: Mapping[str, Kernel] | None = None,
        devices: "Sequence[str] | Devices" = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> "Plan":
        """Prepares the graph in its present form for several runs.

        Each run uses the devices that are registered when it begins: a `neargraph.Devices` may
        change between runs. With `kernels`, all runs use the present devices.

        Args:
            kernels: As for `run`.
            devices: As for `run`.
            fuse: As for `run`.
            threads: As for `run`.

        Raises:
            InvalidModel: The graph is not valid (the message names the node), or ONNX Runtime
                rejects it.
            UnsupportedModel: No device has a kernel for an operation.
            UnsupportedArgument: A device does not exist.
        """
        settings = self._settings(devices, fuse, threads)
        return Plan(self.core.plan(dict(kernels or {}), **settings), self.outputs)

    def explain(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        devices: "Sequence[str] | Devices" = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> list[StepInfo]:
        """Returns the steps of a run, in their order.

        Args:
            inputs: As for `run`, to measure each step in one run. None: plan without a run.
            devices: As for `run`.
            fuse: As for `run`.
            threads: As for `run`.

        Raises:
            WrongInput: As for `run`.

        Example:
            >>> dfg = ng.Dfg.from_text('1: "Abs"\\n in={"x"}\\n out={"y"}')
            >>> [(step["op"], step["device"]) for step in dfg.explain()]
            [('Abs', 'cpu')]
        """
        arrays = None if inputs is None else _arrays(inputs)
        settings = self._settings(devices, fuse, threads)
        return cast(list[StepInfo], self.core.explain(arrays, **settings))

    def _settings(
        self, devices: "Sequence[str] | Devices", fuse: bool, threads: int
    ) -> dict[str, Any]:
        if threads < 1:
            raise UnsupportedArgument(f"threads={threads} is not valid: expected 1 or more")
        return {"devices": computing(devices, self, threads), "fuse": fuse, "threads": threads}


class Plan:
    """A graph that is ready to run, from `Dfg.plan`. Runs share weights and memory."""

    def __init__(self, core: _core.Plan, outputs: list[str]) -> None:
        self._core, self._outputs = core, outputs

    def run(
        self, inputs: Mapping[str, Any], *, hops: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Runs the graph once; see `Dfg.run`."""
        of_batch = [(name, list(counts)) for name, counts in (hops or {}).items()]
        found = self._core.run(_arrays(inputs), of_batch)
        named = zip(self._outputs, found, strict=True)
        return {name: flat.reshape(dims) for name, (dims, flat) in named}


def _arrays(inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    for name, array in arrays.items():
        if np.ndim(inputs[name]) == 0:
            arrays[name] = array.reshape(())
    return arrays


def _typed(name: str, found: tuple[str, list[str]] | None) -> ValueInfo:
    dtype, shape = (None, None) if found is None else found
    return {"name": name, "dtype": dtype, "shape": shape}


_BYTES = {"f32": 4, "i64": 8, "bool": 1, "f16": 2, "i8": 1}


def _sized(weight: dict[str, Any]) -> dict[str, Any]:
    count = prod(weight["shape"])
    return {**weight, "bytes": count * _BYTES[weight["dtype"]], "file": None}


def _is_parameter(weight: dict[str, Any]) -> bool:
    """Whether a weight was trained. Constants of the computation are scalars or integers."""
    return bool(weight["shape"]) and weight["dtype"] not in ("i64", "i32", "bool")


def _metadata(entries: list[tuple[str, str]], problems: list[str]) -> dict[str, Any]:
    """Returns the metadata of a file without key prefixes. Entries that are not JSON are added to
    `problems`."""
    found: dict[str, Any] = {}
    for key, text in entries:
        try:
            found[key.removeprefix("neargraph.")] = json.loads(text)
        except ValueError:
            problems.append(f"the metadata entry {key!r} is not valid JSON")
    return found


def _check_name(what: str, name: str) -> None:
    if not name:
        raise InvalidModel(f"{what} has an empty name: give a name")


def _dtype_name(dtype: Any) -> str:
    """Returns the name of a NumPy or torch dtype, or the text itself."""
    of_numpy = isinstance(dtype, type | np.dtype)
    text = np.dtype(dtype).name if of_numpy else str(dtype).removeprefix("torch.")
    return {"float32": "f32", "int64": "i64"}.get(text, text)


def _weight(name: str, given: Any) -> NDArray[Any]:
    """Returns the array in a dtype that graphs compute with, without rounding."""
    array = np.asarray(given)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64):
        array = array.astype(np.int64)
    if array.dtype not in (np.float32, np.int64, np.bool_):
        raise UnsupportedArgument(
            f"weight {name!r} has dtype {array.dtype}, which graphs do not support: convert "
            "the weight, for example with astype(numpy.float32)"
        )
    places = np.flatnonzero(~np.isfinite(array))
    if places.size:
        found = array.reshape(-1)[places[0]]
        raise InvalidModel(
            f"weight {name!r} has {found} at index {places[0]}: weights must be finite"
        )
    return np.ascontiguousarray(array).reshape(array.shape)


def _plain(op: str, name: str, value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        return list(value)
    raise UnsupportedArgument(
        f"attribute {name} of {op} is {value!r}: expected a number, a string or a list of integers"
    )


def _by_name(fanouts: Any) -> Any:
    """Returns fanouts for JSON: triples of edge types become ``a__to__b``."""
    if not isinstance(fanouts, Mapping):
        return fanouts
    return {key if isinstance(key, str) else "__".join(key): n for key, n in fanouts.items()}
