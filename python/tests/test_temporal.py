"""Sampling by time: nothing later than its seed, and all that is earlier can be drawn."""

from collections import Counter

import numpy as np
import pytest
from chances import alike, p_value, report
from graphs import Graph, Nodes, edges_of, shop
from realdata import data
from sampled import PLAIN, entries_of, epoch_of, temporal_graph
from test_same_batches import back_ends

import neargraph as ng
from neargraph.importers import ImportOptions, plan_source, run_import

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402

BUYS, SOLD = ("user", "buys", "item"), ("item", "rev_buys", "user")


@pytest.fixture(scope="module")
def graph():
    return temporal_graph()


@pytest.fixture(scope="module")
def path(graph, tmp_path_factory):
    return graph.write(tmp_path_factory.mktemp("temporal") / "dated.ng")


@pytest.fixture
def store(path):
    with ng.open(path, memory="64MB") as store:
        yield store


def of_edges(graph, store, **more):
    """A loader by the times of edges, each seed with a time of its own."""
    times = np.random.default_rng(5).integers(-2, 52, 60)
    how = {"input_time": times, "time_attr": "edge_time", "batch_size": 8, **more}
    return ng.NeighborLoader(store, how.pop("num_neighbors", [4, 3]), **how)


def hops_of(batch, number):
    """The entries that were drawn of the list of one node of a batch."""
    return batch.e_id[batch.edge_index[1] == number].tolist()


def kept(edges, node, until, of_nodes=None):
    """The entries of a list that are not later than `until`, in the order of the list."""
    ids = entries_of(edges, node)
    times = edges.times[ids] if of_nodes is None else of_nodes[edges.sources[ids]]
    return ids[times <= until]


@pytest.mark.parametrize("times_of", ["edges", "nodes"])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_all_neighbours_are_those_that_are_not_later(graph, store, times_of, strategy):
    edges, born = graph.edges[PLAIN], graph.nodes["node"].tensors["born"]
    of_nodes = None if times_of == "edges" else born
    given = np.random.default_rng(6).integers(-2, 52, 60)
    loader = ng.NeighborLoader(
        store,
        [-1, -1],
        input_time=given,
        time_attr="edge_time" if times_of == "edges" else "born",
        temporal_strategy=strategy,
        batch_size=7,
    )
    lone = 0
    for batch in loader:
        assert batch.seed_time.tolist() == given[batch.input_id].tolist()
        inner = sum(batch.num_sampled_nodes[:-1])
        for number in range(inner):
            until = int(batch.seed_time[batch.batch[number]])
            expected = kept(edges, int(batch.n_id[number]), until, of_nodes)
            if times_of == "nodes" and strategy == "last":
                expected = expected[np.argsort(born[edges.sources[expected]], kind="stable")]
            assert hops_of(batch, number) == expected.tolist()
            lone += number < batch.batch_size and not len(expected)
        assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
        assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
    assert lone > 5


@pytest.mark.parametrize("times_of", ["edges", "nodes"])
@pytest.mark.parametrize("fanout", [1, 3, 40])
def test_the_last_ones_are_the_latest_by_time_and_position(graph, store, times_of, fanout):
    edges, born = graph.edges[PLAIN], graph.nodes["node"].tensors["born"]
    of_nodes = None if times_of == "edges" else born
    given = np.random.default_rng(7).integers(0, 52, 60)
    loader = ng.NeighborLoader(
        store,
        [fanout, 2],
        input_time=given,
        time_attr="edge_time" if times_of == "edges" else "born",
        temporal_strategy="last",
        batch_size=9,
    )
    for batch in loader:
        for number in range(batch.batch_size):
            until = int(batch.seed_time[number])
            expected = kept(edges, int(batch.n_id[number]), until, of_nodes)
            if of_nodes is not None:
                expected = expected[np.argsort(born[edges.sources[expected]], kind="stable")]
            assert hops_of(batch, number) == expected[len(expected) - fanout :].tolist() or (
                len(expected) < fanout and hops_of(batch, number) == expected.tolist()
            )


