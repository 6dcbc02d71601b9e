"""Small random graphs, as raw arrays and as the stores made from them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neargraph import _core

DTYPES = {
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.uint8): "u8",
    np.dtype(np.int64): "i64",
}


@dataclass
class Nodes:
    num_nodes: int
    tensors: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Edges:
    sources: np.ndarray
    destinations: np.ndarray
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    times: np.ndarray | None = None
    weights: np.ndarray | None = None
    edge_ids: bool = True


@dataclass
class Graph:
    """Raw arrays; edge i of a type has edge id i."""

    nodes: dict[str, Nodes]
    edges: dict[tuple[str, str, str], Edges]

    def in_edges(self, triple: tuple[str, str, str], node: int) -> list[tuple[int, int]]:
        """(source, edge id) of the in-edges of `node`, in list order."""
        edges = self.edges[triple]
        ids = np.flatnonzero(edges.destinations == node)
        return sorted((int(edges.sources[i]), int(i)) for i in ids)

    def write(self, path: Any, mask_width: int | None = None, page_bytes: int = 4096) -> str:
        """Imports the graph and returns the path of the store."""
        out = _core.Importer(str(path), page_bytes=page_bytes)
        kinds: dict[Any, int] = {}
        for name, nodes in self.nodes.items():
            kinds[name] = out.node_type(name, nodes.num_nodes)
        for triple, edges in self.edges.items():
            kinds[triple] = out.edge_type(
                *triple,
                edge_ids=edges.edge_ids,
                time=edges.times is not None,
                weight=edges.weights is not None,
            )
            out.push_edges(
                kinds[triple],
                edges.sources,
                edges.destinations,
                times=edges.times,
                weights=edges.weights,
            )
        out.build_topology()
        for kind, owners in (("node", self.nodes), ("edge", self.edges)):
            for key, owner in owners.items():
                for name, array in owner.tensors.items():
                    width = mask_width if name.startswith("split_") else None
                    shape = list(array.shape[1:])
                    dtype = DTYPES[array.dtype]
                    tensor = out.begin_tensor(kind, kinds[key], name, dtype, shape, width)
                    out.push_rows(tensor, array)
        out.finish()
        return str(path)


def homogeneous(num_nodes: int = 300, num_edges: int = 1500, seed: int = 1) -> Graph:
    """One node type with x, y and splits, one edge type with edge_attr; a hub and lone nodes."""
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, num_nodes, num_edges)
    destinations = rng.integers(0, num_nodes - 20, num_edges)
    destinations[: num_edges // 5] = 7
    nodes = Nodes(
        num_nodes,
        {
            "x": rng.standard_normal((num_nodes, 6)).astype(np.float32),
            "y": rng.integers(0, 5, num_nodes),
            "split_0": rng.integers(0, 4, num_nodes).astype(np.uint8),
        },
    )
    attr = rng.standard_normal((num_edges, 3)).astype(np.float32)
    triple = ("node", "to", "node")
    return Graph({"node": nodes}, {triple: Edges(sources, destinations, {"edge_attr": attr})})


def heterogeneous(seed: int = 2) -> Graph:
    """Papers, authors and a type without tensors; one edge type with times and weights."""
    rng = np.random.default_rng(seed)
    papers, authors, venues = 120, 60, 5
    cites = Edges(rng.integers(0, papers, 500), rng.integers(0, papers, 500), edge_ids=False)
    writes = Edges(
        rng.integers(0, authors, 400),
        rng.integers(0, papers, 400),
        {"edge_attr": rng.standard_normal((400, 2)).astype(np.float32)},
    )
    within = Edges(
        rng.integers(0, venues, papers),
        np.arange(papers),
        times=np.zeros(papers, np.int64),
        weights=rng.random(papers).astype(np.float32),
    )
    return Graph(
        {
            "paper": Nodes(
                papers,
                {
                    "x": rng.standard_normal((papers, 4)).astype(np.float16),
                    "y": rng.integers(0, 3, papers),
                    "split_0": rng.integers(0, 4, papers).astype(np.uint8),
                    "split_1": rng.integers(0, 4, papers).astype(np.uint8),
                },
            ),
            "author": Nodes(authors, {"x": rng.standard_normal((authors, 3)).astype(np.float32)}),
            "venue": Nodes(venues),
        },
        {
            ("paper", "cites", "paper"): cites,
            ("author", "writes", "paper"): writes,
            ("venue", "holds", "paper"): within,
        },
    )


def shop(seed: int = 4, *, both_timed: bool = False) -> Graph:
    """Users and items that are joined in both directions; items alone have times of nodes, and the
    edges of one direction, or of both, times of their own."""
    rng = np.random.default_rng(seed)
    users, items, count = 40, 25, 240
    pairs = np.unique(
        np.stack([rng.integers(0, users, count), rng.integers(0, items, count)]), axis=1
    )
    who, what = pairs[:, rng.permutation(pairs.shape[1])]
    times = rng.integers(0, 30, len(who))
    nodes = {
        "user": Nodes(users, {"x": rng.standard_normal((users, 3)).astype(np.float32)}),
        "item": Nodes(
            items,
            {
                "x": rng.standard_normal((items, 2)).astype(np.float32),
                "born": rng.integers(0, 20, items),
            },
        ),
    }
    attr = rng.standard_normal((len(who), 2)).astype(np.float32)
    edges = {
        ("user", "buys", "item"): edges_of([who, what], tensors={"edge_attr": attr}, times=times),
        ("item", "rev_buys", "user"): edges_of([what, who], times=times if both_timed else None),
    }
    return Graph(nodes, edges)


def edges_of(pairs: Any, **more: Any) -> Edges:
    """Edges of [2, e] ids."""
    sources, destinations = (np.ascontiguousarray(row, np.int64) for row in pairs)
    return Edges(sources, destinations, **more)
