"""Reads the pickles of the Planetoid release without running anything they ask for.

The names that they call (NumPy arrays and dtypes, SciPy CSR matrices, lists, defaultdicts) stand
for recorders here (`pickle_machine.py`): nothing of NumPy or SciPy is called or built by a pickle.
Invariant: an array is numbers of a listed dtype, copied out of a buffer that has exactly the bytes
of its shape; anything else is an `ImportFailed`.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import BudgetTooSmall

from .check import fail, need_file
from .memory import hold
from .pickle_machine import BadPickle, Dialect, Name, as_stream, run_pickle
from .plan import Array

_MAX_BYTES = 1 << 30
_DIMENSION_MAX = 1 << 40
_DTYPES = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
_ORDERS = ("<", ">", "|", "=")


@dataclass(eq=False, slots=True)
class DtypeRecord:
    """A dtype: its code, and its byte order once it has a state."""

    code: str
    order: str | None = None


@dataclass(eq=False, slots=True)
class ArrayRecord:
    """An array, once it has a state."""

    array: Array | None = None


@dataclass(eq=False, slots=True)
class CsrParts:
    """The attributes of a pickled scipy.sparse.csr_matrix: data, indices, indptr, shape."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]


@dataclass(eq=False, slots=True)
class _CsrRecord:
    parts: CsrParts | None = None


_NAMES = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "_reconstruct",
    "numpy._core.multiarray _reconstruct": "_reconstruct",
    "scipy.sparse.csr csr_matrix": "csr_matrix",
    "scipy.sparse._csr csr_matrix": "csr_matrix",
    "collections defaultdict": "defaultdict",
    "__builtin__ list": "list",
    "builtins list": "list",
}


def call_numpy(called: Any, given: Any) -> Any:
    """What a call of one of NumPy's names records; None where it is not one that plain arrays do.

    Raises `BadPickle` for a call of something that is not a name, and for other dtypes.
    """
    if not isinstance(called, Name) or type(given) is not tuple:
        raise BadPickle("the pickle calls something that is not a class or function")
    if called.name == "_reconstruct" and len(given) == 3:
        if is_name(given[0], "ndarray") and given[1] == (0,) and given[2] in ("b", b"b"):
            return ArrayRecord()
    elif called.name == "dtype" and 1 <= len(given) <= 3:
        code, flags = _text(given[0]), given[1:]
        if type(code) is not str or code not in _DTYPES:
            shown = repr(code[:40]) if type(code) is str else "(not a string)"
            raise BadPickle(f"an array has dtype {shown}, expected one of {', '.join(_DTYPES)}")
        if all(type(flag) in (bool, int) for flag in flags):
            return DtypeRecord(code)
    return None


def _call(called: Any, given: Any) -> Any:
    """What a call of one of the names records."""
    found = call_numpy(called, given)
    if found is not None:
        return found
    if called.name == "csr_matrix" and not given:
        return _CsrRecord()
    if called.name == "defaultdict" and len(given) == 1 and is_name(given[0], "list"):
        return {}
    raise BadPickle(f"the pickle calls {called.name} with other arguments than Planetoid files do")


def is_name(value: Any, name: str) -> bool:
    """Whether a value is the recorder called ``name``."""
    return isinstance(value, Name) and value.name == name


def build_numpy(record: Any, state: Any) -> int | None:
    """Gives a dtype or an array its state, which each may get once; None for anything else.

    Returns the bytes that the record now has of its own.
    """
    if isinstance(record, DtypeRecord) and record.order is None and type(state) is tuple:
        plain = (None, None, None, -1, -1, 0)
        if len(state) == 8 and state[0] == 3 and state[2:] == plain and state[1] in _ORDERS:
            record.order = state[1]
            return 0
        raise BadPickle("a dtype has fields, flags or an unknown byte order")
    if isinstance(record, ArrayRecord) and record.array is None and type(state) is tuple:
        record.array = _array(*state) if len(state) == 5 else None
        return None if record.array is None else int(record.array.nbytes)
    return None


