"""Stores as GraphBolt's OnDiskDataset: what is written comes back when it is imported again."""

import json

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes, heterogeneous, homogeneous
from realdata import data
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.datasets import to_graphbolt
from neargraph.importers import import_graph

yaml = pytest.importorskip("yaml")


def entries(store, triple):
    """(source, destination, id, weight, time) of every entry, sorted, with its tensor rows."""
    edge = store.schema.edge_type(triple)
    count = store.schema.node_type(triple[2]).num_nodes
    found = store.snapshot().neighbors(triple, np.arange(count))
    columns = [found.indices, np.repeat(np.arange(count), np.diff(found.indptr))]
    columns += [c for c in (found.edge_ids, found.weights, found.times) if c is not None]
    for tensor in edge.tensors:
        rows = store.snapshot().edge_features(triple, found.edge_ids, tensor.name)
        columns += list(rows.reshape(len(rows), -1).T)
    table = np.stack([column.astype(np.float64) for column in columns])
    return table[:, np.lexsort(table)]


def same(one, other):
    """Compares two stores: counts, rows of nodes, splits, entries with all that belongs to them."""
    assert set(one.node_types) == set(other.node_types)
    assert set(one.edge_types) == set(other.edge_types)
    for node in one.schema.node_types:
        again = other.schema.node_type(node.name)
        assert again.num_nodes == node.num_nodes
        assert {t.name for t in again.tensors} == {t.name for t in node.tensors}
        ids = np.arange(node.num_nodes)
        for tensor in node.tensors:
            rows = [s.snapshot().features(node.name, ids, tensor.name) for s in (one, other)]
            assert np.array_equal(*rows, equal_nan=rows[0].dtype.kind == "f"), tensor.name
            assert other.schema.tensor(again, tensor.name).class_names == tensor.class_names
    for triple in one.edge_types:
        assert how(one, triple) == how(other, triple)
        assert np.array_equal(entries(one, triple), entries(other, triple)), triple
    reverses = [{t.triple for t in s.schema.reverse_types} for s in (one, other)]
    assert reverses[0] == reverses[1]


def how(store, triple):
    """How an edge type was imported: columns, tensors, flags."""
    edge = store.schema.edge_type(triple)
    tensors = {(t.name, t.dtype, t.shape) for t in edge.tensors}
    flags = (edge.undirected, store.schema.raw["edge_types"][edge.index]["unique"])
    return edge.has_edge_ids, edge.has_time, edge.has_weight, tensors, flags


@pytest.mark.parametrize("make", [homogeneous, heterogeneous])
def test_a_store_comes_back_when_the_folder_is_imported(make, tmp_path):
    make().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        report = to_graphbolt(store, tmp_path / "out")
        import_graph(tmp_path / "out", tmp_path / "b.ng")
        with ng.open(tmp_path / "b.ng", memory="64MB") as again:
            same(store, again)
        assert report["num_edges"] == store.num_edges
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.ng", "b.ng", "out"]


def test_a_store_of_which_all_labelled_nodes_train_comes_back(tmp_path):
    graph = homogeneous()
    graph.write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        with store.write() as transaction:
            for split in ("val", "test"):
                transaction.set_split(None, store.split(split), "train")
        to_graphbolt(store, tmp_path / "out")
        import_graph(tmp_path / "out", tmp_path / "b.ng")
        with ng.open(tmp_path / "b.ng", memory="64MB") as again:
            same(store, again)


