"""GraphLoader: batches of whole graphs, as PyG's DataLoader makes them of the same arrays."""

import gzip

import numpy as np
import pytest
from graphs import Graph, Nodes, edges_of
from realdata import data
from sampled import PLAIN, epoch_of

import neargraph as ng
from neargraph.importers import import_graph

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Batch, Data  # noqa: E402
from torch_geometric.datasets import TUDataset  # noqa: E402
from torch_geometric.loader import DataLoader  # noqa: E402

SIZES = [3, 1, 5, 2, 4, 6, 1]


@pytest.fixture(scope="module")
def raw():
    """Graphs as PyG objects, and as one store."""
    rng = np.random.default_rng(7)
    found, first, pairs = [], 0, []
    for number, size in enumerate(SIZES):
        ends = rng.integers(0, size, (2, 3 * size - 3))
        # Lists are in the order of destinations, and then of sources.
        ends = ends[:, np.lexsort(ends)]
        pairs.append(ends + first)
        x = rng.standard_normal((size, 2)).astype(np.float32)
        found.append(
            Data(
                x=torch.from_numpy(x),
                edge_index=torch.from_numpy(ends),
                y=torch.tensor([number % 3]),
            )
        )
        first += size
    count = np.array(SIZES)
    tensors = {
        "x": np.concatenate([graph.x.numpy() for graph in found]),
        "graph_id": np.repeat(np.arange(len(SIZES)), count),
        "graph_y": np.repeat(np.arange(len(SIZES)) % 3, count),
        "split_0": np.repeat(np.array([1, 2, 1, 3, 1, 2, 3], np.uint8), count),
    }
    return found, Graph({"node": Nodes(first, tensors)}, {PLAIN: edges_of(np.hstack(pairs))})


@pytest.fixture
def store(raw, tmp_path):
    with ng.open(raw[1].write(tmp_path / "graphs.ng"), memory="64MB") as store:
        yield store


def check(batch, expected):
    """The same graphs as in PyG's batch."""
    assert isinstance(batch, Batch)
    for name in ("x", "edge_index", "batch", "ptr", "y"):
        assert torch.equal(batch[name], expected[name]), name
        assert batch[name].dtype == expected[name].dtype
    assert batch.num_graphs == expected.num_graphs
    assert batch.num_nodes == expected.num_nodes
    graphs = batch.to_data_list()
    for place, (graph, wanted) in enumerate(zip(graphs, expected.to_data_list(), strict=True)):
        assert type(graph) is Data
        for name in ("x", "edge_index", "y"):
            assert torch.equal(graph[name], wanted[name]), name
        assert graph.graph_id.tolist() == [batch.graph_id[place]]
        assert graph.num_nodes == len(graph.n_id) == wanted.num_nodes
        assert torch.equal(graph.n_id, batch.n_id[batch.batch == place])
    again = Batch.from_data_list(graphs)
    assert torch.equal(again.edge_index, expected.edge_index)


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_batches_are_those_of_pygs_data_loader(raw, store, batch_size):
    loader = ng.GraphLoader(store, batch_size)
    assert loader.num_graphs == 7
    for batch, expected in zip(loader, DataLoader(raw[0], batch_size), strict=True):
        check(batch, expected)


def test_chosen_graphs_come_in_their_order(raw, store):
    for given, chosen in (
        ([4, 1, 4], [4, 1, 4]),
        (np.array([False, True, True, False, False, False, True]), [1, 2, 6]),
        ("train", [0, 2, 4]),
        ("val", [1, 5]),
        ("test", [3, 6]),
        ([], []),
    ):
        loader = ng.GraphLoader(store, 2, graphs=given)
        found = list(loader)
        expected = list(DataLoader([raw[0][at] for at in chosen], 2)) if chosen else []
        assert torch.cat([torch.zeros(0), *[b.graph_id for b in found]]).tolist() == chosen
        for batch, wanted in zip(found, expected, strict=True):
            check(batch, wanted)


@pytest.mark.parametrize("follow", [["x"], ["edge_index", "y"], ["x", "edge_index"], []], ids=str)
@pytest.mark.parametrize("exclude", [["y"], ["x"], ["edge_index"], []], ids=str)
def test_attributes_are_followed_and_left_out_as_by_pygs_data_loader(raw, store, follow, exclude):
    follow = [name for name in follow if name not in exclude]
    ours = ng.GraphLoader(store, 3, False, follow, exclude)
    for batch, wanted in zip(ours, DataLoader(raw[0], 3, False, follow, exclude), strict=True):
        names = {"x", "y", "edge_index", "batch", "ptr"}
        names |= {f"{name}_{what}" for name in follow for what in ("batch", "ptr")}
        assert names & set(batch.keys()) == names & set(wanted.keys())
        for name in names & set(wanted.keys()):
            assert torch.equal(batch[name], wanted[name]), name
        assert batch.num_graphs == wanted.num_graphs
        graphs = zip(batch.to_data_list(), wanted.to_data_list(), strict=True)
        for graph, alone in graphs:
            for name in names & set(alone.keys()):
                assert torch.equal(graph[name], alone[name]), name


