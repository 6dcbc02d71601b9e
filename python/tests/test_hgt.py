"""HGTLoader: as many nodes of each type as there is budget for, by how much they are named."""

import itertools
from collections import Counter

import numpy as np
import pytest
from chances import p_value, report
from graphs import Graph, Nodes, edges_of
from sampled import epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


def make(store, num_samples=(6, 6), **more):
    return ng.HGTLoader(store, num_samples, "item", batch_size=5, **more)


def check_edges(batch, graph):
    """All edges between the nodes of the batch, of each type."""
    for triple, edges in graph.edges.items():
        source, destination = batch[triple[0]].n_id.numpy(), batch[triple[2]].n_id.numpy()
        inside = np.isin(edges.sources, source) & np.isin(edges.destinations, destination)
        row, col = batch[triple].edge_index.numpy()
        found = sorted(zip(source[row].tolist(), destination[col].tolist(), strict=True))
        wanted = zip(
            edges.sources[inside].tolist(), edges.destinations[inside].tolist(), strict=True
        )
        assert found == sorted(wanted)
        if edges.edge_ids:
            assert sorted(batch[triple].e_id.tolist()) == np.flatnonzero(inside).tolist()


def test_batches_are_induced_and_have_rows_and_seeds_first(shop_store, shop_graph):
    seen = []
    for batch in make(shop_store):
        check_edges(batch, shop_graph)
        for name in ("user", "item"):
            n_id = batch[name].n_id.numpy()
            assert len(set(n_id.tolist())) == len(n_id)
            x = shop_graph.nodes[name].tensors["x"]
            assert np.array_equal(batch[name].x.numpy(), x[n_id])
        item = batch["item"]
        assert item.batch_size == len(item.input_id) == 5
        seen += item.n_id[:5].tolist()
        e_id = batch[BUYS].e_id.numpy()
        attr = shop_graph.edges[BUYS].tensors["edge_attr"]
        assert np.array_equal(batch[BUYS].edge_attr.numpy(), attr[e_id])
    assert seen == list(range(25))


@pytest.mark.parametrize("given", [[4, 4], {"user": [3, 7], "item": [2, 2]}, {"user": [5]}])
def test_layers_have_no_more_nodes_than_their_budget_and_all_that_there_are(
    shop_store, shop_graph, given
):
    layers = len(given) if isinstance(given, list) else max(map(len, given.values()))
    budget = given if isinstance(given, dict) else {"user": given, "item": given}
    for batch in make(shop_store, given):
        nodes = {name: batch[name].n_id.tolist() for name in ("user", "item")}
        kept = {"user": set(), "item": set(nodes["item"][:5])}
        newest = {"user": [], "item": nodes["item"][:5]}
        named = {"user": set(), "item": set()}
        places = {"user": 0, "item": 5}
        for layer in range(layers):
            for triple in (BUYS, SOLD):
                edges = shop_graph.edges[triple]
                inside = np.isin(edges.destinations, newest[triple[2]])
                named[triple[0]] |= set(edges.sources[inside].tolist())
            for name in ("user", "item"):
                named[name] -= kept[name]
                most = budget.get(name, [0] * layers)[layer]
                count = min(most, len(named[name]))
                new = nodes[name][places[name] : places[name] + count]
                places[name] += count
                assert len(new) == count
                assert set(new) <= named[name]
                newest[name] = new
            for name in ("user", "item"):
                kept[name] |= set(newest[name])
                named[name] -= kept[name]
        assert places == {name: len(found) for name, found in nodes.items()}


@pytest.mark.reliability
def test_nodes_are_drawn_by_the_squares_of_how_much_they_are_named(tmp_path):
    # Two seeds name users 0 to 4: lists of 2 and of 4 entries, one entry twice.
    users, items = [0, 1, 1, 2, 2, 4], [0, 0, 1, 1, 1, 1]
    graph = Graph(
        {"user": Nodes(5), "item": Nodes(2)},
        {BUYS: edges_of([users, items]), SOLD: edges_of([items, users])},
    )
    shares = {0: 1 / 2, 1: 1 / 2 + 1 / 4, 2: 2 / 4, 4: 1 / 4}
    weights = {user: share**2 for user, share in shares.items()}
    chances = Counter()
    for one, two in itertools.permutations(weights, 2):
        total = sum(weights.values())
        chances[one, two] = weights[one] / total * weights[two] / (total - weights[one])
    count = 6000
    with ng.open(graph.write(tmp_path / "small.ng"), memory="64MB") as store:
        seeds = np.tile([0, 1], count)
        loader = ng.HGTLoader(store, [2], ("item", seeds), batch_size=2, seed=5)
        found = Counter(tuple(batch["user"].n_id.tolist()) for batch in loader)
    assert sum(found.values()) == count
    report("nodes of HGT", 5, [p_value(found, chances)])


@pytest.mark.parametrize("memory", ["16MB", "200MB"])
def test_state_reading_and_processes(shop_path, memory):
    with ng.open(shop_path, memory="64MB") as store:
        expected = epoch_of(make(store, shuffle=True, seed=2))
        loader = make(store, shuffle=True, seed=2)
        passes = iter(loader)
        next(passes)
        other = make(store, shuffle=True, seed=2)
        other.load_state_dict(loader.state_dict())
        assert epoch_of(other) == expected[1:]
        with pytest.raises(ng.StateMismatch, match="num_samples"):
            make(store, (5, 6), shuffle=True, seed=2).load_state_dict(loader.state_dict())
    with ng.open(shop_path, memory=memory) as store:
        workers = [{"num_workers": 2}] if memory == "200MB" else []
        for more in (
            {"reading": "scan"},
            {"reading": "on_demand"},
            {"reading": ng.Reading(threads=1)},
            *workers,
        ):
            assert epoch_of(make(store, shuffle=True, seed=2, **more)) == expected, more


def test_an_input_id_is_given_back(shop_store):
    for batch in make(shop_store, input_id=np.arange(25) * 3):
        assert batch["item"].input_id.tolist() == (batch["item"].n_id[:5] * 3).tolist()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"num_samples": []}, "num_samples"),
        ({"num_samples": {}}, "num_samples"),
        ({"num_samples": {"user": 5}}, "num_samples"),
        ({"num_samples": 5}, "num_samples"),
        ({"num_samples": [-1]}, "-1"),
        ({"num_samples": [1.5]}, "1.5"),
        ({"num_samples": {"user": [1], "item": [1, 2]}}, "num_samples"),
        ({"num_samples": {"shop": [1]}}, "shop"),
        ({"num_samples": [None]}, "num_samples= must hold counts from 0 to .*, got None"),
        ({"num_samples": ["a"]}, "num_samples= must hold counts from 0 to .*, got 'a'"),
        ({"input_id": [1]}, "input_id"),
        ({"replace": True}, "replace"),
        ({"reading": "direct_layout"}, "layout"),
    ],
    ids=str,
)
def test_arguments_without_meaning_are_refused(shop_store, given, named):
    with pytest.raises((ValueError, TypeError, ng.NeargraphError), match=named):
        make(shop_store, **given)


def test_a_store_of_one_type_is_refused(homo):
    with pytest.raises(ng.UnsupportedArgument, match="NeighborLoader"):
        ng.HGTLoader(homo, [4], None)
