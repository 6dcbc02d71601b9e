"""Transactions: updates of a store that become one commit.

Names, shapes and dtypes are settled here; the compiled core does the rest. The invariant: arguments
are checked before anything is done: a method that refuses them has done nothing, and one that fails
half way spoils its transaction, so that no half of a call is ever committed.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph.exceptions import (
    EdgeNotFound,
    NodeNotFound,
    NodeOutOfRange,
    RowWidth,
    TransactionEnded,
    UnsupportedArgument,
)
from neargraph.reader import EdgeName, as_ids
from neargraph.schema import EdgeType, NodeType, Schema
from neargraph.splits import split_code
from neargraph.update.rows import as_array, shown, to_float32, to_rows

if TYPE_CHECKING:
    from neargraph.store import Store

Features = Mapping[str, Any] | None
_Rows = list[tuple[str, NDArray[Any]]]
_StoredRows = list[tuple[str, NDArray[np.uint8]]]


class Transaction:
    """Updates that become durable and visible together, or not at all; see `Store.write`.

    A transaction sees what it has done itself: a node that was added can be linked at once. A call
    that is refused (`NodeNotFound`, `EdgeNotFound`, ...), with arrays too, has done nothing, and
    the transaction can go on.

    Attributes:
        lsn: The number of the commit, once the block has ended.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        # Transactions are many and types do not change, so the newest version need not be parsed.
        self._schema = store.types
        self._local: ProcessLocal[_core.Transaction] | None = None
        self._state = "has not begun: use it in a with block"
        self._cause: BaseException | None = None
        self.lsn: int | None = None

    def __enter__(self) -> "Transaction":
        if self._local is not None:
            raise TransactionEnded(
                "a transaction is for one with block; start another one with store.write()"
            )
        core, turn = self._store.core, self._store.turn
        turn.take()
        try:
            handle = core.write()
        except BaseException:
            turn.give()
            raise
        self._local = ProcessLocal(_in_another_process, handle)
        # Whoever wrote before may have added tensors.
        self._schema = self._store.types
        self._state = ""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        handle = self._local.take() if self._local is not None else None
        self._state = "has ended; start another one with store.write()"
        if handle is None:
            if kind is None:
                _in_another_process()
            return
        turn = self._store.turn
        if kind is not None or self._cause is not None:
            handle.abort()
            turn.give()
            if kind is None:
                raise TransactionEnded(
                    f"the transaction cannot be committed: a call failed half way ({self._cause}); "
                    "start a new one"
                ) from self._cause
            return
        # The next transaction may begin while this one waits for the disk: then they share a sync.
        turn.give()
        self.lsn = handle.commit()[0]

    @property
    def _core(self) -> _core.Transaction:
        if self._state or self._local is None:
            raise TransactionEnded(f"this transaction {self._state}")
        return self._local.get()

    # Nodes

    def add_node(
        self,
        node_type: str | None = None,
        features: Features = None,
        *,
        label: Any = None,
        split: str | None = None,
    ) -> int:
        """Adds a node and returns its id.

        Args:
            node_type: May be left out if there is one type.
            features: Rows by the name of the tensor, such as ``{"x": [d]}``; others are 0.
            label: The row of tensor ``y``.
            split: ``"train"``, ``"val"`` or ``"test"``, of the first split.

        Raises:
            NameNotFound: No such node type or tensor.
            RowWidth: A row has another shape than the tensor's.
            UnsupportedArgument: A row has another dtype or a value that what is stored cannot hold
                (beyond f16, or beyond the scale of an int8 column), or the type has string ids.
        """
        owner = self._schema.node_type(node_type)
        rows = self._stored(owner, _node_rows(owner, features, label, split, None))
        return int(self._add_nodes(owner, rows, 1)[0])

    def add_nodes(
        self,
        node_type: str | None = None,
        features: Features = None,
        count: int | None = None,
        *,
        labels: Any = None,
        split: str | None = None,
    ) -> NDArray[np.int64]:
        """Adds many nodes and returns their ids, [n].

        Args:
            node_type: May be left out if there is one type.
            features: Rows by the name of the tensor, such as ``{"x": [n, d]}``; others are 0.
            count: n, where neither features nor labels tell it.
            labels: Rows of tensor ``y``, [n].
            split: As in `add_node`, for all of them.

        Raises:
            RowWidth: An array has another shape than [n, *the tensor's].
            NameNotFound, UnsupportedArgument: As in `add_node`.
        """
        owner = self._schema.node_type(node_type)
        if count is None:
            first = next(iter((features or {}).values()), labels)
            if first is None:
                raise UnsupportedArgument("add_nodes needs features, labels or count=")
            count = len(first)
        if count < 0:
            raise UnsupportedArgument(f"add_nodes needs a count of at least 0, got {count}")
        rows = self._stored(owner, _node_rows(owner, features, labels, split, count))
        return self._add_nodes(owner, rows, count)

    def _add_nodes(self, owner: NodeType, rows: _StoredRows, count: int) -> NDArray[np.int64]:
        ids = self._core.add_nodes(owner.index, count)
        self._put_rows(owner, rows, ids)
        return ids

    def update_features(self, node_type: str | None, ids: ArrayLike, name: str, rows: Any) -> None:
        """Replaces rows of a node tensor: one, with an id and [*shape], or [n] and [n, *shape].

        Raises:
            NodeNotFound: An id was never given out, or its node is deleted.
            RowWidth, NameNotFound, UnsupportedArgument: As in `add_node`.

        Example:
            >>> tx.update_features("paper", 17, "x", row)
            >>> tx.update_features("paper", [3, 5], "x", rows)
        """
        owner = self._schema.node_type(node_type)
        self._set_rows(owner, ids, name, rows)

    def set_split(
        self, node_type: str | None, ids: ArrayLike, name: str | None, index: int = 0
    ) -> None:
        """Puts nodes into ``"train"``, ``"val"`` or ``"test"``, or with None into none of them."""
        owner = self._schema.node_type(node_type)
        many = as_ids(ids)
        codes = np.full(len(many), 0 if name is None else split_code(name), np.uint8)
        self._set_rows(owner, many, f"split_{index}", codes)

    def delete_node(self, node_type: str | None, node: int) -> None:
        """Deletes a node with all of its edges.

        Its id is not given out again, unless the store was imported with ``reuse_ids``.

        Raises:
            NodeNotFound: There is no such node.
            ReverseMissing: An edge type that starts here keeps no reverse.
        """
        owner = self._schema.node_type(node_type)
        self._core.delete_node(owner.index, _id(owner, node))

    # Edges

    def add_edge(
        self,
        edge_type: EdgeName,
        source: int,
        destination: int,
        *,
        time: int | None = None,
        weight: float | None = None,
        features: Features = None,
    ) -> int | None:
        """Adds an edge, in both directions where the type is undirected or keeps its reverse.

        On a ``unique`` type an edge that is there takes the new time and weight, and keeps its id.

        Args:
            edge_type: The triple, or any of its short forms; None where there is one type.
            source: A node id.
            destination: A node id.
            time: Needed where the type keeps times, and only there.
            weight: The same for weights.
            features: Rows by the name of the edge tensor, such as ``{"edge_attr": [d]}``.

        Returns:
            The edge id, or None where edges have none.

        Raises:
            NodeNotFound: An end does not exist.
            RowWidth, NameNotFound, UnsupportedArgument: As in `add_node`.
        """
        owner = self._schema.edge_type(edge_type)
        rows = self._stored(owner, _rows(owner, features, None))
        times = None if time is None else _times(np.array([operator.index(time)]))
        weights = None if weight is None else _weights([weight])
        tails, heads = as_ids(operator.index(source)), as_ids(operator.index(destination))
        ids = self._add_edges(owner, tails, heads, times, weights, rows)
        return int(ids[0]) if ids is not None else None

    def add_edges(
        self,
        edge_type: EdgeName,
        sources: ArrayLike,
        destinations: ArrayLike,
        *,
        times: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        features: Features = None,
    ) -> NDArray[np.int64] | None:
        """`add_edge` for arrays [n], with features [n, *shape]; returns edge ids [n], or None.

        What has to be read for them is read together.
        """
        owner = self._schema.edge_type(edge_type)
        tails = as_ids(sources)
        rows = self._stored(owner, _rows(owner, features, len(tails)))
        time_array = None if times is None else _times(times)
        weight_array = None if weights is None else _weights(weights)
        return self._add_edges(owner, tails, as_ids(destinations), time_array, weight_array, rows)

    def _add_edges(
        self,
        owner: EdgeType,
        tails: NDArray[np.int64],
        heads: NDArray[np.int64],
        times: NDArray[np.int64] | None,
        weights: NDArray[np.float32] | None,
        rows: _StoredRows,
    ) -> NDArray[np.int64] | None:
        inline = [("time", times, owner.has_time), ("weight", weights, owner.has_weight)]
        for name, column, kept in inline:
            if kept != (column is not None):
                need = f"keeps {name}s: give {name}=" if kept else f"keeps no {name}s"
                raise UnsupportedArgument(f"edge type {owner.triple!r} {need}")
            if column is not None and len(column) != len(tails):
                raise RowWidth(f"{len(tails)} edges need as many {name}s, got {len(column)}")
        if len(tails) != len(heads):
            raise RowWidth(f"{len(tails)} sources and {len(heads)} destinations are no edges")
        ids = self._core.add_edges(owner.index, tails, heads, times, weights)
        self._put_rows(owner, rows, ids)
        return ids if owner.has_edge_ids else None

    def update_edge_features(
        self, edge_type: EdgeName, edge_ids: ArrayLike, name: str, rows: Any
    ) -> None:
        """Replaces rows of an edge tensor by edge id; arguments as in `update_features`.

        Raises:
            UnsupportedArgument: An edge id was never given out.
        """
        owner = self._schema.edge_type(edge_type)
        self._set_rows(owner, edge_ids, name, rows)

    def delete_edge(
        self, edge_type: EdgeName, source: int, destination: int, edge_id: int | None = None
    ) -> int:
        """Deletes all parallel edges between two nodes, or the one with `edge_id`.

        Returns:
            How many edges that were.

        Raises:
            EdgeNotFound: There is none.
            NodeNotFound: An end does not exist.
            UnsupportedArgument: An `edge_id`, though edges of this type have none.
        """
        owner = self._schema.edge_type(edge_type)
        types = self._schema.node_types
        return self._core.delete_edge(
            owner.index,
            _id(types[owner.source_index], source),
            _id(types[owner.destination_index], destination),
            None if edge_id is None else _edge_id(owner, edge_id),
        )

    # What they share

    def _set_rows(self, owner: NodeType | EdgeType, ids: ArrayLike, name: str, rows: Any) -> None:
        array = np.asarray(ids)
        many = as_ids(array)
        count = None if array.ndim == 0 else len(many)
        given = to_rows(self._schema.tensor(owner, name), rows, count)
        ((_, values),) = self._stored(owner, [(name, given)])
        self._core.set_rows(owner.kind, owner.index, name, many, values)

    def _stored(self, owner: NodeType | EdgeType, rows: _Rows) -> _StoredRows:
        """The rows as their tensors store them."""
        kind, index = owner.kind, owner.index
        return [
            (name, v if v.dtype == np.uint8 else self._core.encode_rows(kind, index, name, v))
            for name, v in rows
        ]

    def _put_rows(
        self, owner: NodeType | EdgeType, rows: _StoredRows, ids: NDArray[np.int64]
    ) -> None:
        """The rows of what was just added; if that fails, half a call is done, and the transaction
        lost.

        Everything else is one call of the core, which is done as a whole or not at all.
        """
        try:
            for name, values in rows:
                self._core.set_rows(owner.kind, owner.index, name, ids, values)
        except BaseException as error:
            self._cause = error
            raise

    def __repr__(self) -> str:
        return f"Transaction({self._store.path!r}{', ended' if self._state else ''})"


