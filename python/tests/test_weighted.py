"""Weighted sampling through the public face: by weights of edges, the same batches everywhere."""

import itertools

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

import neargraph as ng
from neargraph import _core

TRIPLE = ("node", "to", "node")


def weighted_graph(weights=None, num_nodes=200, num_edges=6000, seed=4):
    """A hub, and an edge of weight 0 in every third place."""
    rng = np.random.default_rng(seed)
    destinations = rng.integers(0, num_nodes - 20, num_edges)
    destinations[: num_edges // 3] = 7
    if weights is None:
        weights = rng.random(num_edges) * (np.arange(num_edges) % 3 > 0)
    tensors = {"x": rng.standard_normal((num_nodes, 6)).astype(np.float32)}
    edges = Edges(
        rng.integers(0, num_nodes, num_edges), destinations, weights=weights.astype(np.float32)
    )
    return Graph({"node": Nodes(num_nodes, tensors)}, {TRIPLE: edges})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return weighted_graph().write(tmp_path_factory.mktemp("weighted") / "g.ng")


@pytest.fixture
def store(path):
    with ng.open(path, memory="64MB") as opened:
        yield opened


def content(batch):
    arrays = (batch.nodes(), batch.edge_index(), batch.weights(), batch.features("x"))
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


@pytest.mark.parametrize("replace", [False, True])
def test_batches_are_the_same_from_memory_from_the_disk_and_one_by_one(path, replace):
    expected = None
    for backend, memory, reading in [
        ("memory", "64MB", "on_demand"),
        ("pread", "16MB", "on_demand"),
        ("auto", "64MB", "scan"),
        ("mmap", "64MB", "window"),
        ("auto", "64MB", "distribute"),
    ]:
        with ng.open(path, memory=memory, backend=backend) as store:
            how = {"seed": 3, "method": "weighted", "replace": replace}
            sampler = ng.NumpySampler(store, [5, 3], **how)
            batches = sampler.batches(None, 30, shuffle=True, reading=reading)
            found = [content(batch) for batch in batches]
        expected = expected or found
        assert found == expected


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_of_weight_0_is_drawn_and_heavy_edges_more_often(store, replace):
    sampler = ng.NumpySampler(store, [4], method="weighted", replace=replace, attrs=[])
    weights = [sampler.sample([7], stream=stream).weights() for stream in range(300)]
    assert {len(drawn) for drawn in weights} == {4}
    assert np.concatenate(weights).min() > 0
    # Weights are uniform in 0 ... 1, so drawn by weight their mean is two thirds.
    assert abs(np.concatenate(weights).mean() - 2 / 3) < 0.03


def test_edges_without_weights_are_refused_by_name(homo, hetero):
    with pytest.raises(ng.UnsupportedArgument, match=r"edges \(node, to, node\) have no weights"):
        ng.NumpySampler(homo, [3], method="weighted")
    with pytest.raises(ng.UnsupportedArgument, match="cites"):
        ng.NumpySampler(hetero, [3], method="weighted")
    fanouts = {t.triple: [3 * t.has_weight, -1] for t in hetero.schema.edge_types}
    ng.NumpySampler(hetero, fanouts, method="weighted")


def test_a_weight_that_nothing_can_be_drawn_by_is_named(tmp_path):
    weights = np.ones(6000)
    weights[5] = -2.0
    path = weighted_graph(weights).write(tmp_path / "g.ng")
    with ng.open(path, memory="64MB") as store:
        sampler = ng.NumpySampler(store, [3], method="weighted", attrs=[])
        sampler.sample([8])
        with pytest.raises(ng.UnsupportedArgument, match="into node 7, position") as caught:
            sampler.sample([7])
        assert "weight -2 is" in str(caught.value)
        assert "not a valid weight" in str(caught.value)


def test_pyg_loaders_spell_it_weight_attr(store):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")

    def loader(**options):
        return ng.NeighborLoader(store, [4, 3], batch_size=40, seed=3, **options)

    by_attr, by_method = loader(weight_attr="edge_weight"), loader(method="weighted")
    plain = loader()
    for one, other, uniform in zip(by_attr, by_method, plain, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert torch.equal(one.edge_weight, other.edge_weight)
        assert one.edge_weight.min() > 0
        assert uniform.edge_weight.min() == 0
    with pytest.raises(ng.UnsupportedArgument, match=r"edge_attr.*edge_weight"):
        loader(weight_attr="edge_attr")
    with pytest.raises(ng.UnsupportedArgument, match="leave one of them out"):
        loader(weight_attr="edge_weight", method="labor")
    with pytest.raises(ng.StateMismatch, match="method"):
        loader().load_state_dict(by_method.state_dict())
    with pytest.raises(ng.StateMismatch, match="replace"):
        loader(method="weighted", replace=True).load_state_dict(by_method.state_dict())


def test_compiled_epochs_are_told_apart_by_the_method(store, tmp_path):
    from neargraph.loader.compiling import EpochCompiler
    from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

    how = {"seed": 3, "method": "weighted"}
    sampler = ng.NumpySampler(store, [5, 3], **how)
    inputs = resolve_input_nodes(sampler.snapshot, None)
    plan = SeedPlan(num_seeds=len(inputs), batch_size=50, shuffle=True, seed=3)
    EpochCompiler(sampler, inputs, plan, 1, directory=tmp_path).run(lambda *_: None)
    batches = {"ids": None, "batch_size": 50, "shuffle": True}
    replayed = [content(b) for b in sampler.batches(**batches, reading=tmp_path)]
    assert replayed == [content(b) for b in sampler.batches(**batches)]
    for other in ({"method": "uniform"}, {"replace": True}):
        differing = ng.NumpySampler(store, [5, 3], **how | other)
        with pytest.raises(ng.CompiledMismatch):
            next(differing.batches(**batches, reading=tmp_path))


def test_every_method_and_option_gives_batches_of_its_own(store):
    made = []
    for method, row in _core.sampling_methods().items():
        for option in (None, *row["options"]):
            value = {None: {}, "replace": {"replace": True}, "dependent_batches": {}}[option]
            if option != "dependent_batches":
                sampler = ng.NumpySampler(store, [6], method=method, **value)
                made.append(content(sampler.sample(np.arange(50), stream=2)))
    assert all(one != other for one, other in itertools.combinations(made, 2))
