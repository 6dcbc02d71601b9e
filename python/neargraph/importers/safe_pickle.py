"""Reads the pickles of the Planetoid release without running anything they ask for.

A pickle is a program for a machine with a stack and a memo. This module has a machine of its own
for the few instructions that those files use. The names that they call (NumPy arrays and dtypes,
SciPy CSR matrices, lists, defaultdicts) stand for recorders here: nothing of NumPy or SciPy is
called or built by a pickle. Invariant: an array is numbers of a listed dtype, copied out of a
buffer that has exactly the bytes of its shape; anything else is an `ImportFailed`.
"""

import io
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neargraph.exceptions import BudgetTooSmall

from .check import fail, need_file
from .memory import hold
from .plan import Array

_MAX_BYTES = 1 << 30
_DIMENSION_MAX = 1 << 40
_DTYPES = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
_ORDERS = ("<", ">", "|", "=")
# What one instruction may leave in memory: an object, its place, and its entry in the memo.
_STEP_BYTES = 160
_STEPS = 1 << 14


class _Bad(Exception):
    """What is wrong with a pickle."""


@dataclass(eq=False, slots=True)
class _Name:
    """A name that the pickle asks for; it is never looked up."""

    name: str


@dataclass(eq=False, slots=True)
class _DtypeRecord:
    code: str
    order: str | None = None


@dataclass(eq=False, slots=True)
class _ArrayRecord:
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


def _call(called: Any, given: Any) -> Any:
    """What a call of one of the names records."""
    if not isinstance(called, _Name) or type(given) is not tuple:
        raise _Bad("it calls something that is not a name")
    if called.name == "_reconstruct" and len(given) == 3:
        if _is_name(given[0], "ndarray") and given[1] == (0,) and given[2] in ("b", b"b"):
            return _ArrayRecord()
    elif called.name == "dtype" and 1 <= len(given) <= 3:
        code, flags = _text(given[0]), given[1:]
        if type(code) is not str or code not in _DTYPES:
            shown = repr(code[:40]) if type(code) is str else "that is not text"
            raise _Bad(f"dtype {shown} is not one of {', '.join(_DTYPES)}")
        if all(type(flag) in (bool, int) for flag in flags):
            return _DtypeRecord(code)
    elif called.name == "csr_matrix" and not given:
        return _CsrRecord()
    elif called.name == "defaultdict" and len(given) == 1 and _is_name(given[0], "list"):
        return {}
    raise _Bad(f"it calls {called.name} in another way than Planetoid files do")


def _is_name(value: Any, name: str) -> bool:
    return isinstance(value, _Name) and value.name == name


def _build(record: Any, state: Any) -> None:
    """Takes the state of a record, which each may get once."""
    if isinstance(record, _DtypeRecord) and record.order is None and type(state) is tuple:
        plain = (None, None, None, -1, -1, 0)
        if len(state) == 8 and state[0] == 3 and state[2:] == plain and state[1] in _ORDERS:
            record.order = state[1]
            return
        raise _Bad("a dtype has fields, flags or a byte order of its own")
    elif isinstance(record, _ArrayRecord) and record.array is None and type(state) is tuple:
        if len(state) == 5:
            record.array = _array(*state)
            return
    elif isinstance(record, _CsrRecord) and record.parts is None and type(state) is dict:
        record.parts = _csr(state)
        return
    raise _Bad("it gives an object a state that Planetoid files do not have")


def _array(version: Any, shape: Any, dtype: Any, fortran: Any, raw: Any) -> Array:
    if version != 1 or type(shape) is not tuple or len(shape) > 2:
        raise _Bad("an array has another version, or more than two dimensions")
    if not all(type(n) is int and 0 <= n < _DIMENSION_MAX for n in shape):
        raise _Bad("an array has an impossible shape")
    if not isinstance(dtype, _DtypeRecord) or type(fortran) not in (bool, int):
        raise _Bad("an array has no dtype")
    if type(raw) is str:
        raw = raw.encode("latin1")
    kind = np.dtype((dtype.order or "=") + dtype.code)
    if type(raw) is not bytes or len(raw) != kind.itemsize * math.prod(shape):
        raise _Bad(f"an array of shape {shape} does not have the bytes of its shape")
    flat = np.frombuffer(bytearray(raw), dtype=kind)
    if kind.kind == "b":
        flat = flat.view(np.uint8) != 0
    return flat.reshape(shape, order="F" if fortran else "C")


def _csr(state: dict[Any, Any]) -> CsrParts:
    shape = state.get("_shape")
    if type(shape) is not tuple or len(shape) != 2:
        raise _Bad("a matrix has no shape of two dimensions")
    if not all(type(n) is int and 0 <= n < _DIMENSION_MAX for n in shape):
        raise _Bad("a matrix has an impossible shape")
    data, indices, indptr = (_column(state.get(key)) for key in ("data", "indices", "indptr"))
    return CsrParts(data, indices, indptr, shape)


def _column(part: Any) -> Array:
    if not isinstance(part, _ArrayRecord) or part.array is None or part.array.ndim != 1:
        raise _Bad("a matrix is not made of three arrays of one dimension")
    return part.array


