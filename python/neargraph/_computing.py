"""The device that computes: a name, a `neargraph.Devices`, or ONNX Runtime for a whole model.

What must not live here: which device computes which operation. The compiled core decides that.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neargraph import _core
from neargraph._modelfiles import MODEL, WEIGHTS, read_with_manifest
from neargraph.exceptions import InvalidModel, MissingDependency, UnsupportedArgument

if TYPE_CHECKING:
    from neargraph.dfg import Dfg
    from neargraph.plugins import Devices

NAMES = ("cpu", "cpu-scalar")
"""Devices that compute operations one by one."""

ONNXRUNTIME = "onnxruntime"
"""The device that computes whole models."""


def table_of(devices: "Sequence[str] | Devices") -> "_core.Table":
    """Returns the argument of the compiled core for devices that compute single operations.

    Raises:
        UnsupportedArgument: A name is not that of a device, or the device computes whole models.
    """
    table = getattr(devices, "core", None)
    if isinstance(table, _core.Devices):
        return table
    if isinstance(devices, str):
        raise UnsupportedArgument(
            f"devices={devices!r} is not a list of names; use devices=[{devices!r}]"
        )
    names: list[str] = list(devices)  # type: ignore[arg-type]
    unknown = [name for name in names if name not in NAMES]
    if ONNXRUNTIME in names:
        raise UnsupportedArgument(
            f"{ONNXRUNTIME!r} computes whole models, not single operations; give it as the only "
            "device, and only to run a model"
        )
    if unknown or not names:
        named = f"{unknown[0]!r} is not a valid device" if unknown else "no device is given"
        known = ", ".join((*NAMES, ONNXRUNTIME))
        raise UnsupportedArgument(
            f"{named}; use {known}, or neargraph.Devices for the devices of plug-ins"
        )
    return names


def computing(devices: "Sequence[str] | Devices", dfg: "Dfg", threads: int) -> "_core.Computing":
    """Returns the argument of the compiled core that computes a graph.

    Raises:
        UnsupportedArgument: A name is not that of a device.
        MissingDependency: ONNX Runtime is requested and not installed.
        InvalidModel: ONNX Runtime rejects the model, or the graph cannot be written as ONNX.
    """
    if isinstance(devices, list | tuple) and list(devices) == [ONNXRUNTIME]:
        return _session(dfg, threads)
    return table_of(devices)


def _session(dfg: "Dfg", threads: int) -> _core.OnnxRuntime:
    """Opens a graph in ONNX Runtime, from its file if it has one."""
    library = str(find_library())
    if dfg.source is None:
        model, weights = dfg.core.to_onnx([], WEIGHTS)
        return _core.OnnxRuntime(library, model, {WEIGHTS: weights}, threads)
    path, manifest = dfg.source
    files, found = read_with_manifest(path)
    if found != manifest:
        raise InvalidModel(f"{path} has changed since it was opened; open it again")
    return _core.OnnxRuntime(library, files.pop(MODEL), files, threads)


def find_library() -> Path:
    """Returns the shared library of the package ``onnxruntime``, without importing it.

    Raises:
        MissingDependency: It is not installed.
    """
    from importlib.util import find_spec

    spec = find_spec("onnxruntime")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for path in sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return path
    raise MissingDependency("ONNX Runtime is not installed: pip install onnxruntime")
