"""The files of a model: ONNX, its weights as safetensors, and a manifest with both hashes.

Weights are external data of the ONNX model by offset and length, so both readers see the same
bytes. The invariant: a path has a whole model file or what it had before.
"""

import hashlib
import json
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from neargraph._modelfiles import FORMAT, FORMAT_VERSION, MANIFEST, MODEL, WEIGHTS
from neargraph.exceptions import ExportFailed

# Smaller tensors stay in the ONNX file: the header of a weight would be larger than it.
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
    """Writes a model to `path`: a zip archive if it ends in ``.ngm``, else a folder.

    The files are made in a temporary folder beside it, then `check` is called with the path of the
    ONNX file there. If it raises, nothing is left.

    Raises:
        ExportFailed: Something is at `path` already, or its folder does not exist.
    """
    if path.exists() or path.is_symlink():
        raise ExportFailed(f"{path} exists already: remove it, or give another path")
    if not path.parent.is_dir():
        raise ExportFailed(f"{path.parent} is not a folder: make it first, or give another path")
    room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        files = room / "model"
        files.mkdir()
        weights = _take_weights(model)
        _put(files / WEIGHTS, weights)
        _put(files / MODEL, model.SerializeToString())
        check(files / MODEL)
        hashes = {name: _sha256(files / name) for name in (MODEL, WEIGHTS)}
        _put(files / MANIFEST, manifest(hashes))
        if path.suffix == ".ngm":
            files = _zipped(files, room / "model.ngm")
        _sync(files)
        os.rename(files, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def manifest(hashes: Mapping[str, str]) -> bytes:
    """The manifest for files with these SHA-256 hashes.

    Example:
        >>> manifest({})
        b'{"files": {}, "format": "neargraph model", "version": 1}\\n'
    """
    said = {"format": FORMAT, "version": FORMAT_VERSION, "files": dict(hashes)}
    return (json.dumps(said, sort_keys=True) + "\n").encode()


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


def _put(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _zipped(files: Path, archive: Path) -> Path:
    """The files as an archive without compression, so that weights can be mapped into memory."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as out:
        for name in (MANIFEST, MODEL, WEIGHTS):
            out.writestr(zipfile.ZipInfo(name), (files / name).read_bytes())
    return archive


def _sync(path: Path) -> None:
    """Brings a file or a folder's names to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