def _text(value: Any) -> Any:
    return value.decode("latin1") if type(value) is bytes else value


def _key(value: Any) -> Any:
    # Anything else could be nested deep enough to overflow the stack of whoever hashes it.
    if type(value) in (int, str, bytes):
        return _text(value)
    raise _Bad("a dictionary has a key that is neither a number nor text")


class _Machine:
    """Stack and memo of one pickle of ``size`` bytes."""

    def __init__(self, size: int) -> None:
        self.bytes_left = size
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, name: str, arg: Any) -> None:
        """Does one instruction."""
        if name not in _INSTRUCTIONS:
            raise _Bad(f"it has the instruction {name}, which this reader does not know")
        _INSTRUCTIONS[name](self, arg)

    def push(self, value: Any) -> None:
        """Puts a value on the stack."""
        self.stack.append(value)

    def get(self, arg: Any) -> None:
        """Pushes a value of the memo."""
        self.push(self.memo[int(arg)])

    def put(self, arg: Any) -> None:
        """Keeps the last value in the memo, under the next number if none is given."""
        self.memo[len(self.memo) if arg is None else int(arg)] = self.stack[-1]

    def pop(self) -> Any:
        """The last value, which must lie above the last mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise _Bad("it takes a value where there is none")
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        """All values above the last mark."""
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def last(self, kind: type) -> Any:
        """The last value, a list or a dictionary that grows."""
        if type(self.stack[-1]) is not kind:
            raise _Bad(f"it adds to something that is not a {kind.__name__}")
        return self.stack[-1]

    def pops(self, count: int) -> list[Any]:
        """The last values, in order."""
        return [self.pop() for _ in range(count)][::-1]

    def name(self, arg: str) -> None:
        """Pushes one of the names."""
        if arg not in _NAMES:
            raise _Bad(f"it asks for {arg.replace(' ', '.', 1)[:80]}, which is never loaded here")
        self.push(_Name(_NAMES[arg]))

    def stack_name(self) -> None:
        """Pushes the name that lies on the stack as module and name."""
        module, name = self.pops(2)
        if type(name) is not str or type(module) is not str:
            raise _Bad("it asks for a name that is not text")
        self.name(f"{module} {name}")

    def call(self) -> None:
        """Calls the name below its arguments."""
        self.push(_call(*self.pops(2)))

    def build(self) -> None:
        """Gives the last but one value a state."""
        record, state = self.stack[-2], self.pop()
        _build(record, state)
        # Several arrays could share one string, and take many times the size of the file.
        if isinstance(record, _ArrayRecord) and record.array is not None:
            self.bytes_left -= record.array.nbytes
        if self.bytes_left < 0:
            raise _Bad("its arrays have more bytes than the file")

    def extend(self, values: list[Any]) -> None:
        """Adds values to the list below."""
        self.last(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Adds keys and values, in turn, to the dictionary below."""
        if len(values) % 2:
            raise _Bad("a dictionary has a key without a value")
        keys = [_key(key) for key in values[::2]]
        self.last(dict).update(zip(keys, values[1::2], strict=True))


_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_BYTES = ("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
_TEXTS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys((*_NUMBERS, *_BYTES, *_TEXTS), _Machine.push),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.pops(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.pops(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.pops(3))),
    "LIST": lambda machine, _: machine.push(machine.since_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.pops(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items(machine.pops(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "GLOBAL": _Machine.name,
    "STACK_GLOBAL": lambda machine, _: machine.stack_name(),
    "REDUCE": lambda machine, _: machine.call(),
    "NEWOBJ": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}


def load_plain_pickle(path: Path | str) -> Any:
    """The array, matrix or dictionary of a Planetoid pickle.

    Raises `ImportFailed` for a missing, truncated or hostile file.

    >>> load_plain_pickle("ind.cora.graph")[0]     # doctest: +SKIP
    [633, 1862, 2582]
    """
    file = need_file(path)
    size = file.stat().st_size
    if size > _MAX_BYTES:
        fail(file, "is larger than any Planetoid file", "check the path")
    # The file, its strings, and the arrays that are copied out of them.
    hold(str(file), 4 * size)
    machine = _Machine(size)
    try:
        # genops decodes one instruction at a time and never reads past the bytes that there are.
        for count, (op, arg, at) in enumerate(pickletools.genops(io.BytesIO(file.read_bytes()))):
            if count % _STEPS == _STEPS - 1:
                hold(str(file), _STEPS * _STEP_BYTES, (at or 0) / size)
            if op.name == "STOP":
                break
            machine.run(op.name, arg)
        result = machine.stack[-1]
    except BudgetTooSmall:
        raise
    except (_Bad, ValueError, IndexError, KeyError, OverflowError) as error:
        what = str(error) or type(error).__name__
        fail(file, f"not a Planetoid pickle ({what})", "download the data set again")
    if isinstance(result, _CsrRecord):
        result = result.parts
    return result.array if isinstance(result, _ArrayRecord) else result
