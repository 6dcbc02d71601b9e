"""The seeds of a loader, in any of PyG's spellings.

Which of them stand in which batch is for the compiled core (`SeedPlan`): a pure function of (seed,
epoch, batch), so that a resumed epoch, a worker and another rank agree.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph.exceptions import NodeOutOfRange
from neargraph.reader import Reader, as_ids
from neargraph.schema import NodeType
from neargraph.splits import SPLITS, split_owner

SeedPlan = _core.SeedPlan
"""The order of `num_seeds` places and its cut into global batches of `batch_size`."""


@dataclass(frozen=True)
class InputNodes:
    """The seeds of a loader: `ids` of one node type, or all its nodes but the `dead` ones.

    `by_node` tells that PyG's input_id is the node id (masks, splits) and not the place in `ids`;
    `named` has other ones. `times` has the time of each seed, where that is not its node's.
    """

    node_type: NodeType
    ids: NDArray[np.int64] | None
    by_node: bool
    dead: NDArray[np.int64] | None = None
    times: NDArray[np.int64] | None = None
    named: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.node_type.num_nodes_live if self.ids is None else len(self.ids)

    def core(self) -> _core.Inputs:
        """The same for the compiled core."""
        return _core.Inputs(self.node_type.index, self.ids, self.dead, self.times)

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        """Those at `places` alone."""
        times = None if self.times is None else self.times[places]
        return _core.Inputs(self.node_type.index, self.nodes(places), None, times)

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Node ids at `places`."""
        if self.ids is not None:
            return self.ids[places]
        if self.dead is None:
            return places
        # Live nodes before each dead one: those at or below a place shift it by one each.
        before = self.dead - np.arange(len(self.dead))
        return places + np.searchsorted(before, places, side="right")

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """PyG's input_id at `places`."""
        if self.named is not None:
            return self.named[places]
        return self.nodes(places) if self.by_node else places

    def digest(self) -> str:
        """A short text that differs where type or ids differ."""
        timed = "" if self.times is None else f":at:{digest_of(self.times)}"
        if self.ids is not None:
            return f"{self.node_type.name}:{len(self.ids)}:{digest_of(self.ids)}{timed}"
        all_nodes = f"{self.node_type.name}:all"
        return (
            all_nodes if self.dead is None else f"{all_nodes}:but:{digest_of(self.dead)}"
        ) + timed


def digest_of(ids: NDArray[np.int64]) -> str:
    """A short text that differs where the numbers differ."""
    return hashlib.blake2b(np.ascontiguousarray(ids).data, digest_size=8).hexdigest()


def with_given(inputs: InputNodes, *, times: Any = None, input_id: Any = None) -> InputNodes:
    """The same seeds with what a user gives for each of them.

    Raises:
        ValueError: Not one for each seed.
    """
    if times is not None:
        inputs = replace(inputs, times=one_for_each("input_time", times, len(inputs)))
    if input_id is not None:
        inputs = replace(inputs, named=one_for_each("input_id", input_id, len(inputs)))
    return inputs


def one_for_each(name: str, given: Any, count: int) -> NDArray[np.int64]:
    """`given` as int64, one for each of `count` seeds.

    Raises:
        ValueError: It has another length, or holds no whole numbers.
    """
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(
            f"{name} needs one value for each of {count} seeds, shape [{count}]; got shape "
            f"{list(array.shape)}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} holds whole numbers (int64), got dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)


def resolve_input_nodes(store: Reader, given: Any) -> InputNodes:
    """Turns any of PyG's spellings of ``input_nodes`` into node type and ids.

    Args:
        store: The store or snapshot.
        given: None (all nodes that are not deleted), ``"train"`` / ``"val"`` / ``"test"``, a node
            type, ids [n] or a boolean mask [num_nodes] (NumPy, torch or list), or (node type, any
            of these).

    Raises:
        NameNotFound: No such node type or split.
        NodeOutOfRange: An id is out of range.
        ValueError: A mask of the wrong length.
    """
    snap = store.snapshot()
    schema = snap.schema
    name: str | None = None
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        name, given = given
    elif isinstance(given, str) and given in snap.node_types:
        name, given = given, None
    if isinstance(given, str):
        if name is None and given in SPLITS:
            name = split_owner(schema, None).name
        elif name is None and len(schema.node_types) > 1:
            schema.node_type(given)
        return InputNodes(schema.node_type(name), snap.split(given, name), True)
    owner = schema.node_type(name)
    if given is None:
        dead = snap.dead_nodes(owner.name)
        return InputNodes(owner, None, True, dead if len(dead) else None)
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if array.shape != (owner.num_nodes,):
            raise ValueError(
                f"a mask over {owner.name!r} has shape [{owner.num_nodes}], got {array.shape}"
            )
        return InputNodes(owner, np.flatnonzero(array).astype(np.int64, copy=False), True)
    ids = as_ids(array)
    if len(ids) and not (ids.min() >= 0 and ids.max() < owner.num_nodes):
        bad = int(ids[(ids < 0) | (ids >= owner.num_nodes)][0])
        raise NodeOutOfRange(
            f"input_nodes: id {bad} of {owner.name!r} is not in 0 ... {owner.num_nodes - 1}"
        )
    return InputNodes(owner, ids, False)
