"""Splits: u8 node tensors ``split_0``, ``split_1``, ... with 0 none, 1 train, 2 val, 3 test.

An import converts PyG's boolean masks to such tensors. `split_mask` converts them back: [n], or
[n, k] if the masks had k columns.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import NameNotFound
from neargraph.schema import NodeType, Schema

SplitName = Literal["train", "val", "test"]
"""The parts of a split."""

SPLITS = {"train": 1, "val": 2, "test": 3}


def split_code(name: str) -> int:
    """Returns the number of a split in its tensor.

    Raises:
        NameNotFound: `name` is not the name of a split.
    """
    if name not in SPLITS:
        raise NameNotFound(f"{name!r} is not a valid split: expected 'train', 'val' or 'test'")
    return SPLITS[name]


def split_columns(owner: NodeType) -> list[str]:
    """Returns the names of a node type's split tensors, in order."""
    names = [t.name for t in owner.tensors if t.is_split]
    return sorted(names, key=lambda name: int(name[6:]))


def split_owner(schema: Schema, node_type: str | None) -> NodeType:
    """Returns the node type `node_type`, or the only one with splits if it is None.

    Raises:
        NameNotFound: The node type has no splits.
    """
    if node_type is None:
        owners = [t for t in schema.node_types if split_columns(t)]
        if len(owners) == 1:
            return owners[0]
    owner = schema.node_type(node_type)
    if not split_columns(owner):
        raise NameNotFound(
            f"node type {owner.name!r} has no splits; give node ids, or create a split with "
            "`neargraph split STORE --sizes 60,20,20`"
        )
    return owner


def split_mask(
    owner: NodeType, name: str, read: Callable[[str], NDArray[Any]]
) -> NDArray[np.bool_]:
    """Returns the mask of split `name`, [n] or [n, k]. `read` returns a tensor by name."""
    code = split_code(name)
    columns = split_columns(owner)
    width = next(t.mask_width for t in owner.tensors if t.is_split)
    if width is None and len(columns) == 1:
        mask: NDArray[np.bool_] = read(columns[0]) == code
        return mask
    return np.stack([read(column) == code for column in columns], axis=1)
