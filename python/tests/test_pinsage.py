"""PinSAGELoader: neighbours are the nodes that short walks visit most, with their shares."""

import numpy as np
import pytest
from graphs import Graph, Nodes, edges_of
from sampled import PLAIN, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from neargraph.loader.pinsage import HeldOutEdges  # noqa: E402

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


def make(store, **more):
    how = {"num_neighbors": [4, 2], "input_nodes": "item", "path": [BUYS, SOLD], **more}
    return ng.PinSAGELoader(store, batch_size=6, **how)


def neighbours(batch, number):
    """(id, share) of each neighbour of a node, in the order of the batch."""
    own = batch.edge_index[1] == number
    ids = batch.n_id[batch.edge_index[0][own]].tolist()
    return list(zip(ids, batch.edge_weight[own].tolist(), strict=True))


def test_a_batch_has_nodes_of_one_type_and_shares_that_add_up(shop_store, shop_graph):
    x, seen = shop_graph.nodes["item"].tensors["x"], []
    sold = shop_graph.edges[BUYS]
    buyers = [set(sold.sources[sold.destinations == item].tolist()) for item in range(25)]
    for batch in make(shop_store):
        assert type(batch).__name__ == "Data"
        n_id = batch.n_id.numpy()
        assert len(set(n_id.tolist())) == len(n_id)
        assert np.array_equal(batch.x.numpy(), x[n_id])
        assert batch.edge_weight.dtype == torch.float32
        assert batch.edge_index.dtype == torch.int64
        assert sum(batch.num_sampled_nodes) == len(n_id)
        inner = sum(batch.num_sampled_nodes[:2])
        for number in range(len(n_id)):
            found = neighbours(batch, number)
            fanout = 4 if number < batch.batch_size else 2
            assert len(found) <= fanout
            assert not found or number < inner
            if found:
                assert sum(share for _, share in found) == pytest.approx(1)
                assert n_id[number] not in [node for node, _ in found]
                # More visits first, then smaller ids.
                keys = [(-share, node) for node, share in found]
                assert keys == sorted(keys)
        if not len(seen):
            assert any(len(neighbours(batch, number)) for number in range(6))
        seen += n_id[: batch.batch_size].tolist()
        # A node that is joined by one turn of the path has a buyer in common, after two any.
        assert all(buyers[int(node)] for node in n_id[batch.edge_index[0].numpy()])
    assert seen == list(range(25))


def visited(batch, number, count):
    """The share of each node, [count]."""
    shares = np.zeros(count)
    for node, share in neighbours(batch, number):
        shares[node] = share
    return shares


