"""Every loader and sampler of walks over two kinds of stores, whose sizes are up to the test.

What must not live here: tests. The invariant: one pass of a loader takes rows of at least half the
bytes of all rows, whatever the number of nodes.
"""

import numpy as np
import torch
from graphs import Edges, Graph, Nodes, edges_of
from sampled import PLAIN

import neargraph as ng
from neargraph import _core

SEED = 3
BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


def plain(num_nodes, width):
    """Graphs of 8 nodes, with a few edges between them, weights and times, and a hub."""
    rng = np.random.default_rng(SEED)
    count = 5 * num_nodes
    sources = rng.integers(0, num_nodes, count)
    near = sources // 8 * 8 + rng.integers(0, 8, count)
    destinations = np.where(rng.random(count) < 0.2, rng.integers(0, num_nodes, count), near)
    destinations[: count // 8] = 10
    nodes = {
        "x": rng.standard_normal((num_nodes, width)).astype(np.float32),
        "born": rng.integers(0, 40, num_nodes),
        "graph_id": np.arange(num_nodes) // 8,
        "graph_y": np.arange(num_nodes) // 8 % 3,
    }
    edges = Edges(
        sources,
        destinations,
        {"edge_attr": rng.standard_normal((count, 2)).astype(np.float32)},
        times=rng.integers(0, 50, count),
        weights=rng.random(count).astype(np.float32),
    )
    return Graph({"node": Nodes(num_nodes, nodes)}, {PLAIN: edges})


def typed(num_nodes, width):
    """As many users as items, joined in both directions, with times."""
    rng = np.random.default_rng(SEED)
    count = 5 * num_nodes
    pairs, times = rng.integers(0, num_nodes, (2, count)), rng.integers(0, 50, count)
    nodes = {
        name: Nodes(num_nodes, {"x": rng.standard_normal((num_nodes, width)).astype(np.float32)})
        for name in ("user", "item")
    }
    edges = {BUYS: edges_of(pairs, times=times), SOLD: edges_of(pairs[::-1], times=times)}
    return Graph(nodes, edges)


def write_plain(graph, path, page_bytes):
    """As `Graph.write`, with the reverse that SAINT's edge sampler needs."""
    nodes, edges = graph.nodes["node"], graph.edges[PLAIN]
    out = _core.Importer(str(path), page_bytes=page_bytes)
    node = out.node_type("node", nodes.num_nodes)
    edge = out.edge_type(*PLAIN, edge_ids=True, time=True, weight=True, reverse=True)
    out.push_edges(
        edge, edges.sources, edges.destinations, times=edges.times, weights=edges.weights
    )
    out.build_topology()
    for kind, owner, tensors in (("node", node, nodes.tensors), ("edge", edge, edges.tensors)):
        for name, rows in tensors.items():
            dtype = "f32" if rows.dtype == np.float32 else "i64"
            out.push_rows(out.begin_tensor(kind, owner, name, dtype, list(rows.shape[1:])), rows)
    out.finish()
    return str(path)


def write(kind, num_nodes, width, path, page_bytes=4096):
    if kind == "plain":
        return write_plain(plain(num_nodes, width), path, page_bytes)
    return typed(num_nodes, width).write(path, page_bytes=page_bytes)


def seeds_of(s):
    """Every seventh node, and so never the hub."""
    return torch.arange(0, s.schema.node_types[0].num_nodes, 7)


def hops(s, how, num_neighbors=(4, 3), *, typed=False, timed=False, **more):
    """Neighbourhoods; the seeds of `timed` ones have times of their own."""
    seeds = seeds_of(s)
    if timed:
        more |= {"time_attr": "edge_time", "input_time": seeds % 50}
    how = {"batch_size": 20, "shuffle": True, "seed": SEED, **more, **how}
    return ng.NeighborLoader(s, list(num_neighbors), ("item", seeds) if typed else seeds, **how)


def pairs_of(s):
    return torch.stack([seeds_of(s), seeds_of(s).flip(0)])


def links(s, how, *, typed=False, timed=False, **more):
    pairs = pairs_of(s)
    if timed:
        more |= {"time_attr": "edge_time", "edge_label_time": pairs[0] % 50}
    how = {"batch_size": 20, "shuffle": True, "seed": SEED, **more, **how}
    return ng.LinkNeighborLoader(s, [4, 2], (BUYS, pairs) if typed else pairs, **how)


def saint(kind, s, how, share, *length):
    """Draws are a share of all nodes."""
    size = s.schema.node_types[0].num_nodes // share
    how = {"num_steps": 18, "sample_coverage": 1, "log": False, "seed": SEED, **how}
    return getattr(ng, f"GraphSAINT{kind}Sampler")(s, size, *length, **how)


def visits(s, how, **more):
    how = {"num_walks": 4, "batch_size": 20, "shuffle": True, "seed": SEED, **more, **how}
    return ng.PinSAGELoader(s, [3, 2], **how)


def clusters(s, how, partition="order"):
    how = {"batch_size": 2, "shuffle": True, "seed": SEED, **how}
    return ng.ClusterGCNLoader(s, 24, partition=partition, **how)


def shadow(s, how):
    return ng.ShaDowKHopSampler(s, 2, 3, seeds_of(s), batch_size=20, shuffle=True, seed=SEED, **how)


def hgt(s, how):
    seeds = "item", seeds_of(s)
    return ng.HGTLoader(s, [60, 60], seeds, batch_size=20, shuffle=True, seed=SEED, **how)


LOADERS = {
    "neighbours": hops,
    "replacement": lambda s, how: hops(s, how, replace=True),
    "all-neighbours": lambda s, how: hops(s, how, (-1, 2)),
    "labor": lambda s, how: hops(s, how, method="labor"),
    "weighted": lambda s, how: hops(s, how, method="weighted"),
    "disjoint": lambda s, how: hops(s, how, disjoint=True),
    "induced": lambda s, how: hops(s, how, subgraph_type="induced"),
    "bidirectional": lambda s, how: hops(s, how, subgraph_type="bidirectional"),
    "edge-times": lambda s, how: hops(s, how, timed=True),
    "last-edge-times": lambda s, how: hops(s, how, timed=True, temporal_strategy="last"),
    "node-times": lambda s, how: hops(s, how, time_attr="born"),
    "links": links,
    "binary-links": lambda s, how: links(s, how, neg_sampling="binary"),
    "triplet-links": lambda s, how: links(s, how, neg_sampling="triplet"),
    "timed-links": lambda s, how: links(s, how, timed=True, neg_sampling="triplet"),
    "saint-nodes": lambda s, how: saint("Node", s, how, 30),
    "saint-edges": lambda s, how: saint("Edge", s, how, 50),
    "saint-walks": lambda s, how: saint("RandomWalk", s, how, 75, 3),
    "visits": lambda s, how: visits(s, how, input_nodes=seeds_of(s)),
    "visits-of-links": lambda s, how: visits(
        s, how, edge_label_index=pairs_of(s), neg_sampling="triplet"
    ),
    "shadow": shadow,
    "clusters": clusters,
    "given-clusters": lambda s, how: clusters(
        s, how, np.arange(s.schema.node_types[0].num_nodes) * 7 % 24
    ),
    "random-parts": lambda s, how: ng.RandomNodeLoader(s, 12, shuffle=True, seed=SEED, **how),
    "graphs": lambda s, how: ng.GraphLoader(s, 10, shuffle=True, seed=SEED, **how),
    "typed-neighbours": lambda s, how: hops(s, how, typed=True),
    "typed-bidirectional": lambda s, how: hops(
        s, how, typed=True, timed=True, subgraph_type="bidirectional"
    ),
    "typed-hgt": hgt,
    "typed-links": lambda s, how: links(s, how, typed=True, timed=True, neg_sampling="binary"),
    "typed-visits": lambda s, how: visits(
        s, how, input_nodes=("item", seeds_of(s)), path=[BUYS, SOLD]
    ),
}
# Arrays of walks, which no way of reading and no threads make.
WALKS = {
    "walks": lambda s: ng.RandomWalkSampler(s, 5, seed=SEED),
    "node2vec": lambda s: ng.RandomWalkSampler(s, 5, p=0.5, q=2.0, seed=SEED),
    "typed-walks": lambda s: ng.RandomWalkSampler(s, 5, path=[BUYS, SOLD], seed=SEED),
}


def kind_of(name):
    return "typed" if name.startswith("typed") else "plain"
