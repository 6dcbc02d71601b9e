"""What else gives batches or rows: PyG's own loaders, clusters, and plain reads.

Each face has its own digests; back ends, memory and processes must not show in them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import neargraph as ng
import neargraph.pyg

from .digest import Flat, flat_numpy, flat_pyg
from .stores import BATCHES, SEED, Graph

Make = Callable[[Any, Graph, Any], Iterator[Flat]]


def _typed(graph: Graph, ids: Any) -> Any:
    return ids if graph.node_type is None else (graph.node_type, ids)


def _nodes(store: Any, graph: Graph, ids: Any, how: str, workers: int = 0) -> Iterator[Flat]:
    """PyG's NodeLoader or NeighborLoader over the store, or over its two halves."""
    import torch
    from torch_geometric.loader import NeighborLoader, NodeLoader

    fanouts = list(graph.fanouts)
    sampler = store.sampler(fanouts, seed=SEED)
    sampler.set_epoch(1)
    data = (store.feature_store, store.graph_store) if how == "halves" else store
    options: dict[str, Any] = {
        "input_nodes": _typed(graph, torch.from_numpy(ids)),
        "batch_size": graph.batch_size,
        "num_workers": workers,
        "transform": ng.pyg.EdgeFeatures(store),
    }
    if how == "by name":
        loader = NeighborLoader(data, fanouts, neighbor_sampler=sampler, **options)
    else:
        loader = NodeLoader(data, sampler, **options)
    for batch in loader:
        yield flat_pyg(batch)


def _links(store: Any, graph: Graph, ids: Any, workers: int = 0) -> Iterator[Flat]:
    """PyG's LinkLoader, with negative links."""
    import torch
    from torch_geometric.loader import LinkLoader

    links = np.stack([ids[:-1], ids[1:]])
    edge_type = _own_edge_type(store, graph)
    sampler = store.sampler(list(graph.fanouts), seed=SEED)
    sampler.set_epoch(1)
    loader = LinkLoader(
        store,
        sampler,
        edge_label_index=(edge_type, torch.from_numpy(links)),
        neg_sampling="binary",
        batch_size=graph.batch_size,
        num_workers=workers,
    )
    for batch in loader:
        yield flat_pyg(batch)


def _own_edge_type(store: Any, graph: Graph) -> Any:
    if store.schema.is_homogeneous:
        return None
    name = graph.node_type
    return next(t for t in store.edge_types if (t[0], t[2]) == (name, name))


def _clusters(store: Any, graph: Graph, ids: Any, shuffle: bool, first: int = 0) -> Iterator[Flat]:
    """Clusters of about a batch's seeds; from batch `first` on by way of a state."""
    parts = max(8, store.num_nodes // graph.batch_size)
    size = -(-parts // 512)

    def loader() -> Any:
        made = ng.ClusterGCNLoader(store, parts, batch_size=size, shuffle=shuffle, seed=SEED)
        made.set_epoch(1)
        return made

    made = loader()
    for end in (first, BATCHES):
        taken = first if end == BATCHES else 0
        with contextlib.closing(iter(made)) as batches:
            for _ in range(end - taken):
                yield flat_pyg(next(batches))
        state, made = made.state_dict(), loader()
        made.load_state_dict(state)


def _many(store: Any, graph: Graph, ids: Any) -> Iterator[Flat]:
    """Seeds of every node type at once."""
    sampler = ng.NumpySampler(store, list(graph.fanouts), seed=SEED)
    types = store.schema.node_types
    seeds = {t.name: np.unique(ids % t.num_nodes)[:20] for t in types if t.num_nodes}
    for stream in range(2):
        yield flat_numpy(sampler.sample_many(seeds, stream=stream), sampler.schema)


def _reads(store: Any, graph: Graph, ids: Any) -> Iterator[Flat]:
    """Lists, degrees, rows and columns of a snapshot, by themselves."""
    snapshot = store.snapshot()
    for owner in snapshot.schema.edge_types:
        count = snapshot.schema.node_types[owner.destination_index].num_nodes
        some = ids[: graph.batch_size] % count
        found = snapshot.neighbors(owner.triple, some)
        flat: Flat = {"degrees": snapshot.degrees(owner.triple, some)}
        for name in ("indptr", "indices", "edge_ids", "times", "weights"):
            if getattr(found, name) is not None:
                flat[name] = getattr(found, name)
        edges = np.arange(min(owner.num_edge_ids, 100)) if owner.tensors else None
        for meta in owner.tensors:
            flat[f"tensor {meta.name}"] = snapshot.edge_features(owner.triple, edges, meta.name)
        yield flat
    for owner in snapshot.schema.node_types:
        some = ids[: graph.batch_size] % max(1, owner.num_nodes)
        for meta in owner.tensors:
            flat = {"rows": snapshot.features(owner.name, some, meta.name)}
            flat["stored"] = snapshot.features(owner.name, some, meta.name, "stored")
            if meta.sparse:
                flat["sparse"] = snapshot.features(owner.name, some, meta.name, format="sparse")
            if meta.name != "x":
                flat["column"] = snapshot.column(meta.name, owner.name)
            yield flat


# name of the group -> ways of making it, by name.
OTHERS: dict[str, dict[str, Make]] = {
    "PyG's NodeLoader": {
        "store": lambda s, g, i: _nodes(s, g, i, "store"),
        "halves": lambda s, g, i: _nodes(s, g, i, "halves"),
        "by name": lambda s, g, i: _nodes(s, g, i, "by name"),
        "2 processes": lambda s, g, i: _nodes(s, g, i, "store", workers=2),
    },
    "PyG's LinkLoader": {
        "store": _links,
        "2 processes": lambda s, g, i: _links(s, g, i, workers=2),
    },
    "clusters in order": {
        "whole": lambda s, g, i: _clusters(s, g, i, shuffle=False),
        "resumed": lambda s, g, i: _clusters(s, g, i, shuffle=False, first=2),
    },
    "clusters shuffled": {
        "whole": lambda s, g, i: _clusters(s, g, i, shuffle=True),
        "resumed": lambda s, g, i: _clusters(s, g, i, shuffle=True, first=2),
    },
    "sample_many": {"store": _many},
    "reads": {"store": _reads},
}


def is_made(how: str, opening: tuple[str, str, str]) -> bool:
    """All back ends on the natural order, one on the others; processes take long to start."""
    rows, backend, memory = opening
    if how == "2 processes":
        return (rows, memory) == ("natural", "small")
    return rows == "natural" or (backend, memory) == ("uring", "small")


def group_of(name: str, rows: str) -> str:
    """Clusters follow the order of rows; nothing else may."""
    return f"{name}, rows {rows}" if name.startswith("clusters") else name


def refusal_of(name: str, is_homogeneous: bool) -> str | None:
    """The exception class that a face shall raise."""
    return "UnsupportedArgument" if name.startswith("clusters") and not is_homogeneous else None
