"""What changes graphs: transactions, single updates, and whole columns."""

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from neargraph.client.columns import Columns
from neargraph.client.modes import Request, Steps, method
from neargraph.client.updates import Updates
from neargraph.exceptions import UnsupportedArgument

EdgeKey = str | tuple[str, str, str]
_NONE: Mapping[Any, Any] = {}


def apply(
    updates: Updates, graph: str, key: bytes | None = None, since: int | None = None
) -> Steps[dict[str, Any]]:
    """One commit. A key of its own makes it safe to try again."""
    key = uuid.uuid4().bytes if key is None else key
    return dict((yield Request("apply", (graph, updates.changes, (key, since)))))


def _check_since(key: bytes | None, since: int | None) -> None:
    if since is not None and key is None:
        raise UnsupportedArgument("key_since_commit= says since when a key is sent; give key=, too")


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
    ) -> Steps[dict[str, Any]]:
        """Applies changes as one commit: all of them or none. It is durable when this returns.

        Args:
            updates: What to change.
            graph: The only graph of the server if empty.
            key: 1 to 64 bytes. A transaction with a key that was applied already is not applied
                again: its answer is repeated. None makes a key, so that the client may try again.
            key_since_commit: A commit of the graph that was known before the key was sent for the
                first time. If the server may have forgotten keys of later commits, and this one is
                not known, it is refused and not applied a second time.

        Returns:
            ``snapshot``; ``results``, one for each change, with the ids of what was added; and
            whether the answer was ``repeated``.

        Raises:
            NodeOutOfRange: A change names a node that is not there.
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
            rows: A row by name of the tensor; others are 0.
            graph: The only graph of the server if empty.
            node_type: The only type of the graph if empty.

        Returns:
            The id of the node.
        """
        updates = Updates()
        updates.add_node(rows, node_type=node_type)
        return int((yield from apply(updates, graph))["results"][0]["node"])

    @method
    def delete_node(self, node: int, *, graph: str = "", node_type: str = "") -> Steps[None]:
        """Deletes a node and its edges.

        Raises:
            ReverseMissing: The graph was imported without reverses, by which its edges are found.
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
        """Adds an edge; gives its id, where edges have ids."""
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
        """Deletes all edges between two nodes, or one of them; gives how many."""
        updates = Updates()
        updates.delete_edge(source, destination, edge_type=edge_type, edge_id=edge_id)
        return int((yield from apply(updates, graph))["results"][0]["deleted"] or 0)

    @method
    def update_rows(
        self, nodes: Any, rows: Any, *, tensor: str = "", graph: str = "", node_type: str = ""
    ) -> Steps[None]:
        """Puts other rows in place.

        Args:
            nodes: Ids, [n].
            rows: A row for each, [n, ...].
            tensor: The only tensor of the type if empty.
            graph: The only graph of the server if empty.
            node_type: The only type of the graph if empty.
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
    ) -> Steps[dict[str, Any]]:
        """Makes a new graph of columns, or adds them to one that is there: all of it or nothing.

        Columns are sent as they come, in pieces, and never faster than the server writes them. They
        need pyarrow. An asyncio client reads them on the thread of its event loop.

        Args:
            graph: Name of the graph.
            nodes: Columns by node type: a mapping from names of tensors to arrays, [n, ...], a
                pyarrow Table, or a RecordBatchReader; or a number of nodes without tensors. With a
                column ``id`` besides, rows of nodes that are there are replaced.
            num_nodes: How many nodes a type of a new graph has, where a RecordBatchReader does not
                tell. Of a graph that is there: how many ids the type has before this; nothing is
                added if it has others.
            edges: Columns by edge type, "writes" or ("author", "writes", "paper"): ``source`` and
                ``destination``, and ``time``, ``weight`` and ``edge_id`` if wanted. Others are
                tensors of the edges.
            existing: Add to a graph that is there.
            undirected: Edge types of a new graph whose edges stand for both directions; True is
                all of them.
            reverse: Edge types of a new graph that keep their reverse, which deleting nodes
                needs.
            edge_ids: Edge types of a new graph that keep edge ids.
            page_bytes: Page size of a new graph; 0 is the default of imports.
            key: 1 to 64 bytes. What was sent with a key is applied once, however often it is sent.
            key_since_commit: As of `apply`.

        Returns:
            ``snapshot``; ``num_nodes`` and ``num_edges``, how many came; ``num_rows`` that were
            replaced; ``first_nodes``, for each node type the id of its first new node; ``notes``.

        Raises:
            UnsupportedArgument: Columns of a type differ in length, or do not hold numbers.
            InvalidRequest: The server does not take the columns; `field` names which.
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
    """What the head says of a node type, and its columns."""
    columns = None if isinstance(given, int) else Columns(given, f"nodes {name!r}")
    known = given if columns is None else 0 if existing else columns.num_rows
    count = num_nodes.get(name, known)
    if count is None:
        raise UnsupportedArgument(
            f"the reader of nodes {name!r} does not tell how many they are; "
            f"give num_nodes={{{name!r}: ...}}"
        )
    tensors = [] if columns is None else [one for one in columns.names if one != "id"]
    return {"name": name, "num_nodes": count, "tensors": tensors}, columns


def _edge_type(
    key: EdgeKey, given: Any, options: Mapping[str, bool | Collection[str]]
) -> tuple[dict[str, Any], Columns]:
    """What the head says of an edge type, and its columns."""
    name = key if isinstance(key, str) else ",".join(key)
    said = {option: _holds(value, name) for option, value in options.items()}
    return {"name": name, **said}, Columns(given, f"edges {name!r}")


def _holds(option: bool | Collection[str], name: str) -> bool:
    return option if isinstance(option, bool) else name in option


def _sent(head: dict[str, Any], columns: list[Columns]) -> Steps[dict[str, Any]]:
    upload = yield Request("update_graph", (json.dumps(head),))
    try:
        for one in columns:
            for piece in one.pieces():
                yield Request("send", (upload, piece))
        return dict((yield Request("finish", (upload,))))
    finally:
        # What was not finished is given up, and the server makes nothing of it.
        upload.close()
