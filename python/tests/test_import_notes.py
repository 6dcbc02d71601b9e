"""C8: nothing is dropped silently. Every awkward input ends in a note or in a refusal."""

import gzip
import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.importers import TextHints, import_graph

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402

RING = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
RING_CSR = {"indptr": np.arange(5), "indices": np.array([1, 2, 3, 0])}


def text(content, name="in.txt", **options):
    def make(folder):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(data)
        return folder / name, options

    return make


def npz(**arrays):
    def make(folder):
        np.savez(folder / "in.npz", **arrays)
        return folder / "in.npz", {}

    return make


def npys(options=None, **arrays):
    def make(folder):
        for name, array in {"edge_index": RING, **arrays}.items():
            np.save(folder / f"{name}.npy", array)
        return folder, options or {}

    return make


def square(folder):
    np.save(folder / "e.npy", RING[:, :2])
    return folder / "e.npy", {}


def tables(files, **options):
    def make(folder):
        for name, columns in files.items():
            if name.endswith(".csv"):
                (folder / name).write_text(columns)
            else:
                pq.write_table(pa.table(columns), folder / name)
        return folder, options

    return make


def musae(target, words='{"0": [0], "1": [1], "2": []}'):
    def make(folder):
        (folder / "set_edges.csv").write_text("id1,id2\n0,1\n1,2\n")
        (folder / "set.json").write_text(words)
        (folder / "set_target.csv").write_text(target)
        return folder / "set_edges.csv", {}

    return make


def pyg(options=None, **values):
    def make(_):
        given = {"edges": RING, **values}
        edges = torch.from_numpy(given.pop("edges"))
        return Data(edge_index=edges, **given), options or {}

    return make


def mask(*nodes):
    return torch.tensor([node in nodes for node in range(4)])


EDGES = {"src": [0, 1, 2], "dst": [1, 2, 0]}
NODES = {"y": [0, 1, 2]}
X = np.ones((4, 2), np.float32)
BAD = np.array([[1, np.nan], [np.inf, 1], [1, 1], [1, 1]], np.float32)

