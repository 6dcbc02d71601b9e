"""`from_pyg`: what goes in as Data or HeteroData comes back from the loaders."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")


def homogeneous():
    generator = torch.Generator().manual_seed(1)
    data = pyg.Data(
        x=torch.rand(400, 17, generator=generator),
        y=torch.randint(0, 5, (400,), generator=generator),
        edge_index=torch.randint(0, 400, (2, 3000), generator=generator),
        edge_attr=torch.rand(3000, 3, generator=generator).to(torch.bfloat16),
        edge_weight=torch.rand(3000, generator=generator),
        half=torch.rand(400, 2, generator=generator).to(torch.float16),
        flag=torch.rand(400, generator=generator) < 0.5,
    )
    draw = torch.rand(400, 3, generator=generator)
    data.train_mask, data.val_mask, data.test_mask = (
        draw < 0.3,
        (draw >= 0.3) & (draw < 0.6),
        (draw > 0.9),
    )
    return data


def edge_set(batch, data, n_id):
    source, destination = n_id[batch.edge_index]
    return sorted(zip(source.tolist(), destination.tolist(), batch.e_id.tolist(), strict=True))


def test_a_full_batch_gives_the_whole_graph_back(tmp_path):
    data = homogeneous()
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        loader = ng.NeighborLoader(store, num_neighbors=[-1], batch_size=400)
        (batch,) = loader
        order = batch.n_id
        for key in ("x", "y", "half", "flag", "train_mask", "val_mask", "test_mask"):
            assert torch.equal(batch[key], data[key][order]), key
            assert batch[key].dtype == data[key].dtype
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        assert torch.equal(order[batch.edge_index], data.edge_index[:, batch.e_id])
        assert sorted(batch.e_id.tolist()) == list(range(3000))


def test_plain_masks_come_back_plain(tmp_path):
    data = homogeneous()
    for key in ("train_mask", "val_mask", "test_mask"):
        data[key] = data[key][:, 0].contiguous()
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert np.array_equal(store.split("val"), data.val_mask.nonzero().flatten().numpy())
        assert store.mask("train").shape == (400,)


def test_overlapping_masks_are_kept_as_they_are(tmp_path):
    data = homogeneous()
    data.val_mask = data.train_mask.clone()
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        kept = {t.name: t.dtype for t in store.schema.node_types[0].tensors}
        assert {kept[f"{part}_mask"] for part in ("train", "val", "test")} == {"bool"}


def test_hetero_data_keeps_types_and_columns(tmp_path):
    generator = torch.Generator().manual_seed(2)
    data = pyg.HeteroData()
    data["paper"].x = torch.rand(120, 6, generator=generator)
    data["paper"].y = torch.randint(0, 3, (120,), generator=generator)
    data["author"].num_nodes = 50
    writes = torch.stack(
        [
            torch.randint(0, 50, (300,), generator=generator),
            torch.randint(0, 120, (300,), generator=generator),
        ]
    )
    data["author", "writes", "paper"].edge_index = writes
    data["author", "writes", "paper"].edge_time = torch.randint(0, 99, (300,), generator=generator)
    data["paper", "cites", "paper"].edge_index = torch.randint(
        0, 120, (2, 500), generator=generator
    )
    data["paper", "cites", "paper"].edge_attr = torch.rand(500, 2, generator=generator)
    ng.from_pyg(data, tmp_path / "g.ng", memory="128MB")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert set(store.metadata()[1]) == set(data.edge_types)
        fanouts = {triple: [-1] for triple in data.edge_types}
        (batch,) = ng.NeighborLoader(
            store, num_neighbors=fanouts, batch_size=120, input_nodes="paper"
        )
        paper, author = batch["paper"].n_id, batch["author"].n_id
        assert torch.equal(batch["paper"].x, data["paper"].x[paper])
        w = batch["author", "writes", "paper"]
        assert torch.equal(
            torch.stack([author[w.edge_index[0]], paper[w.edge_index[1]]]), writes[:, w.e_id]
        )
        assert torch.equal(w.edge_time, data["author", "writes", "paper"].edge_time[w.e_id])
        c = batch["paper", "cites", "paper"]
        assert torch.equal(c.edge_attr, data["paper", "cites", "paper"].edge_attr[c.e_id])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.edge_index.__setitem__((0, 7), 400), "row 7 has node id 400"),
        (lambda d: d.edge_index.__setitem__((1, 9), -2), "row 9 has the negative node id -2"),
        (lambda d: setattr(d, "edge_index", d.edge_index.float()), "must be int64"),
        (lambda d: setattr(d, "edge_index", None), "has no edge_index"),
        (lambda d: setattr(d, "x", d.x.to(torch.complex64)), "complex64 cannot be stored"),
        (lambda d: setattr(d, "train_mask", d.train_mask.long()), "a mask is bool"),
    ],
)
def test_bad_data_is_named_and_leaves_nothing(change, message, tmp_path):
    data = homogeneous()
    change(data)
    with pytest.raises(ng.ImportFailed, match=message):
        ng.from_pyg(data, tmp_path / "g.ng")
    assert list(tmp_path.iterdir()) == []


def test_supervision_and_graph_values_are_left_out_and_said(tmp_path):
    from neargraph.importers.pyg import plan_pyg

    data = homogeneous()
    data.edge_label_index = data.edge_index[:, :10]
    data.name = "a graph"
    notes = [str(note) for note in plan_pyg(data).notes]
    assert any("edge_label_index" in note for note in notes)
    assert any("left out name" in note for note in notes)
