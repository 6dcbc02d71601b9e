"""Plug-ins and bundles: which devices compute, and how more of them are added.

`docs/reference/plugin-abi.md` says how a plug-in is written, and what is checked before one is
loaded. What must not live here: those checks, which the compiled core does.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._computing import find_library
from neargraph._modelfiles import MODEL, read_model
from neargraph.dfg import Dfg

# A trial is over after so many seconds.
_SECONDS = 20.0


@dataclass(frozen=True)
class Kernel:
    """A kernel of a plug-in.

    Attributes:
        op: The operation that it does.
        device: The device that it is of.
        thread_safe: Whether several threads may call it at once.
        deterministic: Whether it gives the same bytes each time.
        left_to_reference: Calls that it did not serve, so that ``cpu-scalar`` did them.
    """

    op: str
    device: str
    thread_safe: bool
    deterministic: bool
    left_to_reference: int


@dataclass(frozen=True)
class Plugin:
    """What a plug-in registered.

    Attributes:
        name: As it calls itself.
        version: As it calls it.
        path: Its file.
        sha256: Of its file.
        cases: How many cases its kernels passed beside ``cpu-scalar``.
        devices: Its devices and their priorities.
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
    """What a step of a graph cost in one run.

    Attributes:
        op: The operation.
        device: The device that did it; None if no element moved.
        seconds: How long it took.
        bytes: Of what it took and gave.
    """

    op: str
    device: str | None
    seconds: float
    bytes: int


