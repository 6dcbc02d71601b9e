"""How much memory an import may take, and who takes it.

The allowance covers what an import adds to the process: what parsers keep of the input (`hold`),
the pieces that stream (`need`), and the sorts of the extension, which get what is left. Invariant:
whoever would pass the allowance refuses before the memory is taken, and names what would do.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from neargraph.exceptions import BudgetTooSmall
from neargraph.units import format_bytes

INTERPRETER_BYTES = 60_000_000
"""What the command line takes before it imports anything: the interpreter and its libraries."""

_CORE_BYTES_MIN = 8 << 20
_PIECES_BYTES = 24 << 20
_RAM_SHARE = 4
_STEP_BYTES = 1 << 20


class Allowance:
    """The memory of one import: ``limit`` in bytes, of which ``held`` is taken until its end."""

    def __init__(self, memory: int | None, held: int = 0, piece: int = 0) -> None:
        ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.given = memory is not None
        self.limit = ram // _RAM_SHARE if memory is None else memory
        self.held = held
        self.shared = dict[str, int]()
        self.pieces = max(_PIECES_BYTES, piece)

    @property
    def wanted(self) -> int:
        """The least limit that would do."""
        return self.held + self.pieces + _CORE_BYTES_MIN

    def for_core(self) -> int | None:
        """The bound to give to the extension, which leaves a quarter of it to others.

        None leaves it to the extension, which knows the limits of containers.
        """
        if not self.given:
            return None
        return min(self.limit, (self.limit - self.held - self.pieces) // 3 * 4)


_allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowed(
    memory: int | None, held: int = 0, piece: int = 0, where: str = "import"
) -> Iterator[Allowance]:
    """The allowance of all that the block reads; `BudgetTooSmall` where the start does not fit."""
    allowance = Allowance(memory, held, piece)
    if allowance.wanted > allowance.limit:
        too_small(where, allowance.wanted, allowance.limit)
    token = _allowance.set(allowance)
    try:
        yield allowance
    finally:
        _allowance.reset(token)


def current() -> Allowance:
    """The allowance of the running import; a quarter of RAM outside of one."""
    return _allowance.get() or Allowance(None)


def hold(where: str, num_bytes: int, done: float = 1.0) -> None:
    """Counts memory that stays until the import ends; `BudgetTooSmall` where it does not fit.

    ``done`` is the share of the input that has been read, from which the error tells the whole.
    """
    allowance = current()
    allowance.held += num_bytes
    if allowance.wanted > allowance.limit:
        rest = int(allowance.held * (1 / min(1.0, max(done, 1e-6)) - 1))
        too_small(where, allowance.wanted + rest, allowance.limit)


def hold_shared(where: str, wanted: Mapping[str, int]) -> None:
    """`hold` for what several inputs share, such as a library: of each the largest size counts."""
    known = current().shared
    sizes = {name: max(size, known.get(name, 0)) for name, size in wanted.items()}
    hold(where, sum(size - known.get(name, 0) for name, size in sizes.items()))
    known.update(sizes)


def hold_to(where: str, num_bytes: int, held: int, done: float = 1.0) -> int:
    """`hold` for what grows to ``num_bytes``, in steps; returns how much of it is counted."""
    if num_bytes <= held + _STEP_BYTES:
        return held
    hold(where, num_bytes - held, done)
    return num_bytes


def need(where: str, num_bytes: int) -> None:
    """Checks memory that one step takes and gives back; `BudgetTooSmall` where it does not fit."""
    allowance = current()
    wanted = allowance.wanted + max(0, num_bytes - allowance.pieces)
    if num_bytes > max(allowance.pieces, allowance.limit // 4) or wanted > allowance.limit:
        too_small(where, max(wanted, 4 * num_bytes), allowance.limit)


def beside_interpreter(memory: int) -> int:
    """What an import may take where the whole process may take ``memory`` bytes."""
    left = memory - INTERPRETER_BYTES
    wanted = Allowance(None).wanted
    if left < wanted:
        taken, size = format_bytes(INTERPRETER_BYTES), format_bytes(memory)
        raise BudgetTooSmall(
            f"{size} is too little memory for an import: the Python interpreter takes {taken}",
            wanted,
        )
    return left


def too_small(where: str, wanted: int, limit: int) -> NoReturn:
    """Raises `BudgetTooSmall` with the least memory that would do."""
    # More than was counted, since what is printed has to work when it is given back.
    wanted += wanted // 50
    raise BudgetTooSmall(
        f"{where}: the import needs {format_bytes(wanted, up=True)} in addition to the "
        f"interpreter's memory, but only {format_bytes(limit)} of the memory budget are left",
        wanted,
    )
