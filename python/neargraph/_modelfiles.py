"""The three files of a model: their names, and reading them from a folder or a zip archive.

What must not live here: what is in them. The invariant: what is returned has the hashes of the
manifest.
"""

import hashlib
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

from neargraph.exceptions import InvalidModel

MODEL, WEIGHTS, MANIFEST = "model.onnx", "model.safetensors", "manifest.json"
# Of the manifest.
FORMAT, FORMAT_VERSION = "neargraph model", 1


def read_model(path: Path) -> dict[str, bytes]:
    """The bytes of the model and of its weights, by name of the file.

    Raises:
        FileNotFoundError: There is nothing at the path.
        InvalidModel: A file is missing, is a link, or differs from the manifest.
    """
    names = (MODEL, WEIGHTS, MANIFEST)
    if path.is_dir():
        found = {name: _of_folder(path / name) for name in names}
    elif path.exists():
        found = _of_archive(path, names)
    else:
        raise FileNotFoundError(f"{path} does not exist: give the path of a model file")
    _check(path, found)
    return {name: found[name] for name in (MODEL, WEIGHTS)}


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
