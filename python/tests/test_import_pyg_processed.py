"""processed/data.pt of PyG data sets, of this release and of older ones, and files with code."""

import gzip
import os

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store, data

import neargraph as ng
from neargraph.importers import detect_format, import_graph, plan_source
from neargraph.importers.torch_file import load_torch

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")


def one_graph():
    generator = torch.Generator().manual_seed(1)
    draw = torch.rand(40, generator=generator)
    return pyg.Data(
        x=torch.rand(40, 5, generator=generator),
        y=torch.randint(0, 3, (40,), generator=generator),
        edge_index=torch.randint(0, 40, (2, 200), generator=generator),
        edge_attr=torch.rand(200, 2, generator=generator),
        half=torch.rand(40, 2, generator=generator).to(torch.bfloat16),
        train_mask=draw < 0.3,
        val_mask=(draw >= 0.3) & (draw < 0.6),
        test_mask=draw > 0.9,
    )


def save(found, root, **how):
    (root / "processed").mkdir(parents=True)
    torch.save("a transform", root / "processed/pre_transform.pt")
    torch.save(found, root / "processed/data.pt", **how)


def fill_old(data):
    """What Data of PyG 1 had in its state: attributes beside a few of its own."""
    state = {**data.to_dict(), "face": None, "__num_nodes__": 40}
    old = pyg.Data.__new__(pyg.Data)
    old.__dict__.update(state)
    return old


@pytest.mark.parametrize(
    "shape",
    [
        lambda d: (d.to_dict(), None, pyg.Data),
        lambda d: (d, None),
        lambda d: d,
        lambda d: (fill_old(d), {"x": torch.tensor([0, 40])}),
    ],
)
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_one_graph_is_what_from_pyg_makes_of_it(shape, form, tmp_path):
    wanted = one_graph()
    save(shape(one_graph()), tmp_path / "in", _use_new_zipfile_serialization=form == "zip")
    assert detect_format(tmp_path / "in") == "pyg"
    import_graph(tmp_path / "in", tmp_path / "a.ng")
    ng.from_pyg(wanted, tmp_path / "b.ng")
    with (
        ng.open(tmp_path / "a.ng", memory="64MB") as store,
        ng.open(tmp_path / "b.ng", memory="64MB") as other,
    ):
        assert store.schema.node_types == other.schema.node_types
        assert store.schema.edge_types == other.schema.edge_types
        for name in ("x", "y", "half", "split_0"):
            assert np.array_equal(store.column(name), other.column(name))
        lists = [s.snapshot().neighbors(None, np.arange(40)) for s in (store, other)]
        assert np.array_equal(lists[0].indices, lists[1].indices)
        attr = store.snapshot().edge_features(None, lists[0].edge_ids)
        assert np.array_equal(attr, wanted.edge_attr.numpy()[lists[1].edge_ids])


@pytest.mark.parametrize("old", [False, True])
def test_hetero_data_keeps_its_types(old, tmp_path):
    wanted = pyg.HeteroData()
    wanted["paper"].x = torch.rand(20, 3)
    wanted["author"].num_nodes = 9
    ends = torch.stack([torch.randint(0, 9, (50,)), torch.randint(0, 20, (50,))])
    wanted["author", "writes", "paper"].edge_index = ends
    save((wanted, None) if old else (wanted.to_dict(), None, pyg.HeteroData), tmp_path / "in")
    import_graph(tmp_path / "in", tmp_path / "g.ng")
    triple = ("author", "writes", "paper")
    edges = {triple: RawEdges(*ends.numpy(), np.arange(50))}
    tensors = {"paper": {"x": wanted["paper"].x.numpy()}}
    check_store(tmp_path / "g.ng", Raw({"paper": 20, "author": 9}, tensors, edges))


def many_graphs():
    """Five graphs, one without edges, with what belongs to nodes, edges and graphs."""
    generator = torch.Generator().manual_seed(2)
    graphs = []
    for nodes, edges in ((3, 4), (1, 0), (5, 9), (2, 2), (4, 6)):
        graphs.append(
            pyg.Data(
                x=torch.rand(nodes, 3, generator=generator),
                edge_index=torch.randint(0, nodes, (2, edges), generator=generator),
                edge_attr=torch.rand(edges, 2, generator=generator),
                y=torch.randint(0, 2, (1,), generator=generator),
                mass=torch.rand(1, 4, generator=generator),
                name="a graph",
            )
        )
    return graphs