def _build(record: Any, state: Any) -> int:
    found = build_numpy(record, state)
    if found is not None:
        return found
    if isinstance(record, _CsrRecord) and record.parts is None and type(state) is dict:
        record.parts = _csr(state)
        return 0
    raise BadPickle("the pickle gives an object a state that Planetoid files do not have")


def _array(version: Any, shape: Any, dtype: Any, fortran: Any, raw: Any) -> Array:
    if version != 1 or type(shape) is not tuple or len(shape) > 2:
        raise BadPickle(
            "an array has more than two dimensions, or a format version that is not supported"
        )
    if not all(type(n) is int and 0 <= n < _DIMENSION_MAX for n in shape):
        raise BadPickle("the shape of an array is not made of integers from 0 to 2^40 - 1")
    if not isinstance(dtype, DtypeRecord) or type(fortran) not in (bool, int):
        raise BadPickle("an array has no dtype")
    if type(raw) is str:
        raw = raw.encode("latin1")
    kind = np.dtype((dtype.order or "=") + dtype.code)
    if type(raw) is not bytes or len(raw) != kind.itemsize * math.prod(shape):
        raise BadPickle(f"the bytes of an array do not match its shape {shape}")
    flat = np.frombuffer(bytearray(raw), dtype=kind)
    if kind.kind == "b":
        flat = flat.view(np.uint8) != 0
    return flat.reshape(shape, order="F" if fortran else "C")


def _csr(state: dict[Any, Any]) -> CsrParts:
    shape = state.get("_shape")
    if type(shape) is not tuple or len(shape) != 2:
        raise BadPickle("the shape of a sparse matrix does not have two dimensions")
    if not all(type(n) is int and 0 <= n < _DIMENSION_MAX for n in shape):
        raise BadPickle("the shape of a sparse matrix is not made of integers from 0 to 2^40 - 1")
    data, indices, indptr = (_column(state.get(key)) for key in ("data", "indices", "indptr"))
    return CsrParts(data, indices, indptr, shape)


def _column(part: Any) -> Array:
    if not isinstance(part, ArrayRecord) or part.array is None or part.array.ndim != 1:
        raise BadPickle("a sparse matrix does not consist of three one-dimensional arrays")
    return part.array


def _text(value: Any) -> Any:
    return value.decode("latin1") if type(value) is bytes else value


def plain_key(value: Any) -> Any:
    """The key of a dictionary: a number or text."""
    # Anything else could be nested deep enough to overflow the stack of whoever hashes it.
    if type(value) in (int, str, bytes):
        return _text(value)
    raise BadPickle("a dictionary has a key that is neither an integer nor a string")


_DIALECT = Dialect(
    lambda name: Name(_NAMES[name]) if name in _NAMES else None, _call, _build, plain_key
)


def load_plain_pickle(path: Path | str) -> Any:
    """The array, matrix or dictionary of a Planetoid pickle.

    Raises `ImportFailed` for a missing, truncated or hostile file.

    >>> load_plain_pickle("ind.cora.graph")[0]     # doctest: +SKIP
    [633, 1862, 2582]
    """
    file = need_file(path)
    size = file.stat().st_size
    if size > _MAX_BYTES:
        fail(file, "is larger than 1 GiB, the limit for Planetoid files", "check the path")
    # The file, its strings, and the arrays that are copied out of them.
    hold(str(file), 4 * size)
    try:
        result = run_pickle(as_stream(file.read_bytes()), size, str(file), _DIALECT)
    except BudgetTooSmall:
        raise
    except (BadPickle, ValueError, IndexError, KeyError, OverflowError) as error:
        what = str(error) or type(error).__name__
        fail(file, f"is not a Planetoid pickle ({what})", "download the data set again")
    if isinstance(result, _CsrRecord):
        result = result.parts
    return result.array if isinstance(result, ArrayRecord) else result
