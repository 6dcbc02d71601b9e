"""Plug-ins and bundles: the devices that compute models, and adding more of them.

`docs/reference/plugin-abi.md` describes how to write a plug-in, and the checks before loading. The
checks must not live here: the compiled core makes them.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import find_library
from neargraph._modelfiles import MODEL, read_model
from neargraph.dfg import Dfg

# The default time limit of a trial.
_SECONDS = 20.0


class AcceleratorConfig(TypedDict):
    """The simulator's configuration of an accelerator, as `Devices.accelerator` returns it."""

    rows: int
    """Rows of the systolic array."""
    columns: int
    """Columns of the systolic array."""
    lanes: int
    """Lanes of the vector unit, or cores. 0: their time is not counted."""
    hertz: float
    """Clock rate, in cycles per second."""
    words_per_cycle: int
    """16-bit words per cycle from memory. 0: no limit."""
    word_bits: int
    """Bits of a word: 8, 16 or 32."""
    gather_ns: float
    """Time of a random access to memory, for a row found by an index."""
    gathers_in_flight: int
    """Number of such accesses at the same time. 0: their time is not counted."""
    sums_on_array: bool
    """Whether the array may compute sums of rows, as products with a selection matrix."""
    scratchpad_bytes: int
    """Size of the memory beside the array, which keeps operands that fit."""
    timed: bool
    """Whether the time of the accelerator is counted."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a plug-in.

    Attributes:
        op: The operation that it computes.
        device: The device to which it belongs.
        thread_safe: Whether several threads may call it at the same time.
        deterministic: Whether it returns the same bytes each time.
        left_to_reference: Number of calls that it rejected, so that ``cpu-scalar`` computed them.
    """

    op: str
    device: str
    thread_safe: bool
    deterministic: bool
    left_to_reference: int


@dataclass(frozen=True)
class Plugin:
    """A loaded plug-in.

    Attributes:
        name: Name of the plug-in.
        version: Version of the plug-in.
        path: Path of its file.
        sha256: SHA-256 of its file.
        cases: Number of test cases in which its kernels agreed with ``cpu-scalar``.
        devices: Its devices with their priorities.
        kernels: Its kernels.
    """

    name: str
    version: str
    path: str
    sha256: str
    cases: int
    devices: dict[str, int]
    kernels: list[Kernel]


@dataclass(frozen=True)
class Step:
    """The cost of one step of a graph in one run.

    Attributes:
        op: The operation.
        device: The device that computed it; None if the step moves no element.
        seconds: Time of the step.
        bytes: Bytes of its inputs and results.
    """

    op: str
    device: str | None
    seconds: float
    bytes: int


