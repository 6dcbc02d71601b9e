"""Writes an exported model as ONNX, with larger weights as safetensors.

The weights are external data of the ONNX model, by offset and length. The invariant: readers of
either file get the same bytes.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from neargraph._modelfiles import WEIGHTS, write_model

# Smaller tensors stay in the ONNX file: their header entry would be larger than the tensor.
_SMALLEST_BYTES = 64
_ALIGNMENT_BYTES = 64
_DTYPES = {
    onnx.TensorProto.FLOAT: "F32",
    onnx.TensorProto.DOUBLE: "F64",
    onnx.TensorProto.FLOAT16: "F16",
    onnx.TensorProto.BFLOAT16: "BF16",
    onnx.TensorProto.INT64: "I64",
    onnx.TensorProto.INT32: "I32",
    onnx.TensorProto.INT8: "I8",
    onnx.TensorProto.UINT8: "U8",
    onnx.TensorProto.BOOL: "BOOL",
}


def write(model: Any, path: Path, check: Callable[[Path], None]) -> None:
    """Writes a model to `path`: a zip archive if it ends in ``.ngm``, else a directory.

    `check` is called with the path of the ONNX file before the file gets its name. If it raises,
    nothing is written.

    Raises:
        ExportFailed: `path` exists, or its parent directory does not.
    """
    weights = _take_weights(model)
    write_model(path, model.SerializeToString(), weights, check)


def _take_weights(model: Any) -> bytes:
    """Moves the larger tensors of a model out of it, into the bytes of a safetensors file."""
    moved = [
        tensor
        for tensor in model.graph.initializer
        if len(tensor.raw_data) >= _SMALLEST_BYTES and tensor.data_type in _DTYPES
    ]
    # Wide elements first, so that each tensor is aligned to its elements without gaps.
    moved.sort(key=lambda tensor: _DTYPES[tensor.data_type][-2:] != "64")
    header, end = {}, 0
    for tensor in moved:
        begin, end = end, end + len(tensor.raw_data)
        header[tensor.name] = {
            "dtype": _DTYPES[tensor.data_type],
            "shape": list(tensor.dims),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT_BYTES)
    parts = [struct.pack("<Q", len(text)), text]
    for tensor in moved:
        begin, end = header[tensor.name]["data_offsets"]
        parts.append(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (
            ("location", WEIGHTS),
            ("offset", str(8 + len(text) + begin)),
            ("length", str(end - begin)),
        ):
            tensor.external_data.add(key=key, value=value)
    return b"".join(parts)
