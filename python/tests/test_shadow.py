"""ShaDowKHopSampler: a batch of subgraphs, each with all edges between the nodes around a root."""

import numpy as np
import pytest
from sampled import PLAIN, epoch_of

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Batch, Data  # noqa: E402


def make(store, **more):
    how = {"depth": 2, "num_neighbors": 3, "batch_size": 11, **more}
    return ng.ShaDowKHopSampler(store, **how)


@pytest.mark.parametrize("replace", [False, True])
def test_a_batch_is_one_induced_subgraph_for_each_root(homo, homo_graph, replace):
    edges, nodes = homo_graph.edges[PLAIN], homo_graph.nodes["node"].tensors
    roots = []
    disjoint = ng.NeighborLoader(homo, [3, 3], batch_size=11, disjoint=True, replace=replace)
    for batch, apart in zip(make(homo, replace=replace), disjoint, strict=True):
        assert isinstance(batch, Batch)
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        count = len(batch.root_n_id)
        assert (torch.diff(batch.batch) >= 0).all()
        assert batch.ptr.tolist() == [0, *torch.bincount(batch.batch).cumsum(0).tolist()]
        assert batch.root_n_id.tolist() == batch.ptr[:-1].tolist()
        assert np.array_equal(batch.x.numpy(), nodes["x"][n_id])
        assert np.array_equal(batch.y.numpy(), nodes["y"][n_id[batch.root_n_id]])
        assert np.array_equal(batch.train_mask.numpy(), nodes["split_0"][n_id] == 1)
        assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][e_id])
        assert np.array_equal(n_id[batch.edge_index[0]], edges.sources[e_id])
        assert np.array_equal(n_id[batch.edge_index[1]], edges.destinations[e_id])
        assert torch.equal(*batch.batch[batch.edge_index])
        for number in range(count):
            own = n_id[batch.batch == number]
            assert sorted(own) == sorted(apart.n_id[apart.batch == number].tolist())
            inside = np.isin(edges.sources, own) & np.isin(edges.destinations, own)
            found = e_id[batch.batch[batch.edge_index[1]] == number]
            assert np.array_equal(np.sort(found), np.flatnonzero(inside))
        roots += n_id[batch.root_n_id].tolist()
    assert roots == list(range(300))


def test_all_neighbours_of_all_hops_are_there_with_fanout_minus_1(homo, homo_graph):
    edges = homo_graph.edges[PLAIN]
    (batch,) = make(homo, num_neighbors=-1, node_idx=[30, 40], batch_size=2)
    for number, root in enumerate((30, 40)):
        reached = {root}
        for _ in range(2):
            reached |= set(edges.sources[np.isin(edges.destinations, list(reached))].tolist())
        assert set(batch.n_id[batch.batch == number].tolist()) == reached


def test_roots_are_taken_as_seeds_are(homo):
    for given, expected in (
        ("train", homo.split("train").tolist()),
        ([5, 5, 9], [5, 5, 9]),
        (torch.from_numpy(homo.mask("val")), homo.split("val").tolist()),
    ):
        found = [batch.n_id[batch.root_n_id] for batch in make(homo, node_idx=given)]
        assert torch.cat(found).tolist() == expected


def test_state_reading_and_processes(homo):
    expected = epoch_of(make(homo, shuffle=True, seed=2))
    for more in ({"reading": "scan"}, {"reading": "on_demand"}, {"num_workers": 2}):
        assert epoch_of(make(homo, shuffle=True, seed=2, **more)) == expected, more
    loader = make(homo, shuffle=True, seed=2)
    passes = iter(loader)
    next(passes)
    other = make(homo, shuffle=True, seed=2)
    other.load_state_dict(loader.state_dict())
    assert epoch_of(other) == expected[1:]
    with pytest.raises(ng.StateMismatch):
        make(homo, shuffle=True, seed=2, depth=1).load_state_dict(loader.state_dict())


def test_roots_that_fill_a_batch_of_ranks_are_counted(homo):
    seen, repeats = [], 0
    for rank in range(2):
        for batch in make(homo, node_idx=[4, 5, 6], batch_size=2, ranks=(rank, 2)):
            padding = batch.num_padding if "num_padding" in batch else 0
            roots = batch.n_id[batch.root_n_id].tolist()
            seen += roots[: len(roots) - padding]
            repeats += padding
    assert sorted(seen) == [4, 5, 6]
    assert repeats == 1


def test_sparse_rows_are_those_of_dense_batches(tmp_path):
    rng = np.random.default_rng(3)
    x = np.where(rng.random((900, 700)) < 0.02, rng.random((900, 700)), 0).astype(np.float32)
    x[7] = 0
    index = torch.from_numpy(rng.integers(0, 900, (2, 4000)))
    graph = Data(x=torch.from_numpy(x), y=torch.arange(900), edge_index=index)
    ng.from_pyg(graph, tmp_path / "bag.ng")
    with ng.open(tmp_path / "bag.ng", memory="64MB") as store:
        for dense, sparse in zip(make(store), make(store, x_format="sparse"), strict=True):
            assert sparse.x.layout == torch.sparse_csr
            assert torch.equal(sparse.x.to_dense(), dense.x)
            assert np.array_equal(dense.x, x[sparse.n_id])
            assert set(dense.keys()) == set(sparse.keys())
            for name in set(dense.keys()) - {"x"}:
                assert torch.equal(dense[name], sparse[name]), name


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"depth": 0}, "depth"),
        ({"num_neighbors": -2}, "fanout"),
        ({"node_idx": [300]}, "300"),
        ({"input_nodes": [1]}, "input_nodes"),
        ({"reading": "direct_layout"}, "layout"),
        ({"depth": None}, "depth"),
        ({"sampler": [1]}, "node_idx="),
    ],
    ids=str,
)
def test_arguments_without_meaning_are_refused(homo, given, named):
    with pytest.raises((ValueError, TypeError, ng.NeargraphError), match=named):
        make(homo, **given)


def test_stores_of_several_types_are_refused(hetero):
    with pytest.raises(ng.UnsupportedArgument, match="node type"):
        make(hetero)
