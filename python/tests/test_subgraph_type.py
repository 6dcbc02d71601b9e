"""Induced and bidirectional subgraphs: the edges that PyG's utilities give."""

import numpy as np
import pytest
from graphs import Graph, Nodes, edges_of
from sampled import PLAIN, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.sampler.base import SubgraphType  # noqa: E402
from torch_geometric.sampler.utils import to_bidirectional  # noqa: E402
from torch_geometric.utils import subgraph  # noqa: E402

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


def sorted_columns(*rows):
    array = np.stack([np.asarray(row, np.int64) for row in rows])
    return array[:, np.lexsort(array)].tolist()


@pytest.mark.parametrize("method", ["uniform", "labor"])
@pytest.mark.parametrize("word", ["induced", SubgraphType.induced, "directed=False"])
def test_an_induced_subgraph_is_pygs_subgraph_of_the_same_nodes(homo, homo_graph, method, word):
    edges = homo_graph.edges[PLAIN]
    whole = torch.from_numpy(np.stack([edges.sources, edges.destinations]))
    asked = {"directed": False} if word == "directed=False" else {"subgraph_type": word}
    how = {"batch_size": 12, "seed": 2, "method": method}
    drawn = ng.NeighborLoader(homo, [3, 2], **how)
    for batch, plain in zip(ng.NeighborLoader(homo, [3, 2], **how, **asked), drawn, strict=True):
        assert torch.equal(batch.n_id, plain.n_id)
        numbers = torch.arange(1500)
        found, kept = subgraph(batch.n_id, whole, numbers, relabel_nodes=False, num_nodes=300)
        n_id, e_id = batch.n_id, batch.e_id
        assert sorted_columns(*n_id[batch.edge_index], e_id) == sorted_columns(*found, kept)
        assert np.array_equal(batch.edge_attr, edges.tensors["edge_attr"][e_id.numpy()])
        assert set(plain.e_id.tolist()) <= set(e_id.tolist())
        assert "num_sampled_edges" not in batch
        assert (torch.diff(batch.edge_index[1]) >= 0).all()


def test_an_induced_subgraph_of_several_types_has_all_edges_of_each(hetero, hetero_graph):
    loader = ng.NeighborLoader(
        hetero, [3, 2], ("paper", None), batch_size=15, subgraph_type="induced"
    )
    drawn = ng.NeighborLoader(hetero, [3, 2], ("paper", None), batch_size=15)
    for batch, plain in zip(loader, drawn, strict=True):
        for triple, edges in hetero_graph.edges.items():
            source, destination = batch[triple[0]].n_id, batch[triple[2]].n_id
            assert torch.equal(source, plain[triple[0]].n_id)
            inside = np.isin(edges.sources, source) & np.isin(edges.destinations, destination)
            row, col = batch[triple].edge_index
            assert sorted_columns(source[row], destination[col]) == sorted_columns(
                edges.sources[inside], edges.destinations[inside]
            )
            if edges.edge_ids:
                assert sorted(batch[triple].e_id.tolist()) == np.flatnonzero(inside).tolist()
        writes = ("author", "writes", "paper")
        attr = hetero_graph.edges[writes].tensors["edge_attr"]
        assert np.array_equal(batch[writes].edge_attr, attr[batch[writes].e_id.numpy()])


def test_disjoint_subgraphs_are_induced_each_by_itself(homo, homo_graph):
    edges = homo_graph.edges[PLAIN]
    loader = ng.NeighborLoader(homo, [3, 2], batch_size=9, subgraph_type="induced", disjoint=True)
    for batch in loader:
        assert torch.equal(*batch.batch[batch.edge_index])
        for number in range(batch.batch_size):
            own = batch.batch[batch.edge_index[1]] == number
            n_id = batch.n_id[batch.batch == number].numpy()
            inside = np.isin(edges.sources, n_id) & np.isin(edges.destinations, n_id)
            assert sorted(batch.e_id[own].tolist()) == np.flatnonzero(inside).tolist()


@pytest.mark.parametrize("disjoint", [False, True])
def test_a_bidirectional_subgraph_has_pygs_edges(homo, homo_graph, disjoint):
    how = {"batch_size": 14, "seed": 6, "disjoint": disjoint}
    loader = ng.NeighborLoader(homo, [3, 2], subgraph_type="bidirectional", **how)
    attr = homo_graph.edges[PLAIN].tensors["edge_attr"]
    for batch, plain in zip(loader, ng.NeighborLoader(homo, [3, 2], **how), strict=True):
        assert torch.equal(batch.n_id, plain.n_id)
        row, col, _ = to_bidirectional(*plain.edge_index, *plain.edge_index)
        assert sorted_columns(*batch.edge_index) == sorted_columns(row, col)
        pairs = list(map(tuple, batch.edge_index.T.tolist()))
        assert len(set(pairs)) == len(pairs)
        assert np.array_equal(batch.edge_attr, attr[batch.e_id.numpy()])
        # The id of an edge is that of an edge that was drawn, in one of both directions.
        drawn = {}
        for source, destination, number in zip(
            *plain.edge_index.tolist(), plain.e_id.tolist(), strict=True
        ):
            for pair in ((source, destination), (destination, source)):
                drawn.setdefault(pair, set()).add(number)
        assert all(
            number in drawn[pair] for pair, number in zip(pairs, batch.e_id.tolist(), strict=True)
        )
        assert "num_sampled_edges" not in batch