class Devices:
    """The device table and the operation table, and graphs that run on them.

    Of all devices that have a kernel of an operation, the one with the highest priority computes
    it; of equal ones, the one that was registered first. `neargraph.Engine`, `Dfg.run` and others
    take a table as ``devices=``. Changes take effect for requests and runs that begin later; those
    that have begun end as they began. A change that a graph in use does not run on is refused.

    Args:
        bundle: What is registered at first: ``"cpu"``, or a bundle of `program`.

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

        The file is checked, then tried in another process, and only then loaded. It stays loaded
        until this process ends.

        Args:
            path: The shared object.
            allow: The SHA-256 of files that may be loaded, as `sha256` gives it.
            seconds: How long the trial may take.

        Raises:
            PluginRefused: It is not allowed, others may write the file or its folder, it is not for
                this machine, it did not pass its trial, or it has a device that belongs to another;
                nothing of it is registered.
            OSError: The file cannot be read.
        """
        found = self.core.load_plugin(os.fspath(path), _checks(allow, seconds))
        found["kernels"] = [Kernel(**kernel) for kernel in found["kernels"]]
        return Plugin(**found)

    def register_device(self, name: str, priority: int) -> None:
        """Adds a device, or gives it another priority. The largest priority is preferred."""
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

        If anything is wrong with the new bundle, the old one stays.

        Args:
            bundle: ``"octa"``: what ``cpu-scalar`` does, on all threads. ``"lsap"``: products of
                matrices on a device of their own, all else on ``cpu-scalar``. ``"hetero"``:
                products and all else on two devices. ``"cpu"``: one device for all. Any other name,
                if ``base`` is given.
            base: The bundle that a new one is made of.
            plugins: Plug-ins that belong to it.
            allow: As for `load_plugin`.
            priorities: Priorities of its devices, in place of those that they have.
            accelerator: The simulator's configuration of it: ``rows``, ``columns``, ``lanes``,
                ``hertz``, ``words_per_cycle``, ``timed``; if left out, ``scratchpad_bytes`` is
                6 MiB, ``word_bits`` is 16, and rows found by an index are not waited for
                (``gather_ns``, ``gathers_in_flight``) nor summed on the array
                (``sums_on_array``).
            seconds: How long the trial of each plug-in may take.

        Raises:
            UnsupportedArgument: There is no such bundle or device, the configuration is not valid,
                or a graph that is served does not run on it.
            PluginRefused: As for `load_plugin`.
        """
        array = None if accelerator is None else json.dumps(dict(accelerator))
        paths = [os.fspath(path) for path in plugins]
        change = (bundle, paths, list((priorities or {}).items()), array)
        self.core.program(base or bundle, change, _checks(allow, seconds))

    @property
    def bundle(self) -> str:
        """The name of the bundle that is in force."""
        return self.core.bundle()[0]

    @property
    def accelerator(self) -> dict[str, Any]:
        """The simulator's configuration of it."""
        return self.core.bundle()[1]

    @property
    def priorities(self) -> dict[str, int]:
        """The device table."""
        return dict(self.core.tables()[0])

    @property
    def operations(self) -> dict[str, list[str]]:
        """The operation table: for each operation the devices that have a kernel of it."""
        return dict(self.core.tables()[1])

    def simulated(
        self, layer: str, columns: int, hidden: int, outputs: int, visits: Sequence[int]
    ) -> tuple[float, float]:
        """Seconds that the simulated accelerator of the bundle takes for a batch.

        Args:
            layer: ``"sage"``, ``"gcn"``, ``"gin"`` or ``"ngcf"``.
            columns: Columns of the features.
            hidden: Columns between the layers, of which there is one for each hop.
            outputs: Columns of the result.
            visits: How many nodes each hop has, the targets first.

        Returns:
            For products of matrices, and for sums of rows. Rows of features are there already.
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
        """Makes a graph ready to run on the devices that are registered now or later.

        Args:
            dfg: The graph.
            fuse: Whether operations become one where there is an operation for both.

        Raises:
            InvalidModel: The graph is wrong.
            UnsupportedModel: There is no kernel for an operation.
        """
        return Served(self.core.serve(dfg.core, fuse))


class Served:
    """A graph on the devices of `Devices.serve`."""

    def __init__(self, core: _core.Served) -> None:
        self._core = core

    def run(self, inputs: Mapping[str, Any], threads: int = 1) -> dict[str, NDArray[Any]]:
        """What the graph gives, by name.

        Args:
            inputs: By name, arrays of float32, int64 or bool.
            threads: How many threads compute. The bytes do not depend on it.

        Raises:
            WrongInput: An input is missing, unknown or wrong, or an operation cannot be done.
            UnsupportedArgument: An array of another dtype.
        """
        return _named(self._core.run(_arrays(inputs), threads, False)[0])

    def profile(
        self, inputs: Mapping[str, Any], threads: int = 1
    ) -> tuple[dict[str, NDArray[Any]], list[Step]]:
        """As `run`, with what each step cost."""
        outputs, steps = self._core.run(_arrays(inputs), threads, True)
        return _named(outputs), [Step(*step) for step in steps]


class OnnxRuntime:
    """A model file in ONNX Runtime: a second opinion on what a model gives.

    The package ``onnxruntime`` brings the library, which the compiled core calls directly.

    Args:
        path: A model file that `neargraph.export` wrote.
        threads: How many threads compute.
        library: The path of ``libonnxruntime.so``; that of the package if None.

    Raises:
        MissingDependency: The package is not installed.
        UnsupportedArgument: The library is too old or cannot be loaded.
        InvalidModel: ONNX Runtime refuses the model.
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
        """What the model gives, by name.

        Raises:
            InvalidModel: An input is missing or unknown, or ONNX Runtime refuses it.
        """
        return _named(self._core.run(_arrays(inputs)))


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a plug-in, for ``allow``. Look at it once, and write it down.

    Raises:
        PluginRefused: Others than its owner may write the file or its folder.
        OSError: It cannot be read.
    """
    return _core.plugin_sha256(os.fspath(path))


def include_folder() -> Path:
    """The folder of ``ng_plugin.h``, for the compiler of a plug-in."""
    return Path(__file__).with_name("include")


def _checks(allow: str | Iterable[str], seconds: float) -> tuple[list[str], list[str], float]:
    digests = [allow] if isinstance(allow, str) else list(allow)
    return digests, probe_command(), seconds


def probe_command() -> list[str]:
    """The program that tries a plug-in, and its arguments."""
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("_plugin_probe.py"))]


def _arrays(inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    # NumPy makes lists of single numbers here, which are tensors without dimensions.
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    return {name: array.reshape(np.shape(inputs[name])) for name, array in arrays.items()}


def _named(outputs: list[tuple[str, list[int], NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: flat.reshape(dims) for name, dims, flat in outputs}