# What it is: (how it is made, the code and the count of its note, or a part of the refusal).
CASES = {
    "a third column": (text("0 1 5\n1 0 4\n"), ("columns-dropped", 1)),
    "a third column under a header": (
        text("src,dst,rating\n0,1,5\n1,0,4\n"),
        ("columns-dropped", 1),
    ),
    "a weight beside unknown names": (text("a,b,weight,z\n0,1,5,1\n"), ("columns-guessed", 2)),
    "a header of unknown names": (text("a,b\n0,1\n1,0\n"), ("columns-guessed", 2)),
    "a header that is an edge": (
        text("0 1\n1 0\n0 1\n", hints=TextHints(header=True)),
        ("header-has-ids", 1),
    ),
    "sparse ids": (text("0 1\n1 1000000\n"), ("sparse-ids", 999_997)),
    "ids from 1": (text("1 2\n2 1\n"), ("ids-start-above-0", 1)),
    "both directions and undirected": (text("0 1\n1 0\n", undirected=True), ("doubled-edges", 2)),
    "an edge twice": (text("0 1\n0 1\n1 0\n"), ("parallel-edges", 1)),
    "duplicates left out": (text("0 1\n0 1\n", unique=True), ("duplicates-removed", 1)),
    "self loops left out": (text("0 1\n1 1\n", self_loops="remove"), ("self-loops-removed", 1)),
    "spaces around names": (
        text("a,b\n b,a\n", hints=TextHints(strings=True)),
        ("names-trimmed", 1),
    ),
    "text behind a quote": (text('0,1\n"1"2,0\n'), "text follows a closing quote"),
    "a Matrix Market file": (
        text("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 0.5\n"),
        "is a Matrix Market file",
    ),
    "ids that are floats": (text("0 1\n1.0 2\n"), "is not a whole number"),
    "ids that are negative": (text("0 1\n-1 2\n"), "is negative"),
    "a time that is a fraction": (
        text("src,dst,time\n0,1,0.5\n"),
        r"hints=TextHints\(time_scale=...\)",
    ),
    "a weight that is no number": (text("src,dst,weight\n0,1,nan\n"), "is not finite"),
    "columns for a matrix": (
        lambda d: (npz(**RING_CSR)(d)[0], {"hints": TextHints(columns={"src": "1"})}),
        "columns= has no effect on the format npz",
    ),
    "relabelling what has numbers": (
        lambda d: (npz(**RING_CSR)(d)[0], {"relabel": True}),
        "the input already numbers the nodes",
    ),
    "users without items": (
        text("0 1 2 3 4 5\n1 2\n2\n", "in.lists", format="lists"),
        ("users-without-items", 1),
    ),
    "temporal fractions": (
        text("0 1 0.5\n1 0 0.7\n", format="temporal"),
        ("times-scaled", 2),
    ),
    "npz members": (npz(**RING_CSR, surprise=np.ones(3)), ("members-unused", 1)),
    "npz weights of f64": (npz(**RING_CSR, data=np.full(4, 0.1)), ("narrowed", 4)),
    "npz features of f64": (
        npz(
            adj_indptr=RING_CSR["indptr"],
            adj_indices=RING_CSR["indices"],
            attr_indptr=RING_CSR["indptr"],
            attr_indices=RING_CSR["indices"],
            attr_data=np.full(4, 0.1),
            attr_shape=np.array([4, 4]),
        ),
        ("narrowed", 4),
    ),
    "npz masks that overlap": (
        npz(
            node_features=X,
            edges=RING.T,
            train_masks=np.ones((1, 4), bool),
            val_masks=np.ones((1, 4), bool),
        ),
        "is in two parts of split 0",
    ),
    "a file beside arrays": (
        lambda d: ((d / "x.csv").write_text("1"), npys(x=X)(d))[1],
        ("files-unused", 1),
    ),
    "features that are no numbers": (npys(x=BAD), ("not-finite", 2)),
    "labels that are NaN": (
        npys(y=np.array([0, np.nan, 0.5, 1], np.float32)),
        ("labels-missing", 1),
    ),
    "features of f64": (npys(x=X.astype(np.float64)), ("wide-floats", 4)),
    "features narrowed": (
        npys({"x_dtype": "f32"}, x=X.astype(np.float64)),
        ("narrowed", 4),
    ),
    "times of floats": (npys(edge_time=np.array([0, 1, 2, 2.5])), "is not a whole number"),
    "times beyond 63 bits": (
        npys(edge_time=np.array([0, 1, 2, 2**63], np.uint64)),
        "does not fit into int64",
    ),
    "labels beyond 63 bits": (
        npys(y=np.array([0, 1, 2, 2**63], np.uint64)),
        "does not fit into int64",
    ),
    "weights of f64": (npys(edge_weight=np.array([0.5, 0.1, 1, 1])), ("narrowed", 1)),
    "weights that are NaN": (npys(edge_weight=np.array([0.5, np.nan, 1, 1])), "is not finite"),
    "features that are short": (
        npys(x=X[:3], y=np.arange(4), edge_weight=np.ones(4, np.float32)),
        r"different numbers of nodes: x\.npy has 3, y\.npy has 4",
    ),
    "edges beyond short features": (
        npys(x=X[:3], edge_weight=np.ones(4, np.float32)),
        r"edge_index\.npy: row \d has node id 3, but there are 3 nodes",
    ),
    "a square array": (square, ("layout-guessed", 2)),
    "text columns of edges": (
        tables({"edges.parquet": {**EDGES, "note": ["a", "b", "c"]}}),
        ("columns-dropped", 1),
    ),
    "text columns of nodes": (
        tables({"edges.parquet": EDGES, "nodes.parquet": {**NODES, "name": ["a", "b", "c"]}}),
        ("columns-dropped", 1),
    ),
    "lists of f64": (
        tables(
            {
                "edges.parquet": EDGES,
                "nodes.parquet": {"x": pa.array([[1.0], [2.0], [3.0]], pa.list_(pa.float64()))},
            }
        ),
        ("wide-floats", 3),
    ),
    "columns of f64": (
        tables({"edges.parquet": EDGES, "nodes.parquet": {"x_0": [0.1, 0.2, 0.3]}}),
        ("narrowed", 3),
    ),
    "nulls in labels": (
        tables({"edges.parquet": EDGES, "nodes.parquet": {"y": [0, None, 2]}}),
        ("labels-missing", 1),
    ),
    "nulls in features": (
        tables({"edges.parquet": EDGES, "nodes.parquet": {"f": [0.5, None, 2.5]}}),
        ("wide-floats", 3),
    ),
    "nulls in integer features": (
        tables({"edges.parquet": EDGES, "nodes.parquet": {"f": [0, None, 2]}}),
        "row 1 is null",
    ),
    "ids with gaps": (
        tables({"edges.parquet": {"src": [7], "dst": [9]}, "nodes.parquet": {"id": [7, 8, 9]}}),
        ("ids-relabelled", 3),
    ),
    "a node that the table lacks": (
        tables({"edges.csv": "src,dst\na,z\n", "nodes.csv": "id,f\na,1\nb,2\n"}),
        'an edge names the node "z", which the node table lacks',
    ),
    "a key twice": (
        tables({"edges.csv": "src,dst\na,b\n", "nodes.csv": "id,f\na,1\nb,2\na,3\n"}),
        'rows 0 and 2 of the nodes have the same key "a"',
    ),
    "float ids in a table": (
        tables({"edges.parquet": {"src": [0.0, 1.0], "dst": [1.0, 0.0]}}),
        "node ids have dtype float64",
    ),
    "null ids in a table": (
        tables({"edges.parquet": {"src": [0, None], "dst": [1, 0]}}),
        "row 1 is null",
    ),
    "two tables of a type": (
        tables({"edges.parquet": EDGES, "nodes.parquet": NODES, "nodes.csv": "y\n0\n1\n2\n"}),
        "holds the same node or edge type as",
    ),
    "two columns of a name": (
        tables({"edges.csv": "src,dst,f,f\n0,1,2,3\n"}),
        "two columns are called 'f'",
    ),
    "masks of a table that overlap": (
        tables(
            {
                "edges.parquet": EDGES,
                "nodes.parquet": {"train_mask": [True] * 3, "val_mask": [False, True, False]},
            }
        ),
        "node 1 is in two parts of split 0",
    ),
    "words of a node twice": (
        musae("id,target\n0,1\n1,1\n2,0\n", '{"0": [0], "1": [1], "2": [], "0": [1]}'),
        "a node has two lists of words",
    ),
    "struct and decimal columns": (
        tables(
            {
                "edges.parquet": {
                    **EDGES,
                    "pair": pa.array([{"a": 1}] * 3),
                    "price": pa.array([1, 2, 3], pa.decimal128(5, 2)),
                    "words": [["a"], [], ["b"]],
                }
            }
        ),
        ("columns-dropped", 3),
    ),
    "a table that is no part": (
        tables({"edges.parquet": EDGES, "people.parquet": NODES}),
        ("files-unused", 1),
    ),
    "columns of a MUSAE target": (
        musae("id,facebook_id,page_name,page_type\n0,7,a,tv\n1,8,b,tv\n2,9,c,shop\n"),
        ("columns-dropped", 2),
    ),
    "labels that a MUSAE set lacks": (musae("id,target\n0,1\n1,\n2,0\n"), ("labels-missing", 1)),
    "nodes without words": (musae("id,target\n0,1\n1,1\n2,0\n3,1\n"), ("rows-filled", 1)),
    "masks that overlap": (
        pyg(x=torch.ones(4, 1), train_mask=mask(0, 1), val_mask=mask(1)),
        ("masks-overlap", 1),
    ),
    "attributes of a graph": (pyg(x=torch.ones(4, 1), title="ring"), ("attributes-dropped", 1)),
    "tensors of another size": (
        pyg(x=torch.ones(4, 1), other=torch.ones(7)),
        ("attributes-dropped", 1),
    ),
    "features of PyG that are NaN": (pyg(x=torch.from_numpy(BAD)), ("not-finite", 2)),
    "sparse ids of PyG": (pyg(edges=np.array([[0], [1000]])), ("sparse-ids", 999)),
}


