"""Sparse ids and keys of node tables: nodes are 0, 1, 2, ..., and the store knows the originals."""

import numpy as np
import pytest
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app, one_line
from neargraph.importers import TextHints, import_graph

SPARSE = [(70_000_000_001, 5), (5, 9), (123, 70_000_000_001), (9, 123)]
IDS = [5, 9, 123, 70_000_000_001]


def neighbours(store, node):
    return store.snapshot().neighbors(None, [node]).indices.tolist()


def check(path):
    with ng.open(path, memory="64MB") as store:
        assert store.schema.node_types[0].num_nodes == 4
        assert store.names(np.arange(4)) == [str(i) for i in IDS]
        assert store.lookup(["123", "9", "10"]).tolist() == [2, 1, -1]


@pytest.mark.parametrize("format", ["text", "npy", "temporal", "csv table"])
def test_relabel_numbers_the_ids_that_occur_in_ascending_order(format, tmp_path):
    ids = np.array(SPARSE)
    if format == "npy":
        source = tmp_path / "in.npy"
        np.save(source, ids)
    elif format == "csv table":
        source = tmp_path / "tables"
        source.mkdir()
        rows = "\n".join(f"{a},{b}" for a, b in SPARSE)
        (source / "edges.csv").write_text(f"src,dst\n{rows}\n")
    else:
        source = tmp_path / "in.txt"
        times = " 3" if format == "temporal" else ""
        source.write_text("".join(f"{a} {b}{times}\n" for a, b in SPARSE))
    arguments = ["--relabel", "--strict"]
    arguments += ["--format", "temporal"] if format == "temporal" else []
    command = ["import", str(source), "--out", str(tmp_path / "g.ng"), *arguments]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    check(tmp_path / "g.ng")
    said = CliRunner().invoke(app, ["verify", str(tmp_path / "g.ng")])
    assert said.exit_code == 0, said.output


def test_relabel_of_pyg_edges_keeps_edge_ids(tmp_path):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data(
        edge_index=torch.tensor([[900, 7], [7, 900]]), edge_attr=torch.tensor([[1.0], [2.0]])
    )
    ng.from_pyg(data, tmp_path / "g.ng", relabel=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.names([0, 1]) == ["7", "900"]
        found = store.snapshot().neighbors(None, [0, 1])
        assert found.edge_ids.tolist() == [0, 1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_node_table_with_string_keys_brings_features_by_row(ending, tmp_path):
    pa, csv = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.csv")
    pq = pytest.importorskip("pyarrow.parquet")
    nodes = {
        "id": ["zoe", "ann", "bob", "eve"],
        "x_0": [0.0, 1.0, 2.0, 3.0],
        "y": ["b", "a", "b", "a"],
    }
    nodes["x_0"] = pa.array(nodes["x_0"], pa.float32())
    edges = {"src": ["ann", "zoe"], "dst": ["bob", "ann"], "rating": [5, 4]}
    for name, columns in (("nodes", nodes), ("edges", edges)):
        write = csv.write_csv if ending == "csv" else pq.write_table
        write(pa.table(columns), tmp_path / f"{name}.{ending}")
    report = import_graph(tmp_path, tmp_path / "g.ng")
    assert report["notes"] == []
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.names(np.arange(4)) == ["zoe", "ann", "bob", "eve"]
        assert store.lookup(["eve", "ann"]).tolist() == [3, 1]
        assert store.column("x")[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
        assert store.labels.tolist() == [1, 0, 1, 0]
        assert neighbours(store, 2) == [1]
        assert neighbours(store, 1) == [0]


def test_integer_keys_of_one_type_name_the_nodes_of_all(tmp_path):
    (tmp_path / "nodes_user.csv").write_text("id,age\n100,30\n7,40\n")
    (tmp_path / "nodes_item.csv").write_text("price\n5\n6\n7\n")
    (tmp_path / "edges_user__buys__item.csv").write_text("src,dst\n7,2\n100,0\n")
    report = import_graph(tmp_path, tmp_path / "g.ng")
    assert [note["code"] for note in report["notes"]] == ["ids-relabelled"]
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.names([0, 1], "user") == ["100", "7"]
        assert store.names([0, 1, 2], "item") == ["0", "1", "2"]


def test_times_with_fractions_need_a_scale_by_the_name_of_the_face(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("src,dst,time\n0,1,0.5\n1,0,1.25\n")
    with pytest.raises(ng.ImportFailed, match=r"TextHints\(time_scale=...\)"):
        import_graph(source, tmp_path / "g.ng")
    command = ["import", str(source), "--out", str(tmp_path / "g.ng")]
    said = CliRunner().invoke(app, command)
    assert "--time-scale" in one_line(said.exception, frozenset({"--time-scale"}))
    said = CliRunner().invoke(app, [*command, "--time-scale", "100"])
    assert said.exit_code == 0, said.output
    import_graph(source, tmp_path / "h.ng", hints=TextHints(time_scale=100))
    for path in ("g.ng", "h.ng"):
        with ng.open(tmp_path / path, memory="64MB") as store:
            assert store.snapshot().neighbors(None, [0, 1]).times.tolist() == [125, 50]