def times_by_pair(graph):
    """The time of the one edge from a user to an item."""
    edges = graph.edges[BUYS]
    pairs = zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True)
    return dict(zip(pairs, edges.times.tolist(), strict=True))


@pytest.mark.parametrize("disjoint", [False, True])
def test_types_that_are_each_others_reverse_have_the_edges_of_both(
    shop_store, shop_graph, disjoint
):
    how = {"batch_size": 6, "disjoint": disjoint, "attrs": ["x"]}
    loader = ng.NeighborLoader(
        shop_store, [2, 2], ("item", None), subgraph_type="bidirectional", **how
    )
    drawn = ng.NeighborLoader(shop_store, [2, 2], ("item", None), **how)
    for batch, plain in zip(loader, drawn, strict=True):
        there, back = plain[BUYS].edge_index.tolist(), plain[SOLD].edge_index.tolist()
        pairs = set(zip(*there, strict=True)) | set(zip(*back[::-1], strict=True))
        wanted = sorted(pairs)
        assert sorted(zip(*batch[BUYS].edge_index.tolist(), strict=True)) == wanted
        assert sorted(zip(*batch[SOLD].edge_index.tolist()[::-1], strict=True)) == wanted
        # Ids of one edge type say nothing of edges of the other.
        assert "e_id" not in batch[BUYS]
        known = times_by_pair(shop_graph)
        for triple, step in ((BUYS, 1), (SOLD, -1)):
            users, items = (batch[name].n_id for name in ("user", "item"))
            user, item = batch[triple].edge_index.flip(0) if step < 0 else batch[triple].edge_index
            ends = zip(users[user].tolist(), items[item].tolist(), strict=True)
            assert batch[triple].edge_time.tolist() == [known[pair] for pair in ends]


def test_tensors_of_edges_that_come_from_another_type_are_refused(shop_store):
    with pytest.raises(ng.UnsupportedArgument, match="edge_attr"):
        ng.NeighborLoader(shop_store, [2], "item", subgraph_type="bidirectional")


def test_types_without_a_reverse_are_refused(hetero):
    with pytest.raises(ng.UnsupportedArgument, match="one edge type that is the reverse of"):
        ng.NeighborLoader(hetero, [2], "paper", subgraph_type="bidirectional", attrs=["x"])


def typed(path, **edges):
    """A store of three users and three items with edge types by relation; those with ``rev`` or
    ``sold`` in their names lead from items to users."""
    ends = {False: ("user", "item"), True: ("item", "user")}
    types = {}
    for relation, (pairs, more) in edges.items():
        source, destination = ends["rev" in relation or "sold" in relation]
        types[source, relation, destination] = edges_of(pairs, **more)
    graph = Graph({"user": Nodes(3), "item": Nodes(3)}, types)
    return ng.open(graph.write(path), memory="64MB")


def test_the_reverse_of_another_type_is_not_taken(tmp_path):
    pair, others = ([[0], [0]], {}), ([[1, 2], [0, 0]], {})
    how = {"subgraph_type": "bidirectional"}
    with typed(tmp_path / "a.ng", buys=pair, likes=others, rev_buys=pair) as store:
        with pytest.raises(ng.UnsupportedArgument, match=r"rev_likes.*give fanouts") as caught:
            ng.NeighborLoader(store, [-1, -1], ("user", [0]), **how)
        assert "'rev_buys', 'user') is the reverse of ('user', 'buys'" in str(caught.value)
    # A type of any name serves where it is the only one, and nobody else's.
    with typed(tmp_path / "b.ng", buys=pair, sold=pair) as store:
        (batch,) = ng.NeighborLoader(store, [-1], ("item", [0]), **how)
        assert batch["item", "sold", "user"].edge_index.tolist() == [[0], [0]]
    both = {"likes": others, "rev_likes": ([[0, 0], [1, 2]], {})}
    with typed(tmp_path / "c.ng", buys=pair, rev_buys=pair, **both) as store:
        (batch,) = ng.NeighborLoader(store, [-1], ("item", [0]), **how)
        assert batch["item", "rev_buys", "user"].num_edges == 1
        assert batch["item", "rev_likes", "user"].num_edges == 2
    with (
        typed(tmp_path / "d.ng", buys=pair, likes=others, sold=pair) as store,
        pytest.raises(ng.UnsupportedArgument, match="2 edge types from 'user' to 'item'"),
    ):
        ng.NeighborLoader(store, [-1], ("item", [0]), **how)
    edges = {("item", "buys", "user"): edges_of(others[0]), BUYS: edges_of(pair[0])}
    edges[SOLD] = edges_of(pair[0])
    path = Graph({"user": Nodes(3), "item": Nodes(3)}, edges).write(tmp_path / "e.ng")
    with (
        ng.open(path, memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="is the reverse of"),
    ):
        ng.NeighborLoader(store, [-1], ("item", [0]), **how)


