"""Which seeds stand in which batch.

The plan is a pure function of (seed, train_epoch, batch): any batch is found without those before
it, so a resumed epoch, a worker and another rank agree. The invariant: the global batches are the
same for every world size; a rank takes its contiguous part of each.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph.exceptions import NodeOutOfRange
from neargraph.schema import NodeType
from neargraph.snapshot import Reader, as_ids
from neargraph.splits import SPLITS, split_owner

# Seeds laid out at once for the background threads: 2 MiB of ids, whatever the graph.
_SEGMENT_SEEDS = 1 << 18


@dataclass(frozen=True)
class InputNodes:
    """The seeds of a loader: `ids` of one node type, or all its nodes but the `dead` ones.

    `by_node` tells that PyG's input_id is the node id (masks, splits) and not the place in `ids`.
    """

    node_type: NodeType
    ids: NDArray[np.int64] | None
    by_node: bool
    dead: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.node_type.num_nodes_live if self.ids is None else len(self.ids)

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
        return self.nodes(places) if self.by_node else places

    def digest(self) -> str:
        """A short text that differs where type or ids differ."""
        if self.ids is not None:
            return f"{self.node_type.name}:{len(self.ids)}:{_hash(self.ids)}"
        all_nodes = f"{self.node_type.name}:all"
        return all_nodes if self.dead is None else f"{all_nodes}:but:{_hash(self.dead)}"


def _hash(ids: NDArray[np.int64]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(ids).data, digest_size=8).hexdigest()


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


@dataclass(frozen=True, kw_only=True)
class SeedPlan:
    """The order of `num_seeds` places and its cut into global batches of `batch_size`."""

    num_seeds: int
    batch_size: int
    shuffle: bool = False
    seed: int = 0
    drop_last: bool = False
    pad: bool = False
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank must be in 0 ... world_size - 1, got {self.rank} of {self.world_size}"
            )
        if self.batch_size % self.world_size:
            raise ValueError(
                f"batch_size counts the global batch: {self.batch_size} is no multiple of "
                f"world_size {self.world_size}"
            )

    @property
    def local_batch_size(self) -> int:
        """Seeds of one rank in one full batch."""
        return self.batch_size // self.world_size

    @property
    def steps(self) -> int:
        """Batches of one epoch, the same on every rank."""
        full, tail = divmod(self.num_seeds, self.batch_size)
        keeps_tail = not self.drop_last and (self.world_size == 1 or self.pad)
        return full + (1 if tail and keeps_tail else 0)

    def stream(self, train_epoch: int, batch: int) -> int:
        """The random stream of a global batch; it does not depend on rank or tail."""
        steps = -(-self.num_seeds // self.batch_size)
        return (train_epoch * steps + batch) % 2**64

    def segments(self, first: int) -> Iterator[tuple[int, int]]:
        """Cuts the batches from `first` on into ranges whose seeds are laid out at once."""
        length = max(1, _SEGMENT_SEEDS // self.batch_size)
        for start in range(first, self.steps, length):
            yield start, min(start + length, self.steps)

    def places(self, train_epoch: int, first: int, last: int) -> NDArray[np.int64]:
        """Places of this rank's seeds in batches `first` ... `last` - 1, one after the other."""
        size, part = self.batch_size, self.local_batch_size
        start, stop = first * size, min(last * size, self.num_seeds)
        order = self._order(train_epoch, start, stop)
        full = len(order) // size * size
        offset = self.rank * part
        whole = order[:full].reshape(-1, size)[:, offset : offset + part].reshape(-1)
        tail = order[full:]
        if len(tail):
            missing = -len(tail) % self.world_size
            extra = np.resize(self._order(train_epoch, 0, min(missing, self.num_seeds)), missing)
            tail = np.concatenate([tail, extra]).reshape(self.world_size, -1)[self.rank]
        return np.concatenate([whole, tail])

    def padding(self, batch: int) -> int:
        """How many seeds at the end of this rank's part of `batch` are repeats that only fill."""
        tail = min((batch + 1) * self.batch_size, self.num_seeds) - batch * self.batch_size
        part = -(-tail // self.world_size)
        return min(part, max(0, (self.rank + 1) * part - tail))

    def _order(self, train_epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(start, stop, dtype=np.int64)
        return _core.seed_order(self.num_seeds, self.seed, train_epoch, start, stop)
