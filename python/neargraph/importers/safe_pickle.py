"""Reads the pickles of the Planetoid release without running anything they ask for.

A pickle is a program. This unpickler knows exactly the five names those files use (NumPy arrays,
SciPy CSR matrices, lists and defaultdicts); any other name is an `ImportFailed`, so a hostile
file cannot call a function. SciPy is not imported: a matrix arrives as its three arrays.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from .check import fail, need_file

_MAX_BYTES = 4 << 30


class CsrParts:
    """The attributes of a pickled scipy.sparse.csr_matrix: data, indices, indptr, shape."""

    data: Any
    indices: Any
    indptr: Any

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.data = np.asarray(state["data"])
        self.indices = np.asarray(state["indices"])
        self.indptr = np.asarray(state["indptr"])
        self.shape: tuple[int, int] = tuple(state["_shape"])


def _reconstruct(subtype: type, shape: tuple[int, ...], typecode: Any) -> Any:
    if subtype is not np.ndarray:
        raise pickle.UnpicklingError(f"array subtype {subtype!r}")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): CsrParts,
    ("scipy.sparse._csr", "csr_matrix"): CsrParts,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which this reader never loads"
            ) from None


def load_plain_pickle(path: Path | str) -> Any:
    """The arrays, matrices or dictionaries of a Planetoid pickle.

    Raises `ImportFailed` for a missing, truncated or hostile file.

    >>> load_plain_pickle("ind.cora.graph")[0]     # doctest: +SKIP
    [633, 1862, 2582]
    """
    file = need_file(path)
    if file.stat().st_size > _MAX_BYTES:
        fail(str(file), "is larger than any Planetoid file", "check the path")
    try:
        with file.open("rb") as stream:
            return _Unpickler(stream, encoding="latin1").load()
    except MemoryError:
        fail(str(file), "asks for more memory than there is", "the file is damaged or hostile")
    except Exception as error:
        fail(str(file), f"not a Planetoid pickle ({error})", "download the data set again")
