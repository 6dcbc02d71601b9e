"""Export of trained PyG models to model files. This package writes them and never serves them.

This module is a list of names. The package needs torch, PyG, onnx and onnxscript. With onnxruntime,
it also runs each file before the file gets its name.
"""

from neargraph._optional import onnx_for, torch_for

with torch_for("neargraph.export"):
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401

with onnx_for("neargraph.export"):
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401

from .export import export
from .result import Exported

__all__ = ["Exported", "export"]
