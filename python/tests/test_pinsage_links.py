"""PinSAGELoader around links: each link once, negative links that are no edges, and visits."""

import gc

import numpy as np
import pytest
from sampled import PLAIN, all_entries, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.sampler import NegativeSampling  # noqa: E402


@pytest.fixture(scope="module")
def every(homo_graph):
    """All edges, in the order of the store."""
    edges = homo_graph.edges[PLAIN]
    order = all_entries(edges, 300)
    return np.stack([edges.sources[order], edges.destinations[order]])


@pytest.fixture(scope="module")
def known(every):
    return set(map(tuple, every.T.tolist()))


def make(store, links=PLAIN, **more):
    how = {"num_neighbors": [4, 2], "num_walks": 6, "batch_size": 64, "seed": 3, **more}
    return ng.PinSAGELoader(store, edge_label_index=links, **how)


def links_of(batch):
    """Global ids [2, l] of `edge_label_index`."""
    return batch.n_id[batch.edge_label_index].numpy()


@pytest.fixture(scope="module")
def reached(every):
    """Which nodes (columns) walks of two steps from a node (rows) can visit."""
    one = np.zeros((300, 300), bool)
    one[every[1], every[0]] = True
    return one | one @ one


def check_visits(batch, graph, reached):
    """Rows of nodes, and neighbours with shares that add up to 1 for each node that has some."""
    n_id = batch.n_id.numpy()
    assert len(set(n_id.tolist())) == len(n_id) == sum(batch.num_sampled_nodes)
    assert np.array_equal(batch.x.numpy(), graph.nodes["node"].tensors["x"][n_id])
    source, walker = batch.edge_index.numpy()
    assert (source != walker).all()
    seeds, inner = np.cumsum(batch.num_sampled_nodes)[:2]
    assert (walker < inner).all()
    count = np.bincount(walker, minlength=len(n_id))
    assert count[:seeds].max() <= 4
    assert (count[seeds:] <= 2).all()
    shares = np.bincount(walker, batch.edge_weight, minlength=len(n_id))
    assert np.allclose(shares[count > 0], 1)
    assert reached[n_id[walker], n_id[source]].all()
    return len(walker)


def test_all_edges_are_links_once_an_epoch(homo, homo_graph, every, reached):
    loader = make(homo)
    assert len(loader) == -(-1500 // 64)
    visits, found, places = 0, [], []
    for batch in loader:
        visits += check_visits(batch, homo_graph, reached)
        assert batch.num_sampled_nodes[0] == len(np.unique(links_of(batch)))
        assert "edge_label" not in batch
        assert "batch_size" not in batch
        found.append(links_of(batch))
        places += batch.input_id.tolist()
    assert np.array_equal(np.hstack(found), every)
    assert places == list(range(1500))
    assert visits > 3000


def test_a_shuffled_epoch_has_every_edge_once_and_the_next_one_another_order(homo, every):
    loader, orders = make(homo, shuffle=True), []
    for _ in range(2):
        batches = list(loader)
        places = torch.cat([batch.input_id for batch in batches]).numpy()
        assert np.array_equal(np.hstack([links_of(batch) for batch in batches]), every[:, places])
        assert np.array_equal(np.sort(places), np.arange(1500))
        orders.append(places.tolist())
    assert orders[0] != orders[1]


def test_given_links_come_with_their_labels_and_ids(homo, every):
    links, labels = every[:, 5:145], torch.arange(280).view(140, 2)
    for given in (links, torch.from_numpy(links), links.tolist(), (PLAIN, links), (None, links)):
        loader = make(homo, given, edge_label=labels, input_id=np.arange(140) * 7, shuffle=True)
        seen = []
        for batch in loader:
            places = batch.input_id // 7
            assert np.array_equal(links_of(batch), links[:, places])
            assert torch.equal(batch.edge_label, labels[places])
            seen += places.tolist()
        assert sorted(seen) == list(range(140))


@pytest.mark.parametrize("amount", [0.5, 1, 3])
def test_binary_negatives_are_as_many_as_asked_for_and_no_edges(
    homo, homo_graph, known, reached, amount
):
    for batch in make(homo, neg_sampling=NegativeSampling("binary", amount), shuffle=True):
        check_visits(batch, homo_graph, reached)
        positives, pairs = len(batch.input_id), list(map(tuple, links_of(batch).T.tolist()))
        assert len(pairs) == positives + int(np.ceil(positives * amount))
        assert batch.edge_label.dtype == torch.float32
        assert batch.edge_label.tolist() == [1.0] * positives + [0.0] * (len(pairs) - positives)
        assert set(pairs[:positives]) <= known
        assert not set(pairs[positives:]) & known
        assert all(source != destination for source, destination in pairs[positives:])


@pytest.mark.parametrize("first", [0, 1])
def test_labels_beside_negative_links_leave_0_to_these(homo, every, first):
    labels = torch.arange(60) % 3 + first
    (batch,) = make(homo, every[:, :60], edge_label=labels, neg_sampling="binary")
    raised = labels + 1 if first == 0 else labels
    assert batch.edge_label.tolist() == raised.tolist() + [0] * 60


@pytest.mark.parametrize("amount", [1, 3])
def test_triplets_have_destinations_that_their_source_does_not_lead_to(
    homo, homo_graph, every, known, reached, amount
):
    seen = 0
    for batch in make(homo, neg_sampling=NegativeSampling("triplet", amount)):
        check_visits(batch, homo_graph, reached)
        count = len(batch.input_id)
        assert batch.dst_neg_index.shape == ((count,) if amount == 1 else (count, amount))
        source, right = batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]
        assert np.array_equal(torch.stack([source, right]), every[:, batch.input_id])
        wrong = batch.n_id[batch.dst_neg_index].view(count, amount)
        for place in range(amount):
            pairs = list(zip(source.tolist(), wrong[:, place].tolist(), strict=True))
            assert not set(pairs) & known
            assert all(one != other for one, other in pairs)
        assert "edge_label_index" not in batch
        assert "edge_label" not in batch
        seen += count
    assert seen == 1500


