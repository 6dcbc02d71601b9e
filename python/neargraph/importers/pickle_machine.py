"""The machine that reads pickles without running anything they ask for.

A pickle is a program for a machine with a stack and a memo. Here is a machine of its own for the
instructions that plain data uses. What a name stands for, and what it means to call it, says a
`Dialect`: recorders, never the objects of the name. Invariant: nothing is imported, called or built
because a pickle asks for it, and a pickle gets no more memory than its size allows.
"""

import io
import pickletools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from .memory import hold

# What one instruction may leave in memory: an object, its place, and its entry in the memo.
_STEP_BYTES = 160
_STEPS = 1 << 14


class BadPickle(Exception):
    """What is wrong with a pickle."""


@dataclass(eq=False, slots=True)
class Name:
    """A name that a pickle asks for; it is never looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the names of a kind of pickle stand for.

    ``names`` maps "module name" to the name of a recorder, or says by a function what stands for
    it (None: refuse). ``call`` gives the value of a call; ``build`` takes the state of a record and
    gives the bytes that it now has of its own; ``persistent`` gives the value of a persistent id;
    ``key`` checks the key of a dictionary; ``more`` are instructions beside those of plain data.
    """

    names: Callable[[str], Any]
    call: Callable[[Any, Any], Any]
    build: Callable[[Any, Any], int]
    key: Callable[[Any], Any]
    persistent: Callable[[Any], Any] | None = None
    more: Mapping[str, "Instruction"] = field(default_factory=dict)


class Machine:
    """Stack and memo of one pickle whose arrays may have ``size`` bytes."""

    def __init__(self, size: int, dialect: Dialect) -> None:
        self.bytes_left = size
        self.dialect = dialect
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, name: str, arg: Any) -> None:
        """Does one instruction."""
        known = _INSTRUCTIONS.get(name) or self.dialect.more.get(name)
        if known is None:
            raise BadPickle(f"the pickle has the instruction {name}, which is not supported")
        known(self, arg)

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
            raise BadPickle("the pickle takes a value from an empty stack")
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
            raise BadPickle(f"the pickle adds to something that is not a {kind.__name__}")
        return self.stack[-1]

    def pops(self, count: int) -> list[Any]:
        """The last values, in order."""
        return [self.pop() for _ in range(count)][::-1]

    def name(self, arg: str) -> None:
        """Pushes what stands for a name."""
        found = self.dialect.names(arg)
        if found is None:
            shown = arg.replace(" ", ".", 1)[:80]
            raise BadPickle(f"the pickle refers to {shown}, which an import never loads")
        self.push(found)

    def stack_name(self) -> None:
        """Pushes what stands for the name that lies on the stack as module and name."""
        module, name = self.pops(2)
        if type(name) is not str or type(module) is not str:
            raise BadPickle("the pickle refers to a class by a name that is not a string")
        self.name(f"{module} {name}")

    def call(self) -> None:
        """Calls the name below its arguments."""
        self.push(self.dialect.call(*self.pops(2)))

    def build(self) -> None:
        """Gives the last but one value a state."""
        record, state = self.stack[-2], self.pop()
        # Several arrays could share one string, and take many times the size of the file.
        self.bytes_left -= self.dialect.build(record, state)
        if self.bytes_left < 0:
            raise BadPickle("the arrays of the pickle have more bytes than the file")

    def persist(self) -> None:
        """Replaces a persistent id by what it stands for."""
        assert self.dialect.persistent is not None
        self.push(self.dialect.persistent(self.pop()))

    def extend(self, values: list[Any]) -> None:
        """Adds values to the list below."""
        self.last(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        """Adds keys and values, in turn, to the dictionary below."""
        if len(values) % 2:
            raise BadPickle("a dictionary has a key without a value")
        keys = [self.dialect.key(key) for key in values[::2]]
        self.last(dict).update(zip(keys, values[1::2], strict=True))


Instruction = Callable[[Machine, Any], None]

_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_BYTES = ("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8")
_TEXTS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_INSTRUCTIONS: dict[str, Instruction] = {
    **dict.fromkeys((*_NUMBERS, *_BYTES, *_TEXTS), Machine.push),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.get),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine.put),
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
    "GLOBAL": Machine.name,
    "STACK_GLOBAL": lambda machine, _: machine.stack_name(),
    "REDUCE": lambda machine, _: machine.call(),
    "NEWOBJ": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}


def run_pickle(stream: IO[bytes], size: int, where: str, dialect: Dialect) -> Any:
    """The value of the pickle that begins at the place of ``stream``, which is left at its end.

    ``size`` bounds the bytes of the arrays in it, and tells how much of it is done. Memory beyond
    that of the stream is counted as it is taken (`memory.hold`).

    Raises:
        BadPickle: The pickle asks for something that the dialect does not have.
        ValueError, IndexError, KeyError, OverflowError: It is damaged.
        BudgetTooSmall: What it makes does not fit into the memory of the import.
    """
    machine = Machine(size, dialect)
    # genops decodes one instruction at a time and never reads past the bytes that there are.
    for count, (op, arg, at) in enumerate(_operations(stream)):
        if count % _STEPS == _STEPS - 1:
            hold(where, _STEPS * _STEP_BYTES, (at or 0) / max(1, size))
        if op.name == "STOP":
            break
        machine.run(op.name, arg)
    return machine.stack[-1]


def _operations(stream: IO[bytes]) -> Iterator[tuple[Any, Any, int | None]]:
    return pickletools.genops(stream)


def as_stream(data: bytes) -> IO[bytes]:
    """Bytes as something that `run_pickle` reads."""
    return io.BytesIO(data)
