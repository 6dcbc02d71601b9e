"""Looking ahead changes when rows are read, never which batches come."""

import threading

import numpy as np
import pytest

import neargraph as ng
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.reading import ROW_READINGS, Reading
from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

NODES = 30_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store whose rows are several times its memory."""
    rng = np.random.default_rng(5)
    out = tmp_path_factory.mktemp("ahead") / "graph.ng"
    edges = np.stack([rng.integers(0, NODES, 200_000), rng.integers(0, NODES, 200_000)])
    x = rng.standard_normal((NODES, 384), dtype=np.float32)
    y = rng.integers(0, 7, NODES)
    mask = np.zeros(NODES, dtype=bool)
    mask[rng.permutation(NODES)[:2_000]] = True
    data = {"edge_index": edges, "x": x, "y": y, "train_mask": mask}
    ng.from_arrays(out, **data) if hasattr(ng, "from_arrays") else _import(out, data)
    return out


def _import(out, data):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    tensors = {name: torch.from_numpy(array) for name, array in data.items()}
    ng.from_pyg(pyg.Data(**tensors), out)


def _arrays(batch):
    return batch.nodes(), batch.edge_index(), batch.features("x"), batch.features("y")


def _same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(_arrays(one), _arrays(other), strict=True))


@pytest.mark.parametrize("reading", ROW_READINGS)
def test_every_reading_gives_the_same_batches(path, reading):
    with ng.open(path, memory="1GB") as large:
        plain = ng.NumpySampler(large, [5, 4], seed=3)
        batches = plain.batches("train", 128, shuffle=True, reading="on_demand", epoch=2)
        expected = [tuple(map(np.copy, _arrays(batch))) for batch in batches]
    with ng.open(path, memory="96MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3, check_rows=True)
        count = 0
        ahead = sampler.batches("train", 128, shuffle=True, reading=reading, epoch=2)
        for batch, wanted in zip(ahead, expected, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(_arrays(batch), wanted, strict=True))
            del batch
            count += 1
        assert count == 16
        assert store.stats()["budget_peak"] <= 96_000_000


@pytest.mark.parametrize("reading", ["auto", "scan", "window", "distribute"])
def test_rows_that_are_stored_without_zeros_get_their_memory(reading, tmp_path):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.data")
    rng = np.random.default_rng(6)
    edges = torch.from_numpy(rng.integers(0, NODES, (2, 200_000)))
    places = torch.from_numpy(np.stack([np.arange(NODES), rng.integers(0, 900, NODES)]))
    words = torch.sparse_coo_tensor(places, torch.ones(NODES), (NODES, 900), check_invariants=True)
    dense = torch.from_numpy(rng.standard_normal((NODES, 768), dtype=np.float32))
    ng.from_pyg(pyg.Data(edge_index=edges, x=words, dense=dense), tmp_path / "g.ng")
    seeds = np.arange(1_500)
    with ng.open(tmp_path / "g.ng", memory="112MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3)
        # A batch of them takes some 10 MB with its zeros, and three are there at a time.
        for batch in sampler.batches(seeds, 128, reading=reading):
            rows = batch.features("x")
            assert np.array_equal(rows.argmax(axis=1), places[1].numpy()[batch.nodes()])
        assert store.stats()["budget_peak"] <= 112_000_000


def test_what_was_chosen_can_be_asked_while_the_first_batch_is_awaited(path):
    with ng.open(path, memory="96MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3)
        inputs = resolve_input_nodes(sampler.snapshot, "train")
        plan = SeedPlan(num_seeds=len(inputs), batch_size=128, shuffle=True, seed=3)
        options = Reading("scan")
        pipeline = Pipeline(sampler, inputs, plan, options, goes_on=False)
        stop = threading.Event()
        asked = []

        def ask():
            while not stop.is_set():
                asked.append((pipeline.chosen(), sampler.core.waits()))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            count = sum(1 for _ in pipeline.run(0))
        finally:
            stop.set()
            asking.join()
    assert count == plan.steps
    assert any(chosen is not None for chosen, _ in asked)


@pytest.mark.parametrize(
    ("reading", "phases"), [("scan", 1), ("window", 1), ("scan", 2), ("distribute", 2)]
)
def test_a_loader_goes_on_into_the_next_epoch_and_gives_way_to_another(path, reading, phases):
    pytest.importorskip("torch_geometric")
    options = {"num_neighbors": [5, 4], "input_nodes": "train", "batch_size": 128, "seed": 3}

    def ids(loader):
        return [batch.n_id.numpy().copy() for batch in loader]

    def equal(one, other):
        return len(one) == len(other) and all(map(np.array_equal, one, other))

    with ng.open(path, memory="1GB") as large:
        plain = ng.NeighborLoader(large, reading="on_demand", shuffle=True, **options)
        expected = [ids(plain) for _ in range(3)]
        val = ids(ng.NeighborLoader(large, reading="on_demand", **options))
    with ng.open(path, memory="96MB") as store:
        ahead = ng.Reading(reading, two_phase=phases == 2, check_rows=True)
        train = ng.NeighborLoader(store, shuffle=True, reading=ahead, **options)
        other = ng.NeighborLoader(store, reading=reading, **options)
        for epoch in range(3):
            assert equal(ids(train), expected[epoch])
            assert train.chosen()["phases"] == phases
            assert (train.chosen()["sampled_first"] is None) == (phases == 1)
            if epoch == 1:
                assert equal(ids(other), val)
        other.close()
        train.close()


def test_a_resumed_epoch_goes_on_where_it_stood(path):
    pytest.importorskip("torch_geometric")
    options = {"num_neighbors": [4], "input_nodes": "train", "batch_size": 128, "seed": 3}
    with ng.open(path, memory="96MB") as store:
        loader = ng.NeighborLoader(store, reading="scan", shuffle=True, **options)
        whole = [batch.n_id.numpy().copy() for batch in loader]
        loader.set_epoch(0)
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
        del batches
        resumed = ng.NeighborLoader(store, reading="window", shuffle=True, **options)
        resumed.load_state_dict(state)
        rest = [batch.n_id.numpy().copy() for batch in resumed]
        assert len(rest) == len(whole) - 5
        assert all(map(np.array_equal, rest, whole[5:]))


def test_an_unknown_reading_is_named(path):
    with ng.open(path, memory="96MB") as store:
        sampler = ng.NumpySampler(store, [2])
        with pytest.raises(ValueError, match="carousel"):
            sampler.batches("train", 8, reading="carousel")


def test_memory_that_is_too_small_to_look_ahead_is_named_or_done_without(path):
    with ng.open(path, memory="1GB") as large:
        expected = [b.nodes().copy() for b in ng.NumpySampler(large, [5]).batches("train", 512)]
    with ng.open(path, memory="24MB") as store:
        sampler = ng.NumpySampler(store, [5])
        with pytest.raises(ng.exceptions.BudgetTooSmall, match="look-ahead"):
            next(sampler.batches("train", 512, reading="scan"))
        with pytest.warns(UserWarning, match=r"by batch.*raise memory= to at least \d") as heard:
            found = [batch.nodes().copy() for batch in sampler.batches("train", 512)]
        assert len(heard) == 1
        assert all(map(np.array_equal, found, expected))
        assert len(found) == len(expected)


def test_a_pass_in_the_midst_of_an_epoch_gets_its_memory_and_gives_it_back(path):
    pytest.importorskip("torch_geometric")
    options = {"num_neighbors": [5, 4], "input_nodes": "train", "seed": 3}

    def ids(batches):
        return [batch.n_id.numpy().copy() for batch in batches]

    with ng.open(path, memory="1GB") as large:
        plain = {"reading": "on_demand", **options}
        expected = ids(ng.NeighborLoader(large, shuffle=True, batch_size=128, **plain))
        val = {size: ids(ng.NeighborLoader(large, batch_size=size, **plain)) for size in (128, 700)}
    with ng.open(path, memory="96MB") as store:
        ahead = {"reading": "scan", "shuffle": True, "batch_size": 128}
        train = ng.NeighborLoader(store, **ahead, **options)
        found = []
        # The second of these reads batch by batch.
        others = {5: (128, "window"), 9: (700, "on_demand")}
        for number, batch in enumerate(train):
            assert train.chosen() is not None, number
            found.append(batch.n_id.numpy().copy())
            del batch
            if number in others:
                size, reading = others[number]
                other = ids(ng.NeighborLoader(store, batch_size=size, reading=reading, **options))
                assert all(map(np.array_equal, other, val[size]))
                assert len(other) == len(val[size])
        assert all(map(np.array_equal, found, expected))
        assert len(found) == len(expected)


@pytest.mark.parametrize("reading", ["window", "scan"])
def test_two_passes_side_by_side_share_the_memory(path, reading):
    with ng.open(path, memory="1GB") as large:
        plain = ng.NumpySampler(large, [5, 4], seed=3)
        batches = plain.batches("train", 128, reading="on_demand")
        expected = [batch.nodes().copy() for batch in batches]
    with ng.open(path, memory="96MB") as store:
        sampler = ng.NumpySampler(store, [5, 4], seed=3)
        one = sampler.batches("train", 128, reading=reading)
        other = sampler.batches("train", 128, reading=reading)
        count = 0
        for a, b, wanted in zip(one, other, expected, strict=True):
            assert np.array_equal(a.nodes(), wanted)
            assert np.array_equal(b.nodes(), wanted)
            del a, b
            count += 1
        assert count == 16


def test_two_passes_of_one_loader_are_passes_of_two_epochs(path):
    pytest.importorskip("torch_geometric")
    options = {"num_neighbors": [5], "input_nodes": "train", "batch_size": 128, "seed": 3}

    def ids(batches):
        return [batch.n_id.numpy().copy() for batch in batches]

    with ng.open(path, memory="1GB") as large:
        plain = ng.NeighborLoader(large, reading="on_demand", shuffle=True, **options)
        expected = [ids(plain), ids(plain)]
    with ng.open(path, memory="96MB") as store:
        loader = ng.NeighborLoader(store, reading="scan", shuffle=True, **options)
        first = iter(loader)
        found = [[next(first).n_id.numpy().copy() for _ in range(3)], []]
        second = iter(loader)
        found[1] += [next(second).n_id.numpy().copy() for _ in range(3)]
        found[0] += ids(first)
        found[1] += ids(second)
        for one, other in zip(found, expected, strict=True):
            assert len(one) == len(other)
            assert all(map(np.array_equal, one, other))


def test_plain_reads_get_the_memory_that_a_loader_keeps_between_epochs(path):
    pytest.importorskip("torch_geometric")
    ids = np.arange(NODES)
    with ng.open(path, memory="1GB") as large:
        rows, lists = large.snapshot().features(None, ids), large.snapshot().neighbors(None, ids)
    with ng.open(path, memory="96MB") as store:
        options = {"num_neighbors": [5, 4], "input_nodes": "train", "batch_size": 128}
        train = ng.NeighborLoader(store, reading="scan", **options)
        first = [batch.n_id.numpy().copy() for batch in train]
        # After a second pass a third one is likely.
        assert sum(1 for _ in train) == len(first)
        held = store.stats()["budget_used"]
        assert 96_000_000 - held < rows.nbytes, "else there is nothing to give back"
        assert np.array_equal(store.snapshot().features(None, ids), rows)
        assert np.array_equal(store.snapshot().neighbors(None, ids)[1], lists[1])
        train.set_epoch(0)
        assert all(map(np.array_equal, [b.n_id.numpy().copy() for b in train], first))