@pytest.mark.parametrize("sizes", [(3, 5), (1, 1)])
def test_several_masks_of_many_graphs_are_several_splits(sizes, tmp_path):
    """Two splits of eight nodes, and of two: as many as there are nodes."""
    ends = torch.zeros(2, 1, dtype=torch.int64)
    train = [torch.tensor([[node % 2 == 0, node % 3 == 0] for node in range(n)]) for n in sizes]
    graphs = [
        pyg.Data(x=torch.ones(len(mask), 1), edge_index=ends, train_mask=mask) for mask in train
    ]
    save(pyg.InMemoryDataset.collate(graphs), tmp_path / "in")
    import_graph(tmp_path / "in", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        for split in range(2):
            wanted = torch.cat(train)[:, split].nonzero().flatten()
            assert store.split("train", index=split).tolist() == wanted.tolist()


def test_many_graphs_are_one_block_diagonal_graph(tmp_path):
    graphs = many_graphs()
    (tmp_path / "in/processed").mkdir(parents=True)
    pyg.InMemoryDataset.save(graphs, tmp_path / "in/processed/data.pt")
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    counts = [g.num_nodes for g in graphs]
    starts = np.cumsum([0, *counts[:-1]])
    graph_of = np.repeat(np.arange(5), counts)
    tensors = {
        "x": torch.cat([g.x for g in graphs]).numpy(),
        "graph_id": graph_of,
        "graph_y": torch.cat([g.y for g in graphs]).numpy()[graph_of],
        "graph_mass": torch.cat([g.mass for g in graphs]).numpy()[graph_of],
    }
    ends = np.concatenate(
        [g.edge_index.numpy() + s for g, s in zip(graphs, starts, strict=True)], 1
    )
    attr = torch.cat([g.edge_attr for g in graphs]).numpy()
    edges = {PLAIN: RawEdges(*ends, np.arange(21), tensors={"edge_attr": attr})}
    check_store(tmp_path / "g.ng", Raw({"node": 15}, {"node": tensors}, edges))
    (note,) = [n for n in report["notes"] if n["code"] == "attributes-dropped"]
    assert "name" in note["message"]


def test_the_time_of_edges_of_many_graphs_is_sampled_by(tmp_path):
    graphs = many_graphs()
    for graph in graphs:
        graph.time = torch.arange(graph.num_edges, dtype=torch.int32) + graph.num_nodes
    (tmp_path / "in/processed").mkdir(parents=True)
    pyg.InMemoryDataset.save(graphs, tmp_path / "in/processed/data.pt")
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    assert [n["count"] for n in report["notes"] if n["code"] == "time-of-edges"] == [21]
    times = torch.cat([graph.time for graph in graphs]).long()
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        (batch,) = ng.NeighborLoader(store, [-1], batch_size=15)
        assert torch.equal(batch.edge_time, times[batch.e_id])
        assert len(batch.edge_time) == 21


def test_pairs_of_nodes_that_are_no_edges_are_left_out_and_said(tmp_path):
    graphs = many_graphs()
    for graph in graphs:
        graph.edge_label_index = torch.zeros(2, 3, dtype=torch.int64)
    (tmp_path / "in/processed").mkdir(parents=True)
    pyg.InMemoryDataset.save(graphs, tmp_path / "in/processed/data.pt")
    report = import_graph(tmp_path / "in", tmp_path / "g.ng")
    notes = [n["message"] for n in report["notes"] if n["code"] == "attributes-dropped"]
    assert any("edge_label_index" in message and "node ids" in message for message in notes)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert {t.name for t in store.schema.node_types[0].tensors} >= {"x", "graph_y"}


def test_graphs_without_features_take_their_sizes_from_num_nodes(tmp_path):
    graphs = [pyg.Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n) for n in (2, 5, 3)]
    (tmp_path / "processed").mkdir()
    pyg.InMemoryDataset.save(graphs, tmp_path / "processed/data.pt")
    import_graph(tmp_path / "processed", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.column("graph_id").tolist() == [0] * 2 + [1] * 5 + [2] * 3
        assert store.snapshot().neighbors(None, [1, 3, 8]).indices.tolist() == [0, 2, 7]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, s: s.__setitem__("x", torch.tensor([0, 3, 99])), "slices that end at 99"),
        (lambda d, s: s.__setitem__("x", torch.tensor([0, 16, 15])), "at 0, or that decrease"),
        (lambda d, s: s.__setitem__("edge_index", "all"), "not lists of integers"),
        (lambda d, s: s.pop("y"), "rows, but no slices"),
        (lambda d, s: d["edge_index"].__setitem__((0, 0), 3), "edge 0 names node 3 of graph 0"),
        (lambda d, s: d["edge_index"].__setitem__((0, 0), -1), "edge 0 names node -1"),
        (lambda d, s: d.pop("edge_index"), "no edge_index"),
        (lambda d, s: d.pop("x"), "how many nodes"),
    ],
)
def test_slices_that_do_not_fit_are_named(change, words, tmp_path):
    found, slices = pyg.InMemoryDataset.collate(many_graphs())
    found = found.to_dict()
    found.pop("name")
    slices = {key: value for key, value in slices.items() if key != "name"}
    change(found, slices)
    save((found, slices, pyg.Data), tmp_path / "in")
    with pytest.raises(ng.ImportFailed, match=words):
        import_graph(tmp_path / "in", tmp_path / "g.ng")
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


