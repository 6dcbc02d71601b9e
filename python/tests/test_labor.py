"""LABOR sampling through the public face: fewer nodes, the same batches, dependent batches."""

import numpy as np
import pytest

import neargraph as ng


def content(batch):
    return [a.tobytes() for a in (batch.nodes(), batch.edge_index(), batch.edge_ids())]


def test_a_fanout_is_what_nodes_take_on_average_and_lists_below_it_come_whole(homo, homo_graph):
    triple = ("node", "to", "node")
    sampler = ng.NumpySampler(homo, [4], seed=9, method="labor", attrs=[])
    degrees = np.array([len(homo_graph.in_edges(triple, node)) for node in range(100)])
    taken = np.zeros(100)
    for stream in range(300):
        batch = sampler.sample(np.arange(100), stream=stream)
        counts = np.bincount(batch.edge_index()[1], minlength=100)[:100]
        assert np.array_equal(counts[degrees <= 4], degrees[degrees <= 4])
        taken += counts
    assert (degrees > 4).any()
    assert np.allclose(taken[degrees > 4] / 300, 4, atol=0.75), "seed 9"


def test_batches_are_the_same_whatever_the_threads_and_the_reading(homo):
    def run(**options):
        sampler = ng.NumpySampler(homo, [5, 3], seed=5, method="labor", dependent_batches=2)
        return [content(b) for b in sampler.batches(None, 32, shuffle=True, **options)]

    reference = run(reading="on_demand")
    assert len(reference) == 10
    for options in (
        {"reading": ng.Reading(threads=1)},
        {"reading": ng.Reading(threads=4)},
        {"reading": "scan"},
        {"reading": "window"},
    ):
        assert run(**options) == reference
    uniform = ng.NumpySampler(homo, [5, 3], seed=5)
    assert [content(b) for b in uniform.batches(None, 32, shuffle=True)] != reference


def test_dependent_batches_choose_alike(homo):
    def run(dependent):
        sampler = ng.NumpySampler(homo, [3, 3], method="labor", dependent_batches=dependent)
        return [content(sampler.sample(np.arange(80), stream=stream)) for stream in range(6)]

    three, one = run(3), run(1)
    assert three[0] == three[1] == three[2] == one[0]
    assert three[3] == three[5] == one[1]
    assert len({tuple(batch) for batch in one}) == 6


def test_a_batch_has_fewer_nodes_than_a_uniform_one(homo):
    seeds = np.arange(150)

    def nodes(**options):
        sampler = ng.NumpySampler(homo, [3, 3], attrs=[], **options)
        return sum(len(sampler.sample(seeds, stream=s).nodes()) for s in range(20))

    assert nodes(method="labor") < nodes()


def test_what_makes_no_sense_is_refused(homo):
    for options, error in [
        ({"method": "ladies"}, "expected 'uniform', 'labor' or 'weighted'"),
        ({"method": "labor", "replace": True}, "use method='uniform' or 'weighted'"),
        ({"dependent_batches": 4}, "use method='labor'"),
    ]:
        with pytest.raises(ng.UnsupportedArgument, match=error):
            ng.NumpySampler(homo, [3], **options)
    with pytest.raises(ValueError, match="dependent_batches"):
        ng.NumpySampler(homo, [3], method="labor", dependent_batches=0)


def test_a_loader_takes_it_and_its_state_tells_it(homo):
    pytest.importorskip("torch_geometric")

    def loader(**options):
        return ng.NeighborLoader(homo, [4, 3], "train", batch_size=16, seed=3, **options)

    labor = loader(method="labor", dependent_batches=2)
    sampler = ng.NumpySampler(homo, [4, 3], seed=3, method="labor", dependent_batches=2)
    for batch, plain in zip(labor, sampler.batches("train", 16), strict=True):
        assert np.array_equal(batch.n_id.numpy(), plain.nodes())
    with pytest.raises(ng.StateMismatch, match="method"):
        loader().load_state_dict(labor.state_dict())
    with pytest.raises(ng.StateMismatch, match="dependent_batches"):
        loader(method="labor").load_state_dict(labor.state_dict())
