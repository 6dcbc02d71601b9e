"""Changes to a graph that a server applies as one commit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neargraph.client.results import CODES
from neargraph.exceptions import UnsupportedArgument

Ref = "int | NewNode"


class NewNode:
    """A node that a group of changes adds. It gets its id when the changes are applied."""

    def __init__(self, number: int) -> None:
        self.number = number


class Updates:
    """Changes to a graph, in order. A server applies all of them as one commit, or none.

    Example:
        >>> updates = ng.Updates()  # doctest: +SKIP
        >>> paper = updates.add_node({"x": row})
        >>> updates.add_edge(paper, 17)
        >>> client.apply(updates)["results"][0]["node"]
        2449029
    """

    def __init__(self) -> None:
        self.changes: list[tuple[str, tuple[Any, ...]]] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self.changes)

    def add_node(self, rows: Mapping[str, Any] | None = None, *, node_type: str = "") -> NewNode:
        """Adds a node.

        Args:
            rows: One row for each tensor, by name. Rows of other tensors are 0.
            node_type: Name of the node type. May be empty if the graph has one.

        Returns:
            The new node, for later changes of this group.
        """
        given = {name: numbers(row) for name, row in (rows or {}).items()}
        self.changes.append(("add_node", (node_type, given)))
        self._added += 1
        return NewNode(self._added - 1)

    def delete_node(self, node: int, *, node_type: str = "") -> None:
        """Deletes a node and its edges."""
        self.changes.append(("delete_node", (node_type, int(node))))

    def add_edge(
        self,
        source: "int | NewNode",
        destination: "int | NewNode",
        *,
        edge_type: str = "",
        time: int | None = None,
        weight: float | None = None,
    ) -> None:
        """Adds an edge between existing nodes or nodes that these changes add."""
        ends = (_ref(source), _ref(destination))
        self.changes.append(("add_edge", (edge_type, *ends, time, weight)))

    def delete_edge(
        self, source: int, destination: int, *, edge_type: str = "", edge_id: int | None = None
    ) -> None:
        """Deletes all edges from a source to a destination, or only `edge_id`."""
        ends = (int(source), int(destination))
        self.changes.append(("delete_edge", (edge_type, *ends, edge_id)))

    def update_rows(
        self,
        nodes: "Sequence[int | NewNode] | Any",
        rows: Any,
        *,
        tensor: str = "",
        node_type: str = "",
    ) -> None:
        """Replaces rows of a node tensor.

        Args:
            nodes: Node ids or new nodes, [n].
            rows: One new row for each node, [n, ...].
            tensor: Name of the tensor. May be empty if the node type has one tensor.
            node_type: Name of the node type. May be empty if the graph has one.
        """
        refs = [_ref(node) for node in nodes]
        self.changes.append(("update_rows", (node_type, tensor, refs, numbers(rows))))


def numbers(given: Any) -> tuple[int, list[int], bytes]:
    """Returns the dtype number, shape and bytes of an array. Python's floats become f32."""
    array = np.ascontiguousarray(given) if np.ndim(given) else np.asarray(given)
    if array.dtype == np.float64 and not isinstance(given, np.ndarray):
        array = array.astype(np.float32)
    code = CODES.get(array.dtype.newbyteorder("="), CODES.get(array.dtype))
    if code is None:
        raise UnsupportedArgument(
            f"rows have dtype {array.dtype}: expected one of {', '.join(map(str, CODES))}"
        )
    return code, list(array.shape), array.tobytes()


def _ref(node: Any) -> tuple[bool, int]:
    return (True, node.number) if isinstance(node, NewNode) else (False, int(node))
