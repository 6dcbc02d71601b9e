"""Requests that change graphs: transactions, single updates, and whole columns."""

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any, cast

from neargraph.client.columns import Columns
from neargraph.client.modes import Request, Steps, method
from neargraph.client.reports import ApplyResult, UpdateGraphResult
from neargraph.client.updates import Updates
from neargraph.exceptions import UnsupportedArgument

EdgeKey = str | tuple[str, str, str]
_NONE: Mapping[Any, Any] = {}


def apply(
    updates: Updates, graph: str, key: bytes | None = None, since: int | None = None
) -> Steps[ApplyResult]:
    """Applies changes as one commit. A new key, if none is given, makes retries safe."""
    key = uuid.uuid4().bytes if key is None else key
    return cast(ApplyResult, (yield Request("apply", (graph, updates.changes, (key, since)))))


def _check_since(key: bytes | None, since: int | None) -> None:
    if since is not None and key is None:
        raise UnsupportedArgument(
            "key_since_commit= has no effect without key=; give both, or neither"
        )


class Changing:
    """Methods that change graphs."""

    @method
    def apply(
        self,
        updates: Updates,
        *,
        graph: str = "",
        key: bytes | None = None,
        key_since_commit: int | None = None,
    ) -> Steps[ApplyResult]:
        """Applies changes as one commit: all of them or none. The commit is durable on return.

        Args:
            updates: The changes.
            graph: Name of the graph. May be empty if the server has one graph.
            key: Idempotency key, 1 to 64 bytes. If a commit with this key exists, the server
                applies nothing and repeats that result. None: the client creates a key, so that it
                can retry.
            key_since_commit: Number of a commit that existed before the key was first sent. If the
                server may have forgotten a key of a later commit, it rejects an unknown key
                instead of possibly applying the changes twice.

        Returns:
            The commit, with the ids of added nodes and edges.

        Raises:
            NodeOutOfRange: A node of a change does not exist.
            NotPermitted: The token does not allow changes, or the server is read-only.

        Example:
            >>> updates = ng.Updates()  # doctest: +SKIP
            >>> updates.add_edge(updates.add_node({"x": row}), 17)
            >>> client.apply(updates)["results"][0]["node"]
            2708
        """
        _check_since(key, key_since_commit)
        return (yield from apply(updates, graph, key, key_since_commit))

    @method
    def add_node(
        self, rows: Mapping[str, Any] | None = None, *, graph: str = "", node_type: str = ""
    ) -> Steps[int]:
        """Adds a node.

        Args:
            rows: One row for each tensor, by name. Rows of other tensors are 0.
            graph: Name of the graph. May be empty if the server has one graph.
            node_type: Name of the node type. May be empty if the graph has one.

        Returns:
            The id of the new node.
        """
        updates = Updates()
        updates.add_node(rows, node_type=node_type)
        node = (yield from apply(updates, graph))["results"][0]["node"]
        assert node is not None, "a new node has an id"
        return node

    @method
    def delete_node(self, node: int, *, graph: str = "", node_type: str = "") -> Steps[None]:
        """Deletes a node and its edges.

        Raises:
            ReverseMissing: The graph was imported without reverses, which finding the edges needs.
        """
        updates = Updates()
        updates.delete_node(node, node_type=node_type)
        yield from apply(updates, graph)

    @method
    def add_edge(
        self,
        source: int,
        destination: int,
        *,
        graph: str = "",
        edge_type: str = "",
        time: int | None = None,
        weight: float | None = None,
    ) -> Steps[int | None]:
        """Adds an edge and returns its id; None if the edge type has no ids."""
        updates = Updates()
        updates.add_edge(source, destination, edge_type=edge_type, time=time, weight=weight)
        edge: int | None = (yield from apply(updates, graph))["results"][0]["edge"]
        return edge

    @method
    def delete_edge(
        self,
        source: int,
        destination: int,
        *,
        graph: str = "",
        edge_type: str = "",
        edge_id: int | None = None,
    ) -> Steps[int]:
        """Deletes all edges between two nodes, or only `edge_id`; returns the number of edges."""
        updates = Updates()
        updates.delete_edge(source, destination, edge_type=edge_type, edge_id=edge_id)
        return int((yield from apply(updates, graph))["results"][0]["deleted"] or 0)

    @method
    def update_rows(
        self, nodes: Any, rows: Any, *, tensor: str = "", graph: str = "", node_type: str = ""
    ) -> Steps[None]:
        """Replaces rows of a node tensor.

        Args:
            nodes: Node ids, [n].
            rows: One new row for each node, [n, ...].
            tensor: Name of the tensor. May be empty if the node type has one tensor.
            graph: Name of the graph. May be empty if the server has one graph.
            node_type: Name of the node type. May be empty if the graph has one.
        """
        updates = Updates()
        updates.update_rows(nodes, rows, tensor=tensor, node_type=node_type)
        yield from apply(updates, graph)

    @method
    def update_graph(
        self,
        graph: str,
        nodes: Mapping[str, Any] = _NONE,
        edges: Mapping[EdgeKey, Any] = _NONE,
        *,
        num_nodes: Mapping[str, int] = _NONE,
        existing: bool = False,
        undirected: bool | Collection[str] = False,
        reverse: bool | Collection[str] = False,
        edge_ids: bool | Collection[str] = False,
        page_bytes: int = 0,
        key: bytes | None = None,
        key_since_commit: int | None = None,
    ) -> Steps[UpdateGraphResult]:
        """Creates a graph from columns, or adds columns to an existing graph, as one commit.

        The client sends the columns in pieces, at most as fast as the server writes them. This
        needs pyarrow. An asyncio client reads the columns on the thread of its event loop.

        Args:
            graph: Name of the graph.
            nodes: Columns by node type: a mapping from names of tensors to arrays [n, ...], a
                pyarrow Table, or a RecordBatchReader. An integer is a number of nodes without
                tensors. With a column ``id``, the rows of these existing nodes are replaced.
            edges: Columns by edge type, "writes" or ("author", "writes", "paper"): ``source`` and
                ``destination``, and optionally ``time``, ``weight`` and ``edge_id``. Other columns
                become tensors of the edges.
            num_nodes: Number of nodes by node type. For a new graph: required for a
                RecordBatchReader, which does not know its length. For an existing graph: the
                number of ids that the type must have before the change; otherwise nothing is added.
            existing: Whether to add to an existing graph.
            undirected: Edge types of a new graph whose edges apply in both directions. True: all.
            reverse: Edge types of a new graph whose reverse is kept. Deleting nodes needs it.
            edge_ids: Edge types of a new graph that keep edge ids.
            page_bytes: Page size of a new graph in bytes. 0: the default of imports.
            key: Idempotency key, 1 to 64 bytes. The server applies columns with one key once.
            key_since_commit: As in `apply`.

        Returns:
            The commit, with the numbers of added nodes and edges and of replaced rows.

        Raises:
            UnsupportedArgument: Columns of one type differ in length, or do not contain numbers.
            InvalidRequest: The server rejects a column; `field` names it.
            MissingDependency: pyarrow is not installed.

        Example:
            >>> client.update_graph(  # doctest: +SKIP
            ...     "tiny",
            ...     {"paper": {"x": np.ones((3, 8), np.float32)}},
            ...     {("paper", "cites", "paper"): {"source": [0, 1], "destination": [1, 2]}},
            ... )["num_edges"]
            2
        """
        head: dict[str, Any] = {"graph": graph, "existing": existing, "page_bytes": page_bytes}
        _check_since(key, key_since_commit)
        head |= {"idempotency_key": list(key or b""), "key_since_commit": key_since_commit}
        options = {"undirected": undirected, "reverse": reverse, "edge_ids": edge_ids}
        node_types = [_node_type(name, given, existing, num_nodes) for name, given in nodes.items()]
        edge_types = [_edge_type(name, given, options) for name, given in edges.items()]
        head["node_types"] = [kind for kind, _ in node_types]
        head["edge_types"] = [kind for kind, _ in edge_types]
        columns = [columns for _, columns in (*node_types, *edge_types) if columns is not None]
        return (yield from _sent(head, columns))


