"""Transactions: changes of a store that become one commit.

This module resolves names, shapes and dtypes; the compiled core does the rest. Invariant: a method
checks its arguments before it changes anything. If it rejects them, it has no effect. If it fails
halfway, its transaction cannot be committed, so no part of a call is ever committed.
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
from neargraph.splits import SplitName, split_code
from neargraph.update.rows import as_array, shown, to_float32, to_rows

if TYPE_CHECKING:
    from neargraph.store import Store

Features = Mapping[str, Any] | None
_Rows = list[tuple[str, NDArray[Any]]]
_StoredRows = list[tuple[str, NDArray[np.uint8]]]


class Transaction:
    """Changes that become durable and visible together, or not at all; see `Store.write`.

    A transaction sees its own changes: an edge can be added to a new node at once. A call that
    raises `NodeNotFound`, `EdgeNotFound` or the like has no effect, even with arrays, and the
    transaction remains usable.

    Attributes:
        lsn: The number of the commit; None until the block has ended.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store
        # Types do not change, so the catalog is not parsed again for every transaction.
        self._schema = store.types
        self._local: ProcessLocal[_core.Transaction] | None = None
        self._state = "has not begun; use the transaction in a with block"
        self._cause: BaseException | None = None
        self.lsn: int | None = None

    def __enter__(self) -> "Transaction":
        if self._local is not None:
            raise TransactionEnded(
                "this transaction was already used; start another transaction with store.write()"
            )
        core, turn = self._store.core, self._store.turn
        turn.take()
        try:
            handle = core.write()
        except BaseException:
            turn.give()
            raise
        self._local = ProcessLocal(_in_another_process, handle)
        # Previous writers may have added tensors.
        self._schema = self._store.types
        self._state = ""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        handle = self._local.take() if self._local is not None else None
        self._state = "has ended; start another transaction with store.write()"
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
                    "the transaction cannot be committed: a call failed halfway "
                    f"({self._cause}); start another transaction with store.write()"
                ) from self._cause
            return
        # The next transaction may begin while this one waits for the disk, so they share a sync.
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
        split: SplitName | None = None,
    ) -> int:
        """Adds a node and returns its id.

        Args:
            node_type: May be left out if the store has one node type.
            features: Rows by tensor name, such as ``{"x": [d]}``. Rows of other tensors are 0.
            label: The row of the tensor ``y``.
            split: ``"train"``, ``"val"`` or ``"test"``, of split 0.

        Raises:
            NameNotFound: The store has no such node type or tensor.
            RowWidth: A row has another shape than its tensor.
            UnsupportedArgument: A dtype does not fit, the stored dtype cannot hold a value (beyond
                f16, or beyond the scale of an int8 column), or the node type has string ids.
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
        split: SplitName | None = None,
    ) -> NDArray[np.int64]:
        """Adds n nodes and returns their ids, [n].

        Args:
            node_type: May be left out if the store has one node type.
            features: Rows by tensor name, such as ``{"x": [n, d]}``. Rows of other tensors are 0.
            count: n; required if there are neither features nor labels.
            labels: Rows of the tensor ``y``, [n].
            split: As in `add_node`, for all nodes.

        Raises:
            RowWidth: An array does not have the shape [n, *shape].
            NameNotFound, UnsupportedArgument: As in `add_node`.
        """
        owner = self._schema.node_type(node_type)
        if count is None:
            first = next(iter((features or {}).values()), labels)
            if first is None:
                raise UnsupportedArgument("add_nodes requires features=, labels= or count=")
            count = len(first)
        if count < 0:
            raise UnsupportedArgument(f"count={count} is not valid: expected 0 or more")
        rows = self._stored(owner, _node_rows(owner, features, labels, split, count))
        return self._add_nodes(owner, rows, count)

    def _add_nodes(self, owner: NodeType, rows: _StoredRows, count: int) -> NDArray[np.int64]:
        ids = self._core.add_nodes(owner.index, count)
        self._put_rows(owner, rows, ids)
        return ids

    def update_features(self, node_type: str | None, ids: ArrayLike, name: str, rows: Any) -> None:
        """Replaces rows of a node tensor.

        Args:
            node_type: The node type; None if the store has one.
            ids: A node id, or ids [n].
            name: The name of the tensor.
            rows: [*shape] for a single id, otherwise [n, *shape].

        Raises:
            NodeNotFound: An id was never assigned, or its node was deleted.
            RowWidth, NameNotFound, UnsupportedArgument: As in `add_node`.

        Example:
            >>> tx.update_features("paper", 17, "x", row)
            >>> tx.update_features("paper", [3, 5], "x", rows)
        """
        owner = self._schema.node_type(node_type)
        self._set_rows(owner, ids, name, rows)

    def set_split(
        self, node_type: str | None, ids: ArrayLike, name: SplitName | None, index: int = 0
    ) -> None:
        """Moves nodes to a split.

        Args:
            node_type: The node type; None if the store has one.
            ids: A node id, or ids [n].
            name: ``"train"``, ``"val"`` or ``"test"``; None: no split.
            index: Number of the split if there are several.

        Raises:
            NodeNotFound: An id was never assigned, or its node was deleted.
            NameNotFound: The store has no such node type or split.
        """
        owner = self._schema.node_type(node_type)
        many = as_ids(ids)
        codes = np.full(len(many), 0 if name is None else split_code(name), np.uint8)
        self._set_rows(owner, many, f"split_{index}", codes)

    def delete_node(self, node_type: str | None, node: int) -> None:
        """Deletes a node and all of its edges.

        Its id is not assigned again, unless the store was imported with ``reuse_ids``.

        Raises:
            NodeNotFound: The node does not exist.
            ReverseMissing: The reverse of an edge type that starts at this node type was not kept.
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
        """Adds an edge and returns its id.

        If the type is undirected or stores its reverse, the edge is added in both directions. The
        new entry is the last of its list; lists with times stay sorted by time. If the type is
        ``unique`` and the edge exists, the edge keeps its id and gets the new time and weight.

        Args:
            edge_type: The triple, or any of its short forms; None if there is one edge type.
            source: The id of the source node.
            destination: The id of the destination node.
            time: Required if the type has times, otherwise not allowed.
            weight: Required if the type has weights, otherwise not allowed.
            features: Rows by the name of the edge tensor, such as ``{"edge_attr": [d]}``.

        Returns:
            The edge id; None if the edges of this type have no ids.

        Raises:
            NodeNotFound: The source or the destination does not exist.
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
        """Adds n edges and returns their ids, [n], or None if the edges have no ids.

        This is `add_edge` for arrays [n] and features [n, *shape]. It reads the lists of all edges
        together.
        """
        owner = self._schema.edge_type(edge_type)
        tails = as_ids(sources)
        rows = self._stored(owner, _rows(owner, features, len(tails)))
        time_array = None if times is None else _times(times)
        weight_array = None if weights is None else _weights(weights)
        heads = as_ids(destinations)
        return self._add_edges(owner, tails, heads, time_array, weight_array, rows, plural="s")

    def _add_edges(
        self,
        owner: EdgeType,
        tails: NDArray[np.int64],
        heads: NDArray[np.int64],
        times: NDArray[np.int64] | None,
        weights: NDArray[np.float32] | None,
        rows: _StoredRows,
        plural: str = "",
    ) -> NDArray[np.int64] | None:
        inline = [("time", times, owner.has_time), ("weight", weights, owner.has_weight)]
        for name, column, kept in inline:
            if kept != (column is not None):
                has, do = ("has", "give") if kept else ("has no", "leave out")
                raise UnsupportedArgument(
                    f"edge type {owner.triple!r} {has} {name}s; {do} {name}{plural}="
                )
            if column is not None and len(column) != len(tails):
                raise RowWidth(
                    f"{name}s= has {len(column)} values: expected {len(tails)}, one for each edge"
                )
        if len(tails) != len(heads):
            raise RowWidth(
                f"destinations= has {len(heads)} ids: expected {len(tails)}, one for each source"
            )
        ids = self._core.add_edges(owner.index, tails, heads, times, weights)
        self._put_rows(owner, rows, ids)
        return ids if owner.has_edge_ids else None

    def update_edge_features(
        self, edge_type: EdgeName, edge_ids: ArrayLike, name: str, rows: Any
    ) -> None:
        """Replaces rows of an edge tensor by edge id. Arguments are as in `update_features`.

        Raises:
            UnsupportedArgument: An edge id was never assigned.
        """
        owner = self._schema.edge_type(edge_type)
        self._set_rows(owner, edge_ids, name, rows)

    def delete_edge(
        self, edge_type: EdgeName, source: int, destination: int, edge_id: int | None = None
    ) -> int:
        """Deletes all parallel edges between two nodes, or the one with `edge_id`.

        Returns:
            The number of deleted edges.

        Raises:
            EdgeNotFound: There is no such edge.
            NodeNotFound: The source or the destination does not exist.
            UnsupportedArgument: `edge_id` is given, but edges of this type have no ids.
        """
        owner = self._schema.edge_type(edge_type)
        types = self._schema.node_types
        return self._core.delete_edge(
            owner.index,
            _id(types[owner.source_index], source),
            _id(types[owner.destination_index], destination),
            None if edge_id is None else _edge_id(owner, edge_id),
        )

    # Rows

    def _set_rows(self, owner: NodeType | EdgeType, ids: ArrayLike, name: str, rows: Any) -> None:
        array = np.asarray(ids)
        many = as_ids(array)
        count = None if array.ndim == 0 else len(many)
        given = to_rows(self._schema.tensor(owner, name), rows, count)
        ((_, values),) = self._stored(owner, [(name, given)])
        self._core.set_rows(owner.kind, owner.index, name, many, values)

    def _stored(self, owner: NodeType | EdgeType, rows: _Rows) -> _StoredRows:
        """Converts rows to the stored dtypes of their tensors."""
        kind, index = owner.kind, owner.index
        return [
            (name, v if v.dtype == np.uint8 else self._core.encode_rows(kind, index, name, v))
            for name, v in rows
        ]

    def _put_rows(
        self, owner: NodeType | EdgeType, rows: _StoredRows, ids: NDArray[np.int64]
    ) -> None:
        """Writes the rows of new nodes or edges.

        All other changes are one call of the core, which has its whole effect or none. If this
        second call fails, the change is incomplete, so the transaction cannot be committed.
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
        "this transaction belongs to the parent process; start another transaction with "
        "store.write() after the parent has closed the store"
    )


