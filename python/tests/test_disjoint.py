"""Disjoint subgraphs: each seed has its own, the one that it would have alone."""

import numpy as np
import pytest
from graphs import homogeneous
from sampled import PLAIN, epoch_of, values

import neargraph as ng
from neargraph.cli import main

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")


def edges_of_seed(batch, number, triple=None):
    """The edges of a subgraph as (source, destination) ids of the store, in the order drawn."""
    part = batch if triple is None else batch[triple]
    ends = (batch, batch) if triple is None else (batch[triple[0]], batch[triple[2]])
    row, col = part.edge_index
    own = ends[1].batch[col] == number
    assert torch.equal(ends[0].batch[row], ends[1].batch[col])
    return [end.n_id[ids[own]].tolist() for end, ids in zip(ends, (row, col), strict=True)]


def check_alone(batch, sampler, stream, name, triples):
    """Each subgraph has the nodes and edges that the seed has alone under the same stream."""
    parts = [batch] if name is None else [batch[t] for t in batch.node_types]
    types = [None] if name is None else batch.node_types
    owner = batch if name is None else batch[name]
    for number in range(owner.batch_size):
        seed = owner.n_id[number : number + 1].numpy()
        alone = sampler.sample(seed if name is None else (name, seed), stream=stream)
        for part, node_type in zip(parts, types, strict=True):
            nodes = part.n_id[part.batch == number].tolist()
            assert nodes == alone.nodes(node_type).tolist()
        for triple in triples:
            row, col = alone.edge_index(triple)
            ends = (None, None) if name is None else (triple[0], triple[2])
            expected = [alone.nodes(ends[0])[row].tolist(), alone.nodes(ends[1])[col].tolist()]
            assert edges_of_seed(batch, number, None if name is None else triple) == expected


@pytest.mark.parametrize("fanouts", [[4, 3], [-1], [2, 2, 2]])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("method", ["uniform", "weighted"])
def test_a_subgraph_is_what_its_seed_has_alone(tmp_path, fanouts, replace, method):
    graph = homogeneous()
    graph.edges[PLAIN].weights = np.random.default_rng(1).random(1500).astype(np.float32)
    with ng.open(graph.write(tmp_path / "weighted.ng"), memory="64MB") as store:
        how = {"seed": 3, "replace": replace, "method": method}
        loader = ng.NeighborLoader(store, fanouts, batch_size=25, disjoint=True, **how)
        sampler = ng.NumpySampler(store, fanouts, **how)
        for stream, batch in enumerate(loader):
            assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
            assert batch.batch.dtype == torch.int64
            assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(batch.batch)
            assert sum(batch.num_sampled_edges) == batch.num_edges
            x, edges = graph.nodes["node"].tensors["x"], graph.edges[PLAIN]
            assert np.array_equal(batch.x.numpy(), x[batch.n_id.numpy()])
            e_id = batch.e_id.numpy()
            assert np.array_equal(batch.n_id[batch.edge_index[0]].numpy(), edges.sources[e_id])
            assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][e_id])
            check_alone(batch, sampler, stream, None, [PLAIN])


def test_a_subgraph_of_a_heterogeneous_store_is_what_its_seed_has_alone(hetero, shop_store):
    for store, name, fanouts in (
        (hetero, "paper", [3, 2]),
        (hetero, "paper", {"cites": [2, 2], "writes": [0, 3], "holds": [1, 1]}),
        (shop_store, "item", [3, 2, 2]),
        (shop_store, "user", [-1, 2]),
    ):
        loader = ng.NeighborLoader(store, fanouts, (name, None), batch_size=13, disjoint=True)
        sampler = ng.NumpySampler(store, fanouts)
        for stream, batch in enumerate(loader):
            check_alone(batch, sampler, stream, name, batch.edge_types)


def test_equal_seeds_have_subgraphs_of_their_own(homo):
    (batch,) = ng.NeighborLoader(homo, [3, 2], [5, 5, 7], batch_size=3, disjoint=True)
    assert batch.n_id[:3].tolist() == [5, 5, 7]
    assert batch.batch[:3].tolist() == [0, 1, 2]
    assert batch.n_id[batch.batch == 0].tolist() == batch.n_id[batch.batch == 1].tolist()
    assert edges_of_seed(batch, 0) == edges_of_seed(batch, 1)