def test_tensors_that_are_left_out_are_not_read_and_names_are_checked(store):
    loader = ng.GraphLoader(store, 3, exclude_keys=["x", "y", "n_id", "train_mask"])
    assert [name for *_, name in loader._source.sampler.tensors] == ["graph_id", "split_0"]
    for batch in loader:
        assert not {"x", "y", "n_id", "train_mask"} & set(batch.keys())
        assert {"val_mask", "graph_id", "edge_index"} <= set(batch.keys())
        assert batch.num_nodes == len(batch.batch)
    for argument in ("follow_batch", "exclude_keys"):
        with pytest.raises(ng.NameNotFound, match=f"{argument}.*'z'.*'edge_index'"):
            ng.GraphLoader(store, **{argument: ["z"]})
        with pytest.raises(TypeError, match=argument):
            ng.GraphLoader(store, **{argument: "x"})
    with pytest.raises(ng.NameNotFound, match="follow_batch"):
        ng.GraphLoader(store, follow_batch=["x"], exclude_keys=["x"])
    with pytest.raises(ng.NameNotFound, match="exclude_keys"):
        ng.GraphLoader(store, exclude_keys=["batch"])


def test_graphs_without_x_or_with_columns_of_edges_come_apart(tmp_path):
    pairs = np.array([[0, 1, 1, 3, 4], [1, 0, 1, 4, 3]])
    attr, times = np.arange(5, dtype=np.float32).reshape(5, 1), np.arange(5)
    nodes = Nodes(5, {"graph_id": np.array([0, 0, 1, 2, 2])})
    edges = edges_of(pairs, tensors={"edge_attr": attr}, times=times)
    path = Graph({"node": nodes}, {PLAIN: edges}).write(tmp_path / "plain.ng")
    with ng.open(path, memory="64MB") as store:
        (batch,) = ng.GraphLoader(store, 4, graphs=[2, 1, 0, 2], follow_batch=["edge_attr"])
        graphs = batch.to_data_list()
        assert batch.edge_attr_batch.tolist() == [0, 0, 2, 2, 2, 3, 3]
        assert batch.edge_attr_ptr.tolist() == [0, 2, 2, 5, 7]
        assert [graph.num_nodes for graph in graphs] == [2, 1, 2, 2]
        for graph in graphs:
            ends = graph.n_id[graph.edge_index].numpy()
            assert np.array_equal(ends, pairs[:, graph.e_id])
            assert graph.edge_time.tolist() == graph.edge_attr[:, 0].tolist()
            assert graph.edge_time.tolist() == graph.e_id.tolist()
        assert [graph.num_edges for graph in graphs] == [2, 0, 3, 2]


def test_a_batch_with_edges_between_graphs_does_not_come_apart(tmp_path):
    nodes = Nodes(3, {"graph_id": np.array([0, 0, 1])})
    path = Graph({"node": nodes}, {PLAIN: edges_of([[0, 2], [1, 1]])}).write(tmp_path / "odd.ng")
    with ng.open(path, memory="64MB") as store:
        (batch,) = ng.GraphLoader(store, 2)
        assert batch.num_edges == 2
        with pytest.raises(RuntimeError, match="Cannot reconstruct"):
            batch.to_data_list()


def test_an_epoch_has_every_graph_once_and_the_next_another_order(raw, store):
    loader = ng.GraphLoader(store, 3, shuffle=True, seed=1)
    orders = []
    for _ in range(2):
        order = []
        for batch in loader:
            check(batch, Batch.from_data_list([raw[0][at] for at in batch.graph_id]))
            order += batch.graph_id.tolist()
        assert sorted(order) == list(range(7))
        orders.append(order)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("graphs", [None, "train", [6, 2, 3]])
def test_state_reading_and_processes(store, graphs):
    how = {"batch_size": 2, "graphs": graphs, "shuffle": True, "seed": 2}
    expected = epoch_of(ng.GraphLoader(store, **how))
    for more in (
        {"reading": "scan"},
        {"reading": "window"},
        {"num_workers": 2},
        {"reading": ng.Reading(threads=1)},
    ):
        assert epoch_of(ng.GraphLoader(store, **how, **more)) == expected, more
    loader = ng.GraphLoader(store, **how)
    passes = iter(loader)
    next(passes)
    other = ng.GraphLoader(store, **how)
    other.load_state_dict(loader.state_dict())
    assert epoch_of(other) == expected[1:]


