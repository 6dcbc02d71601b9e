"""The three files of a model: reading and writing them as a directory or a zip archive.

Their content must not be interpreted here. The invariants: files that are read have the hashes in
the manifest, and their sizes are checked before reading; a path has a complete model file or its
old content.
"""

import hashlib
import io
import json
import os
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from neargraph.exceptions import ExportFailed, InvalidModel

MODEL, WEIGHTS, MANIFEST = "model.onnx", "model.safetensors", "manifest.json"
# The format in the manifest.
FORMAT, FORMAT_VERSION = "neargraph model", 1
# Maximum sizes in bytes. Protobuf allows 2 GiB. While a model is loaded, its weights are in memory
# twice.
_BYTES_MAX = {
    MODEL: 2**31 - 1,
    WEIGHTS: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2,
    MANIFEST: 2**16,
}
# Maximum size of the central directory of an archive, and of everything but the three files.
_DIRECTORY_BYTES_MAX = 2**17


def read_model(path: Path) -> dict[str, bytes]:
    """Returns the bytes of the model and of its weights, by name of the file.

    Raises:
        FileNotFoundError: The path does not exist.
        InvalidModel: A file is missing, is a link, is too large, or differs from the manifest.
    """
    return read_with_manifest(path)[0]


def read_with_manifest(path: Path) -> tuple[dict[str, bytes], bytes]:
    """Returns the result of `read_model`, and the manifest, which identifies the files."""
    found = _found(path)
    _check(path, found)
    return {name: found[name] for name in (MODEL, WEIGHTS)}, found[MANIFEST]


def hashes_of(path: Path) -> dict[str, str]:
    """Returns the SHA-256 of the three files of a model, by name.

    Raises:
        FileNotFoundError: The path does not exist.
        InvalidModel: A file is missing, is a link, or is too large.
    """
    return {name: hashlib.sha256(data).hexdigest() for name, data in _found(path).items()}


def _found(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {name: _of_folder(path / name, limit) for name, limit in _BYTES_MAX.items()}
    if path.exists():
        return _of_archive(path)
    raise FileNotFoundError(f"{path} does not exist: give the path of a model file")


def _of_folder(file: Path, limit: int) -> bytes:
    with io.BufferedReader(_opened(file, limit, os.O_NOFOLLOW)) as opened:
        return _whole(opened, os.fstat(opened.fileno()).st_size, str(file))


def _opened(file: Path, limit: int, flags: int = 0) -> "_File":
    """Opens a regular file of at most `limit` bytes. It does not block on a FIFO."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        raise InvalidModel(f"{file} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidModel(f"{file} is not a regular file")
        _check_size(str(file), found.st_size, limit)
        return _File(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise InvalidModel(f"{what} has {size:,} bytes: the maximum on this machine is {limit:,}")


def _whole(file: IO[bytes], size: int, what: str) -> bytes:
    """Reads the `size` bytes of a file, with no more memory than that."""
    data = file.read(size + 1)
    if len(data) != size:
        raise InvalidModel(
            f"{what} does not have the expected {size:,} bytes: the file is damaged, or another "
            "program is changing it"
        )
    return data


class _File(io.FileIO):
    """A file whose reads are bounded by `most`, if it is set."""

    most: int | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = max(0, os.fstat(self.fileno()).st_size - self.tell())
        if self.most is not None and size > self.most:
            raise zipfile.BadZipFile("the central directory of the archive is too large")
        return super().read(size) or b""


def _of_archive(path: Path) -> dict[str, bytes]:
    try:
        with _opened(path, sum(_BYTES_MAX.values()) + _DIRECTORY_BYTES_MAX) as file:
            # `zipfile` reads as many bytes as the archive declares for its central directory.
            file.most = _DIRECTORY_BYTES_MAX
            with zipfile.ZipFile(file) as archive:
                file.most = None
                _check_entries(path, archive.infolist(), os.fstat(file.fileno()).st_size)
                return {name: _entry(path, archive, name) for name in _BYTES_MAX}
    except InvalidModel:
        raise
    except (zipfile.BadZipFile, struct.error, RuntimeError, EOFError, OSError, ValueError) as error:
        raise InvalidModel(f"{path} is not a valid model directory or archive: {error}") from None


def _check_entries(path: Path, entries: list[zipfile.ZipInfo], archive_bytes: int) -> None:
    found = sorted(entry.filename for entry in entries)
    if found != sorted(_BYTES_MAX):
        listed = ", ".join(found) or "nothing"
        raise InvalidModel(f"{path} contains {listed}: expected {', '.join(_BYTES_MAX)}")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise InvalidModel(
                f"{path}: {entry.filename} is compressed: expected an uncompressed entry"
            )
        limit = min(_BYTES_MAX[entry.filename], archive_bytes)
        _check_size(f"{path}: {entry.filename}", entry.file_size, limit)


def _entry(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as entry:
        return _whole(entry, archive.getinfo(name).file_size, f"{path}: {name}")


def _check(path: Path, found: dict[str, bytes]) -> None:
    try:
        manifest: Any = json.loads(found[MANIFEST])
        version = (manifest["format"], manifest["version"])
        hashes = {name: manifest["files"][name] for name in (MODEL, WEIGHTS)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidModel(f"{path}: {MANIFEST} is not a valid manifest: {error!r}") from None
    if version != (FORMAT, FORMAT_VERSION):
        raise InvalidModel(
            f"{path} has format {version[0]!r}, version {version[1]!r}: expected {FORMAT!r}, "
            f"version {FORMAT_VERSION}"
        )
    for name, wanted in hashes.items():
        if hashlib.sha256(found[name]).hexdigest() != wanted:
            raise InvalidModel(
                f"{path}: the content of {name} does not match the hash in {MANIFEST}: copy the "
                "model again"
            )


def write_model(
    path: Path, model: bytes, weights: bytes, check: Callable[[Path], None] | None = None
) -> None:
    """Writes a model to `path`: a zip archive if it ends in ``.ngm``, else a directory.

    The files are written to a temporary directory beside it. Then `check` is called with the path
    of the ONNX file there. If it raises, nothing is left.

    Raises:
        ExportFailed: `path` exists, or its parent directory does not.
    """
    if path.exists() or path.is_symlink():
        raise ExportFailed(f"{path} already exists: remove it, or give another path")
    if not path.parent.is_dir():
        raise ExportFailed(
            f"{path.parent} is not a directory: create it first, or give another path"
        )
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
    """Returns the manifest for files with these SHA-256 hashes.

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
    """Packs the files without compression, so that weights can be mapped into memory."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as out:
        for name in (MANIFEST, MODEL, WEIGHTS):
            out.writestr(zipfile.ZipInfo(name), (files / name).read_bytes())
    return archive


def _sync(path: Path) -> None:
    """Makes a file, or the entries of a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