@pytest.mark.parametrize("options", [{"undirected": True}, {"reverse": True}, {}])
@pytest.mark.parametrize("unique", [True, False])
def test_how_a_store_was_imported_comes_back(options, unique, tmp_path):
    rng = np.random.default_rng(3)
    (tmp_path / "in").mkdir()
    arrays = {
        "edge_index": rng.integers(0, 30, (2, 200)),
        "edge_time": rng.integers(0, 9, 200),
        "edge_attr": rng.standard_normal((200, 2)).astype(np.float32),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"in/{name}.npy", array)
    import_graph(tmp_path / "in", tmp_path / "a.ng", unique=unique, **options)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        if "reverse" in options:
            # Ids of edges that are gone stay free.
            lists = store.snapshot().neighbors(None, [4])
            with store.write() as tx:
                tx.delete_edge(None, int(lists.indices[0]), 4)
        assert to_graphbolt(store, tmp_path / "out")["notes"] == []
        report = import_graph(tmp_path / "out", tmp_path / "b.ng")
        assert {note["code"] for note in report["notes"]} <= {"parallel-edges", "doubled-edges"}
        with ng.open(tmp_path / "b.ng", memory="64MB") as again:
            same(store, again)
    meta = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())
    assert meta["dataset_name"] == "a"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"undirected": "yes"}, "the entry 'neargraph' is not valid"),
        ({"inline": ["x"]}, "the entry 'neargraph' is not valid"),
        ({"more": 1}, "the entry 'neargraph' is not valid"),
        ({"num_edge_ids": 9}, "edge id .*, but num_edge_ids in metadata.yaml is 9"),
        ({"undirected": True}, "in only one direction"),
        ("twice", "occurs more than once"),
        ("missing", "no feature 'edge_id'"),
    ],
)
def test_marks_that_do_not_fit_the_edges_are_refused(change, message, tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        to_graphbolt(store, tmp_path / "out")
    file = tmp_path / "out/metadata.yaml"
    meta = yaml.safe_load(file.read_text())
    (ids,) = [one for one in meta["feature_data"] if one["name"] == "edge_id"]
    if change == "twice":
        rows = np.load(tmp_path / "out" / ids["path"])
        rows[3] = rows[4]
        np.save(tmp_path / "out" / ids["path"], rows)
    elif change == "missing":
        meta["feature_data"].remove(ids)
    else:
        meta["graph"]["edges"][0]["neargraph"] |= change
    file.write_text(yaml.safe_dump(meta))
    with pytest.raises(ng.ImportFailed, match=message):
        import_graph(tmp_path / "out", tmp_path / "b.ng")
    assert not (tmp_path / "b.ng").exists()


def test_what_an_import_cannot_give_back_is_said(tmp_path):
    rows = {"time": np.arange(3, dtype=np.float32)}
    ends = np.arange(3)
    graph = Graph({"node": Nodes(3)}, {("node", "to", "node"): Edges(ends, ends, rows, times=ends)})
    graph.write(tmp_path / "a.ng")
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 2]]))
    import_graph(tmp_path / "e.npy", tmp_path / "b.ng", reuse_ids=True)
    for name, code in (("a", "tensor-renamed"), ("b", "reuse-ids-dropped")):
        with ng.open(tmp_path / f"{name}.ng", memory="64MB") as store:
            assert [n["code"] for n in to_graphbolt(store, tmp_path / name)["notes"]] == [code]


def test_what_the_metadata_name_has_the_dtype_and_rows_of_the_store(tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        to_graphbolt(store, tmp_path / "out")
        meta = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())
        assert meta["graph"]["nodes"] == [{"num": 300}]
        (edges,) = meta["graph"]["edges"]
        ends = np.load(tmp_path / "out" / edges["path"])
        assert ends.shape == (2, 1500)
        assert ends.dtype == np.int64
        features = {(f["domain"], f["name"]): f for f in meta["feature_data"]}
        assert set(features) == {
            ("node", "feat"),
            ("node", "label"),
            ("edge", "edge_id"),
            ("edge", "edge_attr"),
        }
        ids = np.load(tmp_path / "out" / features["edge", "edge_id"]["path"])
        attr = np.load(tmp_path / "out" / features["edge", "edge_attr"]["path"])
        graph = homogeneous().edges["node", "to", "node"]
        assert np.array_equal(ends, [graph.sources[ids], graph.destinations[ids]])
        assert np.array_equal(attr, graph.tensors["edge_attr"][ids])
        (task,) = meta["tasks"]
        assert task["name"] == "node_classification"
        assert task["num_classes"] == 5
        for part, key in (("train", "train_set"), ("val", "validation_set"), ("test", "test_set")):
            seeds, labels = task[key][0]["data"]
            found = np.load(tmp_path / "out" / seeds["path"])
            assert np.array_equal(found, store.split(part))
            assert np.array_equal(np.load(tmp_path / "out" / labels["path"]), store.labels[found])


def test_narrow_rows_names_and_deleted_nodes_are_said(tmp_path):
    lines = [f"n{k},n{(k * 7 + 1) % 40}" for k in range(40)]
    (tmp_path / "e.csv").write_text("src,dst\n" + "\n".join(lines) + "\n")
    import_graph(tmp_path / "e.csv", tmp_path / "named.ng", format="table")
    with ng.open(tmp_path / "named.ng", memory="64MB") as store:
        report = to_graphbolt(store, tmp_path / "named")
        (note,) = report["notes"]
        assert note["code"] == "names-beside"
        (file,) = (tmp_path / "named/nodes").iterdir()
        names = [json.loads(line) for line in file.read_text().splitlines()]
        assert names == store.names(np.arange(40))
    homogeneous().write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        np.savez(
            tmp_path / "n.npz",
            edges=np.array([[0, 1], [1, 2]]),
            node_features=np.eye(3, 4, dtype=np.float32),
        )
        import_graph(tmp_path / "n.npz", tmp_path / "n.ng", x_dtype="i8", reverse=True)
    with ng.open(tmp_path / "n.ng", memory="64MB") as store:
        with store.write() as tx:
            tx.delete_node(None, 2)
        report = to_graphbolt(store, tmp_path / "narrow")
        assert {n["code"] for n in report["notes"]} == {"widened", "nodes-deleted"}
        rows = np.load(tmp_path / "narrow/nodes/0_node_x.npy")
        assert rows.dtype == np.float32
        assert np.array_equal(rows[:2], np.eye(2, 4))


