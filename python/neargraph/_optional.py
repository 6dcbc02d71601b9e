"""Packages that only some of neargraph needs: what is said where they are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from neargraph.exceptions import MissingDependency


@contextmanager
def torch_for(what: str, instead: str = "") -> Iterator[None]:
    """Within it torch and PyG are imported; the error says `what` needs them, and `instead`.

    Raises:
        MissingDependency: One of them is not installed.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs torch and PyG ({missing.name} is missing): "
            f"pip install 'neargraph[torch]'{instead}"
        ) from missing


@contextmanager
def onnx_for(what: str) -> Iterator[None]:
    """Within it the packages of ONNX are imported; the error says that `what` needs them.

    Raises:
        MissingDependency: One of them is not installed.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs onnx and onnxscript ({missing.name} is missing): "
            "pip install 'neargraph[export]'"
        ) from missing


@contextmanager
def arrow_for(what: str) -> Iterator[None]:
    """Within it pyarrow is imported; the error says that `what` needs it.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs pyarrow ({missing.name} is missing): pip install 'neargraph[parquet]'"
        ) from missing
