"""The seeds of a loader, in all spellings of PyG.

The compiled core (`SeedPlan`) assigns seeds to batches. This is a pure function of (seed, epoch,
batch), so that a resumed epoch, a worker and another rank agree.
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
"""The order of `num_seeds` places, and their division into global batches of `batch_size`."""


@dataclass(frozen=True)
class InputNodes:
    """The seeds of a loader.

    Attributes:
        node_type: Their node type.
        ids: Their ids; None: all nodes of the type.
        by_node: PyG's input_id is the node id (masks, splits), not the place in `ids`.
        dead: Deleted nodes to leave out, if `ids` is None.
        times: Times of the seeds, if they are not those of their nodes.
        named: Values of input_id that a user gave.
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
        """Returns the seeds for the compiled core."""
        return _core.Inputs(self.node_type.index, self.ids, self.dead, self.times)

    def at(self, places: NDArray[np.int64]) -> _core.Inputs:
        """Returns the seeds at `places` for the compiled core."""
        times = None if self.times is None else self.times[places]
        return _core.Inputs(self.node_type.index, self.nodes(places), None, times)

    def nodes(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the node ids at `places`."""
        if self.ids is not None:
            return self.ids[places]
        if self.dead is None:
            return places
        # The number of live nodes before each dead one. Each number that is at most a place shifts
        # this place by one.
        before = self.dead - np.arange(len(self.dead))
        return places + np.searchsorted(before, places, side="right")

    def input_id(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns PyG's input_id at `places`."""
        if self.named is not None:
            return self.named[places]
        return self.nodes(places) if self.by_node else places

    def digest(self) -> str:
        """Returns a short text that differs if type, ids or times differ."""
        timed = "" if self.times is None else f":at:{digest_of(self.times)}"
        if self.ids is not None:
            return f"{self.node_type.name}:{len(self.ids)}:{digest_of(self.ids)}{timed}"
        all_nodes = f"{self.node_type.name}:all"
        return (
            all_nodes if self.dead is None else f"{all_nodes}:but:{digest_of(self.dead)}"
        ) + timed


def digest_of(ids: NDArray[np.int64]) -> str:
    """Returns a short text that differs if the numbers differ."""
    return hashlib.blake2b(np.ascontiguousarray(ids).data, digest_size=8).hexdigest()


def with_given(inputs: InputNodes, *, times: Any = None, input_id: Any = None) -> InputNodes:
    """Returns the seeds with times and input_id that a user gave.

    Raises:
        ValueError: There is not one value per seed.
    """
    if times is not None:
        inputs = replace(inputs, times=one_for_each("input_time", times, len(inputs)))
    if input_id is not None:
        inputs = replace(inputs, named=one_for_each("input_id", input_id, len(inputs)))
    return inputs


def one_for_each(name: str, given: Any, count: int) -> NDArray[np.int64]:
    """Returns `given` as int64, one for each of `count` seeds.

    Raises:
        ValueError: It has another length, or does not hold whole numbers.
    """
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(
            f"{name}= must have one value for each of {count} seeds, shape [{count}], got shape "
            f"{list(array.shape)}"
        )
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}= must hold whole numbers (int64), got dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)


def resolve_input_nodes(store: Reader, given: Any) -> InputNodes:
    """Returns the seeds for PyG's ``input_nodes``, in all its spellings.

    Args:
        store: The store or snapshot.
        given: ``"train"`` / ``"val"`` / ``"test"``, a node type, ids [n] or a boolean mask
            [num_nodes] (NumPy, torch or list), or (node type, any of these). None: all nodes that
            are not deleted.

    Raises:
        NameNotFound: A node type or split does not exist.
        NodeOutOfRange: An id is out of range.
        ValueError: A mask has the wrong length.
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
                f"a mask over nodes of type {owner.name!r} must have shape [{owner.num_nodes}], "
                f"got {list(array.shape)}"
            )
        return InputNodes(owner, np.flatnonzero(array).astype(np.int64, copy=False), True)
    ids = as_ids(array)
    if len(ids) and not (ids.min() >= 0 and ids.max() < owner.num_nodes):
        bad = int(ids[(ids < 0) | (ids >= owner.num_nodes)][0])
        raise NodeOutOfRange(
            f"seed {bad} is not a node of type {owner.name!r}: expected ids from 0 to "
            f"{owner.num_nodes - 1}"
        )
    return InputNodes(owner, ids, False)
