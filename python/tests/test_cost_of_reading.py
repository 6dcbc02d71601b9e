"""The table of docs/reference/samplers.md: reads of lists by a batch, and ways that serve it."""

import re
from pathlib import Path

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes, edges_of
from sampled import PLAIN, temporal_graph

import neargraph as ng
from neargraph.cli import main

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/reference/samplers.md"
BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")
NODES, ENTRIES = 32, 40_000
# A draw reads the block of an entry, and that of its edge id.
DRAW = 2
# Beside lists: blocks that two lists share at their ends, and those that find a list.
BESIDE = 6
# name of a row -> (what it says of lists, a function that checks it, a function that makes one).
ROWS = {}


def row(name, says, make):
    """A row of the table: its words, what checks them, and how such a loader is made."""

    def register(function):
        ROWS[name] = says, function, make
        return function

    return register


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stores of few long lists, whose topologies are too large to be held: plain ones, the same
    with times, small graphs, and items that many users buy."""
    out, rng = tmp_path_factory.mktemp("cost"), np.random.default_rng(1)
    ends = rng.integers(0, NODES, NODES * ENTRIES), np.repeat(np.arange(NODES), ENTRIES)
    nodes = {"born": rng.integers(0, 1000, NODES), "graph_id": np.arange(NODES) // 2}
    times = rng.integers(0, 1000, NODES * ENTRIES)
    Graph({"node": Nodes(NODES, nodes)}, {PLAIN: Edges(*ends)}).write(out / "plain.ng")
    Graph({"node": Nodes(NODES)}, {PLAIN: Edges(*ends, times=times)}).write(out / "dated.ng")
    few = [row[::4] for row in (ends[0] % 2 + ends[1] // 2 * 2, ends[1])]
    Graph({"node": Nodes(NODES, nodes)}, {PLAIN: edges_of(few)}).write(out / "small.ng")
    who = np.concatenate([rng.choice(500_000, 200_000, replace=False) for _ in range(6)])
    what = np.repeat(np.arange(6), 200_000)
    shop = {BUYS: edges_of([who, what]), SOLD: edges_of([what, who])}
    Graph({"user": Nodes(500_000), "item": Nodes(6)}, shop).write(out / "shop.ng")
    return out


def read(path, use):
    """(blocks of 4 KiB, what `use` gives) on a store whose lists have not been read before."""
    with ng.open(path, memory="16MB", backend="pread") as store:
        for triple in store.edge_types:
            store.snapshot().degrees(triple, range(6))
        before = store.stats()["read_bytes"]
        found = use(store)
        return (store.stats()["read_bytes"] - before) / 4096, found


def whole(path, ids, triple=None):
    """Blocks of the lists of `ids`."""

    def use(store):
        for node in ids:
            assert len(store.snapshot().neighbors(triple, [node]).indices) > 0

    return read(path, use)[0]


def one(path, make, *given, **more):
    """(blocks, batch) of a loader's only batch."""

    def use(store):
        (batch,) = make(store, *given, attrs=[], reading="on_demand", **more)
        return batch

    return read(path, use)


def only_whole(path, make, *given, **more):
    """Checks that a batch reads the lists of its nodes, and next to nothing else."""
    blocks, batch = one(path, make, *given, **more)
    lists = whole(path, set(batch.n_id.tolist()))
    assert lists - BESIDE <= blocks <= lists + BESIDE * batch.num_nodes


def plain(store, seeds=(3,), fanout=5, **more):
    return ng.NeighborLoader(store, [fanout], list(seeds), batch_size=len(seeds), **more)


def disjoint(store, seeds=(3,), **more):
    return plain(store, seeds, disjoint=True, **more)


def induced(store, **more):
    return plain(store, fanout=1, subgraph_type="induced", **more)


def by_edges(store, **more):
    return plain(store, input_time=[500], time_attr="edge_time", **more)


def by_nodes(store, **more):
    return plain(store, time_attr="born", **more)


