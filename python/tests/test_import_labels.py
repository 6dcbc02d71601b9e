"""Labels: text becomes numbers and its names stay, missing ones are -1, one mask is enough."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.importers import import_graph

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402

RING = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def labels(path):
    with ng.open(path, memory="64MB") as store:
        (tensor,) = [t for t in store.schema.node_types[0].tensors if t.name == "y"]
        return np.asarray(store.labels).tolist(), list(tensor.class_names)


def musae(folder, header, rows):
    (folder / "pages_edges.csv").write_text("id_1,id_2\n0,1\n1,2\n2,0\n")
    (folder / "pages_features.json").write_text('{"0": [3], "1": [1, 2], "2": [0]}')
    (folder / "pages_target.csv").write_text("\n".join([header, *rows]) + "\n")
    return folder / "pages_edges.csv"


def test_class_names_of_a_musae_set_become_numbers_and_info_shows_them(tmp_path):
    rows = ['2,17,"Shop, the",company', "0,18,Show,tvshow", "1,19,Party,politician"]
    source = musae(tmp_path, "id,facebook_id,page_name,page_type", rows)
    report = import_graph(source, tmp_path / "g.ng")
    assert labels(tmp_path / "g.ng") == ([2, 1, 0], ["company", "politician", "tvshow"])
    assert [note["code"] for note in report["notes"]] == ["columns-dropped"]
    assert "facebook_id, page_name" in report["notes"][0]["message"]
    said = CliRunner().invoke(app, ["info", str(tmp_path / "g.ng")])
    assert "0 company, 1 politician, 2 tvshow" in " ".join(said.output.replace("│", " ").split())
    said = CliRunner().invoke(app, ["info", str(tmp_path / "g.ng"), "--json"])
    (y,) = [t for t in json.loads(said.stdout)["node_types"][0]["tensors"] if t["name"] == "y"]
    assert y["class_names"] == ["company", "politician", "tvshow"]


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("id,target", ["0,5", "1,7", "2,5"], ([5, 7, 5], [])),
        ("id,name,ml_target", ["0,ann,1", "1,bo,0", "2,cy,1"], ([1, 0, 1], [])),
        (
            "id,days,mature,new_id",
            ["7,1,True,1", "8,1,False,0", "9,1,True,2"],
            ([0, 1, 1], ["False", "True"]),
        ),
        ("id,target", ["0,0.5", "1,1", "2,2"], ([0.5, 1.0, 2.0], [])),
        ("id,target", ["0,a", "1,", "2,b"], ([0, -1, 1], ["a", "b"])),
    ],
)
def test_targets_of_musae_sets_of_every_kind_are_read(header, rows, expected, tmp_path):
    import_graph(musae(tmp_path, header, rows), tmp_path / "g.ng")
    assert labels(tmp_path / "g.ng") == expected


def test_names_of_classes_outlive_compact_and_reorganize(tmp_path):
    import_graph(musae(tmp_path, "id,target", ["0,b", "1,a", "2,b"]), tmp_path / "g.ng")
    for command in ("compact", "reorganize"):
        said = CliRunner().invoke(app, [command, str(tmp_path / "g.ng")])
        assert said.exit_code == 0, said.output
        assert labels(tmp_path / "g.ng") == ([1, 0, 1], ["a", "b"])
    said = CliRunner().invoke(app, ["verify", str(tmp_path / "g.ng")])
    assert said.exit_code == 0, said.output


def test_text_labels_of_matrices_and_arrays_keep_their_names(tmp_path):
    matrix = {"adj_indptr": np.arange(5), "adj_indices": np.array([1, 2, 3, 0])}
    np.savez(tmp_path / "text.npz", **matrix, labels=np.array(["b", "a", "b", ""]))
    import_graph(tmp_path / "text.npz", tmp_path / "text.ng")
    assert labels(tmp_path / "text.ng") == ([1, 0, 1, -1], ["a", "b"])
    names = np.array(["zero", "one"])
    np.savez(tmp_path / "named.npz", **matrix, labels=np.array([1, 0, 1, 1]), class_names=names)
    report = import_graph(tmp_path / "named.npz", tmp_path / "named.ng", strict=True)
    assert labels(tmp_path / "named.ng") == ([1, 0, 1, 1], ["zero", "one"])
    assert report["notes"] == []
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "edge_index.npy", RING)
    np.save(tmp_path / "arrays" / "y.npy", np.array(["b", "a", "b", "a"]))
    import_graph(tmp_path / "arrays", tmp_path / "arrays.ng")
    assert labels(tmp_path / "arrays.ng") == ([1, 0, 1, 0], ["a", "b"])


def test_labels_of_tables_may_be_text_and_may_be_missing(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cases = {
        "text": (pa.array(["b", None, "a"]), ([1, -1, 0], ["a", "b"])),
        "dictionary": (pa.array(["b", None, "a"]).dictionary_encode(), ([1, -1, 0], ["a", "b"])),
        "integers": (pa.array([4, None, 2]), ([4, -1, 2], [])),
        "floats that were integers": (pa.array([4.0, None, 2.0]), ([4, -1, 2], [])),
        "whole floats": (pa.array([4.0, 3.0, 2.0]), ([4.0, 3.0, 2.0], [])),
    }
    for name, (column, expected) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(pa.table({"src": [0, 1], "dst": [1, 2]}), folder / "edges.parquet")
        pq.write_table(pa.table({"label": column}), folder / "nodes.parquet")
        report = import_graph(folder, folder / "g.ng")
        assert labels(folder / "g.ng") == expected, name
        missing = [n["count"] for n in report["notes"] if n["code"] == "labels-missing"]
        assert missing == ([1] if column.null_count else [])


def masks(path):
    with ng.open(path, memory="64MB") as store:
        return [store.mask(name).tolist() for name in ("train", "val", "test")]


def test_one_mask_alone_is_a_split(tmp_path):
    train = np.array([True, False, True, False])
    none, expected = [False] * 4, train.tolist()
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays" / "edge_index.npy", RING)
    np.save(tmp_path / "arrays" / "train_mask.npy", train)
    import_graph(tmp_path / "arrays", tmp_path / "arrays.ng", strict=True)
    assert masks(tmp_path / "arrays.ng") == [expected, none, none]
    features = {"node_features": np.ones((4, 1), np.float32), "edges": RING.T}
    np.savez(tmp_path / "in.npz", **features, val_masks=train[None])
    import_graph(tmp_path / "in.npz", tmp_path / "npz.ng", strict=True)
    pairs = [[[part] for part in mask] for mask in (none, expected, none)]
    assert masks(tmp_path / "npz.ng") == pairs
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "edges.csv").write_text("src,dst\n0,1\n2,3\n")
    rows = "\n".join(str(known).lower() for known in expected)
    (tmp_path / "tables" / "nodes.csv").write_text(f"train_mask\n{rows}\n")
    import_graph(tmp_path / "tables", tmp_path / "tables.ng", strict=True)
    assert masks(tmp_path / "tables.ng") == [expected, none, none]
    data = Data(x=torch.ones(4, 1), edge_index=torch.from_numpy(RING))
    data.test_mask = torch.from_numpy(train)
    ng.from_pyg(data, tmp_path / "pyg.ng", strict=True)
    assert masks(tmp_path / "pyg.ng") == [none, none, expected]


@pytest.mark.parametrize("split", ["50,25,25", (50, 25, 25), [50.0, 25.0, 25.0]])
def test_from_pyg_draws_a_split_of_text_and_of_numbers(split, tmp_path):
    data = Data(x=torch.ones(4, 1), edge_index=torch.from_numpy(RING))
    ng.from_pyg(data, tmp_path / "g.ng", split_sizes=split)
    assert [sum(mask) for mask in masks(tmp_path / "g.ng")] == [2, 1, 1]


@pytest.mark.parametrize("split", ["60,20", (90, 20, 20), "a,b,c", 60])
def test_a_split_that_is_none_is_refused(split, tmp_path):
    data = Data(x=torch.ones(4, 1), edge_index=torch.from_numpy(RING))
    with pytest.raises(ValueError, match="is not a valid split"):
        ng.from_pyg(data, tmp_path / "g.ng", split_sizes=split)
    assert not (tmp_path / "g.ng").exists()