def how(**more):
    return {"neg_sampling": {"mode": "binary", "amount": 0.5}, "shuffle": True, **more}


def test_reading_threads_and_processes_give_the_same_batches_and_seeds_others(homo):
    expected = epoch_of(make(homo, **how()))
    for more in (
        {},
        {"reading": "scan"},
        {"reading": "on_demand"},
        {"reading": ng.Reading(threads=1)},
        {"num_workers": 2},
    ):
        assert epoch_of(make(homo, **how(**more))) == expected, more
    assert epoch_of(make(homo, **how(seed=4))) != expected
    # Other walks leave the links and the negative ones as they are.
    others = make(homo, **how(num_walks=3))
    edges = [(value[None, "edge_label_index"], value[None, "edge_index"]) for value in expected]
    found = [(b.edge_label_index.tolist(), b.edge_index.tolist()) for b in others]
    assert [links[1] for links, _ in edges] == [links for links, _ in found]
    assert [walked[1] for _, walked in edges] != [walked for _, walked in found]


def test_ranks_share_every_batch(homo):
    whole = [batch.input_id.tolist() for batch in make(homo, **how())]
    parts = [make(homo, **how(ranks=(rank, 2))) for rank in range(2)]
    joined = [
        one.input_id.tolist() + other.input_id.tolist() for one, other in zip(*parts, strict=True)
    ]
    assert [sorted(ids)[: len(set(ids))] for ids in joined][:-1] == [sorted(w) for w in whole][:-1]
    assert set(joined[-1]) >= set(whole[-1])


def test_a_loaded_state_goes_on_where_it_was_taken(homo, every):
    loader = make(homo, **how())
    passes = iter(loader)
    for _ in range(5):
        next(passes)
    state, rest = loader.state_dict(), epoch_of(passes)
    other = make(homo, **how())
    other.load_state_dict(state)
    assert epoch_of(other) == rest
    for changed in (
        {"neg_sampling": "triplet"},
        {"links": every},
        {"num_walks": 7},
        {"num_neighbors": [4, 3]},
        {"seed": 4},
    ):
        with pytest.raises(ng.StateMismatch):
            make(homo, **how(**changed)).load_state_dict(state)


def test_the_budget_holds_around_links(homo_path):
    with ng.open(homo_path, memory="16MB") as store:
        batches = list(make(store, neg_sampling="binary", reading=ng.Reading(prefetch=2)))
        assert len(batches) == 24
        held = store.stats()["budget_used"]
        rows = sum(batch.x.nbytes for batch in batches)
        del batches
        gc.collect()
        stats = store.stats()
        assert stats["budget_used"] <= held - rows
        assert held <= stats["budget_peak"] <= stats["budget_limit"] == 16_000_000


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"input_nodes": [1]}, "input_nodes= has no effect with links"),
        ({"links": None, "edge_label": [1]}, "edge_label= has no effect without edge_label_index"),
        ({"edge_label": [1, 2]}, "edge_label"),
        ({"edge_label": [1] * 1500, "neg_sampling": "triplet"}, "edge_label"),
        ({"links": [[1, 2], [3]]}, "edge_label_index"),
        ({"links": [[1], [300]]}, "300"),
        ({"links": ("node", "likes", "node")}, "likes"),
        ({"neg_sampling": "ternary"}, "ternary"),
        ({"input_id": [1]}, "input_id"),
    ],
    ids=str,
)
def test_links_without_meaning_are_refused(homo, given, named):
    with pytest.raises((ValueError, TypeError, ng.NeargraphError), match=named):
        make(homo, **given)


def test_links_of_several_types_are_refused(hetero):
    with pytest.raises(ng.UnsupportedArgument, match="one node type"):
        make(hetero, "writes", path=["writes"])
