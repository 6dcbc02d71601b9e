"""Splits: u8 node columns ``split_0``, ``split_1``, ... with 0 none, 1 train, 2 val, 3 test.

PyG's boolean masks become such columns at import and are given back as masks here: [n], or [n, k]
where the masks had k columns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import NameNotFound
from neargraph.schema import NodeType, Schema

SPLITS = {"train": 1, "val": 2, "test": 3}


def split_code(name: str) -> int:
    """The number that stands for a split in its column."""
    if name not in SPLITS:
        raise NameNotFound(f"no split {name!r}; splits are 'train', 'val' and 'test'")
    return SPLITS[name]


def split_columns(owner: NodeType) -> list[str]:
    """The names of the split columns of a node type, in order."""
    names = [t.name for t in owner.tensors if t.is_split]
    return sorted(names, key=lambda name: int(name[6:]))


def split_owner(schema: Schema, node_type: str | None) -> NodeType:
    """The node type called `node_type`, or the only one with splits.

    Raises:
        NameNotFound: It has no splits.
    """
    if node_type is None:
        owners = [t for t in schema.node_types if split_columns(t)]
        if len(owners) == 1:
            return owners[0]
    owner = schema.node_type(node_type)
    if not split_columns(owner):
        raise NameNotFound(
            f"node type {owner.name!r} has no splits; give node ids, or import the store again "
            "with `neargraph import --split 60,20,20`"
        )
    return owner


def split_mask(
    owner: NodeType, name: str, read: Callable[[str], NDArray[Any]]
) -> NDArray[np.bool_]:
    """The mask of split `name` from the columns that `read` gives: [n] or [n, k]."""
    code = split_code(name)
    columns = split_columns(owner)
    width = next(t.mask_width for t in owner.tensors if t.is_split)
    if width is None and len(columns) == 1:
        mask: NDArray[np.bool_] = read(columns[0]) == code
        return mask
    return np.stack([read(column) == code for column in columns], axis=1)
