"""`ng.topk`: exact nearest rows in a table of embeddings, in blocks that fit in memory.

Approximate indexes must not live here. Invariant: ties go to the lower id, so the result does not
depend on the size of blocks.
"""

import os
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neargraph.exceptions import NodeNotFound, NodeOutOfRange, UnsupportedArgument
from neargraph.reader import Reader

Metric = Literal["dot", "cosine"]

_METRICS = ("dot", "cosine")
_BLOCK_BYTES = 64 << 20


def topk(
    table: str | os.PathLike[str] | NDArray[Any] | Reader,
    ids: ArrayLike,
    k: int = 10,
    *,
    tensor: str | None = None,
    node_type: str | None = None,
    metric: Metric = "dot",
    include_self: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Returns the `k` rows most similar to each row of `ids`, best first.

    The table is read once, from front to back, in blocks of 64 MiB.

    Args:
        table: A store, a snapshot, a ``.npy`` file as `ng.infer` writes it, or an array
            [nodes, width].
        ids: The query nodes, [n].
        k: Number of results for each node. There are fewer if the table has fewer rows.
        tensor: For a store or snapshot: the node tensor to search. Deleted nodes are left out.
        node_type: For a store or snapshot: may be left out if there is one node type.
        metric: ``"dot"`` or ``"cosine"``.
        include_self: Whether a node may be among its own results.

    Returns:
        Ids [n, k] and scores [n, k].

    Raises:
        NodeOutOfRange: The table has no row for an id.
        NodeNotFound: A node of `ids` was deleted.
        NameNotFound: The store has no such tensor or node type.
        UnsupportedArgument: The metric is not known, `k` is below 1, the table does not have two
            dimensions, or `tensor` is missing for a store or given for an array.

    Example:
        >>> rows = np.float32([[1, 0], [0.9, 0], [0, 1]])
        >>> ids, scores = ng.topk(rows, [0], k=1)
        >>> ids.tolist()
        [[1]]
    """
    if metric not in _METRICS:
        raise UnsupportedArgument(f"metric={metric!r} is not valid: expected 'dot' or 'cosine'")
    if k < 1:
        raise UnsupportedArgument(f"k={k} is not valid: expected 1 or more")
    rows, dead = _table(table, tensor, node_type)
    if len(rows.shape) != 2:
        raise UnsupportedArgument(
            f"the table has shape {list(rows.shape)}: expected [nodes, width]"
        )
    wanted = np.asarray(ids, dtype=np.int64).reshape(-1)
    outside = wanted[(wanted < 0) | (wanted >= len(rows))]
    if len(outside):
        raise NodeOutOfRange(f"id {outside[0]} is out of range: the table has {len(rows)} rows")
    deleted = wanted[np.isin(wanted, dead)]
    if len(deleted):
        raise NodeNotFound(f"node {deleted[0]} was deleted")
    asked = _scaled(np.asarray(rows[wanted], np.float32), metric)
    return _search(rows, asked, None if include_self else wanted, dead, k, metric)


class _Table(Protocol):
    """Rows that can be read by ids or by slice."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any, /) -> NDArray[Any]: ...


class _Tensor:
    """A node tensor of a snapshot, read as single precision where it has floats."""

    def __init__(self, reader: Reader, name: str, node_type: str | None) -> None:
        self._snap = reader.snapshot()
        owner = self._snap.schema.node_type(node_type)
        meta = self._snap.schema.tensor(owner, name)
        self._type, self._name = owner.name, name
        self._dtype = "f32" if meta.is_number else None
        self.shape = (owner.num_nodes, *meta.shape)
        self.dead = self._snap.dead_nodes(owner.name)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: Any) -> NDArray[Any]:
        ids = np.arange(*at.indices(len(self))) if isinstance(at, slice) else at
        rows: NDArray[Any] = self._snap.features(self._type, ids, self._name, self._dtype)
        return rows


def _table(
    table: str | os.PathLike[str] | NDArray[Any] | Reader, tensor: str | None, node_type: str | None
) -> tuple[_Table, NDArray[np.int64]]:
    """Returns the rows, and the ids of deleted nodes."""
    if isinstance(table, Reader):
        if tensor is None:
            raise UnsupportedArgument(
                "tensor= is required to search a store, such as tensor='embedding'"
            )
        stored = _Tensor(table, tensor, node_type)
        return stored, stored.dead
    if tensor is not None or node_type is not None:
        raise UnsupportedArgument(
            "tensor= and node_type= apply to stores only; leave them out for an array or a file"
        )
    none = np.empty(0, np.int64)
    return table if isinstance(table, np.ndarray) else np.load(table, mmap_mode="r"), none


def _scaled(rows: NDArray[np.float32], metric: str) -> NDArray[np.float32]:
    if metric == "dot":
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = rows / np.maximum(norms, np.finfo(np.float32).tiny)
    return scaled


def _search(
    rows: _Table,
    asked: NDArray[np.float32],
    left_out: NDArray[np.int64] | None,
    dead: NDArray[np.int64],
    k: int,
    metric: str,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    count = max(0, min(k, len(rows) - len(dead) - (left_out is not None)))
    best_ids = np.empty((len(asked), 0), np.int64)
    best = np.empty((len(asked), 0), np.float32)
    width = max(rows.shape[1], len(asked), 1)
    step = max(1, _BLOCK_BYTES // (4 * width))
    for first in range(0, len(rows), step):
        block = _scaled(np.asarray(rows[first : first + step], np.float32), metric)
        scores = asked @ block.T
        ids = np.broadcast_to(np.arange(first, first + len(block)), scores.shape)
        if left_out is not None:
            scores = np.where(ids == left_out[:, None], -np.inf, scores)
        in_block = dead[np.searchsorted(dead, first) : np.searchsorted(dead, first + len(block))]
        scores[:, in_block - first] = -np.inf
        best, best_ids = _kept(np.hstack([best, scores]), np.hstack([best_ids, ids]), count)
    return best_ids, best


def _kept(
    scores: NDArray[np.float32], ids: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Returns the best scores of each line in descending order, equal ones by id."""
    if scores.shape[1] > 4 * count + 64:
        # Keeps every score that equals the last one kept: ties are broken below.
        bound = -np.partition(-scores, count - 1, axis=1)[:, count - 1]
        keep = scores >= bound[:, None]
        most = int(keep.sum(axis=1).max())
        places = np.argsort(~keep, axis=1, kind="stable")[:, :most]
        scores = np.where(
            np.take_along_axis(keep, places, 1), np.take_along_axis(scores, places, 1), -np.inf
        )
        ids = np.take_along_axis(ids, places, 1)
    order = np.lexsort((ids, -scores), axis=1)[:, :count]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)
