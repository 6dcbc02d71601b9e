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
        loader = ng.GraphLoader(store, 2, given)
        found = list(loader)
        expected = list(DataLoader([raw[0][at] for at in chosen], 2)) if chosen else []
        assert torch.cat([torch.zeros(0), *[b.graph_id for b in found]]).tolist() == chosen
        for batch, wanted in zip(found, expected, strict=True):
            check(batch, wanted)


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
    for more in ({"reading": "scan"}, {"reading": "window"}, {"num_workers": 2}, {"threads": 1}):
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
            for name in ("edge_index", "batch", "ptr"):
                assert torch.equal(batch[name], expected[name]), name
            wide = batch.x.size(1) if "x" in batch else 0
            if wide:
                assert torch.equal(batch.x, expected.x[:, :wide])
            # PyG makes columns of 0 and 1 of labels, from the smallest on.
            assert torch.equal(batch.node_label - least, expected.x[:, wide:].argmax(1))
            if "edge_label" in batch:
                assert torch.equal(batch.edge_label, expected.edge_attr.argmax(1))
            assert batch.num_graphs == expected.num_graphs
            assert batch.num_nodes == expected.num_nodes
