"""Checks that every parser shares, and the wording of their errors.

A message names the file, the row, what is wrong and what to do. Checks work on one chunk at a
time, with the number of its first row, so that they cost no memory.
"""

import os
import stat
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from neargraph.exceptions import ImportFailed
from neargraph.remedies import remedy
from neargraph.schema import NUMPY_OF

from .plan import Array

_STORE_DTYPE = {np.dtype(kind).name: name for name, kind in NUMPY_OF.items() if name != "bf16"}
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
_WIDENED = {"uint16": np.dtype(np.int32), "uint32": np.dtype(np.int64)}


def fail(where: Path | str, what: str, todo: str | dict[str, Any]) -> NoReturn:
    """Raises `ImportFailed`: "where: what; todo", where ``todo`` is text or a `remedies.remedy`."""
    if isinstance(todo, str):
        raise ImportFailed(f"{where}: {what}; {todo}")
    error = ImportFailed(f"{where}: {what}")
    error.remedies = [todo]
    raise error


def fail_row(
    bad: Array,
    values: Array,
    where: str,
    first_row: int,
    has: str,
    todo: str | dict[str, Any],
) -> NoReturn:
    """`fail` for the first of the ``bad`` rows of a chunk, with {} of ``has`` as its value."""
    row = int(bad.argmax())
    fail(where, f"row {first_row + row} has {has.format(values[row])}", todo)


def need_file(path: Path | str) -> Path:
    """The path of a readable regular file; `ImportFailed` says what else is there.

    Nothing else may be opened: opening a FIFO waits for its writer.
    """
    file = Path(path)
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        broken = os.path.lexists(file)
        what = (
            "is a symbolic link to a path that does not exist"
            if broken
            else "no such file or folder"
        )
        fail(file, what, "check the path")
    except (OSError, ValueError) as error:
        fail(file, f"cannot be read ({error})", "check the path")
    if stat.S_ISDIR(mode):
        fail(file, "is not a regular file but a folder", "give a file in the folder")
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _SPECIAL if test(mode)), "a special file")
        what = f"is not a regular file but {kind}, and an import reads its input several times"
        fail(file, what, remedy("ReadPipe"))
    return file


def file_beside(path: Path) -> Path | None:
    """An optional file of a set; None where nothing has its name, `need_file` where something."""
    return need_file(path) if os.path.lexists(path) else None


def part_beside(path: Path) -> Path | None:
    """`file_beside`, or what has its name with .gz."""
    return file_beside(path) or file_beside(path.with_name(f"{path.name}.gz"))


def store_dtype(dtype: np.dtype[Any], where: str) -> tuple[str, np.dtype[Any]]:
    """The store's name for a NumPy dtype, and the dtype rows are converted to first.

    Unsigned 16 and 32 bit integers widen to the next signed type. uint64, complex, strings and
    objects have no place in a tensor: `ImportFailed`.
    """
    native = np.dtype(dtype.newbyteorder("=").str)
    wide: Any = _WIDENED.get(native.name, native)
    name = _STORE_DTYPE.get(wide.name)
    if name is None:
        known = ", ".join(sorted(_STORE_DTYPE))
        fail(
            where,
            f"has dtype {dtype}, which cannot be stored as a tensor",
            f"convert the array to one of {known}",
        )
    return name, wide


def wider_than_f32(dtype: np.dtype[Any]) -> str | None:
    """The name of a float dtype that f32 does not hold; None for any other."""
    return dtype.name if dtype.kind == "f" and dtype.itemsize > 4 else None


def node_ids(ids: Array, where: str, first_row: int, bound: int | None = None) -> Array:
    """Checks one chunk of node ids: integers, not negative, below ``bound`` where it is known."""
    if ids.dtype.kind not in "iu":
        fail(where, f"node ids have dtype {ids.dtype}", "store them as integers")
    if ids.size == 0:
        return ids
    if ids.dtype.kind == "i" and int(ids.min()) < 0:
        todo = "node ids start at 0; drop the row or correct its id"
        fail_row(ids < 0, ids, where, first_row, "the negative node id {}", todo)
    top = int(ids.max())
    if bound is not None and top >= bound:
        has = f"node id {{}}, but there are {bound} nodes (0 to {bound - 1})"
        fail_row(ids >= bound, ids, where, first_row, has, "correct the row or the number of nodes")
    if top >= 1 << 63:
        todo = "renumber the nodes from 0"
        fail_row(ids >= 1 << 63, ids, where, first_row, "node id {}, which is 2^63 or more", todo)
    return ids


def to_i64(values: Array, where: str, first_row: int) -> Array:
    """Integers as i64; `ImportFailed` for one that does not fit."""
    if values.dtype == np.uint64 and values.size and int(values.max()) >= 1 << 63:
        row = int(np.flatnonzero((values >= 1 << 63).reshape(len(values), -1).any(axis=1))[0])
        what = f"row {first_row + row} has {values[row].max()}, which does not fit into int64"
        fail(where, what, "store numbers below 2^63")
    return values.astype(np.int64)


def whole_times(values: Array, where: str, first_row: int) -> Array:
    """Times as i64; `ImportFailed` for a fraction, NaN, or a number that does not fit."""
    if values.dtype.kind in "iub":
        return to_i64(values, where, first_row)
    if values.dtype.kind != "f":
        fail(where, f"times have dtype {values.dtype}", "store them as integers")
    bad = ~((values == np.floor(values)) & (np.abs(values) < 2.0**63))
    if bad.any():
        has = "the time {}, which is not a whole number within int64"
        todo = "scale the times to whole numbers, and store them as integers"
        fail_row(bad, values, where, first_row, has, todo)
    return values.astype(np.int64)


def same_rows(found: int, wanted: int, where: str, what: str) -> None:
    """Refuses a column whose length is not that of its owner."""
    if found != wanted:
        fail(
            where,
            f"{what} has {found} rows, expected {wanted}",
            f"write or download the file again, with {wanted} rows",
        )