@pytest.mark.parametrize("kept", ["times", "weights"])
@pytest.mark.parametrize("only", ["buys", "rev_buys"])
def test_times_and_weights_of_one_direction_alone_are_refused(tmp_path, kept, only):
    column = np.array([5]) if kept == "times" else np.array([0.5], np.float32)
    more = {name: {kept: column} if name == only else {} for name in ("buys", "rev_buys")}
    with typed(tmp_path / "s.ng", **{name: ([[0], [0]], how) for name, how in more.items()}) as s:
        assert len(list(ng.NeighborLoader(s, [-1], ("item", [0])))) == 1
        with pytest.raises(ng.UnsupportedArgument, match=rf"'{only}'.*have {kept}") as caught:
            ng.NeighborLoader(s, [-1], ("item", [0]), subgraph_type="bidirectional")
        assert "\n" not in str(caught.value)


def test_parallel_edges_and_loops_are_all_in_an_induced_subgraph(tmp_path):
    graph = Graph({"node": Nodes(3)}, {PLAIN: edges_of([[0, 0, 1, 1, 2], [1, 1, 1, 0, 0]])})
    with ng.open(graph.write(tmp_path / "small.ng"), memory="64MB") as store:
        (batch,) = ng.NeighborLoader(store, [1], [1], subgraph_type="induced")
        assert sorted_columns(*batch.n_id[batch.edge_index], batch.e_id)[2] in (
            [3, 0, 1, 2],
            [2],
        )
        (batch,) = ng.NeighborLoader(store, [-1], [1, 0], batch_size=2, subgraph_type="induced")
        assert sorted(batch.e_id.tolist()) == [0, 1, 2, 3, 4]
        (batch,) = ng.NeighborLoader(store, [-1], [1], subgraph_type="bidirectional")
        pairs = sorted(map(tuple, batch.n_id[batch.edge_index].T.tolist()))
        assert pairs == [(0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("kind", ["induced", "bidirectional"])
@pytest.mark.parametrize("memory", ["16MB", "200MB"])
def test_every_way_of_making_batches_gives_the_same(homo_path, kind, memory):
    how = {"batch_size": 20, "subgraph_type": kind, "shuffle": True, "seed": 9}
    with ng.open(homo_path, memory="64MB") as store:
        expected = epoch_of(ng.NeighborLoader(store, [3, 2], **how))
    with ng.open(homo_path, memory=memory) as store:
        for more in (
            {"reading": "on_demand"},
            {"reading": "scan"},
            {"reading": "window"},
            {"reading": "distribute"},
            {"reading": ng.Reading("scan", two_phase=True)},
            *([{"num_workers": 2}] if memory == "200MB" else []),
        ):
            loader = ng.NeighborLoader(store, [3, 2], **how, **more)
            assert epoch_of(loader) == expected, more
            loader.close()


@pytest.mark.parametrize("kind", ["induced", "bidirectional"])
def test_edge_weights_and_times_come_with_the_edges(tmp_path, kind):
    rng = np.random.default_rng(2)
    pairs = rng.integers(0, 40, (2, 300))
    edges = edges_of(pairs, times=rng.integers(0, 9, 300), weights=rng.random(300, np.float32))
    graph = Graph({"node": Nodes(40)}, {PLAIN: edges})
    with ng.open(graph.write(tmp_path / "inline.ng"), memory="64MB") as store:
        for batch in ng.NeighborLoader(store, [3, 2], batch_size=7, subgraph_type=kind):
            e_id = batch.e_id.numpy()
            assert np.array_equal(batch.edge_time.numpy(), edges.times[e_id])
            assert np.array_equal(batch.edge_weight.numpy(), edges.weights[e_id])


def test_other_kinds_are_refused(homo):
    with pytest.raises(ValueError, match="sideways"):
        ng.NeighborLoader(homo, [2], subgraph_type="sideways")
    for kind in ("induced", "bidirectional"):
        with pytest.raises(ng.UnsupportedArgument, match="layout"):
            ng.NeighborLoader(homo, [2], subgraph_type=kind, reading="direct_layout")
