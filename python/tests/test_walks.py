"""Random walks: their steps have the chances that the definitions give."""

from collections import Counter

import numpy as np
import pytest
from chances import alike, p_value, report
from graphs import Graph, Nodes, edges_of, shop
from sampled import PLAIN

import neargraph as ng

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")
PAIRS = [(1, 0), (2, 0), (3, 0), (0, 1), (2, 1), (0, 2), (1, 2), (3, 2), (4, 3), (0, 4), (2, 4)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Five nodes that walks move between, and node 5, which has out-edges alone."""
    pairs = [*PAIRS, (5, 4)]
    graph = Graph({"node": Nodes(6)}, {PLAIN: edges_of(np.array(pairs).T)})
    return graph.write(tmp_path_factory.mktemp("walks") / "walks.ng")


@pytest.fixture
def store(path):
    with ng.open(path, memory="64MB") as store:
        yield store


def in_neighbours():
    lists = {node: [] for node in range(6)}
    for source, destination in [*PAIRS, (5, 4)]:
        lists[destination].append(source)
    return lists


def check_steps(what, seed, walks, chance_of):
    """Each step has its chance, given the two nodes before it."""
    found = {}
    for walk in walks.tolist():
        for at in range(1, len(walk) - 1):
            found.setdefault((walk[at - 1], walk[at]), Counter())[walk[at + 1]] += 1
    p_values = []
    for (before, node), steps in found.items():
        chances = chance_of(before, node)
        assert set(steps) <= set(chances)
        if len(chances) > 1 and steps.total() * min(chances.values()) > 5:
            p_values.append(p_value(steps, chances))
    assert len(p_values) > 5
    report(f"steps of {what} walks", seed, p_values)


@pytest.mark.reliability
def test_uniform_walks_take_each_in_neighbour_alike(store):
    lists = in_neighbours()
    starts = np.tile(np.arange(5), 4000)
    walks = ng.RandomWalkSampler(store, 3, seed=1).sample(starts)
    assert walks.shape == (20_000, 4)
    assert walks.dtype == np.int64
    assert np.array_equal(walks[:, 0], starts)

    def chances(before, node):
        return alike(lists[node] or [node])

    check_steps("uniform", 1, walks, chances)


@pytest.mark.reliability
@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25), (1.0, 3.0), (0.1, 1.0)])
def test_biased_walks_have_the_second_order_chances_of_node2vec(store, p, q):
    lists = in_neighbours()

    def chances(before, node):
        if not lists[node]:
            return {node: 1.0}
        weights = {}
        for target in lists[node]:
            if target == before:
                weights[target] = 1 / p
            else:
                weights[target] = 1.0 if target in lists[before] else 1 / q
        total = sum(weights.values())
        return {target: weight / total for target, weight in weights.items()}

    starts = np.tile(np.arange(5), 4000)
    walks = ng.RandomWalkSampler(store, 4, p=p, q=q, seed=3).sample(starts)
    check_steps(f"p={p}, q={q}", 3, walks, chances)


@pytest.mark.reliability
def test_the_first_step_of_a_biased_walk_is_uniform(store):
    walks = ng.RandomWalkSampler(store, 1, p=0.1, q=9.0, seed=2).sample(np.zeros(6000, np.int64))
    found = Counter(walks[:, 1].tolist())
    report("first steps of biased walks", 2, [p_value(found, alike([1, 2, 3]))])


def test_walks_along_one_type_stay_where_lists_are_empty(store):
    walks = ng.RandomWalkSampler(store, 3).sample([5, 4])
    assert walks[0].tolist() == [5, 5, 5, 5]
    many = ng.RandomWalkSampler(store, 6).sample(np.full(400, 4))
    for walk in many.tolist():
        if 5 in walk:
            assert set(walk[walk.index(5) :]) == {5}
    assert (many == 5).any()


def test_walks_along_a_path_go_from_type_to_type_and_end_at_empty_lists(tmp_path):
    graph = shop()
    bought = dict.fromkeys(range(25))
    for item in bought:
        edges = graph.edges[BUYS]
        bought[item] = set(edges.sources[edges.destinations == item].tolist())
    sold = {user: {i for i, users in bought.items() if user in users} for user in range(40)}
    # Items 23 and 24 keep their buyers, and these sell them to nobody.
    kept = graph.edges[SOLD]
    keep = kept.destinations >= 6
    graph.edges[SOLD] = edges_of([kept.sources[keep], kept.destinations[keep]])
    with ng.open(graph.write(tmp_path / "shop.ng"), memory="64MB") as store:
        walks = ng.RandomWalkSampler(store, 4, path=[BUYS, SOLD], seed=2)
        found = walks.sample(("item", np.tile(np.arange(25), 20)))
        ended = 0
        for walk in found.tolist():
            for at in range(4):
                here, there = walk[at], walk[at + 1]
                if here == -1:
                    assert there == -1
                elif at % 2 == 0:
                    assert there in bought[here] or (there == -1 and not bought[here])
                else:
                    assert there in sold[here] if there != -1 else here < 6 or not sold[here]
            ended += walk[-1] == -1
        assert 0 < ended < len(found)
        for named in (["buys", "rev_buys"], [("user", "item"), ("item", "user")]):
            again = ng.RandomWalkSampler(store, 4, path=named, seed=2)
            assert np.array_equal(again.sample(("item", np.tile(np.arange(25), 20))), found)
        with pytest.raises(ng.NeargraphError, match="buys"):
            ng.RandomWalkSampler(store, 4, path=[BUYS, BUYS]).sample(("item", [1]))
        with pytest.raises(ng.NeargraphError, match="user"):
            ng.RandomWalkSampler(store, 4, path=[BUYS, SOLD]).sample(("user", [1]))
        walks = ng.RandomWalkSampler(store, 4, path=[BUYS, SOLD], seed=2)
        for plain, named in (([1, 7], ("item", [1, 7])), (None, "item")):
            assert np.array_equal(walks.sample(plain), walks.sample(named))
        with pytest.raises(ng.NeargraphError):
            ng.RandomWalkSampler(store, 4, path=BUYS).sample(("item", [1]))


def test_a_reverse_leads_walks_along_their_edges(tmp_path):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    cycle = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    ng.from_pyg(pyg.Data(edge_index=cycle, num_nodes=4), tmp_path / "cycle.ng", reverse=True)
    with ng.open(tmp_path / "cycle.ng", memory="64MB") as store:
        assert ng.RandomWalkSampler(store, 4).sample([0]).tolist() == [[0, 3, 2, 1, 0]]
        (reverse,) = store.schema.reverse_types
        forwards = ng.RandomWalkSampler(store, 4, path=reverse.triple)
        assert forwards.sample([0]).tolist() == [[0, 1, 2, 3, 0]]


def test_walks_repeat_with_seed_and_stream_and_do_not_depend_on_each_other(path):
    with ng.open(path, memory="64MB") as store, ng.open(path, memory="16MB") as small:
        for how in ({}, {"p": 0.5, "q": 2.0}):
            walks = ng.RandomWalkSampler(store, 5, seed=4, **how)
            first = walks.sample(np.arange(6))
            assert np.array_equal(walks.sample(np.arange(6)), first)
            assert np.array_equal(
                ng.RandomWalkSampler(small, 5, seed=4, **how).sample(np.arange(6)), first
            )
            assert np.array_equal(walks.sample(np.arange(3)), first[:3])
            assert not np.array_equal(walks.sample(np.arange(6), stream=1), first)
            other = ng.RandomWalkSampler(store, 5, seed=5, **how)
            assert not np.array_equal(other.sample(np.arange(6)), first)
            repeated = walks.sample([0] * 50)
            assert len(np.unique(repeated, axis=0)) > 1
        assert walks.sample([]).shape == (0, 6)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"walk_length": 0}, "walk_length"),
        ({"walk_length": 2.5}, "walk_length"),
        ({"p": 0.0}, "p=.* is not valid"),
        ({"p": "a"}, "p='a' is not valid: expected a finite number above 0"),
        ({"q": None}, "q=None is not valid: expected a finite number"),
        ({"walk_length": 2**40}, "walk_length=.* is not valid: expected"),
        ({"q": -1.0}, "q=.* is not valid"),
        ({"p": float("inf")}, "p=.* is not valid"),
        ({"q": float("nan")}, "q=.* is not valid"),
        ({"path": "likes"}, "likes"),
        ({"seed": -1}, "seed"),
    ],
    ids=str,
)
def test_arguments_without_meaning_are_refused(store, given, named):
    with pytest.raises((ValueError, ng.NeargraphError), match=named):
        ng.RandomWalkSampler(store, **{"walk_length": 2, **given})


@pytest.mark.parametrize("stream", [-1, 2**64, 0.5])
def test_streams_that_are_not_valid_are_refused(store, stream):
    with pytest.raises(ValueError, match=r"stream=.* is not valid: expected a whole number"):
        ng.RandomWalkSampler(store, 2).sample([0], stream=stream)


def test_nodes_that_are_not_there_are_refused(store):
    with pytest.raises(ng.NodeOutOfRange, match="6"):
        ng.RandomWalkSampler(store, 2).sample([6])
