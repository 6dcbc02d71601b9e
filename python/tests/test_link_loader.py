"""LinkNeighborLoader: every link once an epoch, and negative links that are no edges."""

from collections import Counter

import numpy as np
import pytest
from chances import alike, p_value, report
from graphs import Edges, Graph, Nodes, edges_of, shop
from sampled import PLAIN, all_entries, epoch_of, kinds, stores_of, temporal_graph

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402
from torch_geometric.loader import LinkNeighborLoader as PygLoader  # noqa: E402
from torch_geometric.sampler import NegativeSampling  # noqa: E402

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


def links_of(batch, triple=None):
    """Global ids [2, l] of `edge_label_index`."""
    part = batch if triple is None else batch[triple]
    sides = [batch, batch] if triple is None else [batch[triple[0]], batch[triple[2]]]
    return torch.stack(
        [side.n_id[ids] for side, ids in zip(sides, part.edge_label_index, strict=True)]
    ).numpy()


def pairs_of(edges):
    return np.stack([edges.sources, edges.destinations])


def test_links_are_taken_in_every_form(homo, homo_graph):
    edges = homo_graph.edges[PLAIN]
    order = all_entries(edges, 300)
    every, some = pairs_of(edges)[:, order], pairs_of(edges)[:, 5:45]
    for given, expected in (
        (None, every),
        (PLAIN, every),
        ("to", every),
        (("node", "node"), every),
        ((PLAIN, None), every),
        ((None, None), every),
        (torch.from_numpy(some), some),
        (some, some),
        (some.tolist(), some),
        ([torch.from_numpy(row) for row in some], some),
        ((PLAIN, torch.from_numpy(some)), some),
        ((None, some), some),
    ):
        loader = ng.LinkNeighborLoader(homo, [2], given, batch_size=64)
        batches = list(loader)
        assert len(batches) == len(loader) == -(-expected.shape[1] // 64)
        assert np.array_equal(np.hstack([links_of(batch) for batch in batches]), expected), given
        places = torch.cat([batch.input_id for batch in batches])
        assert places.tolist() == list(range(expected.shape[1]))
        for batch in batches:
            n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
            assert np.array_equal(n_id[batch.edge_index[0]], edges.sources[e_id])
            assert np.array_equal(batch.x.numpy(), homo_graph.nodes["node"].tensors["x"][n_id])
            assert len(set(n_id.tolist())) == len(n_id)
            assert batch.num_sampled_nodes[0] == len(np.unique(links_of(batch)))


def test_a_shuffled_epoch_has_every_edge_once_and_the_next_one_another_order(homo, homo_graph):
    edges = homo_graph.edges[PLAIN]
    every = pairs_of(edges)[:, all_entries(edges, 300)]
    loader = ng.LinkNeighborLoader(homo, [1], batch_size=128, shuffle=True, seed=3)
    orders = []
    for _ in range(2):
        batches = list(loader)
        places = torch.cat([batch.input_id for batch in batches]).numpy()
        assert np.array_equal(np.sort(places), np.arange(1500))
        found = np.hstack([links_of(batch) for batch in batches])
        assert np.array_equal(found, every[:, places])
        orders.append(places.tolist())
    assert orders[0] != orders[1]


def test_edges_of_a_heterogeneous_store_are_counted_list_by_list(shop_store, shop_graph):
    for triple in shop_graph.edges:
        edges = shop_graph.edges[triple]
        count = shop_graph.nodes[triple[2]].num_nodes
        expected = pairs_of(edges)[:, all_entries(edges, count)]
        loader = ng.LinkNeighborLoader(shop_store, [2, 1], triple, batch_size=50)
        assert np.array_equal(np.hstack([links_of(b, triple) for b in loader]), expected)


def test_edges_of_long_lists_and_lone_nodes_are_found_by_number(tmp_path):
    # Nodes 64 and 200 have edges alone, more than the 64 that edges are counted by together.
    sources = np.arange(600)
    destinations = np.where(sources < 500, 64, 200)
    graph = Graph({"node": Nodes(700)}, {PLAIN: Edges(sources, destinations)})
    with ng.open(graph.write(tmp_path / "long.ng"), memory="16MB") as store:
        loader = ng.LinkNeighborLoader(store, [1], batch_size=37)
        found = np.hstack([links_of(batch) for batch in loader])
    assert np.array_equal(found, np.stack([sources, destinations]))


def test_labels_and_input_ids_follow_their_links(shop_store, shop_graph):
    pairs = pairs_of(shop_graph.edges[BUYS])[:, :90]
    labels, names = torch.arange(270).view(90, 3), torch.arange(90) * 7
    loader = ng.LinkNeighborLoader(
        shop_store, [2], (BUYS, pairs), labels, input_id=names, batch_size=32, shuffle=True
    )
    seen = 0
    for batch in loader:
        places = batch[BUYS].input_id // 7
        assert torch.equal(batch[BUYS].edge_label, labels[places])
        assert np.array_equal(links_of(batch, BUYS), pairs[:, places])
        seen += len(places)
    assert seen == 90
    plain = next(iter(ng.LinkNeighborLoader(shop_store, [2], (BUYS, pairs))))
    assert "edge_label" not in plain[BUYS]


@pytest.mark.parametrize("first", [0, 1])
def test_labels_beside_negative_links_leave_0_to_these(shop_store, shop_graph, first):
    """As in PyG: labels from 0 on are raised by 1."""
    pairs = pairs_of(shop_graph.edges[BUYS])[:, :40]
    labels = torch.arange(40) % 3 + first
    loader = ng.LinkNeighborLoader(
        shop_store, [2], (BUYS, pairs), labels, neg_sampling="binary", batch_size=40
    )
    (batch,) = loader
    raised = labels + 1 if first == 0 else labels
    assert batch[BUYS].edge_label.tolist() == raised.tolist() + [0] * 40


# What is given, and how many negative links it asks for of each link.
BINARY = [({"neg_sampling": "binary"}, 1)] + [
    (given, amount)
    for amount in (0.5, 1, 3)
    for given in (
        {"neg_sampling": {"mode": "binary", "amount": amount}},
        {"neg_sampling": NegativeSampling("binary", amount)},
        {"neg_sampling_ratio": float(amount)},
    )
]


@pytest.mark.parametrize(("given", "amount"), BINARY, ids=str)
def test_binary_negatives_are_as_many_as_asked_for_and_no_edges(homo, homo_graph, given, amount):
    edges = homo_graph.edges[PLAIN]
    known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    for batch in ng.LinkNeighborLoader(homo, [1], batch_size=101, shuffle=True, **given):
        positives = len(batch.input_id)
        links = links_of(batch)
        assert links.shape[1] == positives + int(np.ceil(positives * amount))
        assert batch.edge_label.dtype == torch.float32
        assert batch.edge_label.tolist() == [1.0] * positives + [0.0] * (links.shape[1] - positives)
        pairs = list(map(tuple, links.T.tolist()))
        assert set(pairs[:positives]) <= known
        assert not set(pairs[positives:]) & known
        assert all(source != destination for source, destination in pairs[positives:])


@pytest.mark.parametrize("amount", [1, 3])
def test_triplets_have_destinations_that_their_source_does_not_lead_to(
    shop_store, shop_graph, amount
):
    edges = shop_graph.edges[BUYS]
    known = set(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    loader = ng.LinkNeighborLoader(
        shop_store, [2], BUYS, neg_sampling=NegativeSampling("triplet", amount), batch_size=50
    )
    for batch in loader:
        users, items = batch["user"], batch["item"]
        count = len(batch[BUYS].input_id)
        shape = (count,) if amount == 1 else (count, amount)
        assert items.dst_neg_index.shape == shape
        source = users.n_id[users.src_index]
        right = items.n_id[items.dst_pos_index]
        assert set(zip(source.tolist(), right.tolist(), strict=True)) <= known
        wrong = items.n_id[items.dst_neg_index].view(count, amount)
        for place in range(amount):
            assert not set(zip(source.tolist(), wrong[:, place].tolist(), strict=True)) & known
        assert "edge_label_index" not in batch[BUYS]


def dense_graph(num_nodes, missing, seed):
    """Nearly all pairs, but for `missing` of them."""
    rng = np.random.default_rng(seed)
    pairs = [(s, d) for s in range(num_nodes) for d in range(num_nodes) if s != d]
    left_out = rng.choice(len(pairs), missing, replace=False)
    gone = {pairs[at] for at in left_out}
    kept = np.array([pair for pair in pairs if pair not in gone]).T
    graph = Graph({"node": Nodes(num_nodes)}, {PLAIN: edges_of(kept)})
    return graph, sorted(gone)


@pytest.mark.reliability
def test_negatives_are_uniform_over_the_pairs_that_no_edge_joins(tmp_path):
    graph, gone = dense_graph(12, 40, seed=1)
    count = Counter()
    with ng.open(graph.write(tmp_path / "dense.ng"), memory="64MB") as store:
        how = {"neg_sampling": {"mode": "binary", "amount": 10}, "batch_size": 92, "seed": 5}
        loader = ng.LinkNeighborLoader(store, [0], **how)
        for _ in range(10):
            for batch in loader:
                count.update(map(tuple, links_of(batch)[:, len(batch.input_id) :].T.tolist()))
        assert sum(count.values()) == 9200
        p_values = [p_value(count, alike(gone))]
        # Of one source, each destination that is left is as likely.
        ((source, _),) = [gone[0]]
        ends = [d for s, d in gone if s == source]
        pairs = [[source] * 3000, [next(d for d in range(12) if (source, d) not in gone)] * 3000]
        triplets = ng.LinkNeighborLoader(
            store, [0], pairs, neg_sampling="triplet", batch_size=3000, seed=5
        )
        (batch,) = triplets
        found = Counter(batch.n_id[batch.dst_neg_index].tolist())
        p_values.append(p_value(found, alike(ends)))
    report("negative links", 5, p_values)


def test_a_complete_graph_has_one_clear_error(tmp_path):
    graph, _ = dense_graph(6, 0, seed=1)
    with ng.open(graph.write(tmp_path / "full.ng"), memory="64MB") as store:
        loader = ng.LinkNeighborLoader(store, [1], neg_sampling="binary", batch_size=8)
        with pytest.raises(ng.NeargraphError, match="negative") as caught:
            next(iter(loader))
        assert "\n" not in str(caught.value)
        assert len(list(ng.LinkNeighborLoader(store, [1], batch_size=8))) == 4


def node_parts(batch):
    return [part for key, part in stores_of(batch).items() if not isinstance(key, tuple)]


# Negative links, and whether there are labels: triplets have none.
NEGATIVES = [
    (None, False),
    (None, True),
    ("binary", False),
    ("binary", True),
    (NegativeSampling("binary", 2), False),
    (NegativeSampling("binary", 2), True),
    ("triplet", False),
    (NegativeSampling("triplet", 3), False),
]


@pytest.mark.parametrize(("neg_sampling", "labelled"), NEGATIVES)
def test_batches_have_what_those_of_pygs_loader_have(
    homo, shop_store, homo_graph, shop_graph, neg_sampling, labelled
):
    for store, graph, triple in ((homo, homo_graph, PLAIN), (shop_store, shop_graph, BUYS)):
        links = torch.from_numpy(pairs_of(graph.edges[triple])[:, :60])
        given = {
            "edge_label_index": (None if store is homo else triple, links),
            "edge_label": torch.arange(60) % 4 if labelled else None,
            "neg_sampling": neg_sampling,
            "batch_size": 20,
        }
        theirs = PygLoader(store, [2, 2], neighbor_sampler=store.sampler([2, 2]), **given)
        ours = ng.LinkNeighborLoader(store, [2, 2], **given)
        for own, other in zip(ours, theirs, strict=True):
            got, wanted = kinds(own), kinds(other)
            # PyG's loader reads tensors of edges by a transform alone, and sets a number of nodes
            # that x tells as well.
            more = ("edge_attr", "edge_time", "num_nodes")
            assert {k: v for k, v in got.items() if k[1] not in more} == {
                k: v for k, v in wanted.items() if k[1] not in more
            }
            assert all(part.num_nodes == len(part.n_id) for part in node_parts(own))
            for key, part in stores_of(other).items():
                for name in ("edge_label", "edge_label_index", "src_index", "dst_neg_index"):
                    if name in part and part[name] is not None:
                        here = own if key is None else own[key]
                        assert here[name].shape == part[name].shape, name
            if labelled:
                key = None if store is homo else triple
                assert torch.equal(stores_of(own)[key].edge_label, stores_of(other)[key].edge_label)


def how_links(**more):
    return {
        "neg_sampling": {"mode": "binary", "amount": 0.5},
        "batch_size": 64,
        "shuffle": True,
        "seed": 9,
        **more,
    }


@pytest.mark.parametrize("reading", ["on_demand", "scan", "window", "distribute"])
@pytest.mark.parametrize("memory", ["16MB", "200MB"])
def test_every_way_of_reading_gives_the_same_batches(homo_path, reading, memory):
    with ng.open(homo_path, memory="64MB") as store:
        expected = epoch_of(ng.LinkNeighborLoader(store, [3, 2], **how_links()))
    with ng.open(homo_path, memory=memory) as store:
        assert epoch_of(ng.LinkNeighborLoader(store, [3, 2], **how_links(reading=reading))) == (
            expected
        )


def test_processes_and_every_method_give_the_same_batches_as_threads(homo, shop_store):
    for store, triple in ((homo, None), (shop_store, BUYS)):
        for more in ({}, {"method": "labor"}, {"disjoint": True}):
            plain = epoch_of(ng.LinkNeighborLoader(store, [3, 2], triple, **how_links(**more)))
            workers = how_links(num_workers=2, **more)
            assert epoch_of(ng.LinkNeighborLoader(store, [3, 2], triple, **workers)) == plain


def test_a_loaded_state_goes_on_where_it_was_taken(homo):
    loader = ng.LinkNeighborLoader(homo, [2], **how_links())
    passes = iter(loader)
    for _ in range(5):
        next(passes)
    state, rest = loader.state_dict(), epoch_of(passes)
    other = ng.LinkNeighborLoader(homo, [2], **how_links())
    other.load_state_dict(state)
    assert epoch_of(other) == rest
    for changed in (
        {"neg_sampling": "triplet"},
        {"edge_label_index": np.zeros((2, 1500), np.int64)},
        {"disjoint": True},
    ):
        again = ng.LinkNeighborLoader(homo, [2], **how_links(**changed))
        with pytest.raises(ng.StateMismatch):
            again.load_state_dict(state)


def test_ranks_share_every_batch(homo):
    whole = [batch.input_id.tolist() for batch in ng.LinkNeighborLoader(homo, [1], **how_links())]
    parts = [
        [
            batch.input_id.tolist()
            for batch in ng.LinkNeighborLoader(homo, [1], **how_links(ranks=(rank, 2)))
        ]
        for rank in range(2)
    ]
    for number, batch in enumerate(whole[:-1]):
        assert parts[0][number] + parts[1][number] == batch
    assert set(parts[0][-1] + parts[1][-1]) == set(whole[-1])


@pytest.fixture
def dated(tmp_path):
    graph = temporal_graph()
    with ng.open(graph.write(tmp_path / "dated.ng"), memory="64MB") as store:
        yield store, graph


@pytest.mark.parametrize("neg_sampling", [None, "binary", "triplet"])
def test_an_edge_is_never_in_its_own_sample_nor_anything_later(dated, neg_sampling):
    store, graph = dated
    edges = graph.edges[PLAIN]
    order = all_entries(edges, 60)
    loader = ng.LinkNeighborLoader(
        store,
        [-1, 5],
        time_attr="edge_time",
        neg_sampling=neg_sampling,
        batch_size=7,
        shuffle=True,
    )
    seen = 0
    for batch in loader:
        times = edges.times[order[batch.input_id]] - 1
        told = batch.seed_time if neg_sampling == "triplet" else batch.edge_label_time
        assert told[: len(times)].tolist() == times.tolist()
        subgraph = batch.batch[batch.edge_index[0]]
        assert torch.equal(subgraph, batch.batch[batch.edge_index[1]])
        assert (edges.times[batch.e_id] <= times[subgraph]).all()
        assert not (order[batch.input_id][subgraph] == batch.e_id.numpy()).any()
        seen += len(times)
    assert seen == 600


def test_subgraphs_of_links_are_numbered_as_in_pyg(dated, shop_store, shop_graph):
    """The ends of a link, and those of its negative links, have one number."""
    store, graph = dated
    links = pairs_of(graph.edges[PLAIN])[:, :8]
    times = np.full(8, 30)
    for amount in (1, 2):
        loader = ng.LinkNeighborLoader(
            store,
            [3],
            links,
            edge_label_time=times,
            time_attr="edge_time",
            neg_sampling={"mode": "binary", "amount": amount},
            batch_size=8,
        )
        (batch,) = loader
        wanted = np.arange(8 * (1 + amount)) % 8
        for ends in batch.edge_label_index:
            assert batch.batch[ends].tolist() == wanted.tolist()
        # As in PyG, seeds stand first: all sources, and then all destinations.
        count = 8 * (1 + amount)
        assert batch.edge_label_index.tolist() == [
            list(range(count)),
            list(range(count, 2 * count)),
        ]
        assert batch.edge_label_time.tolist() == [30] * count
    pairs = pairs_of(shop_graph.edges[BUYS])[:, :8]
    (batch,) = ng.LinkNeighborLoader(
        shop_store, [3, 2], (BUYS, pairs), disjoint=True, neg_sampling="triplet", batch_size=8
    )
    users, items = batch["user"], batch["item"]
    assert users.src_index.tolist() == items.dst_pos_index.tolist() == list(range(8))
    assert items.dst_neg_index.tolist() == list(range(8, 16))
    assert items.batch[:16].tolist() == list(range(8)) * 2
    for triple in shop_graph.edges:
        row, col = batch[triple].edge_index
        assert torch.equal(batch[triple[0]].batch[row], batch[triple[2]].batch[col])


def test_negatives_by_time_may_become_edges_later(tmp_path):
    """A pair is no negative link if it is an edge that is not later than the link."""
    pairs = np.array([(s, d) for s in range(5) for d in range(5) if s != d]).T
    times = np.where(pairs[0] < 2, 0, 10)
    graph = Graph({"node": Nodes(5)}, {PLAIN: edges_of(pairs, times=times)})
    with ng.open(graph.write(tmp_path / "later.ng"), memory="64MB") as store:
        how = {"time_attr": "edge_time", "neg_sampling": "binary", "batch_size": 400}
        links = np.tile([[4], [3]], 400)
        (batch,) = ng.LinkNeighborLoader(store, [2], links, edge_label_time=np.full(400, 5), **how)
        ends = links_of(batch)[:, 400:]
        assert set(map(tuple, ends.T.tolist())) == {
            (s, d) for s in range(2, 5) for d in range(5) if s != d
        }
        late = ng.LinkNeighborLoader(store, [2], links, edge_label_time=np.full(400, 10), **how)
        with pytest.raises(ng.NeargraphError, match="negative"):
            next(iter(late))


def test_links_whose_other_direction_has_no_times_are_refused(tmp_path):
    with ng.open(shop().write(tmp_path / "shop.ng"), memory="64MB") as store:
        how = {"time_attr": "edge_time"}
        for given in (BUYS, (BUYS, [[0], [1]])):
            more = {} if given == BUYS else {"edge_label_time": [9]}
            with pytest.raises(
                ng.UnsupportedArgument, match=r"rev_buys.*the link itself"
            ) as caught:
                ng.LinkNeighborLoader(store, [2], given, **how, **more)
            assert "\n" not in str(caught.value)
        # What is not sampled shows nothing.
        fanouts = {BUYS: [-1, -1], SOLD: [0, 0]}
        for batch in ng.LinkNeighborLoader(store, fanouts, BUYS, batch_size=9, **how):
            assert batch[SOLD].num_edges == 0
        with pytest.raises(
            ng.UnsupportedArgument, match="have no times; give the times of the links"
        ):
            ng.LinkNeighborLoader(store, fanouts, SOLD, **how)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"edge_label_index": np.zeros((3, 4), np.int64)}, "edge_label_index"),
        ({"edge_label_index": np.zeros(4, np.int64)}, "edge_label_index"),
        ({"edge_label_index": 5}, "edge_label_index"),
        ({"edge_label_index": [[0, 1], [2]]}, "edge_label_index"),
        ({"edge_label_index": [[0.5], [2]]}, "0.5|whole|integer"),
        ({"edge_label_index": [[0], [300]]}, "300"),
        ({"edge_label_index": [[-1], [3]]}, "-1"),
        ({"edge_label_index": "sells"}, "sells"),
        ({"edge_label": [1, 2]}, "edge_label"),
        ({"edge_label": 1}, "edge_label"),
        ({"edge_label": ["a", "b"]}, "edge_label= must hold one number per link"),
        ({"edge_label": [None] * 1500}, "edge_label= must hold one number per link"),
        ({"sampler": [1]}, "edge_label_index="),
        ({"edge_label": [1] * 1500, "neg_sampling": "triplet"}, "edge_label"),
        ({"edge_label_time": [1] * 1500}, "edge_label_time"),
        ({"input_id": [1, 2]}, "input_id"),
        ({"input_id": [0.5] * 1500}, "input_id"),
        ({"neg_sampling": "both"}, "both"),
        ({"neg_sampling": "binary", "neg_sampling_ratio": 1.0}, "neg_sampling_ratio"),
        ({"neg_sampling": {"mode": "binary", "amount": 0}}, "amount"),
        ({"neg_sampling": {"mode": "triplet", "amount": 1.5}}, "1.5"),
        ({"neg_sampling": {"mode": "binary", "amount": -1}}, "-1"),
        ({"neg_sampling_ratio": -1.0}, "-1"),
        ({"neg_sampling": NegativeSampling("binary", 1, torch.ones(300))}, "src_weight"),
        ({"input_nodes": [1]}, "input_nodes"),
        ({"reading": "direct_layout"}, "layout"),
        ({"reading": "compiled"}, "compiled"),
    ],
    ids=lambda given: str(given)[:50],
)
def test_arguments_without_meaning_are_refused(homo, given, named):
    with pytest.raises((ValueError, TypeError, ng.NeargraphError), match=named) as caught:
        list(ng.LinkNeighborLoader(homo, [2], **given))
    assert "\n" not in str(caught.value)


