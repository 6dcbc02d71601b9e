"""Streaming reads of .npy files and .npz members, in bounded memory.

A member of an .npz is read through the zip stream piece by piece, so a 100 GB matrix costs one
chunk. Object arrays would need pickle and are refused. Invariant: a truncated or damaged file is
an `ImportFailed` naming file and member, never a traceback of zipfile or NumPy.
"""

import io
import math
import mmap
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from neargraph.exceptions import NeargraphError

from .check import fail, need_file, store_dtype, to_i64
from .chunks import chunk_rows, spans
from .header import read_header
from .memory import hold, need
from .plan import Array, TensorPlan

_MAX_SMALL_BYTES = 64 << 20
_DIRECTORY_BYTES_MAX = 1 << 20
_READ_BYTES = 256 << 10
# A string, its place in a list, and its entry in a set, beside its letters.
_TEXT_BYTES = 128


@contextmanager
def _damage(where: str, what: str) -> Iterator[None]:
    """Turns whatever zipfile and its decoders raise for a hostile file into an `ImportFailed`."""
    try:
        yield
    except NeargraphError:
        raise
    # They raise a dozen types, struct.error and IndexError among them, and document few.
    except Exception as error:
        fail(where, f"{what} ({error or type(error).__name__})", "copy or download it again")