def test_what_is_not_a_store_of_graphs_is_refused(store, homo, tmp_path):
    with pytest.raises(ng.NameNotFound, match="graph_id"):
        ng.GraphLoader(homo)
    for ids in ([0, 1, 0], [1, 1, 2], [0, 2, 2]):
        path = tmp_path / f"{ids}.ng"
        nodes = Nodes(3, {"graph_id": np.array(ids)})
        graph = Graph({"node": nodes}, {PLAIN: edges_of([[0], [0]])})
        with (
            ng.open(graph.write(path), memory="64MB") as odd,
            pytest.raises(ng.UnsupportedArgument, match="numbered"),
        ):
            ng.GraphLoader(odd)
    for given, error in (
        ([7], ng.NodeOutOfRange),
        ([-1], ng.NodeOutOfRange),
        (np.array([True]), ValueError),
        ("trian", ng.NameNotFound),
        (0.5, TypeError),
    ):
        with pytest.raises(error):
            ng.GraphLoader(store, graphs=given)


@pytest.mark.parametrize("more", [{}, {"reading": "scan"}, {"num_workers": 1}], ids=str)
def test_copies_of_a_graph_in_one_batch_have_edges_of_their_own(raw, store, more):
    for chosen in ([2, 2], [4, 2, 4, 2, 4], [0, 1, 2, 0]):
        (batch,) = ng.GraphLoader(store, 5, graphs=chosen, **more)
        check(batch, Batch.from_data_list([raw[0][at] for at in chosen]))
        ends = store.snapshot().features(None, batch.n_id.numpy(), "graph_id")
        assert np.array_equal(
            np.asarray(ends).reshape(-1), np.repeat(chosen, np.array(SIZES)[chosen])
        )


def test_graphs_that_fill_a_batch_of_ranks_are_counted(raw, store):
    for chosen, size in (([0], 4), (None, 4), (None, 6)):
        seen, repeats = [], 0
        for rank in range(2):
            for batch in ng.GraphLoader(store, size, graphs=chosen, ranks=(rank, 2)):
                check(batch, Batch.from_data_list([raw[0][at] for at in batch.graph_id]))
                padding = batch.num_padding if "num_padding" in batch else 0
                seen += batch.graph_id[: len(batch.graph_id) - padding].tolist()
                repeats += padding
        assert sorted(seen) == (chosen or list(range(7)))
        assert repeats > 0


def small(path, ids, nodes=None, edges=None, ends=((0, 1, 2, 3), (1, 0, 3, 4)), **more):
    """A store of five nodes with the graphs `ids`."""
    nodes = Nodes(5, {"graph_id": np.array(ids), **(nodes or {})})
    graph = Graph({"node": nodes}, {PLAIN: edges_of(ends, tensors=edges or {}, **more)})
    return ng.open(graph.write(path), memory="64MB")