class Evil:
    """Runs a command where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize("place", [lambda e: e, lambda e: ({"x": e}, None, pyg.Data)])
def test_a_file_with_code_in_it_is_refused_and_runs_nothing(place, form, tmp_path):
    ran = str(tmp_path / "ran")
    save(place(Evil(ran)), tmp_path / "in", _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(ng.ImportFailed, match=r"mkdir, which an import never loads"):
        import_graph(tmp_path / "in", tmp_path / "g.ng")
    assert not os.path.exists(ran)


def test_tensors_of_a_file_of_torch_come_back_bit_for_bit(tmp_path):
    kinds = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    kinds += (torch.float16, torch.float32, torch.float64)
    base = torch.arange(24).reshape(4, 6)
    found = {str(kind): (base % 2 if kind is torch.bool else base).to(kind) for kind in kinds}
    found |= {
        "turned": base.T,
        "part": base[1:3, ::2],
        "none": torch.zeros(0, 3),
        "one": base[0, 0],
    }
    found |= {"array": np.arange(6.0).reshape(2, 3), "number": np.float64(0.5), "text": "abc"}
    for form in (True, False):
        torch.save(found, tmp_path / "f.pt", _use_new_zipfile_serialization=form)
        again = load_torch(tmp_path / "f.pt")
        for name, value in found.items():
            mine = getattr(again[name], "array", again[name])
            if isinstance(value, str | float):
                assert mine == value
                continue
            wanted = np.asarray(value)
            assert mine.dtype == wanted.dtype, name
            assert mine.shape == wanted.shape, name
            assert np.array_equal(mine, wanted), name


@pytest.mark.parametrize("form", [True, False])
def test_a_file_that_is_damaged_anywhere_is_refused_or_reads(form, tmp_path):
    (tmp_path / "processed").mkdir()
    file = tmp_path / "processed/data.pt"
    saved = (one_graph().to_dict(), None, pyg.Data)
    torch.save(saved, file, _use_new_zipfile_serialization=form)
    sound, seed = file.read_bytes(), int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    refused = 0
    for turn in range(150):
        bad = bytearray(sound)
        if turn % 3 == 0:
            bad = bad[: int(rng.integers(0, len(bad)))]
        else:
            # The first bytes have the program; tensors behind them have no wrong values.
            for at in rng.integers(0, min(len(bad), 2000), 1 + turn % 4):
                bad[at] = int(rng.integers(0, 256))
        file.write_bytes(bytes(bad))
        try:
            plan = plan_source(file)
            for tensor in plan.nodes[0].tensors:
                for _ in tensor.chunks():
                    pass
        except ng.NeargraphError:
            refused += 1
    assert refused > 20


def test_strides_that_make_endless_rows_are_refused(tmp_path):
    wide = torch.zeros(1).expand(1 << 40, 1)
    torch.save({"x": wide}, tmp_path / "f.pt")
    with pytest.raises(ng.ImportFailed, match="does not lie within its storage"):
        load_torch(tmp_path / "f.pt")


def test_a_folder_with_a_raw_set_alone_is_read_from_there(tmp_path):
    raw = tmp_path / "Photo/raw"
    raw.mkdir(parents=True)
    source = data("npz_graphs", "amazon_electronics_photo.npz")
    (raw / source.name).symlink_to(source)
    assert plan_source(tmp_path / "Photo").format == "npz adj/attr"
    tu = data("tudataset", "MUTAG")
    (tmp_path / "MUTAG").mkdir()
    (tmp_path / "MUTAG/raw").symlink_to(tu)
    assert plan_source(tmp_path / "MUTAG").format == "tudataset"


def test_a_real_tudataset_gives_the_graphs_that_its_processed_file_has(tmp_path):
    tu = data("tudataset", "ENZYMES")
    datasets = pytest.importorskip("torch_geometric.datasets")
    raw = tmp_path / "ENZYMES/raw"
    raw.mkdir(parents=True)
    for file in tu.glob("*.txt.gz"):
        (raw / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    wanted = datasets.TUDataset(str(tmp_path), "ENZYMES", use_node_attr=True)
    import_graph(tmp_path / "ENZYMES", tmp_path / "g.ng")
    assert detect_format(tmp_path / "ENZYMES") == "pyg"
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        batch = pyg.Batch.from_data_list(list(wanted))
        assert np.array_equal(store.column("graph_id"), batch.batch.numpy())
        assert np.array_equal(store.column("graph_y"), batch.y.numpy()[batch.batch.numpy()])
        assert np.array_equal(store.column("x"), batch.x.numpy())
        assert store.num_edges == batch.num_edges