def test_shared_subgraphs_have_no_numbers_and_one_node_each_once(homo):
    plain = next(iter(ng.NeighborLoader(homo, [3, 2], batch_size=30)))
    apart = next(iter(ng.NeighborLoader(homo, [3, 2], batch_size=30, disjoint=True)))
    assert "batch" not in plain
    assert len(set(plain.n_id.tolist())) == plain.num_nodes < apart.num_nodes
    assert set(plain.n_id.tolist()) <= set(apart.n_id.tolist())


def how(**more):
    return {"batch_size": 20, "disjoint": True, "shuffle": True, "seed": 9, **more}


@pytest.mark.parametrize("memory", ["16MB", "200MB"])
def test_every_way_of_making_batches_gives_the_same(homo_path, hetero_path, memory):
    for path, seeds in ((homo_path, None), (hetero_path, "paper")):
        with ng.open(path, memory="64MB") as store:
            expected = epoch_of(ng.NeighborLoader(store, [3, 2], seeds, **how()))
        with ng.open(path, memory=memory) as store:
            for more in (
                {"reading": "on_demand"},
                {"reading": "scan"},
                {"reading": "window"},
                {"reading": "distribute"},
                {"reading": ng.Reading("scan", two_phase=True)},
                # Processes share the memory, and 16 MB are too little for three of them.
                *([{"num_workers": 2}] if memory == "200MB" else []),
            ):
                loader = ng.NeighborLoader(store, [3, 2], seeds, **how(**more))
                assert epoch_of(loader) == expected, more
                loader.close()


def test_labor_makes_the_same_disjoint_batches_every_time(homo):
    loaders = [
        ng.NeighborLoader(homo, [3, 2], **how(method="labor", reading=reading))
        for reading in ("on_demand", "scan")
    ]
    first, second = map(epoch_of, loaders)
    assert first == second
    for batch in first:
        ends = np.array(batch[None, "edge_index"][1])
        of = np.array(batch[None, "batch"][1])
        assert np.array_equal(of[ends[0]], of[ends[1]])


def test_a_loaded_state_goes_on_and_shared_subgraphs_are_refused(homo):
    loader = ng.NeighborLoader(homo, [3, 2], **how())
    passes = iter(loader)
    for _ in range(4):
        next(passes)
    state, rest = loader.state_dict(), [values(batch) for batch in passes]
    other = ng.NeighborLoader(homo, [3, 2], **how())
    other.load_state_dict(state)
    assert epoch_of(other) == rest
    plain = ng.NeighborLoader(homo, [3, 2], **how(disjoint=False))
    with pytest.raises(ng.StateMismatch, match="shape"):
        plain.load_state_dict(state)


def test_layouts_and_compiled_epochs_that_share_subgraphs_do_not_serve_them(homo_graph, tmp_path):
    path = homo_graph.write(tmp_path / "compiled.ng")
    options = ["--fanouts", "3,2", "--batch-size", "20", "--seed", "9", "--seeds", "all"]
    with pytest.raises(SystemExit) as ended:
        main(["compile", path, *options])
    assert not ended.value.code
    with ng.open(path, memory="64MB") as store:
        for more in ({"disjoint": True}, {"disjoint": False, "subgraph_type": "induced"}):
            expected = epoch_of(ng.NeighborLoader(store, [3, 2], **how(**more)))
            auto = ng.NeighborLoader(
                store, [3, 2], **how(**more, reading=ng.Reading("compiled", otherwise="auto"))
            )
            assert epoch_of(auto) == expected
            with pytest.raises(ng.UnsupportedArgument, match="reading='compiled'"):
                ng.NeighborLoader(store, [3, 2], **how(**more, reading="compiled"))
        plain = ng.NeighborLoader(store, [3, 2], **how(disjoint=False, reading="compiled"))
        assert len(epoch_of(plain)) == 15
        with pytest.raises(ng.UnsupportedArgument, match="disjoint"):
            ng.NeighborLoader(store, [3], disjoint=True, reading="direct_layout")
