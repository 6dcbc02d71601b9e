"""Dataflow graphs: trained models as graphs of operations that run without torch.

What must not live here: what an operation means or does, which the compiled core knows.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from neargraph import _core, _drawing
from neargraph._modelfiles import MODEL, WEIGHTS, read_model, write_model
from neargraph._threads import checked_threads
from neargraph.exceptions import InvalidModel, UnsupportedArgument

DEVICES = ("cpu",)
"""What computes unless somebody says otherwise."""

Kernel = Callable[..., Any]
"""A function of arrays that returns an array, or a tuple of them."""


@dataclass(frozen=True)
class Value:
    """A value of a graph, as `Dfg.create_in` and others return it."""

    name: str
    _of: "Dfg" = field(repr=False)


class Dfg:
    """A dataflow graph: built node by node, read from a model file or from the text form.

    It runs on arrays; `neargraph.Engine` runs it on a store.

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

    def __init__(self) -> None:
        self.core = _core.Dfg()

    @classmethod
    def _of(cls, core: _core.Dfg) -> "Dfg":
        made = cls.__new__(cls)
        made.core = core
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Dfg":
        """Reads a model file that `neargraph.export` or `Dfg.save` wrote.

        Args:
            path: A folder, or a zip archive.

        Raises:
            FileNotFoundError: There is nothing at the path.
            InvalidModel: The file is not whole, or has something that is not supported; names it.
        """
        files = read_model(Path(path))
        return cls._of(_core.Dfg.from_onnx(files.pop(MODEL), files))

    @classmethod
    def from_text(cls, text: str, weights: Mapping[str, Any] | None = None) -> "Dfg":
        """Reads HolisticGNN's text form (Figure 10c of its paper).

        Args:
            text: The form has no place for weights: they are inputs there.
            weights: By name, arrays that inputs of the text stand for, as of `create_weight`.

        Raises:
            InvalidModel: Names the line or node, or a weight that is not an input of the text.
            UnsupportedArgument: A weight is of another dtype.
        """
        arrays = {name: _weight(name, array) for name, array in (weights or {}).items()}
        return cls._of(_core.Dfg.from_text(text, arrays))

    def create_in(
        self, name: str, dtype: Any = None, shape: Sequence[int | str] | None = None
    ) -> Value:
        """Adds an input.

        Args:
            name: Its name, which no other value has.
            dtype: ``"f32"``, ``"i64"`` or ``"bool"``, also as a dtype of NumPy. None takes any;
                files and `check` need it.
            shape: A number for each dimension, or the name of a count, such as
                ``["nodes", 16]``. The same name is the same number in each run.

        Raises:
            InvalidModel: Another value has the name.
            UnsupportedArgument: The dtype is another, or comes without a shape.
        """
        _check_name("an input", name)
        if (dtype is None) != (shape is None):
            raise UnsupportedArgument(f"input {name!r}: give both dtype and shape, or neither")
        wanted = None if shape is None else (_dtype_name(dtype), list(shape))
        self.core.create_in(name, wanted)
        return Value(name, self)

    def create_weight(self, name: str, array: Any) -> Value:
        """Adds a tensor of the model.

        Args:
            name: Its name, which no other value has.
            array: Numbers: float32 or narrower, whole numbers, or bool.

        Raises:
            InvalidModel: Another value has the name, or a number is not finite.
            UnsupportedArgument: The array is of another dtype.
        """
        _check_name("a weight", name)
        self.core.create_weight(name, _weight(name, array))
        return Value(name, self)

    def create_op(self, name: str, inputs: Value | Sequence[Value], **attributes: Any) -> Any:
        """Adds a node.

        Args:
            name: The operation, as in the text form: ``"SpMM_Mean"``, ``"GEMM"``, ``"ReLU"``.
            inputs: The values that it takes.
            **attributes: What else the operation has to know, such as ``axis=1``.

        Returns:
            What it gives: a `Value`, or a tuple of them where the operation gives several.

        Raises:
            InvalidModel: There is no such operation or attribute, or it takes another number of
                values; names the node.
        """
        taken = [inputs] if isinstance(inputs, Value) else list(inputs)
        for value in taken:
            self._check_own(f"node of {name}", value)
        plain = {key: _plain(name, key, value) for key, value in attributes.items()}
        made = self.core.create_op(name, [value.name for value in taken], plain)
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

    def _check_own(self, taker: str, value: Any) -> None:
        if not isinstance(value, Value) or value._of is not self:
            what = "another graph" if isinstance(value, Value) else type(value).__name__
            raise UnsupportedArgument(
                f"{taker}: {value!r} is of {what}: give values that this graph created"
            )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        fanouts: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the graph as a model file, like those of `neargraph.export`.

        `BatchPre` has no counterpart in ONNX: what it gives become inputs of the file, and a note
        in its metadata brings the node back when the file is opened.

        Args:
            path: A path that ends in ``.ngm`` becomes a zip archive, another one a folder.
            fanouts: Neighbours per node and hop, kept in the file.
            metadata: More to keep by name, as JSON. What the graph was opened with is kept, too.

        Raises:
            ExportFailed: Something is at the path already, or its folder does not exist.
            InvalidModel: Types do not fit, an input has no type, or an operation has no
                counterpart; names it. Nothing is written.
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
        devices: Sequence[str] = DEVICES,
    ) -> None:
        """Draws the graph from its inputs down to its outputs, as SVG.

        Weights are named in the nodes that take them.

        Args:
            path: The picture, NAME.svg.
            colours: By what an operation does, or by the device whose kernel would run.
            devices: As of `run`.

        Raises:
            UnsupportedArgument: The graph has too many nodes for a picture.
        """
        picture = _drawing.svg(self.core.parts(list(devices)), colours)
        Path(path).write_text(picture, encoding="utf-8")

    def info(self, devices: Sequence[str] = DEVICES) -> dict[str, Any]:
        """What the graph holds, as plain data: what `neargraph model` prints.

        ``inputs`` and ``outputs`` have names, dtypes and shapes; ``tensors`` are what a batch of a
        store has to have; ``weights`` are as in the file, ``nodes`` with the device whose kernel
        is preferred; ``steps`` are those of `explain`; ``metadata`` is what the file says beside,
        ``problems`` is why it cannot run.
        """
        parts, file = self.core.parts(list(devices)), self.core.file_facts() or {}
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
                {key: node[key] for key in ("name", "op", "device")} for node in parts["nodes"]
            ],
            "steps": [] if problems else self.explain(devices=devices),
            "opset": file.get("opset"),
            "domains": file.get("domains", []),
            "functions": file.get("functions", []),
            "metadata": _metadata(file.get("metadata", []), problems),
            "problems": problems,
        }

    def text(self) -> str:
        """The graph in HolisticGNN's text form. Weights become inputs."""
        return self.core.text()

    @property
    def inputs(self) -> dict[str, tuple[str, list[str]] | None]:
        """For each input its dtype and shape, where counts have names; None if it may be any."""
        return dict(self.core.inputs())

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return self.core.outputs()

    def check(self) -> None:
        """Checks the types and shapes of all operations.

        Raises:
            InvalidModel: Names the node, or an input that has no type.
        """
        self.core.check()

    def run(
        self,
        inputs: Mapping[str, Any],
        *,
        kernels: Mapping[str, Kernel] | None = None,
        hops: Mapping[str, Sequence[int]] | None = None,
        devices: Sequence[str] = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> dict[str, NDArray[Any]]:
        """What the graph gives.

        Args:
            inputs: By name, arrays of float32, int64 or bool.
            kernels: By operation, functions that do it in place of a device: of the arrays that
                the node takes, to an array or a tuple of arrays. `BatchPre` needs one here. With
                kernels nothing is fused, so that they see the operations of the graph.
            hops: By the name that counts nodes, such as ``"nodes"``, how many there are in each
                hop of a batch, the seeds first. Rows are then computed only as far from the seeds
                as outputs need them, and outputs with a row for each node are those of the seeds.
            devices: What computes, the preferred one first: ``"cpu"``, or ``"cpu-scalar"``, the
                exact and slow reference, which does what no other can.
            fuse: Whether operations become one where that is quicker.
            threads: How many threads compute. The bytes of the result do not depend on it.

        Raises:
            WrongInput: An input is missing, unknown or of another type or shape, or an operation
                cannot be done; names it.
            UnsupportedModel: There is no kernel for an operation.
            UnsupportedArgument: An array of another dtype, or a device that there is not.
        """
        plan = self.plan(kernels=kernels, devices=devices, fuse=fuse, threads=threads)
        return plan.run(inputs, hops=hops)

    def plan(
        self,
        *,
        kernels: Mapping[str, Kernel] | None = None,
        devices: Sequence[str] = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> "Plan":
        """The graph as it is now, ready to run more than once.

        Args:
            kernels: As of `run`.
            devices: As of `run`.
            fuse: As of `run`.
            threads: As of `run`.

        Raises:
            InvalidModel: The graph is wrong; names the node.
            UnsupportedModel: There is no kernel for an operation.
        """
        settings = _settings(devices, fuse, threads)
        return Plan(self.core.plan(dict(kernels or {}), **settings), self.outputs)

    def explain(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        devices: Sequence[str] = DEVICES,
        fuse: bool = True,
        threads: int = 1,
    ) -> list[dict[str, Any]]:
        """The steps of a run, in their order.

        Args:
            inputs: As of `run`, to measure each step in one run; None only looks at the plan.
            devices: As of `run`.
            fuse: As of `run`.
            threads: As of `run`.

        Returns:
            For each step ``op``; ``device``, None where no element moves; ``in_place``, whether it
            takes the memory of an input; ``nodes`` of the graph whose work it is, with their
            operations; ``shapes`` of what it gives. With inputs also ``seconds`` and ``bytes``
            taken and given.

        Raises:
            WrongInput: As `run`.

        Example:
            >>> dfg = ng.Dfg.from_text('1: "Abs"\\n in={"x"}\\n out={"y"}')
            >>> [(step["op"], step["device"]) for step in dfg.explain()]
            [('Abs', 'cpu')]
        """
        arrays = None if inputs is None else _arrays(inputs)
        steps: list[dict[str, Any]] = self.core.explain(arrays, **_settings(devices, fuse, threads))
        return steps


class Plan:
    """A graph that is ready to run, as `Dfg.plan` makes it. Runs share weights and memory."""

    def __init__(self, core: _core.Plan, outputs: list[str]) -> None:
        self._core, self._outputs = core, outputs

    def run(
        self, inputs: Mapping[str, Any], *, hops: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """What the graph gives; see `Dfg.run`."""
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


def _settings(devices: Sequence[str], fuse: bool, threads: int) -> dict[str, Any]:
    if isinstance(devices, str) or not devices or not set(devices) <= {*DEVICES, "cpu-scalar"}:
        raise UnsupportedArgument(f"devices={devices!r}: give a list of 'cpu' and 'cpu-scalar'")
    return {"devices": list(devices), "fuse": fuse, "threads": checked_threads(threads)}


def _typed(name: str, found: tuple[str, list[str]] | None) -> dict[str, Any]:
    dtype, shape = (None, None) if found is None else found
    return {"name": name, "dtype": dtype, "shape": shape}


_BYTES = {"f32": 4, "i64": 8, "bool": 1, "f16": 2, "i8": 1}


def _sized(weight: dict[str, Any]) -> dict[str, Any]:
    count = prod(weight["shape"])
    return {**weight, "bytes": count * _BYTES[weight["dtype"]], "file": None}


def _is_parameter(weight: dict[str, Any]) -> bool:
    """Whether it was trained: constants of the computation are single numbers or whole ones."""
    return bool(weight["shape"]) and weight["dtype"] not in ("i64", "i32", "bool")


def _metadata(entries: list[tuple[str, str]], problems: list[str]) -> dict[str, Any]:
    """What a file says, without the prefix of its keys; what is not JSON is a problem."""
    found: dict[str, Any] = {}
    for key, text in entries:
        try:
            found[key.removeprefix("neargraph.")] = json.loads(text)
        except ValueError:
            problems.append(f"the metadata entry {key!r} is not JSON")
    return found


def _check_name(what: str, name: str) -> None:
    if not name:
        raise InvalidModel(f"{what} has an empty name: give it one")


def _dtype_name(dtype: Any) -> str:
    """The name of a dtype of NumPy or torch, or the text itself."""
    of_numpy = isinstance(dtype, type | np.dtype)
    text = np.dtype(dtype).name if of_numpy else str(dtype).removeprefix("torch.")
    return {"float32": "f32", "int64": "i64"}.get(text, text)


def _weight(name: str, given: Any) -> NDArray[Any]:
    """The array in a dtype that graphs compute with; nothing is rounded."""
    array = np.asarray(given)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64):
        array = array.astype(np.int64)
    if array.dtype not in (np.float32, np.int64, np.bool_):
        raise UnsupportedArgument(
            f"weight {name!r} is of {array.dtype}, which graphs do not compute with: convert it, "
            "as with astype(numpy.float32)"
        )
    places = np.flatnonzero(~np.isfinite(array))
    if places.size:
        found = array.reshape(-1)[places[0]]
        raise InvalidModel(
            f"weight {name!r} has {found} at index {places[0]}, and weights must be finite"
        )
    return np.ascontiguousarray(array).reshape(array.shape)


def _plain(op: str, name: str, value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        return list(value)
    raise UnsupportedArgument(
        f"attribute {name} of {op} is {value!r}: give a number, a text or a list of whole numbers"
    )


def _by_name(fanouts: Any) -> Any:
    """Fanouts as JSON has them: triples of edge types become ``a__to__b``."""
    if not isinstance(fanouts, Mapping):
        return fanouts
    return {key if isinstance(key, str) else "__".join(key): n for key, n in fanouts.items()}
