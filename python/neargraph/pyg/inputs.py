"""Seeds and links of a store for PyG's own loaders, in all spellings of neargraph's loaders.

PyG has two functions that read `input_nodes` and `edge_label_index`. They use neither the store nor
its sampler, and accept only PyG's spelling for remote graphs; another one fails an assertion
without a message. `take_stores` wraps them with the functions of this module. The invariant: calls
without a store of neargraph reach PyG's own functions unchanged.
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
    """Makes PyG's `NodeLoader`, `LinkLoader` and their subclasses use the functions below."""
    node_loader.get_input_nodes = _input_nodes
    link_loader.get_edge_label_index = _edge_label_index


def _input_nodes(
    data: Any, input_nodes: Any, input_id: Any = None
) -> tuple[str | None, Tensor, Tensor | None]:
    """Returns node type (None in a homogeneous store), ids and `input_id` of seeds."""
    snapshot = _snapshot_of(data)
    if snapshot is None:
        found: tuple[str | None, Tensor, Tensor | None] = _nodes_of_pyg(data, input_nodes, input_id)
        return found
    schema = snapshot.schema
    if input_nodes is None:
        raise UnsupportedArgument(
            "input_nodes=None is not supported by PyG's loaders on a store; give 'train', ids, a "
            f"mask, or a node type such as {schema.node_types[0].name!r} for all its nodes"
        )
    inputs = with_given(resolve_input_nodes(snapshot, _as_pair(input_nodes)), input_id=input_id)
    places = np.arange(len(inputs))
    name = None if schema.is_homogeneous else inputs.node_type.name
    ids = torch.from_numpy(inputs.nodes(places))
    return name, ids, torch.from_numpy(inputs.input_id(places))


def _edge_label_index(data: Any, given: Any) -> tuple[Any, Tensor]:
    """Returns edge type and links [2, n]."""
    snapshot = _snapshot_of(data)
    if snapshot is not None:
        schema = snapshot.schema
        if given is None:
            raise UnsupportedArgument(
                "edge_label_index=None is not supported by PyG's loaders on a store; give links "
                f"[2, n], or an edge type such as {schema.edge_types[0].triple!r} for all its edges"
            )
        edge_type, ends = resolve_links(schema, _as_pair(given))
        given = (edge_type.triple, None if ends is None else torch.from_numpy(ends))
    found: tuple[Any, Tensor] = _links_of_pyg(data, given)
    return found


def _as_pair(given: Any) -> Any:
    """Returns (type, ids) as a tuple, which PyG also accepts as a list, or as (None, ids)."""
    if not (isinstance(given, tuple | list) and len(given) == 2) or isinstance(given[1], str):
        return given
    name, ids = given
    if name is None:
        return ids
    is_type = isinstance(name, tuple) and all(isinstance(part, str) for part in name)
    return (name, ids) if is_type or isinstance(name, str) else given


def _snapshot_of(data: Any) -> Version | None:
    """Returns the version of a store, a snapshot or (feature store, graph store), or None."""
    if isinstance(data, Reader):
        return data.snapshot()
    graph = data[1] if isinstance(data, tuple | list) and len(data) == 2 else None
    return graph.snapshot if isinstance(graph, GraphStore) else None