def links(store, fanout=5, **more):
    return ng.LinkNeighborLoader(store, [fanout], [[3], [4]], **more)


def saint(store, **more):
    return ng.GraphSAINTNodeSampler(store, 3, **more)


def shadow(store, **more):
    return ng.ShaDowKHopSampler(store, 1, 1, [3], **more)


def hgt(store, num_samples=(2,), **more):
    return ng.HGTLoader(store, num_samples, ("item", [1]), **more)


def visits(store, **more):
    return ng.PinSAGELoader(store, [3], [3], num_walks=4, walk_length=1, **more)


@row("NeighborLoader, plain", "the blocks that hold the draws", plain)
def of_plain(folder):
    blocks, batch = one(folder / "plain.ng", plain)
    assert batch.num_edges == 5
    assert 0 < blocks <= 5 * DRAW + BESIDE < whole(folder / "plain.ng", [3]) / 4


@row(
    "NeighborLoader, disjoint",
    "the same; two subgraphs draw alike from one list in one hop",
    disjoint,
)
def of_disjoint(folder):
    for seeds, alone in (([3, 4], [3, 4]), ([3, 3], [3])):
        shared, _ = one(folder / "plain.ng", plain, alone)
        apart, batch = one(folder / "plain.ng", disjoint, seeds)
        assert apart == shared
        assert batch.num_edges == 10


@row(
    "by times of edges",
    "short lists whole; of long ones the blocks of a binary search, then the draws",
    by_edges,
)
def of_times_of_edges(folder):
    blocks, batch = one(folder / "dated.ng", by_edges)
    assert batch.num_edges == 5
    lists = whole(folder / "dated.ng", [3])
    # Three probes halve the part twice; an entry has a time, too.
    assert blocks <= 3 * (np.log2(lists) / 2 + 1) + 5 * (DRAW + 1) + BESIDE < lists / 3


@row("by times of nodes", "whole lists, and the time of each entry", by_nodes)
def of_times_of_nodes(folder):
    blocks, batch = one(folder / "plain.ng", by_nodes)
    assert batch.num_edges == 5
    lists = whole(folder / "plain.ng", [3])
    assert lists - BESIDE <= blocks <= 2 * lists


@row("induced", "whole lists of all nodes, after the hops", induced)
def of_induced(folder):
    only_whole(folder / "plain.ng", induced)


@row("LinkNeighborLoader", "as above, and one list per negative link", links)
def of_links(folder):
    around, _ = one(folder / "plain.ng", links)
    assert around == one(folder / "plain.ng", plain, [3, 4])[0]
    path, pairs = folder / "shop.ng", [[11, 12], [0, 1]]
    lists = whole(path, range(6), BUYS)

    def ends(store, **more):
        return ng.LinkNeighborLoader(store, [0], (BUYS, pairs), batch_size=2, **more)

    without, _ = one(path, ends)
    negatives, batch = one(path, ends, neg_sampling="triplet")
    tried = set(batch["item"].n_id[batch["item"].dst_neg_index].tolist())
    assert without <= BESIDE
    # A list that turned out to have the source was looked at, too.
    assert without < negatives <= lists
    assert len(tried) <= 2


@row(
    "GraphSAINT, RandomNodeLoader, ClusterGCNLoader, GraphLoader",
    "whole lists of all nodes of a batch",
    saint,
)
def of_parts(folder):
    path = folder / "plain.ng"
    only_whole(path, saint)
    only_whole(path, lambda store, **more: ng.GraphSAINTRandomWalkSampler(store, 2, 1, **more))
    for of, make in (
        (path, lambda store: ng.RandomNodeLoader(store, 16, attrs=[], reading="on_demand")),
        (path, lambda store: ng.ClusterGCNLoader(store, 16, attrs=[])),
        (folder / "small.ng", lambda store: ng.GraphLoader(store, attrs=[], reading="on_demand")),
    ):
        # All batches together read each list once, or again where the cache has dropped a block.
        blocks, nodes = read(
            of, lambda store, make=make: sum(batch.num_nodes for batch in make(store))
        )
        lists = whole(of, range(NODES))
        assert nodes == NODES
        assert lists - BESIDE <= blocks <= 1.2 * lists