def test_ends_are_drawn_among_the_nodes_that_are_not_later_than_the_link(tmp_path):
    count = 1000
    data = Data(num_nodes=count, time=torch.arange(count))
    data.edge_index = torch.stack([torch.arange(count - 1), torch.arange(1, count)])
    ng.from_pyg(data, tmp_path / "chain.ng")
    with ng.open(tmp_path / "chain.ng", memory="64MB") as store:
        # A link of time t has t + 1 ends at most; one of time 1 has no pair that is no edge.
        links = data.edge_index[:, 2:]
        loader = ng.LinkNeighborLoader(
            store,
            [2],
            links,
            edge_label_time=links[1],
            time_attr="time",
            neg_sampling="binary",
            batch_size=64,
        )
        drawn = 0
        for batch in loader:
            ends = batch.n_id[batch.edge_label_index][:, batch.edge_label == 0]
            times = batch.edge_label_time[batch.edge_label == 0]
            assert (ends <= times).all()
            assert (ends[1] != ends[0] + 1).all()
            drawn += ends.size(1)
        assert drawn == links.size(1)


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_ranks_draw_negative_links_of_their_own(tmp_path, mode):
    rng = np.random.default_rng(4)
    print("seed 4")
    edges = torch.from_numpy(np.unique(rng.integers(0, 500, (2, 900)), axis=1))[:, :768]
    ng.from_pyg(Data(num_nodes=500, edge_index=edges), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:

        def negatives(rank, ranks, **more):
            loader = ng.LinkNeighborLoader(
                *(store, [2], edges),
                neg_sampling=mode,
                batch_size=64,
                ranks=(rank, ranks),
                **more,
            )
            found = []
            for batch in loader:
                if mode == "binary":
                    found.append(batch.n_id[batch.edge_label_index][:, batch.edge_label == 0].T)
                else:
                    found.append(batch.n_id[batch.dst_neg_index])
            return found

        whole = negatives(0, 1)
        parts = list(zip(negatives(0, 2), negatives(1, 2), strict=True))
        assert len(parts) == len(whole)
        for one, both in zip(whole, parts, strict=True):
            assert torch.equal(one, torch.cat(both))
        for thread, process in zip(negatives(1, 2), negatives(1, 2, num_workers=1), strict=True):
            assert torch.equal(thread, process)