class Devices:
    """A table of devices and their operations.

    An operation is computed by the device with the highest priority that has a kernel for it; among
    equal priorities, by the one registered first. `neargraph.Engine`, `Dfg.run` and other functions
    accept this object as ``devices=``. Changes apply to requests and runs that begin later; those
    in progress finish on the old devices. A change is rejected if a graph in use could not run.

    Args:
        bundle: The initial bundle: ``"cpu"``, or another one of `program`.

    Example:
        >>> devices = ng.Devices()
        >>> devices.priorities
        {'cpu': 10, 'cpu-scalar': 0}
        >>> dfg = ng.Dfg.from_text('1: "Relu"\\n in={"x"}\\n out={"y"}')
        >>> devices.serve(dfg).run({"x": np.float32([-1, 2])})["y"].tolist()
        [0.0, 2.0]
    """

    def __init__(self, bundle: str = "cpu") -> None:
        self.core = _core.Devices(bundle)

    def load_plugin(
        self,
        path: str | os.PathLike[str],
        allow: str | Iterable[str],
        seconds: float = _SECONDS,
    ) -> Plugin:
        """Loads a plug-in and registers its devices and kernels.

        The file is checked, then tried in a separate process, and only then loaded. It stays loaded
        until this process ends.

        Args:
            path: Path of the shared object.
            allow: SHA-256 of the files that may be loaded, as `sha256` returns it.
            seconds: Time limit of the trial.

        Raises:
            PluginRefused: The file is not allowed, others can write to it or its directory, it is
                not for this machine, its trial failed, or one of its devices already exists.
                Nothing is registered.
            OSError: The file cannot be read.
        """
        found = self.core.load_plugin(os.fspath(path), _checks(allow, seconds))
        found["kernels"] = [Kernel(**kernel) for kernel in found["kernels"]]
        return Plugin(**found)

    def register_device(self, name: str, priority: int) -> None:
        """Adds a device, or changes its priority. The highest priority is preferred."""
        self.core.register_device(name, priority)

    def program(
        self,
        bundle: str,
        *,
        base: str | None = None,
        plugins: Iterable[str | os.PathLike[str]] = (),
        allow: str | Iterable[str] = (),
        priorities: Mapping[str, int] | None = None,
        accelerator: Mapping[str, Any] | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        """Replaces all devices by a bundle, as HolisticGNN's ``Program()`` does.

        If the new bundle is not valid, the old one stays.

        Args:
            bundle: Name of the bundle:

                - ``"octa"``: the kernels of ``cpu-scalar``, on all threads.
                - ``"lsap"``: matrix products on a separate device, all else on ``cpu-scalar``.
                - ``"hetero"``: matrix products on one device, all else on another.
                - ``"cpu"``: one device for all operations.
                - Any other name, if ``base`` is given.
            base: The bundle on which the new one is based.
            plugins: Paths of its plug-ins.
            allow: As for `load_plugin`.
            priorities: New priorities of its devices.
            accelerator: The simulator's configuration of the accelerator, with the keys of
                `AcceleratorConfig`. Defaults: ``scratchpad_bytes`` 6 MiB, ``word_bits`` 16,
                ``gather_ns`` and ``gathers_in_flight`` 0, ``sums_on_array`` False. The other keys
                are required.
            seconds: Time limit of the trial of each plug-in.

        Raises:
            UnsupportedArgument: The bundle or a device does not exist, the configuration is not
                valid, or a graph in use could not run.
            PluginRefused: As for `load_plugin`.
        """
        array = None if accelerator is None else json.dumps(dict(accelerator))
        paths = [os.fspath(path) for path in plugins]
        change = (bundle, paths, list((priorities or {}).items()), array)
        self.core.program(base or bundle, change, _checks(allow, seconds))

    @property
    def bundle(self) -> str:
        """Name of the current bundle."""
        return self.core.bundle()[0]

    @property
    def accelerator(self) -> AcceleratorConfig:
        """The simulator's configuration of the current bundle's accelerator."""
        return cast(AcceleratorConfig, self.core.bundle()[1])

    @property
    def priorities(self) -> dict[str, int]:
        """The device table: priorities by device."""
        return dict(self.core.tables()[0])

    @property
    def operations(self) -> dict[str, list[str]]:
        """The operation table: for each operation, the devices with a kernel for it."""
        return dict(self.core.tables()[1])

    def simulated(
        self, layer: str, columns: int, hidden: int, outputs: int, visits: Sequence[int]
    ) -> tuple[float, float]:
        """Returns the time that the simulated accelerator of the bundle takes for a batch.

        Args:
            layer: Kind of layer: ``"sage"``, ``"gcn"``, ``"gin"`` or ``"ngcf"``.
            columns: Number of features.
            hidden: Width between the layers. There is one layer per hop.
            outputs: Width of the result.
            visits: Number of nodes per hop, targets first.

        Returns:
            Seconds for matrix products, and seconds for sums of rows. They do not include reading
            the features.
        """
        model = {
            "layer": layer,
            "columns": columns,
            "hidden": hidden,
            "outputs": outputs,
            "backward": False,
        }
        return self.core.simulated(json.dumps(model), list(visits))

    def serve(self, dfg: Dfg, *, fuse: bool = True) -> "Served":
        """Prepares a graph to run on the devices that are registered now or later.

        Args:
            dfg: The graph.
            fuse: Whether to fuse operations if there is a combined operation.

        Raises:
            InvalidModel: The graph is not valid.
            UnsupportedModel: No device has a kernel for an operation.
        """
        return Served(self.core.serve(dfg.core, fuse))


class Served:
    """A graph that runs on a table of devices, from `Devices.serve`."""

    def __init__(self, core: _core.Served) -> None:
        self._core = core

    def run(self, inputs: Mapping[str, Any], threads: int = 1) -> dict[str, NDArray[Any]]:
        """Runs the graph and returns its outputs by name.

        Args:
            inputs: Arrays of float32, int64 or bool, by name.
            threads: Number of threads. The bytes of the result do not depend on it.

        Raises:
            WrongInput: An input is missing, unknown or not valid, or an operation fails.
            UnsupportedArgument: The dtype of an array is not supported.
        """
        return _named(self._core.run(_arrays(inputs), threads, False)[0])

    def profile(
        self, inputs: Mapping[str, Any], threads: int = 1
    ) -> tuple[dict[str, NDArray[Any]], list[Step]]:
        """Runs the graph and returns its outputs by name, and the cost of each step."""
        outputs, steps = self._core.run(_arrays(inputs), threads, True)
        return _named(outputs), [Step(*step) for step in steps]


class OnnxRuntime:
    """Runs a model file in ONNX Runtime, to compare results.

    The package ``onnxruntime`` contains the library, which the compiled core calls directly.

    Args:
        path: Path of a model file from `neargraph.export`.
        threads: Number of threads.
        library: Path of ``libonnxruntime.so``. None: the library of the package.

    Raises:
        MissingDependency: The package is not installed.
        UnsupportedArgument: The library is too old or cannot be loaded.
        InvalidModel: ONNX Runtime rejects the model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int = 1,
        library: str | os.PathLike[str] | None = None,
    ) -> None:
        files = read_model(Path(path))
        self._core = _core.OnnxRuntime(
            os.fspath(library or find_library()), files.pop(MODEL), files, threads
        )

    @property
    def version(self) -> str:
        """The version of ONNX Runtime."""
        return self._core.version

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return self._core.inputs()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Runs the model and returns its outputs by name.

        Raises:
            InvalidModel: An input is missing or unknown, or ONNX Runtime rejects it.
        """
        return _named(self._core.run(_arrays(inputs)))


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a plug-in, for ``allow``. Compute it once from a file that you trust.

    Raises:
        PluginRefused: Users other than its owner can write to the file or its directory.
        OSError: The file cannot be read.
    """
    return _core.plugin_sha256(os.fspath(path))


def include_folder() -> Path:
    """Returns the directory of ``ng_plugin.h``, for compiling a plug-in."""
    return Path(__file__).with_name("include")


def _checks(allow: str | Iterable[str], seconds: float) -> tuple[list[str], list[str], float]:
    digests = [allow] if isinstance(allow, str) else list(allow)
    return digests, probe_command(), seconds


def probe_command() -> list[str]:
    """Returns the command that tries a plug-in."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("_plugin_probe.py"))]


def _arrays(inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    # `ascontiguousarray` turns scalars into arrays of one dimension; reshape restores them.
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    return {name: array.reshape(np.shape(inputs[name])) for name, array in arrays.items()}


def _named(outputs: list[tuple[str, list[int], NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: flat.reshape(dims) for name, dims, flat in outputs}