def _id(owner: NodeType, node: int) -> int:
    value = operator.index(node)
    if value < 0:
        raise NodeNotFound(f"node {value} of type {owner.name!r} does not exist: ids start at 0")
    if value >= 1 << 63:
        raise NodeNotFound(f"node {shown(value)} of type {owner.name!r} does not exist")
    return value


def _edge_id(owner: EdgeType, edge_id: int) -> int:
    value = operator.index(edge_id)
    if not 0 <= value < 1 << 63:
        raise EdgeNotFound(f"edge {shown(value)} of type {owner.triple!r} does not exist")
    return value


def _times(times: ArrayLike) -> NDArray[np.int64]:
    try:
        return as_ids(times)
    except TypeError as error:
        raise TypeError(str(error).replace("ids", "times", 1)) from None
    except NodeOutOfRange as error:
        raise UnsupportedArgument(str(error).replace("id", "time", 1)) from None


def _weights(weights: ArrayLike) -> NDArray[np.float32]:
    array = as_array("weight", weights)
    if array.dtype.kind not in "fiub":
        raise UnsupportedArgument(f"weights must be numbers, got {array.dtype}")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise UnsupportedArgument(f"weight {bad} is not valid: expected a finite number")
    return to_float32("weight", array).reshape(-1)


def _node_rows(
    owner: NodeType, features: Features, labels: Any, split: SplitName | None, count: int | None
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
