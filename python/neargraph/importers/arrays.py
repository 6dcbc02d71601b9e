"""Streaming reads of .npy files and .npz members, in bounded memory.

A member of an .npz is read through the zip stream piece by piece, so a 100 GB matrix costs one
chunk. Object arrays would need pickle and are refused. Invariant: a truncated or damaged file is
an `ImportFailed` naming file and member, never a traceback of zipfile or NumPy.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from .check import fail, need_file
from .plan import CHUNK_BYTES, Array

_MAX_SMALL_BYTES = 64 << 20
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError)


class NpyStream:
    """One array read forward: ``dtype``, ``shape``, then rows in order.

    Arrays in Fortran order with more than one dimension cannot be read by rows; `rows` refuses
    them.
    """

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self.where = where
        self._stream = stream
        try:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            self.shape, self.fortran, self.dtype = read(stream)
        except (*_DAMAGE, KeyError) as error:
            fail(where, f"no readable NumPy header ({error})", "write the file again")
        if self.dtype.hasobject:
            fail(
                where,
                "the array holds Python objects, which need pickle",
                "save it as plain numbers (allow_pickle=False)",
            )

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (dimension 0 left out)."""
        return int(self.dtype.itemsize * np.prod(self.shape[1:], dtype=np.int64))

    def rows(self, count: int) -> Array:
        """The next ``count`` rows, [count, *shape[1:]]; ImportFailed where the file ends early."""
        if self.fortran and len(self.shape) > 1:
            fail(self.where, "the array is in Fortran order", "save np.ascontiguousarray(array)")
        wanted = count * self.row_bytes
        try:
            data = bytearray(self._stream.read(wanted))
            while len(data) < wanted:
                more = self._stream.read(wanted - len(data))
                if not more:
                    break
                data += more
        except _DAMAGE as error:
            fail(self.where, f"damaged or truncated ({error})", "copy or download it again")
        if len(data) < wanted:
            fail(
                self.where,
                f"truncated: {wanted - len(data)} bytes are missing",
                "copy or download it again",
            )
        flat = np.frombuffer(data, dtype=self.dtype)
        return flat.reshape((count, *self.shape[1:])).astype(
            self.dtype.newbyteorder("="), copy=False
        )

    def skip(self, count: int) -> None:
        """Passes over ``count`` rows."""
        step = max(1, CHUNK_BYTES // max(1, self.row_bytes))
        while count > 0:
            self.rows(min(step, count))
            count -= step

    def chunks(self, chunk_rows: int | None = None) -> Iterator[Array]:
        """All rows from here on, in pieces."""
        step = chunk_rows or max(1, CHUNK_BYTES // max(1, self.row_bytes))
        left = int(self.shape[0]) if self.shape else 0
        while left > 0:
            yield self.rows(min(step, left))
            left -= step

    def close(self) -> None:
        """Closes the underlying stream."""
        self._stream.close()


class NpzFile:
    """The members of one .npz file.

    >>> npz = NpzFile("cora.npz")                                   # doctest: +SKIP
    >>> npz.shape("adj_indptr"), npz.small("adj_shape")             # doctest: +SKIP
    ((2709,), array([2708, 2708]))
    """

    def __init__(self, path: Path | str) -> None:
        self.path = need_file(path)
        try:
            self._zip = zipfile.ZipFile(self.path)
        except _DAMAGE as error:
            fail(str(self.path), f"not a readable .npz ({error})", "copy or download it again")
        self.names = [n.removesuffix(".npy") for n in self._zip.namelist()]
        self._headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def where(self, name: str) -> str:
        """How messages name a member."""
        return f"{self.path} [{name}]"

    def open(self, name: str) -> NpyStream:
        """A forward reader of member ``name``; ImportFailed where it is missing."""
        if name not in self.names:
            fail(
                str(self.path),
                f"has no member {name!r} (members: {', '.join(self.names)})",
                "check that the file is complete",
            )
        try:
            stream = self._zip.open(name + ".npy")
        except (*_DAMAGE, KeyError) as error:
            fail(self.where(name), f"cannot be read ({error})", "copy or download it again")
        return NpyStream(stream, self.where(name))

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if name not in self._headers:
            member = self.open(name)
            self._headers[name] = (tuple(member.shape), member.dtype)
            member.close()
        return self._headers[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a member, from its header alone."""
        return self._header(name)[0]

    def dtype(self, name: str) -> np.dtype[Any]:
        """Dtype of a member, from its header alone."""
        return self._header(name)[1]

    def small(self, name: str) -> Array:
        """A whole member of at most 64 MiB (shapes, names, per-graph pointers)."""
        member = self.open(name)
        size = member.dtype.itemsize * int(np.prod(member.shape, dtype=np.int64))
        if size > _MAX_SMALL_BYTES:
            fail(
                self.where(name),
                f"is {size} bytes where a small array is expected",
                "check the layout of the file",
            )
        shape, member.shape = member.shape, (int(np.prod(member.shape, dtype=np.int64)),)
        flat = member.rows(member.shape[0])
        return np.asarray(flat.reshape(shape, order="F" if member.fortran else "C"))


def open_npy(path: Path | str) -> Array:
    """Memory-maps a .npy file read-only; ImportFailed where it is damaged or holds objects."""
    file = need_file(path)
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        fail(str(file), f"not a readable .npy file ({error})", "write it again with numpy.save")
    return np.asarray(array)
