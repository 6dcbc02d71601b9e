"""NeighborLoader yields what PyG's loader yields, from disk."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.sampler import NumNeighbors  # noqa: E402


def test_a_homogeneous_batch_has_pygs_fields_and_rows(homo, homo_graph):
    raw = homo_graph.nodes["node"].tensors
    edges = homo_graph.edges["node", "to", "node"]
    loader = ng.NeighborLoader(homo, num_neighbors=[4, 2], batch_size=16, input_nodes="train")
    train, seen = homo.split("train"), []
    for batch in loader:
        assert type(batch) is Data
        n_id, e_id = batch.n_id.numpy(), batch.e_id.numpy()
        assert np.array_equal(batch.x.numpy(), raw["x"][n_id])
        assert batch.x.dtype == torch.float32
        assert np.array_equal(batch.y.numpy(), raw["y"][n_id])
        assert batch.y.dtype == torch.int64
        assert np.array_equal(batch.edge_attr.numpy(), edges.tensors["edge_attr"][e_id])
        assert np.array_equal(batch.train_mask.numpy(), raw["split_0"][n_id] == 1)
        assert np.array_equal(batch.test_mask.numpy(), raw["split_0"][n_id] == 3)
        row, col = batch.edge_index.numpy()
        assert batch.edge_index.dtype == torch.int64
        assert batch.edge_index.is_contiguous()
        assert np.array_equal(n_id[row], edges.sources[e_id])
        assert np.array_equal(n_id[col], edges.destinations[e_id])
        assert sum(batch.num_sampled_nodes) == batch.num_nodes == len(n_id)
        assert sum(batch.num_sampled_edges) == batch.num_edges == len(e_id)
        assert batch.num_sampled_nodes[0] == batch.batch_size
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])
        assert "split_0" not in batch
        assert "num_padding" not in batch
        batch.validate()
        seen += batch.input_id.tolist()
    assert seen == train.tolist()
    assert len(loader) == -(-len(train) // 16)


def test_a_heterogeneous_batch_has_every_type_even_where_it_is_empty(hetero, hetero_graph):
    loader = ng.NeighborLoader(
        hetero,
        num_neighbors={"cites": [3, 2], "writes": [2, 2], "holds": [0, 0]},
        batch_size=10,
        input_nodes=("paper", "val"),
        shuffle=True,
        seed=4,
    )
    raw = hetero_graph.nodes
    for batch in loader:
        assert type(batch) is HeteroData
        assert batch.node_types == hetero.node_types
        assert batch.edge_types == hetero.edge_types
        for name in ("paper", "author"):
            part, n_id = batch[name], batch[name].n_id.numpy()
            assert np.array_equal(part.x.numpy(), raw[name].tensors["x"][n_id])
            assert sum(part.num_sampled_nodes) == part.num_nodes == len(n_id)
        assert batch["paper"].x.dtype == torch.float32
        assert batch["paper"].train_mask.shape == (batch["paper"].num_nodes, 2)
        assert batch["venue"].num_nodes == 0
        assert "x" not in batch["venue"]
        for triple, edges in hetero_graph.edges.items():
            part = batch[triple]
            source, destination = batch[triple[0]].n_id, batch[triple[2]].n_id
            pairs = torch.stack([source[part.edge_index[0]], destination[part.edge_index[1]]])
            if edges.edge_ids:
                e_id = part.e_id.numpy()
                raw_pairs = np.stack([edges.sources[e_id], edges.destinations[e_id]])
                assert np.array_equal(pairs.numpy(), raw_pairs)
            else:
                raw_pairs = set(zip(edges.sources, edges.destinations, strict=True))
                assert {tuple(p) for p in pairs.t().tolist()} <= raw_pairs
                assert "e_id" not in part
        assert batch["paper"].batch_size == len(batch["paper"].input_id)
        assert "batch_size" not in batch["author"]


def test_inline_weights_and_times_come_with_the_edges(hetero, hetero_graph):
    loader = ng.NeighborLoader(hetero, [-1], input_nodes=("paper", [3, 5]), batch_size=2)
    (batch,) = loader
    holds = batch["venue", "holds", "paper"]
    weights = hetero_graph.edges["venue", "holds", "paper"].weights
    assert np.array_equal(holds.edge_weight.numpy(), weights[[3, 5]])
    assert holds.edge_time.tolist() == [0, 0]


def test_input_id_is_the_place_for_ids_and_the_node_for_masks(homo):
    ids = torch.tensor([40, 8, 15])
    (batch,) = ng.NeighborLoader(homo, [1], input_nodes=ids, batch_size=3)
    assert batch.input_id.tolist() == [0, 1, 2]
    assert batch.n_id[:3].tolist() == [40, 8, 15]
    mask = torch.zeros(300, dtype=torch.bool)
    mask[ids] = True
    (batch,) = ng.NeighborLoader(homo, [1], input_nodes=mask, batch_size=3)
    assert batch.input_id.tolist() == [8, 15, 40]


def test_seeds_are_permuted_anew_in_every_epoch_and_keyed_by_the_seed(homo):
    def epochs(seed):
        loader = ng.NeighborLoader(
            homo, [2], input_nodes="train", batch_size=32, shuffle=True, seed=seed
        )
        return [torch.cat([b.n_id for b in loader]).tolist() for _ in range(3)]

    first = epochs(1)
    assert first == epochs(1) != epochs(2)
    assert first[0] != first[1] != first[2]
    loader = ng.NeighborLoader(homo, [2], input_nodes="train", batch_size=32, shuffle=True, seed=1)
    loader.set_epoch(2)
    assert torch.cat([b.n_id for b in loader]).tolist() == first[2]
    seeds = torch.cat([b.input_id for b in loader])
    assert torch.equal(seeds.sort().values, torch.from_numpy(homo.split("train")))


def test_the_last_batch_is_dropped_on_request(homo):
    loader = ng.NeighborLoader(homo, [1], batch_size=32, drop_last=True)
    assert [b.batch_size for b in loader] == [32] * 9
    assert len(loader) == 9
    assert [b.batch_size for b in ng.NeighborLoader(homo, [1], batch_size=32)][-1] == 12


def test_attributes_dtype_and_transform_are_applied(hetero):
    loader = ng.NeighborLoader(
        hetero,
        NumNeighbors([2]),
        input_nodes=("paper", None),
        batch_size=40,
        attrs={"paper": ["x"]},
        x_dtype=torch.float32,
        transform=lambda batch: (batch, batch["paper"].batch_size),
    )
    for batch, size in loader:
        assert size == 40
        assert batch["paper"].x.dtype == torch.float32
        assert "y" not in batch["paper"]
        assert "x" not in batch["author"]
        assert "train_mask" not in batch["paper"]


def test_tensors_share_memory_with_the_sampled_batch(homo):
    from neargraph.loader.collate import Collator

    sampler = ng.NumpySampler(homo, [3], seed=1)
    batch = sampler.sample([1, 2, 3])
    data = Collator(homo.schema, sampler.tensors)(batch)
    for tensor, array in ((data.x, batch.features("x")), (data.n_id, batch.nodes())):
        assert tensor.data_ptr() == array.__array_interface__["data"][0]
    expected = data.x.clone()
    del batch
    homo.close()
    assert torch.equal(data.x, expected)


def test_a_plain_data_object_is_refused_with_the_way_to_a_store():
    with pytest.raises(TypeError, match="from_pyg"):
        ng.NeighborLoader(Data(), [2])
