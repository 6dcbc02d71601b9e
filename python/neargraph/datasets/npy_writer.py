"""A .npy file that is written in pieces."""

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class NpyWriter:
    """A .npy file that is written in pieces, in order or at given positions."""

    def __init__(
        self,
        file: Path | IO[bytes],
        kind: np.dtype[Any],
        shape: tuple[int, ...],
        fortran: bool = False,
    ) -> None:
        self._kind = kind
        self._file = file.open("wb") if isinstance(file, Path) else file
        head = {"descr": kind.str, "fortran_order": fortran, "shape": shape}
        np.lib.format.write_array_header_2_0(self._file, head)
        self._start = self._file.tell() if self._file.seekable() else 0

    def write(self, rows: NDArray[Any]) -> None:
        """Appends rows."""
        self._file.write(np.ascontiguousarray(rows, dtype=self._kind).data)

    def write_at(self, place: int, values: NDArray[Any]) -> None:
        """Writes elements at a position."""
        self._file.seek(self._start + place * self._kind.itemsize)
        self.write(values)

    def close(self) -> None:
        """Completes and closes the file."""
        self._file.close()

    def __enter__(self) -> "NpyWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
