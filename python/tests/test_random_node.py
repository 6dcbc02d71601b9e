"""RandomNodeLoader and ClusterGCNLoader: parts of all nodes, each once, with all edges inside."""

import itertools

import numpy as np
import pytest
from sampled import PLAIN, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


@pytest.mark.parametrize("num_parts", [1, 7, 300])
@pytest.mark.parametrize("shuffle", [False, True])
def test_parts_hold_every_node_once_and_are_induced(homo, homo_graph, num_parts, shuffle):
    edges = homo_graph.edges[PLAIN]
    loader = ng.RandomNodeLoader(homo, num_parts, shuffle=shuffle, seed=5)
    epochs = []
    for _ in range(2):
        seen = []
        for batch in loader:
            n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
            inside = np.isin(edges.sources, n_id) & np.isin(edges.destinations, n_id)
            assert np.array_equal(np.sort(e_id), np.flatnonzero(inside))
            assert np.array_equal(n_id[batch.edge_index[0].numpy()], edges.sources[e_id])
            assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][e_id])
            assert np.array_equal(batch.x.numpy(), homo_graph.nodes["node"].tensors["x"][n_id])
            assert "batch_size" not in batch
            assert "num_sampled_nodes" not in batch
            seen.append(n_id.tolist())
        assert len(seen) == len(loader) <= num_parts
        assert max(map(len, seen)) == -(-300 // num_parts)
        assert sorted(itertools.chain(*seen)) == list(range(300))
        epochs.append(seen)
    assert (epochs[0] != epochs[1]) == shuffle


def makers():
    return {
        "random": lambda store, **more: ng.RandomNodeLoader(store, 9, shuffle=True, **more),
        "clusters": lambda store, **more: ng.ClusterGCNLoader(
            store, 17, batch_size=4, shuffle=True, **more
        ),
    }


@pytest.mark.parametrize("kind", makers())
def test_state_reading_and_processes(homo, kind):
    make = makers()[kind]
    expected = epoch_of(make(homo, seed=3))
    for more in ({"reading": "scan"}, {"reading": "window"}, {"num_workers": 2}):
        assert epoch_of(make(homo, seed=3, **more)) == expected, more
    loader = make(homo, seed=3)
    passes = iter(loader)
    next(passes)
    state = loader.state_dict()
    other = make(homo, seed=3)
    other.load_state_dict(state)
    assert epoch_of(other) == expected[1:]
    with pytest.raises(ng.StateMismatch):
        make(homo, seed=4).load_state_dict(state)


def test_ranks_share_every_part(homo):
    how = {"shuffle": True, "seed": 3}
    ranks = [ng.RandomNodeLoader(homo, 10, ranks=(r, 2), **how) for r in range(2)]
    parts = [[batch.n_id.tolist() for batch in rank] for rank in ranks]
    assert len(parts[0]) == len(parts[1]) == 10
    assert sorted(itertools.chain(*parts[0], *parts[1])) == list(range(300))


def test_ranks_repeat_no_node_and_have_the_edges_of_their_shares(homo, homo_graph):
    edges = homo_graph.edges[PLAIN]
    # 7 parts of 43 nodes would be 44 for two ranks: six of these, and 36 nodes that are left out.
    ranks = [ng.RandomNodeLoader(homo, 7, ranks=(r, 2)) for r in range(2)]
    batches = [batch for rank in ranks for batch in rank]
    assert [len(batch.n_id) for batch in batches] == [22] * 12
    assert sorted(torch.cat([b.n_id for b in batches]).tolist()) == list(range(264))
    for batch in batches:
        inside = np.isin(edges.sources, batch.n_id) & np.isin(edges.destinations, batch.n_id)
        assert sorted(batch.e_id.tolist()) == np.flatnonzero(inside).tolist()
        assert "num_padding" not in batch
    assert len(ng.RandomNodeLoader(homo, 299)) == 150


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"num_parts": 0}, "num_parts"),
        ({"num_parts": 301}, "num_parts"),
        ({"num_parts": "4"}, "num_parts='4' is not valid: expected a whole number"),
        ({"num_parts": 2.5}, "num_parts=2.5 is not valid: expected a whole number"),
        ({"num_parts": None}, "num_parts=None is not valid: expected a whole number"),
        ({"num_parts": 2, "ranks": ng.Ranks(0, 2, pad=True)}, "pad=True would repeat nodes"),
        ({"num_parts": 2, "sampler": [1]}, "leave it out"),
        ({"num_parts": 2, "batch_size": 5}, "batch_size"),
        ({"num_parts": 2, "input_nodes": "train"}, "input_nodes"),
        ({"num_parts": 2, "reading": "direct_layout"}, "layout"),
    ],
    ids=str,
)
def test_arguments_without_meaning_are_refused(homo, given, named):
    with pytest.raises((ValueError, TypeError), match=named):
        ng.RandomNodeLoader(homo, **given)


def test_stores_of_several_types_are_refused(hetero):
    with pytest.raises(ng.UnsupportedArgument, match="node type"):
        ng.RandomNodeLoader(hetero, 3)