def test_seeds_take_the_times_of_their_nodes(graph, store):
    born = graph.nodes["node"].tensors["born"]
    for batch in ng.NeighborLoader(store, [3, 3], time_attr="born", batch_size=10, shuffle=True):
        until = born[batch.n_id[: batch.batch_size]]
        assert batch.seed_time.tolist() == until.tolist()
        later = born[batch.n_id] > until[batch.batch]
        assert not later.any()
    assert "seed_time" not in next(iter(ng.NeighborLoader(store, [2], disjoint=True)))


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_no_edge_is_later_than_its_seed_in_5100_batches(graph, store, strategy):
    """For whatever number of seeds, with and without replacement."""
    edges, rng = graph.edges[PLAIN], np.random.default_rng(8)
    batches, drawn = 0, 0
    for number in range(30):
        size = int(rng.integers(1, 4))
        seeds, given = rng.integers(0, 60, 170 * size), rng.integers(-1, 52, 170 * size)
        loader = ng.NeighborLoader(
            store,
            [int(rng.integers(1, 6)), 2],
            seeds,
            given,
            time_attr="edge_time",
            temporal_strategy=strategy,
            replace=bool(number % 2) and strategy == "uniform",
            batch_size=size,
            seed=number,
            attrs=[],
        )
        for batch in loader:
            until = batch.seed_time[batch.batch[batch.edge_index[1]]]
            assert (batch.edge_time <= until).all()
            assert np.array_equal(batch.edge_time, edges.times[batch.e_id.numpy()])
            batches += 1
            drawn += len(until)
    assert batches == 5100
    assert drawn > 20_000


def test_types_without_times_are_drawn_from_as_if_of_all_times(tmp_path):
    graph = shop()
    with ng.open(graph.write(tmp_path / "shop.ng"), memory="64MB") as store:
        given = np.arange(25)
        loader = ng.NeighborLoader(
            store, [-1, -1], "item", given, time_attr="edge_time", batch_size=5
        )
        buys, sold = graph.edges[BUYS], graph.edges[SOLD]
        for batch in loader:
            items, users = batch["item"], batch["user"]
            for number in range(items.num_nodes):
                col = batch[BUYS].edge_index[1]
                node, until = int(items.n_id[number]), given[items.input_id][items.batch[number]]
                expected = kept(buys, node, until).tolist()
                # Items of the last hop have no lists.
                if number < items.batch_size:
                    assert batch[BUYS].e_id[col == number].tolist() == expected
            first = users.num_sampled_nodes[1]
            for number in range(first):
                row, col = batch[SOLD].edge_index
                found = items.n_id[row[col == number]].tolist()
                node = int(users.n_id[number])
                assert found == sold.sources[entries_of(sold, node)].tolist()
        # By the times of items alone users are of all times, and bring items along as these are.
        born = graph.nodes["item"].tensors["born"]
        loader = ng.NeighborLoader(
            store, [5, 5, 5], ("user", None), np.full(40, 9), time_attr="born", batch_size=8
        )
        for batch in loader:
            assert (born[batch["item"].n_id] <= 9).all()
            assert batch["item"].num_nodes > 0


def star(times):
    count = len(times)
    graph = Graph(
        {"node": Nodes(count + 1, {"born": np.append(times, 0)})},
        {PLAIN: edges_of([np.arange(count), np.full(count, count)], times=times)},
    )
    return graph, count


@pytest.mark.reliability
@pytest.mark.parametrize("time_attr", ["edge_time", "born"])
@pytest.mark.parametrize("degree", [12, 900])
def test_draws_are_uniform_among_those_that_are_not_later(tmp_path, time_attr, degree):
    times = np.random.default_rng(1).integers(0, 100, degree)
    graph, hub = star(times)
    if time_attr == "born":
        graph.edges[PLAIN].times = None
    allowed = np.flatnonzero(times <= 30)
    assert 1 < len(allowed) < degree
    fanout, count = min(3, len(allowed) - 1), 5000
    chances, p_values = alike(allowed.tolist()), []
    with ng.open(graph.write(tmp_path / "star.ng"), memory="64MB") as store:
        for replace in (False, True):
            loader = ng.NeighborLoader(
                store,
                [fanout],
                np.full(count, hub),
                np.full(count, 30),
                time_attr=time_attr,
                replace=replace,
                batch_size=1,
                attrs=[],
                seed=11,
            )
            found = [batch.n_id[batch.edge_index[0]].numpy() for batch in loader]
            if not replace:
                assert all(len(set(ids)) == fanout for ids in map(tuple, found))
            # Draws without replacement are negatively dependent, so that the test is conservative.
            p_values.append(p_value(Counter(np.concatenate(found).tolist()), chances))
            p_values.append(p_value(Counter(int(ids[0]) for ids in found), chances))
    report(f"draws by time, {time_attr}, {degree} entries", 11, p_values)


