"""What PyG's own loaders take as seeds and links of a store: all that neargraph's loaders take.

PyG has two functions that read `input_nodes` and `edge_label_index`. They ask neither the store nor
its sampler, and end in an assertion without a message where something else than PyG's spelling for
remote graphs is given. `take_stores` puts those of this module before them. The invariant: what is
not a store of neargraph goes on to PyG's own functions as it is.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader import link_loader, node_loader

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.link import resolve_links
from neargraph.loader.seeds import resolve_input_nodes, with_given
from neargraph.pyg.graph_store import GraphStore
from neargraph.reader import Reader, Version

_nodes_of_pyg = node_loader.get_input_nodes
_links_of_pyg = link_loader.get_edge_label_index


def take_stores() -> None:
    """Has PyG's `NodeLoader` and `LinkLoader`, and what is built on them, read seeds and links of a
    store through this module."""
    node_loader.get_input_nodes = _input_nodes
    link_loader.get_edge_label_index = _edge_label_index


def _input_nodes(
    data: Any, input_nodes: Any, input_id: Any = None
) -> tuple[str | None, Tensor, Tensor | None]:
    """The node type (None of a homogeneous store), the ids and the `input_id` of seeds."""
    snapshot = _snapshot_of(data)
    if snapshot is None:
        found: tuple[str | None, Tensor, Tensor | None] = _nodes_of_pyg(data, input_nodes, input_id)
        return found
    schema = snapshot.schema
    if input_nodes is None:
        raise UnsupportedArgument(
            "input_nodes is None, and PyG's loaders do not choose the seeds in a store; give "
            f"'train', ids, a mask, or a node type such as {schema.node_types[0].name!r} for all "
            "its nodes"
        )
    inputs = with_given(resolve_input_nodes(snapshot, _as_pair(input_nodes)), input_id=input_id)
    places = np.arange(len(inputs))
    name = None if schema.is_homogeneous else inputs.node_type.name
    ids = torch.from_numpy(inputs.nodes(places))
    return name, ids, torch.from_numpy(inputs.input_id(places))


def _edge_label_index(data: Any, given: Any) -> tuple[Any, Tensor]:
    """The edge type and the links [2, n]."""
    snapshot = _snapshot_of(data)
    if snapshot is not None:
        schema = snapshot.schema
        if given is None:
            raise UnsupportedArgument(
                "edge_label_index is None, and PyG's loaders do not choose the links in a store; "
                f"give links [2, n], or an edge type such as {schema.edge_types[0].triple!r} for "
                "all its edges"
            )
        edge_type, ends = resolve_links(schema, _as_pair(given))
        given = (edge_type.triple, None if ends is None else torch.from_numpy(ends))
    found: tuple[Any, Tensor] = _links_of_pyg(data, given)
    return found


def _as_pair(given: Any) -> Any:
    """PyG takes (type, ids) as a list, too, and no name for the only type."""
    if not (isinstance(given, tuple | list) and len(given) == 2) or isinstance(given[1], str):
        return given
    name, ids = given
    if name is None:
        return ids
    is_type = isinstance(name, tuple) and all(isinstance(part, str) for part in name)
    return (name, ids) if is_type or isinstance(name, str) else given


def _snapshot_of(data: Any) -> Version | None:
    """The version that a store, a snapshot, or (feature store, graph store) of one stands for."""
    if isinstance(data, Reader):
        return data.snapshot()
    graph = data[1] if isinstance(data, tuple | list) and len(data) == 2 else None
    return graph.snapshot if isinstance(graph, GraphStore) else None