@row("ShaDowKHopSampler", "as disjoint and induced", shadow)
def of_shadow(folder):
    only_whole(folder / "plain.ng", shadow)
    assert one(folder / "plain.ng", shadow)[0] == one(folder / "plain.ng", induced)[0]


@row("HGTLoader", "up to 50 entries of each list, then whole lists of all nodes", hgt)
def of_hgt(folder):
    path = folder / "shop.ng"
    blocks, batch = one(path, hgt)
    lists = whole(path, batch["item"].n_id.tolist(), BUYS)
    lists += whole(path, batch["user"].n_id.tolist(), SOLD)
    assert lists - BESIDE <= blocks <= lists + 50 * DRAW + BESIDE * batch.num_nodes
    blocks, batch = one(path, lambda store, **more: hgt(store, [0], **more))
    assert batch.num_nodes == 1


@row("PinSAGELoader", "one entry per step of each walk", visits)
def of_visits(folder):
    blocks, _ = one(folder / "plain.ng", visits)
    assert 0 < blocks <= 4 * DRAW + BESIDE < whole(folder / "plain.ng", [3]) / 4


@pytest.mark.parametrize("name", ROWS)
def test_a_row_reads_of_lists_what_it_says(folder, name):
    ROWS[name][1](folder)


def table():
    """The rows of the document, {name: cells}."""
    text = DOCUMENT.read_text().split("| loader | lists that are read |")[1]
    found = re.findall(r"^\| (.+) \|$", text, re.MULTILINE)
    cells = [[cell.replace("`", "") for cell in line.split(" | ")] for line in found]
    return {name: rest for name, *rest in cells}


def test_the_table_of_the_document_has_these_rows():
    assert {name: rest[0] for name, rest in table().items()} == {
        name: says for name, (says, _, _) in ROWS.items()
    }


def compile_store(path, *options):
    with pytest.raises(SystemExit) as ended:
        main(["compile", path, *options])
    assert not ended.value.code


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Stores with compiled epochs: one with times and a direct layout, and one of two types, of
    which there are none."""
    out = tmp_path_factory.mktemp("ways")
    pairs = np.random.default_rng(1).integers(0, 20, (2, 80))
    shop = {BUYS: edges_of(pairs), SOLD: edges_of(pairs[::-1])}
    dated = temporal_graph(40, 300)
    dated.nodes["node"].tensors["graph_id"] = np.arange(40)
    items = Graph({"user": Nodes(20), "item": Nodes(20)}, shop).write(out / "shop.ng")
    epochs = ["--fanouts", "5", "--batch-size", "1", "--seeds", "all", "--no-shuffle"]
    compile_store(items, *epochs, "--node-type", "item")
    path = dated.write(out / "dated.ng")
    compile_store(path, *epochs)
    compile_store(path, "--layout", "direct")
    return path, items


WAYS = {
    "on_demand": {"reading": "on_demand"},
    "scan, window, distribute": {"reading": "scan"},
    "num_workers": {"num_workers": 1},
    "direct_layout": {"reading": "direct_layout"},
    "compiled": {"reading": "compiled"},
}


@pytest.mark.parametrize("name", ROWS)
def test_ways_of_reading_serve_a_row_or_refuse_it(compiled, name):
    with ng.open(compiled[name == "HGTLoader"], memory="64MB") as store:
        make = ROWS[name][2]
        if name == "NeighborLoader, plain":
            make = lambda store, **more: ng.NeighborLoader(store, [5], **more)  # noqa: E731
        for says, (way, more) in zip(table()[name][1:], WAYS.items(), strict=True):
            if says == "yes":
                assert len(list(make(store, **more))) > 0, way
            else:
                assert says == "no"
                with pytest.raises(ng.NeargraphError, match=r"layout|compiled|shape"):
                    list(make(store, **more))
