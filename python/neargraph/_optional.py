"""Errors for optional packages that are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from neargraph.exceptions import MissingDependency


@contextmanager
def torch_for(what: str, instead: str = "") -> Iterator[None]:
    """Converts a failed import of torch or PyG in the block to `MissingDependency`.

    Args:
        what: The feature that needs them, the subject of the message.
        instead: An alternative, at the end of the message.

    Raises:
        MissingDependency: torch or PyG is not installed.
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
    """Converts a failed import of onnx or onnxscript in the block to `MissingDependency`.

    Args:
        what: The feature that needs them, the subject of the message.

    Raises:
        MissingDependency: onnx or onnxscript is not installed.
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
    """Converts a failed import of pyarrow in the block to `MissingDependency`.

    Args:
        what: The feature that needs it, the subject of the message.

    Raises:
        MissingDependency: pyarrow is not installed.
    """
    try:
        yield
    except ImportError as missing:
        raise MissingDependency(
            f"{what} needs pyarrow ({missing.name} is missing): pip install 'neargraph[parquet]'"
        ) from missing
