"""What computes: names of devices, a `neargraph.Devices`, or ONNX Runtime with a whole model.

What must not live here: which device does what, which the compiled core decides.
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
    """What the compiled core takes for devices that compute operations one by one.

    Raises:
        UnsupportedArgument: There is no such device, or it computes whole models.
    """
    table = getattr(devices, "core", None)
    if isinstance(table, _core.Devices):
        return table
    if isinstance(devices, str):
        raise UnsupportedArgument(
            f"devices is a list of names, got the text {devices!r}: use [{devices!r}]"
        )
    names: list[str] = list(devices)  # type: ignore[arg-type]
    unknown = [name for name in names if name not in NAMES]
    if ONNXRUNTIME in names:
        raise UnsupportedArgument(
            f"{ONNXRUNTIME!r} computes whole models, all operations at once: name it alone, and "
            "only where a model runs"
        )
    if unknown or not names:
        named = f"there is no device {unknown[0]!r}" if unknown else "no device is named"
        known = ", ".join((*NAMES, ONNXRUNTIME))
        raise UnsupportedArgument(
            f"{named}; there are {known}; those of plug-ins come with a neargraph.Devices"
        )
    return names


def computing(devices: "Sequence[str] | Devices", dfg: "Dfg", threads: int) -> "_core.Computing":
    """What the compiled core takes to compute a graph.

    Raises:
        UnsupportedArgument: There is no such device.
        MissingDependency: ONNX Runtime is wanted and not installed.
        InvalidModel: ONNX Runtime refuses the model, or the graph cannot be written as one.
    """
    if isinstance(devices, list | tuple) and list(devices) == [ONNXRUNTIME]:
        return _session(dfg, threads)
    return table_of(devices)


def _session(dfg: "Dfg", threads: int) -> _core.OnnxRuntime:
    """The graph in ONNX Runtime: the file that it was read from, or else what `save` writes."""
    library = str(find_library())
    if dfg.source is None:
        model, weights = dfg.core.to_onnx([], WEIGHTS)
        return _core.OnnxRuntime(library, model, {WEIGHTS: weights}, threads)
    path, manifest = dfg.source
    files, found = read_with_manifest(path)
    if found != manifest:
        raise InvalidModel(f"{path} has changed since it was opened: open it again")
    return _core.OnnxRuntime(library, files.pop(MODEL), files, threads)


def find_library() -> Path:
    """The library of the package ``onnxruntime``, which is not imported.

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