def test_deleted_nodes_are_in_no_batch(tmp_path):
    ids = torch.tensor([0, 0, 1, 1, 1, 2])
    data = Data(
        x=torch.arange(6.0).view(-1, 1),
        edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2]]),
        graph_id=ids,
        graph_y=ids * 10,
    )
    ng.from_pyg(data, tmp_path / "g.ng", reverse=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        with store.write() as tx:
            for node in (2, 5):
                tx.delete_node(None, node)
        loader = ng.GraphLoader(store, 2)
        assert loader.num_graphs == 2
        for more in ({}, {"num_workers": 1}, {"graphs": [0, 1]}):
            (batch,) = ng.GraphLoader(store, 2, **more)
            assert batch.n_id.tolist() == [0, 1, 3, 4]
            assert batch.x.view(-1).tolist() == [0, 1, 3, 4]
            assert batch.batch.tolist() == [0, 0, 1, 1]
            assert batch.ptr.tolist() == [0, 2, 4]
            assert batch.y.tolist() == [0, 10]
            assert batch.graph_id.tolist() == [0, 1]
            assert sorted(batch.edge_index.T.tolist()) == [[0, 1], [1, 0], [2, 3]]
        with pytest.raises(ng.UnsupportedArgument, match="graphs= contains graph 2, but all nodes"):
            ng.GraphLoader(store, graphs=[1, 2])


def test_only_node_tensors_with_the_prefix_and_masks_are_of_graphs(tmp_path):
    ids, rows = [0, 0, 1, 1, 1], np.arange(5)
    with small(
        tmp_path / "a.ng", ids, {"train": rows, "graph_y": rows}, {"graph_kind": rows[:4]}
    ) as s:
        (batch,) = ng.GraphLoader(s, 2)
        assert batch.train.tolist() == rows.tolist()
        assert batch.y.tolist() == [0, 2]
        assert sorted(batch.graph_kind.tolist()) == [0, 1, 2, 3]
        assert "kind" not in batch
    split = {"split_0": np.array([1, 1, 2, 2, 2], np.uint8), "train": rows}
    with small(tmp_path / "b.ng", ids, split) as s:
        (batch,) = ng.GraphLoader(s, 2)
        assert batch.train_mask.tolist() == [True, False]
        assert batch.train.tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("nodes", "edges", "named"),
    [
        (("y", "graph_y"), (), "'graph_y' becomes the attribute 'y'"),
        (("graph_w",), ("w",), "'graph_w' becomes the attribute 'w'"),
        (("graph_edge_index",), (), "'edge_index'"),
        (("graph_n_id",), (), "'n_id'"),
        (("graph_graph_id",), (), "'graph_id'"),
        (("batch",), (), "'batch'"),
        (("w",), ("w",), "'w'"),
        ((), ("graph_id",), "'graph_id'"),
    ],
    ids=str,
)
def test_tensors_of_one_name_in_a_batch_are_refused(tmp_path, nodes, edges, named):
    ids, rows = [0, 0, 1, 1, 1], np.arange(5)
    tensors = dict.fromkeys(nodes, rows), dict.fromkeys(edges, rows[:4])
    with small(tmp_path / "g.ng", ids, *tensors) as store:
        with pytest.raises(ng.UnsupportedArgument, match=named) as caught:
            ng.GraphLoader(store, 2)
        assert "\n" not in str(caught.value)
        (batch,) = ng.GraphLoader(store, 2, attrs=[])
        assert batch.graph_id.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([-1, -1, 0, 0, 1], "node 0 is -1.*from 0"),
        ([-1, 0, 0, 1, 1], "node 0 is -1.*from 0"),
        ([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]], r"one int64.*\[2\]"),
        (np.array([0, 0, 1, 1, np.nan], np.float32), "one int64.*f32"),
        (np.array([0, 0, 1, 1, 1], np.uint8), "one int64.*u8"),
    ],
    ids=str,
)
def test_numbers_of_graphs_are_int64_from_0_on(tmp_path, ids, named):
    with small(tmp_path / "g.ng", ids) as store:
        with pytest.raises(ng.UnsupportedArgument, match=named) as caught:
            ng.GraphLoader(store, 2)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES"])
def test_a_real_set_has_the_batches_of_pygs_loader(tmp_path, name):
    folder = data("tudataset", name)
    import_graph(folder, tmp_path / "set.ng")
    raw = tmp_path / name / "raw"
    raw.mkdir(parents=True)
    for file in folder.glob("*.txt.gz"):
        (raw / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    graphs = []
    for graph in TUDataset(str(tmp_path), name, use_node_attr=True, use_edge_attr=True):
        # Lists of a store are in the order of destinations, and then of sources.
        order = np.lexsort(graph.edge_index.numpy())
        graph.edge_index = graph.edge_index[:, order]
        if graph.edge_attr is not None:
            graph.edge_attr = graph.edge_attr[order]
        graphs.append(graph)
    ys = torch.cat([graph.y for graph in graphs])
    with ng.open(tmp_path / "set.ng", memory="64MB") as store:
        batches = list(ng.GraphLoader(store, 32))
        labels = torch.cat([batch.y for batch in batches])
        least = min(int(batch.node_label.min()) for batch in batches)
        # PyG counts classes from 0.
        assert torch.equal(labels.unique(return_inverse=True)[1], ys)
        for batch, expected in zip(batches, DataLoader(graphs, 32), strict=True):
            for part in ("edge_index", "batch", "ptr"):
                assert torch.equal(batch[part], expected[part]), part
            # PyG makes columns of 0 and 1 of labels, from the smallest on, behind attributes.
            wide = batch.x.size(1)
            assert torch.equal(batch.x, expected.x[:, :wide])
            coded = expected.x[:, wide:] if name == "ENZYMES" else expected.x
            assert torch.equal(batch.node_label - least, coded.argmax(1))
            if "edge_label" in batch:
                assert torch.equal(batch.edge_label, expected.edge_attr.argmax(1))
            assert batch.num_graphs == expected.num_graphs
            assert batch.num_nodes == expected.num_nodes
