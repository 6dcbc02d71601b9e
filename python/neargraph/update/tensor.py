"""Adding a tensor after the import: rows from an array, a file, or in parts.

Only the compiled core decides when rows are durable, and what remains after a crash. Invariant:
rows keep their dtype; a dtype that the store does not have is rejected.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.reader import Version
from neargraph.schema import NUMPY_OF, NodeType
from neargraph.update.rows import as_array

if TYPE_CHECKING:
    from neargraph.store import Store

_PART_BYTES = 8 << 20
_DTYPE_OF = {np.dtype(kind): name for name, kind in NUMPY_OF.items() if name != "bf16"}


def add_tensor(
    store: "Store", name: str, rows: Any, node_type: str | None, of: Version | None
) -> int:
    """Implements `Store.add_tensor`."""
    owner = store.schema.node_type(node_type)
    check_name(owner, name)
    is_bf16 = str(getattr(rows, "dtype", "")) == "torch.bfloat16"
    table = _loaded(rows) if isinstance(rows, (str, os.PathLike)) else as_array(name, rows)
    dtype = "bf16" if is_bf16 else _DTYPE_OF.get(table.dtype.newbyteorder("="))
    if dtype is None:
        raise UnsupportedArgument(
            f"tensor {name!r} cannot store elements of {table.dtype}: convert them to one of "
            f"{', '.join(str(known) for known in _DTYPE_OF)}"
        )
    if table.ndim == 0:
        raise UnsupportedArgument(
            f"tensor {name!r}: expected an array [nodes, ...], got one number"
        )
    shape = list(table.shape[1:])
    width = int(np.prod(shape, dtype=np.int64)) * table.dtype.itemsize
    step = max(1, _PART_BYTES // max(1, width))
    parts = (table[first : first + step] for first in range(0, len(table), step))
    return add_parts(store, owner, name, dtype, shape, len(table), parts, of)


def add_parts(
    store: "Store",
    owner: NodeType,
    name: str,
    dtype: str,
    shape: list[int],
    num_rows: int,
    parts: Iterator[NDArray[Any]],
    of: Version | None,
) -> int:
    """Adds a tensor from parts of rows, none of them empty. Returns the number of the commit."""
    if of is not None:
        _check_version(store, owner, name, num_rows, of)
    stored = np.dtype(NUMPY_OF[dtype]).newbyteorder("<")

    def next_part() -> NDArray[np.uint8] | None:
        part = next(parts, None)
        if part is None:
            return None
        return np.ascontiguousarray(part, dtype=stored).reshape(-1).view(np.uint8)

    lsn = None if of is None else of.lsn
    core, turn = store.core, store.turn
    turn.take()
    try:
        return core.add_tensor(owner.index, name, dtype, shape, num_rows, lsn, next_part)
    finally:
        turn.give()


def _check_version(store: "Store", owner: NodeType, name: str, num_rows: int, of: Version) -> None:
    if of.path != store.path:
        raise UnsupportedArgument(
            f"of= is a snapshot of {of.path}: expected a snapshot of {store.path}"
        )
    count = of.schema.node_type(owner.name).num_nodes
    if num_rows != count:
        raise UnsupportedArgument(
            f"tensor {name!r} has {num_rows} rows, but node type {owner.name!r} had {count} ids at "
            f"commit {of.lsn}; give one row for each id"
        )


def check_name(owner: NodeType, name: str) -> None:
    """Checks that a node type can get a tensor of this name.

    Raises:
        UnsupportedArgument: The name is empty, taken, or reserved for splits.
    """
    if not name:
        raise UnsupportedArgument("the name of the tensor is empty; choose a name")
    if any(meta.name == name for meta in owner.tensors):
        raise UnsupportedArgument(
            f"node type {owner.name!r} already has a tensor {name!r}, which cannot be replaced: "
            "choose another name, or change the rows of this tensor with tx.update_features"
        )
    if name.startswith("split_"):
        raise UnsupportedArgument(
            f"tensor {name!r}: names that begin with split_ are reserved for splits; choose "
            "another name"
        )


def _loaded(path: str | os.PathLike[str]) -> NDArray[Any]:
    file = Path(path)
    if file.suffix != ".npy":
        raise UnsupportedArgument(f"{file} is not a .npy file: expected a .npy file or an array")
    try:
        table: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise UnsupportedArgument(f"{file}: {error}") from None
    return table
