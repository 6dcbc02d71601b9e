"""What tests of samplers share: neighbour lists by brute force, and batches as plain values."""

from typing import Any

import numpy as np
import torch
from graphs import Edges, Graph, Nodes

PLAIN = ("node", "to", "node")


def temporal_graph(num_nodes: int = 60, num_edges: int = 600, seed: int = 3) -> Graph:
    """Edges and nodes with times that tie often, a hub, and nodes without in-edges."""
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, num_nodes, num_edges)
    destinations = rng.integers(0, num_nodes - 5, num_edges)
    destinations[: num_edges // 4] = 7
    nodes = {
        "x": rng.standard_normal((num_nodes, 4)).astype(np.float32),
        "born": rng.integers(0, 40, num_nodes),
        "score": rng.random(num_nodes).astype(np.float32),
    }
    times = rng.integers(0, 50, num_edges)
    attr = rng.standard_normal((num_edges, 2)).astype(np.float32)
    edges = Edges(sources, destinations, {"edge_attr": attr}, times=times)
    return Graph({"node": Nodes(num_nodes, nodes)}, {PLAIN: edges})


def entries_of(edges: Edges, node: int) -> Any:
    """Edge ids of the list of `node`, in the order of the store."""
    ids = np.flatnonzero(edges.destinations == node)
    keys = [ids, edges.sources[ids]] + ([] if edges.times is None else [edges.times[ids]])
    return ids[np.lexsort(keys)]


def all_entries(edges: Edges, num_destinations: int) -> Any:
    """Edge ids in the order of all lists, one after the other."""
    return np.concatenate([entries_of(edges, node) for node in range(num_destinations)])


def stores_of(batch: Any) -> dict[Any, Any]:
    """The parts of a PyG object by type; None is the type of a homogeneous one."""
    if hasattr(batch, "node_types"):
        return {key: batch[key] for key in [*batch.node_types, *batch.edge_types]}
    return {None: batch}


def values(batch: Any) -> dict[Any, Any]:
    """All that a batch says, as values that compare."""
    found = {}
    for key, part in stores_of(batch).items():
        for name, value in part.to_dict().items():
            is_tensor = torch.is_tensor(value)
            found[key, name] = (str(value.dtype), value.tolist()) if is_tensor else value
    return found


def epoch_of(loader: Any) -> list[Any]:
    """The values of all batches of one pass."""
    return [values(batch) for batch in loader]


def kinds(batch: Any) -> dict[Any, Any]:
    """Which attributes a batch has, with their dtypes and numbers of dimensions."""
    found = {}
    for key, part in stores_of(batch).items():
        for name, value in part.to_dict().items():
            is_tensor = torch.is_tensor(value)
            found[key, name] = (value.dtype, value.dim()) if is_tensor else type(value)
    return found