@pytest.mark.parametrize("restart", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("walk_length", [1, 3])
def test_shares_are_those_of_the_visits_of_long_walks(shop_store, shop_graph, restart, walk_length):
    """With all neighbours kept, shares go to the expected visits of walks with restart."""
    there = np.zeros((25, 40))
    edges = shop_graph.edges[BUYS]
    np.add.at(there, (edges.destinations, edges.sources), 1)
    back = np.zeros((40, 25))
    edges = shop_graph.edges[SOLD]
    np.add.at(back, (edges.destinations, edges.sources), 1)
    # Every item has a buyer, and every buyer sold something.
    with np.errstate(invalid="ignore"):
        turn = np.nan_to_num(there / there.sum(1, keepdims=True)) @ np.nan_to_num(
            back / back.sum(1, keepdims=True)
        )
    loader = make(
        shop_store,
        num_neighbors=[25],
        num_walks=15_000,
        walk_length=walk_length,
        restart=restart,
        seed=3,
    )
    batch = next(iter(loader))
    tried = 0
    for number in range(6):
        start = int(batch.n_id[number])
        if not there[start].any():
            assert not neighbours(batch, number)
            continue
        stand, expected = np.eye(25)[start], np.zeros(25)
        for _ in range(walk_length):
            stand = stand @ turn
            expected += stand
            stand = restart * np.eye(25)[start] + (1 - restart) * stand
        expected[start] = 0
        expected /= expected.sum()
        found = visited(batch, number, 25)
        # Visits of one walk depend on each other, so the bound is wide: 6 deviations of each.
        spread = 6 * np.sqrt(walk_length * expected / 15_000) + 1e-4
        assert (np.abs(found - expected) < spread).all()
        tried += 1
    assert tried >= 4


def test_ties_go_to_smaller_ids(tmp_path):
    # Walks from node 0 of one step visit each of nodes 1 to 4 at random, node 9 is a dead end.
    graph = Graph({"node": Nodes(10)}, {PLAIN: edges_of([[1, 2, 3, 4], [0, 0, 0, 0]])})
    with ng.open(graph.write(tmp_path / "star.ng"), memory="64MB") as store:
        kept = [0, 0]
        for stream in range(60):
            loader = ng.PinSAGELoader(
                store, [2], [0, 9], num_walks=2, walk_length=1, batch_size=2, seed=stream
            )
            (batch,) = loader
            found = neighbours(batch, 0)
            assert not neighbours(batch, 1)
            kept[len(found) - 1] += 1
            if len(found) == 2:
                assert [share for _, share in found] == [0.5, 0.5]
                assert found[0][0] < found[1][0]
            else:
                assert found[0][1] == 1
        assert min(kept) > 0
        many = ng.PinSAGELoader(store, [2], [0], num_walks=4000, walk_length=1, seed=1)
        found = neighbours(next(iter(many)), 0)
        assert len(found) == 2
        assert sum(share for _, share in found) == pytest.approx(1)


def test_state_reading_and_processes(shop_store):
    expected = epoch_of(make(shop_store, shuffle=True, seed=2))
    for more in (
        {"reading": "scan"},
        {"reading": "on_demand"},
        {"reading": ng.Reading(threads=1)},
        {"num_workers": 2},
    ):
        assert epoch_of(make(shop_store, shuffle=True, seed=2, **more)) == expected, more
    loader = make(shop_store, shuffle=True, seed=2)
    passes = iter(loader)
    next(passes)
    other = make(shop_store, shuffle=True, seed=2)
    other.load_state_dict(loader.state_dict())
    assert epoch_of(other) == expected[1:]
    with pytest.raises(ng.StateMismatch, match="visits"):
        make(shop_store, shuffle=True, seed=2, num_walks=3).load_state_dict(loader.state_dict())


def test_named_tensors_of_the_seeds_are_read(shop_store):
    for attrs in (["x"], ["x", "born"], {"item": ["x"]}, [], None):
        batch = next(iter(make(shop_store, attrs=attrs)))
        wanted = (
            {"x", "born"}
            if attrs is None
            else {*(attrs.get("item", ()) if isinstance(attrs, dict) else attrs)}
        )
        assert {"x", "born"} & set(batch.keys()) == wanted


@pytest.mark.parametrize("percent", [float("nan"), -1, 101, "a", None])
def test_percentages_that_hold_nothing_out_are_refused(percent):
    with pytest.raises(ValueError, match=r"percent=.* is not valid: expected a number"):
        HeldOutEdges(0, percent, True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"num_neighbors": [0]}, "num_neighbors"),
        ({"num_neighbors": 3}, "num_neighbors"),
        ({"num_walks": 0}, "num_walks"),
        ({"walk_length": 0}, "walk_length"),
        ({"restart": 1.0}, "restart"),
        ({"restart": "x"}, "restart='x' is not valid"),
        ({"restart": float("nan")}, "restart=.* is not valid"),
        ({"num_walks": 2**33}, "num_walks=.* is not valid: expected"),
        ({"num_walks": None}, "num_walks=.* is not valid: expected"),
        ({"walk_length": 2**40}, "walk_length=.* is not valid: expected"),
        ({"num_neighbors": [2**40]}, "num_neighbors=.* is not valid: expected"),
        ({"attrs": ["x", "edge_attr"]}, "'edge_attr', a tensor of"),
        ({"attrs": {"user": ["x"], "item": ["x"]}}, "'x', a tensor of 'user'"),
        ({"sampler": [1]}, "input_nodes="),
        ({"restart": -0.1}, "restart"),
        ({"path": [BUYS]}, "a walk cannot continue"),
        ({"path": [SOLD, BUYS]}, "user"),
        ({"path": ["likes"]}, "likes"),
        ({"input_id": [1]}, "input_id"),
        ({"replace": True}, "replace"),
    ],
    ids=str,
)
def test_arguments_without_meaning_are_refused(shop_store, given, named):
    with pytest.raises((ValueError, TypeError, ng.NeargraphError), match=named):
        make(shop_store, **given)