def _in_another_process() -> _core.Transaction:
    raise TransactionEnded(
        "the process that forked this one has this transaction open, and it ends there; start "
        "one of your own with store.write() when the other process has closed the store"
    )


def _id(owner: NodeType, node: int) -> int:
    value = operator.index(node)
    if value < 0:
        raise NodeNotFound(f"node {value} of type {owner.name!r} does not exist: ids count from 0")
    if value >= 1 << 63:
        raise NodeNotFound(f"node {shown(value)} of type {owner.name!r} does not exist")
    return value


def _edge_id(owner: EdgeType, edge_id: int) -> int:
    value = operator.index(edge_id)
    if not 0 <= value < 1 << 63:
        raise EdgeNotFound(f"there is no edge {shown(value)} of type {owner.triple!r}")
    return value


def _times(times: ArrayLike) -> NDArray[np.int64]:
    try:
        return as_ids(times)
    except NodeOutOfRange:
        raise UnsupportedArgument("a time does not fit 64 bits; times are below 2^63") from None


def _weights(weights: ArrayLike) -> NDArray[np.float32]:
    array = as_array("weight", weights)
    if array.dtype.kind not in "fiub":
        raise UnsupportedArgument(f"weights are numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise UnsupportedArgument(f"a weight is {bad}; weights are finite numbers")
    return to_float32("weight", array).reshape(-1)


def _node_rows(
    owner: NodeType, features: Features, labels: Any, split: str | None, count: int | None
) -> _Rows:
    given = dict(features or {})
    if labels is not None:
        given["y"] = labels
    if split is not None:
        code = split_code(split)
        given["split_0"] = code if count is None else np.full(count, code, np.uint8)
    return _rows(owner, given, count)


def _rows(owner: NodeType | EdgeType, features: Features, count: int | None) -> _Rows:
    given: Sequence[tuple[str, Any]] = list((features or {}).items())
    return [(name, to_rows(Schema.tensor(owner, name), value, count)) for name, value in given]
