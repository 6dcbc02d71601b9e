"""The three files of a model: their names, reading and writing them as a folder or a zip archive.

What must not live here: what is in them. The invariants: what is read has the hashes of the
manifest; a path has a whole model file or what it had before.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neargraph.exceptions import ExportFailed, InvalidModel

MODEL, WEIGHTS, MANIFEST = "model.onnx", "model.safetensors", "manifest.json"
# Of the manifest.
FORMAT, FORMAT_VERSION = "neargraph model", 1


def read_model(path: Path) -> dict[str, bytes]:
    """The bytes of the model and of its weights, by name of the file.

    Raises:
        FileNotFoundError: There is nothing at the path.
        InvalidModel: A file is missing, is a link, or differs from the manifest.
    """
    return read_with_manifest(path)[0]


def read_with_manifest(path: Path) -> tuple[dict[str, bytes], bytes]:
    """As `read_model`, with the manifest, which tells the files from others."""
    found = _found(path)
    _check(path, found)
    return {name: found[name] for name in (MODEL, WEIGHTS)}, found[MANIFEST]


def hashes_of(path: Path) -> dict[str, str]:
    """The SHA-256 of the three files of a model, by name.

    Raises:
        FileNotFoundError: There is nothing at the path.
        InvalidModel: A file is missing or is a link.
    """
    return {name: hashlib.sha256(data).hexdigest() for name, data in _found(path).items()}


def _found(path: Path) -> dict[str, bytes]:
    names = (MODEL, WEIGHTS, MANIFEST)
    if path.is_dir():
        return {name: _of_folder(path / name) for name in names}
    if path.exists():
        return _of_archive(path, names)
    raise FileNotFoundError(f"{path} does not exist: give the path of a model file")


def _of_folder(file: Path) -> bytes:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidModel(f"{file} cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidModel(f"{file} is not a regular file")
        return opened.read()


def _of_archive(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            if sorted(entries) != sorted(names) or len(archive.infolist()) != len(names):
                listed = ", ".join(sorted(entries)) or "nothing"
                raise InvalidModel(f"{path} has {listed}, not just {', '.join(names)}")
            for name, info in entries.items():
                if info.compress_type != zipfile.ZIP_STORED:
                    raise InvalidModel(f"{path}: {name} is compressed; model files are not")
            return {name: archive.read(name) for name in names}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise InvalidModel(f"{path} is not a folder or zip archive of a model: {error}") from None


def _check(path: Path, found: dict[str, bytes]) -> None:
    try:
        manifest: Any = json.loads(found[MANIFEST])
        version = (manifest["format"], manifest["version"])
        hashes = {name: manifest["files"][name] for name in (MODEL, WEIGHTS)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidModel(f"{path}: {MANIFEST} is not a manifest: {error!r}") from None
    if version != (FORMAT, FORMAT_VERSION):
        raise InvalidModel(
            f"{path} is {version[0]!r} of version {version[1]!r}; this program reads "
            f"{FORMAT!r} of version {FORMAT_VERSION}"
        )
    for name, wanted in hashes.items():
        if hashlib.sha256(found[name]).hexdigest() != wanted:
            raise InvalidModel(
                f"{path}: {name} is not the file that its manifest names: copy it again"
            )


def write_model(
    path: Path, model: bytes, weights: bytes, check: Callable[[Path], None] | None = None
) -> None:
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
        _put(files / WEIGHTS, weights)
        _put(files / MODEL, model)
        if check is not None:
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
