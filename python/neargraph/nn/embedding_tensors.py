"""The tensors of an embedding in a store: rows, optimiser state, and undo rows.

For each row there are the state of the optimiser, the step at which the row was written with the
number of the run, and the value of the row at the last training state (its undo row). The number is
drawn when the tensors are created, so that two runs differ. The invariant: a commit contains all of
these for each of its rows, so that after a crash at any time every row can be restored to that
training state.
"""

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import BudgetTooSmall, StateMismatch, UnsupportedArgument
from neargraph.schema import NodeType, TensorMeta
from neargraph.store import Store
from neargraph.update.tensor import add_parts
from neargraph.update.transaction import Transaction

# Rows that are initialised, read and scanned together.
_INIT_ROWS = 1 << 14
_SCAN_ROWS = 1 << 17
_READ_BYTES = 2 << 20
_BLOCK_BYTES = 4096
# The target size of one commit, as a part of the memory for changed pages.
_COMMIT_SHARE = 4

Ids = NDArray[np.int64]
Table = NDArray[np.float32]


class EmbeddingTensors:
    """Rows [slots, dim] by node id: slot 0 is the embedding, the others are optimiser state.

    Missing tensors are created. Initial rows of the embedding are normally distributed and depend
    only on ``seed`` and id.

    Args:
        store: The open store.
        node_type: The node type. None: the only one.
        name: Name of the embedding's tensor. Other names consist of it and the optimiser.
        optimizer: Name of the optimiser.
        slots: Number of rows per id: 1 plus the rows of optimiser state.
        dim: Width of the rows.
        std: Standard deviation of initial rows.
        seed: Random seed of initial rows.
        undo: Whether to keep the values of rows at the last training state.

    Raises:
        UnsupportedArgument: A tensor of this name has another width or dtype.
    """

    def __init__(
        self,
        store: Store,
        node_type: str | None,
        name: str,
        optimizer: str,
        slots: int,
        dim: int,
        std: float,
        seed: int,
        undo: bool,
    ) -> None:
        self._store = store
        owner = store.schema.node_type(node_type)
        self.node_type, self._slots, self._dim = owner.name, slots, dim
        self._names = {
            "rows": name,
            "state": f"{name}_{optimizer}",
            "step": f"{name}_{optimizer}_step",
            "undo": f"{name}_{optimizer}_undo",
        }
        # Rows are created last, so rows without the other tensors do not come from an interrupted
        # creation.
        shapes: dict[str, tuple[str, list[int]]] = {"step": ("i64", [3])}
        if slots > 1:
            shapes["state"] = ("f32", [slots - 1, dim])
        if undo:
            shapes["undo"] = ("f32", [slots, dim])
        shapes["rows"] = ("f32", [dim])
        self._has_undo, self._initial = undo, (std, seed)
        there = {meta.name: meta for meta in owner.tensors}
        for part, (dtype, shape) in reversed(shapes.items()):
            if self._names[part] in there:
                _check_shape(owner, there[self._names[part]], dtype, shape)
        for part, (dtype, shape) in shapes.items():
            if self._names[part] not in there:
                self._make(owner, part, dtype, shape, std, seed)
        self.last_step, self.number = self._newest()
        # The estimate assumes that each row of each tensor changes separate blocks.
        widths = [4 * dim, 4 * dim * (slots - 1), 24, 4 * dim * slots * undo]
        self._unwritten_bytes = 0
        self._commit_bytes = sum(-(-width // _BLOCK_BYTES) * _BLOCK_BYTES for width in widths)

    def _make(
        self, owner: NodeType, part: str, dtype: str, shape: list[int], std: float, seed: int
    ) -> None:
        name = self._names[part]
        if part == "rows":
            parts: Iterator[NDArray[Any]] = _normal(owner.num_nodes, shape, std, seed)
        elif part == "step":
            parts = _first_steps(owner.num_nodes)
        else:
            parts = _zeros(owner.num_nodes, shape)
        add_parts(self._store, owner, name, dtype, shape, owner.num_nodes, parts, None)

    def is_untrained(self) -> bool:
        """Whether no step has written a row, and all rows are the initial ones of ``seed``."""
        if self.last_step:
            return False
        snapshot = self._store.snapshot()
        owner = snapshot.schema.node_type(self.node_type)
        dead, first = snapshot.dead_nodes(self.node_type), 0
        for wanted in _normal(owner.num_nodes, [self._dim], *self._initial):
            ids = np.arange(first, first + len(wanted), dtype=np.int64)
            alive = ~np.isin(ids, dead, assume_unique=True)
            if not np.array_equal(self.rows(ids[alive]), wanted[alive]):
                return False
            first += len(wanted)
        return True

    def begin_anew(self) -> None:
        """Assigns a new number of the run to untrained tensors."""
        self.number = _new_number()
        snapshot = self._store.snapshot()
        dead = snapshot.dead_nodes(self.node_type)
        ids = np.arange(snapshot.schema.node_type(self.node_type).num_nodes, dtype=np.int64)
        ids = ids[~np.isin(ids, dead, assume_unique=True)]
        for part in self._parts(len(ids)):
            steps = np.tile(np.array([0, 0, self.number]), (len(ids[part]), 1))
            with self._store.write() as tx:
                tx.update_features(self.node_type, ids[part], self._names["step"], steps)

    # Reading

    def rows(self, ids: Ids) -> Table:
        """Returns rows of the embedding, [n, dim]."""
        return self._read("rows", ids, np.empty((len(ids), self._dim), np.float32))

    def table(self, ids: Ids) -> Table:
        """Returns rows with their optimiser state, [n, slots, dim]."""
        out = np.empty((len(ids), self._slots, self._dim), np.float32)
        self._read("rows", ids, out[:, 0])
        if self._slots > 1:
            self._read("state", ids, out[:, 1:])
        return out

    def _read(self, part: str, ids: Ids, out: Table) -> Table:
        """Reads in parts, because the rows that a store returns count in its budget."""
        snapshot, name = self._store.snapshot(), self._names[part]
        step = max(1, _READ_BYTES // max(1, 4 * self._dim * self._slots))
        first = 0
        while first < len(ids):
            piece = ids[first : first + step]
            try:
                rows = snapshot.features(self.node_type, piece, name, "stored")
            except BudgetTooSmall:
                # Batches that wait for the training loop hold the rest of the budget.
                if len(piece) < 2:
                    raise
                step = len(piece) // 2
                continue
            out[first : first + len(piece)] = rows
            first += len(piece)
        return out

    def _newest(self) -> tuple[int, int]:
        """Returns the last step that wrote a row (0 if none did), and the number of the run. Nodes
        that were added since have the number 0 until their rows are written."""
        found = np.zeros(3, np.int64)
        for _, steps in self._scan():
            found = np.maximum(found, steps.max(axis=0, initial=0))
        return int(found[0]), int(found[2])

    def _scan(self) -> Iterator[tuple[Ids, NDArray[np.int64]]]:
        """Yields (ids, [step, step of the training state before it, number]) of all nodes, in
        parts."""
        snapshot = self._store.snapshot()
        count = snapshot.schema.node_type(self.node_type).num_nodes
        for first in range(0, count, _SCAN_ROWS):
            ids = np.arange(first, min(first + _SCAN_ROWS, count), dtype=np.int64)
            yield ids, snapshot.features(self.node_type, ids, self._names["step"], "stored")

    # Writing

    def write(self, ids: Ids, table: Table, step: int, base: int) -> None:
        """Writes rows with their state in several commits. ``base`` is the step of the last
        training state."""
        for part in self._parts(len(ids)):
            self._commit(ids[part], table[part], step, base, keeps=self._has_undo)
        self._unwritten_bytes += len(ids) * self._commit_bytes
        if self._unwritten_bytes > self._commit_share():
            # Loaders cannot reclaim the memory of changed pages, and would fail without it.
            self._store.checkpoint()
            self._unwritten_bytes = 0

    def _commit_share(self) -> int:
        """Returns the target size of one commit, in bytes of changed pages."""
        return int(self._store.stats()["memory"]["changed_pages"]["share"]) // _COMMIT_SHARE

    def _parts(self, count: int) -> Iterator[slice]:
        rows = max(1, self._commit_share() // self._commit_bytes)
        for first in range(0, count, rows):
            yield slice(first, min(first + rows, count))

    def _commit(self, ids: Ids, table: Table, step: int, base: int, keeps: bool) -> None:
        """Writes one commit, or two of half the rows if its pages do not fit into memory."""
        try:
            self._commit_once(ids, table, step, base, keeps)
        except BudgetTooSmall:
            if len(ids) < 2:
                raise
            self._store.checkpoint()
            half = len(ids) // 2
            self._commit(ids[:half], table[:half], step, base, keeps)
            self._commit(ids[half:], table[half:], step, base, keeps)

    def _commit_once(self, ids: Ids, table: Table, step: int, base: int, keeps: bool) -> None:
        with self._store.write() as tx:
            # No other writer can delete nodes while this transaction is open.
            dead = self._store.snapshot().dead_nodes(self.node_type)
            alive = ~np.isin(ids, dead, assume_unique=True)
            ids, table = ids[alive], table[alive]
            if not len(ids):
                return
            if keeps:
                self._keep(tx, ids, base)
            steps = np.tile(np.array([step, base, self.number]), (len(ids), 1))
            put = {"rows": table[:, 0], "step": steps}
            if self._slots > 1:
                put["state"] = table[:, 1:]
            for part, rows in put.items():
                tx.update_features(self.node_type, ids, self._names[part], rows)

    def _keep(self, tx: Transaction, ids: Ids, base: int) -> None:
        """Copies rows that have not changed since the training state to their undo rows."""
        snapshot = self._store.snapshot()
        steps = snapshot.features(self.node_type, ids, self._names["step"], "stored")
        first = ids[steps[:, 0] <= base]
        if len(first):
            tx.update_features(self.node_type, first, self._names["undo"], self.table(first))

    def restore(self, step: int) -> int:
        """Restores rows that were written after the training state of ``step``.

        Returns:
            The number of restored rows.

        Raises:
            StateMismatch: It is not the last training state, or there are no undo rows. Nothing is
                changed then.
        """
        for _, steps in self._scan():
            later = steps[steps[:, 0] > step]
            if len(later) and not self._has_undo:
                raise StateMismatch(
                    f"tensor {self._names['rows']!r} was written up to step {later[:, 0].max()}, "
                    f"but the training state is of step {step}, and with undo=False rows cannot "
                    "be restored; train again"
                )
            if (later[:, 1] != step).any():
                raise StateMismatch(
                    f"tensor {self._names['rows']!r} can be restored only to step "
                    f"{later[:, 1].max()}, the step of the newest training state, but the given "
                    f"training state is of step {step}; load the newest training state"
                )
        count = 0
        for ids, steps in self._scan():
            late = ids[steps[:, 0] > step]
            for part in self._parts(len(late)):
                some = late[part]
                shape = (len(some), self._slots, self._dim)
                rows = self._read("undo", some, np.empty(shape, np.float32))
                self._commit(some, rows, step, step, keeps=False)
            count += len(late)
        return count


def _check_shape(owner: NodeType, meta: TensorMeta, dtype: str, shape: list[int]) -> None:
    if (meta.dtype, list(meta.shape), meta.scaled) != (dtype, shape, False):
        raise UnsupportedArgument(
            f"tensor {meta.name!r} of node type {owner.name!r} has dtype {meta.dtype} and rows "
            f"of shape {list(meta.shape)}: expected dtype {dtype} and shape {shape}; use another "
            "name="
        )


def _normal(count: int, shape: list[int], std: float, seed: int) -> Iterator[NDArray[np.float32]]:
    for chunk, first in enumerate(range(0, count, _INIT_ROWS)):
        # One random stream per chunk, so that a row does not depend on the number of rows.
        draws = np.random.Generator(np.random.Philox(key=[seed, chunk]))
        rows = draws.standard_normal((min(_INIT_ROWS, count - first), *shape), np.float32)
        yield rows * np.float32(std)


def _zeros(count: int, shape: list[int]) -> Iterator[NDArray[np.float32]]:
    for first in range(0, count, _INIT_ROWS):
        yield np.zeros((min(_INIT_ROWS, count - first), *shape), np.float32)


def _new_number() -> int:
    # Independent of the seed, so that two runs with equal settings differ.
    return 1 + secrets.randbits(62)


def _first_steps(count: int) -> Iterator[NDArray[np.int64]]:
    number = _new_number()
    for first in range(0, count, _INIT_ROWS):
        yield np.tile(np.array([0, 0, number]), (min(_INIT_ROWS, count - first), 1))