@pytest.mark.parametrize("time_attr", ["edge_time", "born"])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_memory_reading_back_ends_and_processes_give_the_same_batches(
    graph, path, tmp_path, time_attr, strategy
):
    def run(memory="64MB", backend="auto", **more):
        with ng.open(path, memory=memory, backend=backend) as store:
            how = {"time_attr": time_attr, "temporal_strategy": strategy, "shuffle": True, **more}
            return epoch_of(of_edges(graph, store, **how))

    expected = run()
    assert any(len(batch[None, "e_id"][1]) > 8 for batch in expected)
    assert run(memory="16MB") == run(memory="400MB") == expected
    for reading in ("on_demand", "scan", "window", "distribute"):
        assert run(reading=reading) == expected, reading
    for two_phase in (True, False):
        assert run(reading=ng.Reading("scan", two_phase=two_phase)) == expected
    for backend in back_ends(tmp_path):
        assert run(backend=backend, memory="16MB", reading="on_demand") == expected, backend
    assert run(num_workers=2) == expected
    assert run(reading=ng.Reading(threads=1, prefetch=1)) == expected


def test_long_lists_are_searched_on_pages_as_in_memory(tmp_path):
    """Lists of several pages, whose part is found by a search, at every time there is."""
    times = np.sort(np.random.default_rng(2).integers(0, 400, 3000))
    graph, hub = star(times)
    path = graph.write(tmp_path / "long.ng")
    untils = np.arange(-1, 402, 3)
    for strategy in ("uniform", "last"):
        found = []
        for memory, backend in (("16MB", "pread"), ("400MB", "memory")):
            with ng.open(path, memory=memory, backend=backend) as store:
                how = {"time_attr": "edge_time", "temporal_strategy": strategy}
                for fanouts in ([5], [-1]):
                    found.append(
                        [
                            batch.e_id.tolist()
                            for batch in ng.NeighborLoader(
                                store, fanouts, np.full(len(untils), hub), untils, **how
                            )
                        ]
                    )
        assert found[:2] == found[2:]
        for until, few, every in zip(untils, *found[:2], strict=True):
            allowed = np.flatnonzero(times <= until).tolist()
            assert every == allowed
            assert len(few) == min(5, len(allowed))
            if strategy == "last":
                assert few == allowed[-5:]


def test_a_loaded_state_goes_on_and_other_times_are_refused(graph, store):
    loader = of_edges(graph, store, shuffle=True)
    passes = iter(loader)
    next(passes)
    state, rest = loader.state_dict(), epoch_of(passes)
    other = of_edges(graph, store, shuffle=True)
    other.load_state_dict(state)
    assert epoch_of(other) == rest
    for changed in (
        {"input_time": np.zeros(60, np.int64)},
        {"time_attr": "born"},
        {"temporal_strategy": "last"},
    ):
        again = of_edges(graph, store, shuffle=True, **changed)
        with pytest.raises(ng.StateMismatch):
            again.load_state_dict(state)


@pytest.mark.reliability
def test_no_edge_of_a_real_graph_is_later_than_its_seed(tmp_path):
    source = data("dblp_coauthor_temporal", "dblp.txt.gz")
    run_import(plan_source(source), tmp_path / "dblp.ng", ImportOptions())
    with ng.open(tmp_path / "dblp.ng", memory="200MB") as store:
        times = np.concatenate(
            [batch.edge_time for batch in ng.NeighborLoader(store, [-1], batch_size=4096, attrs=[])]
        )
        count = store.schema.node_types[0].num_nodes
        rng = np.random.default_rng(3)
        seeds, given = rng.integers(0, count, 40_000), rng.choice(times, 40_000)
        for strategy in ("uniform", "last"):
            loader = ng.NeighborLoader(
                store,
                [10, 5],
                seeds,
                given,
                time_attr="edge_time",
                temporal_strategy=strategy,
                batch_size=8,
                attrs=[],
            )
            drawn = 0
            for batch in loader:
                until = batch.seed_time[batch.batch[batch.edge_index[1]]]
                assert (batch.edge_time <= until).all()
                drawn += len(until)
            assert drawn > 100_000