def test_labels_of_half_precision_are_numbers_and_deleted_nodes_in_no_set(tmp_path):
    torch = pytest.importorskip("torch")
    edges = np.stack([np.arange(300), (np.arange(300) * 7 + 1) % 300], axis=1)
    np.savez(tmp_path / "a.npz", edges=edges, node_features=np.eye(300, 4, dtype=np.float32))
    import_graph(tmp_path / "a.npz", tmp_path / "a.ng", split_sizes=(60, 20, 20), reverse=True)
    y = torch.linspace(-3, 3, 300)
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        store.add_tensor("y", y.to(torch.bfloat16))
        gone = int(store.split("train")[0])
        with store.write() as tx:
            tx.delete_node(None, gone)
        to_graphbolt(store, tmp_path / "out")
        (task,) = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())["tasks"]
        seeds, labels = (
            np.load(tmp_path / "out" / d["path"]) for d in task["train_set"][0]["data"]
        )
        assert np.array_equal(seeds, store.split("train"))
    assert gone not in seeds
    assert labels.dtype == np.float32
    assert np.array_equal(labels, y.to(torch.bfloat16).float().numpy()[seeds])


def test_splits_and_labels_are_written_in_pieces(tmp_path):
    """Seeds and labels of 3,000,000 nodes take more than the whole memory of the store."""
    count = 3_000_000
    nodes = {"y": np.arange(count) % 7, "split_0": np.ones(count, np.uint8)}
    ends = np.arange(10)
    graph = Graph({"node": Nodes(count, nodes)}, {("node", "to", "node"): Edges(ends, ends)})
    graph.write(tmp_path / "a.ng")
    with ng.open(tmp_path / "a.ng", memory="16MB") as store:
        to_graphbolt(store, tmp_path / "out")
    (task,) = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())["tasks"]
    paths = [tmp_path / "out" / d["path"] for d in task["train_set"][0]["data"]]
    seeds, labels = (np.load(path, mmap_mode="r") for path in paths)
    assert np.array_equal(seeds, np.arange(count))
    assert np.array_equal(labels, nodes["y"])


def test_undirected_entries_are_edges_of_both_directions(tmp_path):
    np.save(tmp_path / "e.npy", np.array([[0, 1, 2], [1, 2, 2]]))
    import_graph(tmp_path / "e.npy", tmp_path / "u.ng", undirected=True)
    with ng.open(tmp_path / "u.ng", memory="64MB") as store:
        to_graphbolt(store, tmp_path / "out")
        (file,) = (tmp_path / "out/edges").glob("*to-node.npy")
        assert sorted(zip(*np.load(file).tolist(), strict=True)) == [
            (0, 1),
            (1, 0),
            (1, 2),
            (2, 1),
            (2, 2),
        ]


def test_nothing_is_replaced_and_no_half_of_a_folder_is_left(tmp_path, monkeypatch):
    homogeneous().write(tmp_path / "a.ng")
    (tmp_path / "there").mkdir()
    with ng.open(tmp_path / "a.ng", memory="64MB") as store:
        with pytest.raises(ng.UnsupportedArgument, match="already exists"):
            to_graphbolt(store, tmp_path / "there")
        with pytest.raises(ng.UnsupportedArgument, match="does not exist"):
            to_graphbolt(store, tmp_path / "none/out")

        def stop(phase, done, total):
            if phase == "edges":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            to_graphbolt(store, tmp_path / "out", progress=stop)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["a.ng", "there"]
    assert list((tmp_path / "there").iterdir()) == []


def test_a_type_with_a_colon_is_refused(tmp_path):
    ends = np.arange(3)
    graph = Graph({"a:b": Nodes(3)}, {("a:b", "to", "a:b"): Edges(ends, ends)})
    graph.write(tmp_path / "a.ng")
    with (
        ng.open(tmp_path / "a.ng", memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="'a:b'"),
    ):
        to_graphbolt(store, tmp_path / "out")
    assert [f.name for f in tmp_path.iterdir()] == ["a.ng"]


def test_the_command_writes_the_same_and_refuses_other_formats(tmp_path):
    homogeneous().write(tmp_path / "a.ng")
    command = ["export", str(tmp_path / "a.ng"), str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["num_edges"] == 1500
    assert (tmp_path / "out/metadata.yaml").is_file()
    done = CliRunner().invoke(app, [*command, "--format", "dgl"])
    assert done.exit_code == 2
    assert "'dgl' is not one of 'graphbolt', 'parquet', 'pyg', 'npz'" in done.output


def test_a_real_graph_comes_back(tmp_path):
    import_graph(data("npz_graphs", "cora_ml.npz"), tmp_path / "a.ng", split_sizes="60,20,20")
    with ng.open(tmp_path / "a.ng", memory="128MB") as store:
        to_graphbolt(store, tmp_path / "out")
        import_graph(tmp_path / "out", tmp_path / "b.ng")
        with ng.open(tmp_path / "b.ng", memory="128MB") as again:
            same(store, again)
