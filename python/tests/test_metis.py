"""METIS through the real pymetis: parts of equal size that few edges leave."""

import sys

import numpy as np
import pytest

import neargraph as ng
from neargraph.loader.partition import metis_parts

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402

BLOCKS, SIZE, SEED = 8, 30, 6
NODES = BLOCKS * SIZE


@pytest.fixture
def pymetis():
    """The package, or a skipped test."""
    how = "METIS needs pymetis: pip install 'neargraph[metis]'"
    return pytest.importorskip("pymetis", reason=how)


@pytest.fixture(scope="module")
def planted():
    """Dense blocks under permuted ids with a few edges between them, and the block of each node.

    Edges go one way; some are there twice, and some are loops.
    """
    rng = np.random.default_rng(SEED)
    block = rng.permutation(np.arange(NODES) % BLOCKS)
    members = np.argsort(block, kind="stable").reshape(BLOCKS, SIZE)
    inside = rng.integers(0, SIZE, (2, BLOCKS, 8 * SIZE))
    ends = np.take_along_axis(members[None], inside, axis=2).reshape(2, -1)
    ends = np.hstack([ends, rng.integers(0, NODES, (2, 60)), ends[:, :40]])
    x = torch.from_numpy(rng.standard_normal((NODES, 4)).astype(np.float32))
    return Data(x=x, edge_index=torch.from_numpy(ends)), block


@pytest.fixture
def store(planted, tmp_path):
    ng.from_pyg(planted[0], tmp_path / "planted.ng", reverse=True, edge_ids=True)
    with ng.open(tmp_path / "planted.ng", memory="64MB") as store:
        yield store


def edges_within(parts, edge_index):
    source, destination = edge_index
    return int((parts[source] == parts[destination]).sum())


def test_parts_are_of_equal_size_and_few_edges_leave_them(pymetis, planted, store):
    edges, block = planted[0].edge_index.numpy(), planted[1]
    parts = metis_parts(store, BLOCKS)
    assert parts.dtype == np.int64
    assert parts.shape == (NODES,)
    sizes = np.bincount(parts, minlength=BLOCKS)
    # METIS lets the largest part have 3 % more than its share.
    assert sizes.max() <= np.ceil(1.03 * SIZE), f"seed {SEED}"
    # No worse than what was planted, which ranges of ids know nothing of.
    assert edges_within(parts, edges) >= edges_within(block, edges), f"seed {SEED}"
    assert edges_within(np.arange(NODES) // SIZE, edges) < 0.3 * edges.shape[1]
    assert np.array_equal(metis_parts(store, BLOCKS), parts)
    assert not metis_parts(store, 1).any()


def test_a_loader_has_the_parts_of_metis_as_its_clusters(pymetis, planted, store):
    graph = planted[0]
    parts = metis_parts(store, BLOCKS)
    loader = ng.ClusterGCNLoader(
        store, BLOCKS, partition="metis", batch_size=2, shuffle=True, seed=3
    )
    seen = []
    for number, batch in enumerate(loader):
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        wanted = np.isin(parts, loader.parts(0, number))
        assert np.array_equal(np.sort(n_id), np.flatnonzero(wanted))
        inside = wanted[graph.edge_index.numpy()].all(axis=0)
        assert np.array_equal(np.sort(e_id), np.flatnonzero(inside))
        assert torch.equal(batch.x, graph.x[batch.n_id])
        seen += n_id.tolist()
    assert sorted(seen) == list(range(NODES))
    given = ng.ClusterGCNLoader(store, BLOCKS, partition=parts, batch_size=2, shuffle=True, seed=3)
    given.set_epoch(1)
    loader.set_epoch(1)
    for batch, same in zip(loader, given, strict=True):
        assert torch.equal(batch.n_id, same.n_id)
        assert torch.equal(batch.edge_index, same.edge_index)


def test_deleted_nodes_are_in_no_cluster_of_metis(pymetis, store):
    with store.write() as tx:
        for node in range(0, NODES, 10):
            tx.delete_node(None, node)
    loader = ng.ClusterGCNLoader(store, BLOCKS, partition="metis")
    seen = torch.cat([batch.n_id for batch in loader])
    assert sorted(seen.tolist()) == [node for node in range(NODES) if node % 10]


def test_a_missing_pymetis_is_said_with_the_way_out(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ng.MissingDependency, match="pip install") as caught:
        ng.ClusterGCNLoader(store, BLOCKS, partition="metis")
    assert "partition='order'" in str(caught.value)
    assert "\n" not in str(caught.value)