@pytest.mark.parametrize(
    ("given", "error", "named"),
    [
        ({"input_time": [1] * 60}, ng.UnsupportedArgument, "time_attr"),
        ({"time_attr": "score"}, ng.UnsupportedArgument, "int64"),
        ({"time_attr": "x"}, ng.UnsupportedArgument, "int64"),
        ({"time_attr": "when"}, ng.NameNotFound, "when"),
        ({"time_attr": "edge_time"}, ng.UnsupportedArgument, "input_time"),
        ({"temporal_strategy": "last"}, ng.UnsupportedArgument, "time_attr"),
        ({"time_attr": "edge_time", "temporal_strategy": "first"}, ValueError, "first"),
        ({"time_attr": "born", "input_time": [1]}, ValueError, "input_time"),
        ({"time_attr": "born", "input_time": [0.5] * 60}, ValueError, "input_time"),
        ({"time_attr": "edge_time", "method": "labor"}, ng.NeargraphError, "labor"),
        ({"time_attr": "edge_time", "method": "weighted"}, ng.NeargraphError, "weight"),
        ({"time_attr": "born", "reading": "direct_layout"}, ng.UnsupportedArgument, "layout"),
        ({"time_attr": "born", "reading": "compiled"}, ng.NeargraphError, "compiled"),
    ],
    ids=lambda given: str(given)[:50],
)
def test_what_has_no_meaning_is_refused_in_one_line(tmp_path, given, error, named):
    graph = temporal_graph()
    edges = graph.edges[PLAIN]
    edges.weights = np.ones(len(edges.sources), np.float32)
    with ng.open(graph.write(tmp_path / "weighted.ng"), memory="64MB") as store:
        with pytest.raises(error, match=named) as caught:
            list(ng.NeighborLoader(store, [2], **given))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_edges_later_than_the_seed_come_from_the_seed_itself_alone(store, subgraph_type):
    """A seed is in its batch whatever its own time is, and other edges than the drawn ones may
    leave it."""
    seeds, given = torch.arange(60), np.random.default_rng(5).integers(0, 40, 60)
    how = {"time_attr": "born", "subgraph_type": subgraph_type, "batch_size": 10}
    late = 0
    for batch in ng.NeighborLoader(store, [4, 4], seeds, given, **how):
        source, destination = batch.edge_index
        is_late = batch.born[source] > batch.seed_time[batch.batch[destination]]
        assert (source[is_late] < batch.batch_size).all()
        late += int(is_late.sum())
    assert (late > 0) == (subgraph_type != "directional")


def test_times_of_nodes_are_not_taken_for_those_of_edges(tmp_path):
    graph = temporal_graph()
    tensors = graph.nodes["node"].tensors
    tensors["time"] = tensors["born"]
    with (
        ng.open(graph.write(tmp_path / "both.ng"), memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="another name"),
    ):
        ng.NeighborLoader(store, [2], time_attr="time")


@pytest.mark.parametrize("whole", ["induced", "directed"])
def test_no_induced_edge_is_later_than_its_seed(tmp_path, whole):
    data = Data(num_nodes=3)
    data.edge_index = torch.tensor([[1, 2, 0, 1, 2, 0], [0, 0, 1, 2, 1, 2]])
    data.edge_time = torch.tensor([1, 2, 100, 100, 100, 100])
    ng.from_pyg(data, tmp_path / "g.ng")
    how = {"subgraph_type": "induced"} if whole == "induced" else {"directed": False}
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        for time, left in ((5, [1, 2]), (1, [1]), (100, [1, 2, 100, 100, 100, 100])):
            asked = torch.tensor([time])
            loader = ng.NeighborLoader(
                *(store, [-1], torch.tensor([0])),
                input_time=asked,
                time_attr="edge_time",
                **how,
            )
            (batch,) = loader
            assert sorted(batch.edge_time.tolist()) == left


def test_a_sampler_makes_single_batches_in_its_shape(tmp_path):
    data = Data(num_nodes=3, born=torch.tensor([3, 9, 1]))
    data.edge_index = torch.tensor([[1, 2], [0, 0]])
    data.edge_time = torch.tensor([8, 2])
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        by_nodes = ng.NumpySampler(store, [-1], time_attr="born")
        batch = by_nodes.sample([0])
        assert (batch.nodes().tolist(), batch.seed_times.tolist()) == ([0, 2], [3])
        by_edges = ng.NumpySampler(store, [-1], time_attr="edge_time")
        with pytest.raises(ng.UnsupportedArgument, match="input_time"):
            by_edges.sample([0])
        with pytest.raises(ng.UnsupportedArgument, match="call sample"):
            by_nodes.sample_many({"node": [0]})
        induced = ng.NumpySampler(store, [-1], subgraph_type="induced").sample([0])
        assert induced.edge_index().shape == (2, 2)