def run(make, folder, out, **more):
    source, options = make(folder)
    convert = ng.from_pyg if isinstance(source, Data) else import_graph
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert(source, out, **options, **more)


@pytest.mark.parametrize("case", CASES)
def test_an_awkward_input_ends_in_a_note_or_a_refusal_and_strict_refuses_it(case, tmp_path):
    make, expected = CASES[case]
    folders = [tmp_path / name for name in ("in", "again", "out")]
    for folder in folders:
        folder.mkdir()
    out = folders[2] / "g.ng"
    if isinstance(expected, str):
        with pytest.raises(ng.ImportFailed, match=expected):
            run(make, folders[0], out)
        assert list(folders[2].iterdir()) == []
        return
    report = run(make, folders[0], out)
    found = {note["code"]: note for note in report["notes"]}
    code, count = expected
    assert found[code]["count"] == count, report["notes"]
    assert set(found[code]) == {"code", "count", "where", "message", "requested"}
    assert "--" not in found[code]["message"]
    out.rename(folders[2] / "kept.ng")
    if all(note["requested"] for note in report["notes"]):
        again = run(make, folders[1], out, strict=True)["notes"]
        assert [note["code"] for note in again] == [note["code"] for note in report["notes"]]
        return
    with pytest.raises(ng.ImportFailed, match=code) as refused:
        run(make, folders[1], out, strict=True)
    assert [note["code"] for note in refused.value.notes] == [n["code"] for n in report["notes"]]
    assert [f.name for f in folders[2].iterdir()] == ["kept.ng"]