def _node_type(
    name: str, given: Any, existing: bool, num_nodes: Mapping[str, int]
) -> tuple[dict[str, Any], Columns | None]:
    """Returns the head's entry for a node type, and its columns."""
    columns = None if isinstance(given, int) else Columns(given, f"node type {name!r}")
    known = given if columns is None else 0 if existing else columns.num_rows
    count = num_nodes.get(name, known)
    if count is None:
        raise UnsupportedArgument(
            f"the number of nodes of type {name!r} is unknown, because the columns come from a "
            f"stream without a length; give num_nodes={{{name!r}: ...}}"
        )
    tensors = [] if columns is None else [one for one in columns.names if one != "id"]
    return {"name": name, "num_nodes": count, "tensors": tensors}, columns


def _edge_type(
    key: EdgeKey, given: Any, options: Mapping[str, bool | Collection[str]]
) -> tuple[dict[str, Any], Columns]:
    """Returns the head's entry for an edge type, and its columns."""
    name = key if isinstance(key, str) else ",".join(key)
    said = {option: _holds(value, name) for option, value in options.items()}
    return {"name": name, **said}, Columns(given, f"edge type {name!r}")


def _holds(option: bool | Collection[str], name: str) -> bool:
    return option if isinstance(option, bool) else name in option


def _sent(head: dict[str, Any], columns: list[Columns]) -> Steps[UpdateGraphResult]:
    upload = yield Request("update_graph", (json.dumps(head),))
    try:
        for one in columns:
            for piece in one.pieces():
                yield Request("send", (upload, piece))
        return cast(UpdateGraphResult, (yield Request("finish", (upload,))))
    finally:
        # The server discards an upload that is closed before it is finished.
        upload.close()
