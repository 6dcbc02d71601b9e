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
        (lambda d: setattr(d, "edge_index", d.edge_index.float()), "store edges as int64"),
        (lambda d: setattr(d, "edge_index", None), "has no edge_index"),
        (lambda d: setattr(d, "x", d.x.to(torch.complex64)), "complex64, which cannot be stored"),
        (lambda d: setattr(d, "train_mask", d.train_mask.long()), "store masks as bool"),
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


BUYS = ("user", "buys", "item")


def purchases(**of_edges):
    """Users and items; edge attributes besides."""
    generator = torch.Generator().manual_seed(3)
    data = pyg.HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 40, 20
    ends = [torch.randint(0, count, (300,), generator=generator) for count in (40, 20)]
    data[BUYS].edge_index = torch.stack(ends)
    for name, value in of_edges.items():
        data[BUYS][name] = value
    return data


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_an_edge_attribute_time_is_sampled_by_and_keeps_its_name(dtype, tmp_path):
    data = purchases(time=(torch.arange(300) * 7 % 200).to(dtype))
    report = ng.from_pyg(data, tmp_path / "g.ng", reverse=True)
    (note,) = [n for n in report["notes"] if n["code"] == "time-of-edges"]
    assert note["count"] == 300
    assert str(BUYS) in note["where"]
    assert "edge_time" in note["message"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        for fanouts in ([20, 10], {"buys": [20, 10], "rev_buys": [20, 10]}):
            loader = ng.LinkNeighborLoader(
                store,
                fanouts,
                edge_label_index=BUYS,
                neg_sampling="triplet",
                time_attr="time",
                temporal_strategy="last",
                batch_size=50,
            )
            count = 0
            for batch in loader:
                edges, items = batch[BUYS], batch["item"]
                assert edges.time is edges.edge_time
                assert torch.equal(edges.time, data[BUYS].time[edges.e_id].long())
                asked = items.seed_time[items.batch[edges.edge_index[1]]]
                assert (edges.time <= asked).all()
                count += edges.num_edges
            assert count > 1000
        # The name of the store is there without sampling by it, and alone.
        (batch,) = ng.NeighborLoader(store, [-1], "item", batch_size=20)
        assert "time" not in batch[BUYS]
        assert torch.equal(batch[BUYS].edge_time, data[BUYS].time[batch[BUYS].e_id].long())
        with pytest.raises(
            ng.NameNotFound, match=r"edge tensors: \[\]; edge types with times: .*buys"
        ):
            ng.NeighborLoader(store, [2], "item", time_attr="when")


def test_edge_time_comes_before_time_which_stays_a_tensor(tmp_path):
    data = purchases(time=torch.arange(300), edge_time=torch.arange(300) % 50)
    report = ng.from_pyg(data, tmp_path / "g.ng")
    assert not [n for n in report["notes"] if n["code"] == "time-of-edges"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        how = {"input_time": torch.full((20,), 30), "batch_size": 20}
        (batch,) = ng.NeighborLoader(store, [-1], "item", time_attr="edge_time", **how)
        edges = batch[BUYS]
        assert edges.num_edges > 100
        assert (edges.edge_time <= 30).all()
        assert torch.equal(edges.time, edges.e_id)
        assert torch.equal(edges.edge_time, edges.e_id % 50)
        with pytest.raises(ng.UnsupportedArgument, match=r"name of an edge tensor.*'edge_time'"):
            ng.NeighborLoader(store, [-1], "item", time_attr="time", **how)


@pytest.mark.parametrize(
    "of_edges",
    [
        {"time": torch.arange(300) / 2},
        {"time": torch.arange(300).unsqueeze(1)},
        {"time": torch.arange(300), "edge_time": torch.arange(300) / 2},
    ],
    ids=["fractions", "rows", "fractions first"],
)
def test_what_is_not_one_whole_number_stays_a_tensor_and_the_error_says_so(of_edges, tmp_path):
    data = purchases(**of_edges)
    report = ng.from_pyg(data, tmp_path / "g.ng")
    assert not [n for n in report["notes"] if n["code"] == "time-of-edges"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        (batch,) = ng.NeighborLoader(store, [-1], "item", batch_size=20)
        for name, value in of_edges.items():
            assert torch.equal(batch[BUYS][name], value[batch[BUYS].e_id])
        for name in ("time", "edge_time"):
            with pytest.raises(
                ng.NameNotFound, match=r"edge tensors: .*'time'.*one whole"
            ) as caught:
                ng.NeighborLoader(store, [2], "item", time_attr=name)
            assert "\n" not in str(caught.value)


def test_a_time_of_nodes_is_one_where_there_are_as_many_edges(tmp_path):
    data = pyg.Data(num_nodes=4, edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    data.time = torch.arange(4)
    ng.from_pyg(data, tmp_path / "ring.ng")
    with ng.open(tmp_path / "ring.ng", memory="64MB") as store:
        assert store.schema.node_types[0].tensors[0].name == "time"
        assert not store.schema.edge_types[0].has_time