PLAIN = {
    "text": text("0 1\n1 0\n"),
    "text with a mark": text("\ufeff0 1\n1 0\n"),
    "text with weights": text("\ufeffsrc,dst,weight,time\n0,1,0.5,1\n1,0,1,2\n"),
    "packed text": text(gzip.compress(b"0 1\n1 0\n"), "in.txt.gz"),
    "names": text("a,b\nb,a\n", hints=TextHints(strings=True)),
    "matrix": npz(**RING_CSR),
    "arrays": npys(x=X, y=np.arange(4), edge_weight=np.ones(4), edge_time=np.arange(4.0)),
    "tables": tables({"edges.parquet": EDGES, "nodes.parquet": {**NODES, "id": [0, 1, 2]}}),
    "MUSAE": musae("id,target\n0,1\n1,1\n2,0\n"),
    "PyG": pyg(x=torch.ones(4, 1), train_mask=mask(0)),
}


@pytest.mark.parametrize("case", PLAIN)
def test_a_plain_input_has_no_notes_and_passes_strict(case, tmp_path):
    (tmp_path / "in").mkdir()
    report = run(PLAIN[case], tmp_path / "in", tmp_path / "g.ng", strict=True)
    assert report["notes"] == []


def test_a_note_of_narrowed_rows_names_its_tensor_and_comes_once_for_each(tmp_path):
    ids = {"id": [0, 1, 2], "x_0": [0.1, 0.2, 0.3]}
    files = {"nodes_a.parquet": ids, "nodes_b.parquet": ids, "edges_a__to__b.parquet": EDGES}
    notes = run(tables(files), tmp_path, tmp_path / "g.ng")["notes"]
    assert [(n["code"], n["where"].removeprefix(str(tmp_path))) for n in notes] == [
        ("narrowed", f", tensor 'x' of node type '{name}'") for name in "ab"
    ]


def test_the_command_prints_notes_and_strict_refuses(tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "g.ng"
    source.write_text("0 1 5\n1 1000 4\n")
    said = CliRunner().invoke(app, ["import", str(source), "--out", str(out)])
    lines = [line for line in said.output.splitlines() if line.startswith("note: ")]
    assert said.exit_code == 0
    assert [line.split("]")[0] for line in lines] == ["note: [columns-dropped", "note: [sparse-ids"]
    assert "--columns" in lines[0]
    assert "--relabel" in lines[1]
    out.rename(tmp_path / "first.ng")
    arguments = ["import", str(source), "--out", str(out), "--json"]
    notes = json.loads(CliRunner().invoke(app, arguments).stdout)["notes"]
    assert [(n["code"], n["count"]) for n in notes] == [("columns-dropped", 1), ("sparse-ids", 997)]
    out.rename(tmp_path / "second.ng")
    refused = CliRunner().invoke(app, [*arguments, "--strict"])
    assert isinstance(refused.exception, ng.ImportFailed)
    assert json.loads(refused.stdout)["notes"] == notes
    assert not out.exists()
    refused = CliRunner().invoke(app, [*arguments[:-1], "--strict"])
    assert [line for line in refused.output.splitlines() if line.startswith("note: ")] == lines
    assert sorted(f.name for f in tmp_path.iterdir()) == ["first.ng", "in.txt", "second.ng"]
