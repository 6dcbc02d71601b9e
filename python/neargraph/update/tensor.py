"""A tensor that a store gets after its import: rows from an array, a file, or part by part.

What is durable when, and what a crash leaves, is decided in the compiled core alone. The invariant:
rows are stored as they are given; what no dtype of the store holds is refused.
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
    """See `Store.add_tensor`."""
    owner = store.schema.node_type(node_type)
    check_name(owner, name)
    is_bf16 = str(getattr(rows, "dtype", "")) == "torch.bfloat16"
    table = _loaded(rows) if isinstance(rows, (str, os.PathLike)) else as_array(name, rows)
    dtype = "bf16" if is_bf16 else _DTYPE_OF.get(table.dtype.newbyteorder("="))
    if dtype is None:
        raise UnsupportedArgument(
            f"tensor {name!r} cannot have elements of {table.dtype}: convert them to one of "
            f"{', '.join(str(known) for known in _DTYPE_OF)}"
        )
    if table.ndim == 0:
        raise UnsupportedArgument(f"tensor {name!r} needs an array [nodes, ...], got one number")
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
    """Adds a tensor whose rows come in parts, none of them empty; the number of the commit."""
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
        raise UnsupportedArgument(f"a version of {of.path} says nothing about {store.path}")
    count = of.schema.node_type(owner.name).num_nodes
    if num_rows != count:
        raise UnsupportedArgument(
            f"tensor {name!r} has {num_rows} rows, and node type {owner.name!r} had {count} nodes "
            f"at commit {of.lsn}"
        )


def check_name(owner: NodeType, name: str) -> None:
    """`UnsupportedArgument` if a node type cannot get a tensor of this name."""
    if not name:
        raise UnsupportedArgument("a tensor needs a name, got an empty one")
    if any(meta.name == name for meta in owner.tensors):
        raise UnsupportedArgument(
            f"node type {owner.name!r} has a tensor {name!r} already, and none is replaced: choose "
            "another name, or change its rows with tx.update_features"
        )
    if name.startswith("split_"):
        raise UnsupportedArgument(f"tensor {name!r}: names that begin with split_ are of splits")


def _loaded(path: str | os.PathLike[str]) -> NDArray[Any]:
    file = Path(path)
    if file.suffix != ".npy":
        raise UnsupportedArgument(f"{file}: rows come from a .npy file or from an array")
    try:
        table: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise UnsupportedArgument(f"{file}: {error}") from None
    return table