class NpyStream:
    """One array read forward: ``dtype``, ``shape``, then rows in order.

    Arrays in Fortran order with more than one dimension cannot be read by rows; `rows` refuses
    them.
    """

    def __init__(self, stream: IO[bytes], where: str, file_bytes: int | None = None) -> None:
        self.where = where
        self._stream = stream
        with _damage(where, "cannot be read"):
            header = read_header(stream, where)
        self.shape, self.fortran, self.dtype = header.shape, header.fortran, header.dtype
        if file_bytes is not None and header.start + header.data_bytes != file_bytes:
            fail(
                where,
                f"has {file_bytes - header.start} bytes of data, "
                f"but shape {list(header.shape)} of {header.dtype} needs {header.data_bytes}",
                "copy or download it again",
            )

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (dimension 0 left out)."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def rows(self, count: int) -> Array:
        """The next ``count`` rows, [count, *shape[1:]]; ImportFailed where the file ends early."""
        if self.fortran and len(self.shape) > 1:
            fail(self.where, "the array is in Fortran order", "save np.ascontiguousarray(array)")
        wanted = count * self.row_bytes
        # The bytes, and what they are converted to.
        need(self.where, 3 * wanted)
        data, done = np.empty(wanted, dtype=np.uint8), 0
        with _damage(self.where, "is damaged or truncated"):
            while done < wanted:
                piece = self._stream.read(min(_READ_BYTES, wanted - done))
                if not piece:
                    break
                data[done : done + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
                done += len(piece)
        if done < wanted:
            fail(
                self.where,
                f"is truncated: {wanted - done} bytes are missing",
                "copy or download it again",
            )
        if self.dtype.itemsize == 0:
            return np.zeros((count, *self.shape[1:]), dtype=self.dtype)
        flat = data.view(self.dtype)
        return flat.reshape((count, *self.shape[1:])).astype(
            self.dtype.newbyteorder("="), copy=False
        )

    def skip(self, count: int) -> None:
        """Passes over ``count`` rows."""
        for span in spans(count, chunk_rows(self.row_bytes)):
            self.rows(span.stop - span.start)

    def chunks(self, step: int | None = None) -> Iterator[Array]:
        """All rows from here on, in pieces."""
        total = self.shape[0] if self.shape else 0
        for span in spans(total, step or chunk_rows(self.row_bytes)):
            yield self.rows(span.stop - span.start)

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
        with _damage(str(self.path), "is not a readable .npz file"):
            raw = _ShortReads(io.FileIO(self.path))
            self._zip = zipfile.ZipFile(raw)
            raw.most = None
        self.names = [n.removesuffix(".npy") for n in self._zip.namelist()]
        self._headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            fail(self.path, f"has several members called {twice[0]!r}", "keep one of them")

    def __contains__(self, name: object) -> bool:
        return name in self.names

    @property
    def listed(self) -> str:
        """The names of the members for a message, the first 20 of them."""
        shown = [name[:60] for name in self.names[:20]]
        return ", ".join(shown) + (", ..." if len(self.names) > len(shown) else "")

    def where(self, name: str) -> str:
        """How messages name a member."""
        return f"{self.path} [{name}]"

    def open(self, name: str) -> NpyStream:
        """A forward reader of member ``name``; ImportFailed where it is missing."""
        if name not in self.names:
            fail(
                self.path,
                f"has no member {name!r} (members: {self.listed})",
                "check that the file is complete",
            )
        with _damage(self.where(name), "cannot be read"):
            info = self._zip.getinfo(name + ".npy")
            # Other methods take as much memory as the file says.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                fail(
                    self.where(name),
                    f"is compressed with zip method {info.compress_type}, which is not supported",
                    "write the file with numpy.savez or numpy.savez_compressed",
                )
            stream = self._zip.open(info)
        return NpyStream(stream, self.where(name), info.file_size)

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if name not in self._headers:
            member = self.open(name)
            self._headers[name] = (tuple(member.shape), member.dtype)
            member.close()
        return self._headers[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a member, from its header alone."""
        return self._header(name)[0]

    def length(self, name: str, dimension: int = 0) -> int:
        """One dimension of a member; ImportFailed where it has fewer."""
        shape = self.shape(name)
        if len(shape) <= dimension:
            fail(
                self.where(name),
                f"has shape {list(shape)}, expected {dimension + 1} dimensions or more",
                "check the layout of the file",
            )
        return shape[dimension]

    def dtype(self, name: str) -> np.dtype[Any]:
        """Dtype of a member, from its header alone."""
        return self._header(name)[1]

    def small(self, name: str) -> Array:
        """A whole member of at most 64 MiB (shapes, names, per-graph pointers)."""
        member = self.open(name)
        rows = math.prod(member.shape)
        size = member.dtype.itemsize * rows
        if size > _MAX_SMALL_BYTES:
            fail(
                self.where(name),
                f"has {size} bytes, expected at most {_MAX_SMALL_BYTES}",
                "check the layout of the file",
            )
        # With what is made of it: masks become splits, pointers are widened.
        hold(self.where(name), 4 * size)
        shape, member.shape = member.shape, (rows,)
        flat = member.rows(rows)
        return np.asarray(flat.reshape(shape, order="F" if member.fortran else "C"))

    def texts(self, name: str) -> list[str]:
        """A small member that is a list of text; empty where it is something else."""
        values = self.small(name)
        if values.dtype.kind != "U" or values.ndim != 1:
            return []
        hold(self.where(name), _TEXT_BYTES * len(values))
        return list(values.tolist())


class _ShortReads(io.BufferedReader):
    """A file that refuses to read more than ``most`` bytes at once: a zip directory is short."""

    most: int | None = _DIRECTORY_BYTES_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        if self.most is not None and size is not None and size > self.most:
            raise zipfile.BadZipFile(
                f"its zip directory has {size} bytes, expected at most {self.most}"
            )
        return super().read(size)


def streamed_tensor(
    name: str,
    where: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    pieces: Callable[[int], Iterator[Array]],
    as_labels: bool = False,
) -> TensorPlan:
    """An array as a tensor: ``pieces`` streams its rows, so many at once.

    ``as_labels`` widens integers to i64, once those that do not fit are known.
    """
    labels = as_labels and dtype.kind in "iu"
    stored, wide = store_dtype(np.dtype(np.int64) if labels else dtype, where)
    row_bytes = max(dtype.itemsize, wide.itemsize) * math.prod(shape[1:])

    def chunks() -> Iterator[Array]:
        row = 0
        for piece in pieces(chunk_rows(row_bytes)):
            yield to_i64(piece, where, row) if labels else piece.astype(wide, copy=False)
            row += len(piece)

    return TensorPlan(name, stored, shape[1:], chunks, shape[0])


def open_npy(path: Path | str) -> Array:
    """Memory-maps a .npy file read-only; ImportFailed where it is damaged or holds objects."""
    file = need_file(path)
    where = str(file)
    with file.open("rb") as stream:
        with _damage(where, "is not a readable .npy file"):
            header = read_header(stream, where)
        size = stream.seek(0, io.SEEK_END)
    if header.start + header.data_bytes != size:
        fail(
            where,
            f"is not a readable .npy file: it has {size - header.start} bytes of data, "
            f"but shape {list(header.shape)} of {header.dtype} needs {header.data_bytes}",
            "write it again with numpy.save",
        )
    order: Literal["C", "F"] = "F" if header.fortran else "C"
    if header.data_bytes == 0:
        return np.empty(header.shape, dtype=header.dtype, order=order)
    return np.asarray(np.memmap(file, header.dtype, "r", header.start, header.shape, order))


def drop_pages(array: Array | None) -> None:
    """Gives back the memory of a mapped array's pages; what is needed again is read again."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)
