"""PyG's own loaders on a store: NodeLoader, NeighborLoader, LinkLoader, LinkNeighborLoader."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import (  # noqa: E402
    LinkLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NodeLoader,
)
from torch_geometric.sampler import NodeSamplerInput  # noqa: E402

WRITES = ("author", "writes", "paper")


def check_homogeneous(batch, homo_graph):
    raw = homo_graph.nodes["node"].tensors
    edges = homo_graph.edges["node", "to", "node"]
    n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
    assert np.array_equal(batch.x.numpy(), raw["x"][n_id])
    assert np.array_equal(batch.y.numpy(), raw["y"][n_id])
    assert np.array_equal(batch.val_mask.numpy(), raw["split_0"][n_id] == 2)
    row, col = batch.edge_index.numpy()
    assert np.array_equal(n_id[row], edges.sources[e_id])
    assert np.array_equal(n_id[col], edges.destinations[e_id])


@pytest.mark.parametrize("as_tuple", [False, True])
def test_node_loaders_take_the_store_and_its_sampler(homo, homo_graph, as_tuple):
    data = (homo.feature_store, homo.graph_store) if as_tuple else homo
    seeds = torch.from_numpy(homo.split("train"))
    sampler = homo.sampler([4, 2], seed=3)
    for loader in (
        NodeLoader(data, sampler, input_nodes=seeds, batch_size=16),
        NeighborLoader(data, [4, 2], input_nodes=seeds, batch_size=16, neighbor_sampler=sampler),
    ):
        got = []
        for batch in loader:
            assert type(batch) is Data
            check_homogeneous(batch, homo_graph)
            assert batch.batch_size == batch.num_sampled_nodes[0] == len(batch.input_id)
            got += batch.n_id[: batch.batch_size].tolist()
        assert got == seeds.tolist()


def test_node_loaders_take_a_heterogeneous_store(hetero, hetero_graph):
    sampler = hetero.sampler({"cites": [3], "writes": [2], "holds": [1]}, seed=3)
    seeds = torch.from_numpy(hetero.split("train"))
    loader = NodeLoader(hetero, sampler, input_nodes=("paper", seeds), batch_size=8)
    for batch in loader:
        assert type(batch) is HeteroData
        for name in ("paper", "author"):
            x = hetero_graph.nodes[name].tensors["x"]
            assert np.array_equal(batch[name].x.numpy(), x[batch[name].n_id.numpy()])
        assert batch["paper"].train_mask.shape[1] == 2
        edges = hetero_graph.edges[WRITES]
        e_id = batch[WRITES].e_id.numpy()
        sources = batch["author"].n_id[batch[WRITES].edge_index[0]]
        assert np.array_equal(sources.numpy(), edges.sources[e_id])
        assert batch["paper"].batch_size == len(batch["paper"].input_id)
    by_name = NodeLoader(hetero, sampler, input_nodes="venue", batch_size=8)
    assert [b["venue"].n_id.tolist() for b in by_name] == [[0, 1, 2, 3, 4]]


def test_edge_tensors_are_added_by_a_transform(homo, hetero, homo_graph, hetero_graph):
    add, seeds = ng.pyg.EdgeFeatures(homo), torch.arange(40)
    raw = homo_graph.edges["node", "to", "node"].tensors["edge_attr"]
    sampler = homo.sampler([3])
    for batch in NodeLoader(homo, sampler, input_nodes=seeds, batch_size=16, transform=add):
        assert np.array_equal(batch.edge_attr.numpy(), raw[batch.e_id.numpy()])
    add, raw = ng.pyg.EdgeFeatures(hetero), hetero_graph.edges[WRITES].tensors["edge_attr"]
    sampler = hetero.sampler([3])
    for batch in NodeLoader(hetero, sampler, input_nodes=("paper", seeds), transform=add):
        assert np.array_equal(batch[WRITES].edge_attr.numpy(), raw[batch[WRITES].e_id.numpy()])
        assert "edge_attr" not in batch["paper", "cites", "paper"]


def test_draws_depend_on_seeds_and_epoch_alone(homo):
    def run(sampler, **options):
        seeds = torch.arange(100)
        loader = NodeLoader(homo, sampler, input_nodes=seeds, batch_size=20, **options)
        return [b.e_id.tolist() for b in loader]

    sampler = homo.sampler([2, 2], seed=3)
    sampler.set_epoch(0)
    first = run(sampler)
    assert run(sampler) == first == run(homo.sampler([2, 2], seed=3))
    assert run(sampler, num_workers=2) == first
    sampler.set_epoch(1)
    assert run(sampler) != first
    assert run(homo.sampler([2, 2], seed=4)) != first
    unset = homo.sampler([2, 2], seed=3)
    torch.manual_seed(5)
    one, two = run(unset, num_workers=1), run(unset, num_workers=1)
    torch.manual_seed(5)
    assert one != two
    assert run(unset, num_workers=2) == one


def test_link_loaders_sample_around_both_ends(homo, homo_graph):
    edges = homo_graph.edges["node", "to", "node"]
    pairs = torch.from_numpy(np.stack([edges.sources, edges.destinations])[:, :60])
    sampler = homo.sampler([3], seed=1)
    loader = LinkLoader(homo, sampler, edge_label_index=(None, pairs), batch_size=20)
    seen = []
    for batch in loader:
        check_homogeneous(batch, homo_graph)
        seen.append(batch.n_id[batch.edge_label_index])
    assert torch.equal(torch.cat(seen, dim=1), pairs)


def test_negative_links_repeat_with_the_seed_and_leave_torchs_generator_alone(hetero):
    def run(epoch):
        sampler = hetero.sampler([2], seed=1)
        sampler.set_epoch(epoch)
        loader = LinkNeighborLoader(
            hetero,
            [2],
            edge_label_index=(WRITES, None),
            neg_sampling="binary",
            batch_size=100,
            neighbor_sampler=sampler,
        )
        return [(b["author"].n_id.tolist(), b[WRITES].edge_label_index.tolist()) for b in loader]

    torch.manual_seed(1)
    before = torch.rand(1)
    torch.manual_seed(1)
    first = run(0)
    # DataLoader itself draws one base seed for each pass.
    torch.manual_seed(1)
    torch.empty((), dtype=torch.int64).random_()
    assert first == run(0) != run(1)
    assert len(first) == 4
    assert len(before) == 1


def test_the_feature_store_reads_every_kind_of_index(homo, hetero, homo_graph, hetero_graph):
    x = homo_graph.nodes["node"].tensors["x"]
    store = homo.feature_store
    ids = torch.tensor([5, 0, 5])
    for index, rows in (
        (ids, x[ids.numpy()]),
        (slice(2, 8, 3), x[2:8:3]),
        (None, x),
        (slice(None), x),
        (9, x[9:10]),
        (torch.from_numpy(homo.mask("train")), x[homo.mask("train")]),
    ):
        assert np.array_equal(store.get_tensor(None, "x", index).numpy(), rows)
    assert store.get_tensor_size(None, "x") == (300, 6)
    assert store.get_tensor_size(None, "train_mask") == (300,)
    triple = ("node", "to", "node")
    attr = homo_graph.edges[triple].tensors["edge_attr"]
    got = store.get_tensor(group_name=triple, attr_name="edge_attr", index=ids)
    assert np.array_equal(got.numpy(), attr[ids.numpy()])
    rich = hetero.feature_store
    names = {(a.group_name, a.attr_name) for a in rich.get_all_tensor_attrs()}
    assert names == {
        ("paper", "x"),
        ("paper", "y"),
        ("paper", "train_mask"),
        ("paper", "val_mask"),
        ("paper", "test_mask"),
        ("author", "x"),
        (WRITES, "edge_attr"),
    }
    assert rich.get_tensor_size("paper", "val_mask") == (120, 2)
    assert np.array_equal(
        rich["author", "x", None].numpy(), hetero_graph.nodes["author"].tensors["x"]
    )


def test_masks_that_share_a_column_are_read_once(homo):
    store = homo.feature_store
    attrs = [a for a in store.get_all_tensor_attrs() if a.attr_name.endswith("_mask")]
    index = torch.arange(100)
    for attr in attrs:
        attr.index = index
    homo.reset_stats()
    train, val, test = store.multi_get_tensor(attrs)
    assert homo.stats()["rows_served"] == 100
    assert not (train & val).any()
    assert (train | val | test).any()


def test_the_graph_store_gives_all_layouts(homo, hetero, homo_graph):
    edges = homo_graph.edges["node", "to", "node"]
    expected = sorted(zip(edges.sources.tolist(), edges.destinations.tolist(), strict=True))
    row, col, perm = homo.graph_store.coo()
    assert perm is None
    assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == expected
    row, colptr, perm = homo.graph_store.csc()
    assert perm is None
    assert colptr[-1] == len(row) == 1500
    rowptr, col, perm = homo.graph_store.csr()
    assert rowptr[-1] == len(col) == 1500
    rows, _, _ = hetero.graph_store.csc()
    assert set(rows) == set(hetero.edge_types)
    row, col = hetero.graph_store.get_edge_index(edge_type=WRITES, layout="coo")
    assert len(row) == 400


def test_both_faces_are_read_only(homo):
    with pytest.raises(ng.UnsupportedArgument, match=r"store\.write"):
        homo.feature_store.put_tensor(torch.zeros(1), None, "x", None)
    with pytest.raises(ng.UnsupportedArgument, match=r"store\.write"):
        homo.graph_store.put_edge_index((torch.zeros(1), torch.zeros(1)), None, "coo")


def test_times_are_refused_where_the_sampler_does_not_look_at_them(homo):
    sampler = homo.sampler([2])
    index = NodeSamplerInput(torch.arange(2), torch.arange(2), time=torch.arange(2))
    with pytest.raises(ng.UnsupportedArgument, match="time_attr"):
        sampler.sample_from_nodes(index)
