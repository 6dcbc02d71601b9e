"""`import --dry-run` shows the first rows as the import will store them, and writes nothing."""

import json

import numpy as np
import pytest
from import_command import edges_of, import_command, refused

from neargraph.importers import (
    EdgeChunk,
    EdgePlan,
    GraphPlan,
    ImportOptions,
    NodePlan,
    TensorPlan,
    TextHints,
    import_graph,
    plan_source,
)
from neargraph.importers.preview import preview_import


def previewed(source, folder, hints=None, **options):
    plan = plan_source(source, hints=hints)
    return preview_import(plan, folder / "g.ng", ImportOptions(**options))


def dry_run(*arguments):
    """The first edges that a dry run gives as JSON: (columns, rows)."""
    (edges,) = json.loads(import_command(*arguments, "--dry-run", "--json")[0])["preview"]["edges"]
    return edges["columns"], edges["rows"]


TEXTS = {
    "plain": ("# ids\n0 1\n\n1 2\n2 0\n", {}),
    "a header": ("weight,dst,time,src\n0.5,1,10,0\n2,0,20,1\n", {}),
    "quotes": ('"0","1"\n 1 , "2"\n', {}),
    "times that are scaled": ("0 1 0.5\n1 2 1.25\n", {"columns": {"time": "2"}, "time_scale": 100}),
    "names": ("a b,c\nd, e\n", {"strings": True}),
    "columns": ("9;0;1\n9;1;2\n", {"columns": {"src": "1", "dst": "2"}}),
    "a tab": ("0\t1\n1\t2\n", {"delimiter": "tab"}),
}


@pytest.mark.parametrize("case", TEXTS)
def test_the_first_edges_are_those_that_the_import_stores(case, tmp_path):
    text, given = TEXTS[case]
    (tmp_path / "in.txt").write_text(text)
    hints = TextHints(**given)
    (edges,) = previewed(tmp_path / "in.txt", tmp_path, hints)["edges"]
    import_graph(tmp_path / "in.txt", tmp_path / "g.ng", hints=hints, edge_ids=True)
    stored = [[value for value in row if value is not None] for row in edges_of(tmp_path / "g.ng")]
    assert edges["rows"] == stored
    assert len(stored) >= 2


def test_a_preview_has_five_rows_and_leaves_nothing(tmp_path):
    text = "".join(f"{k} {k + 1}\n" for k in range(100))
    (tmp_path / "in.txt").write_text(text)
    columns, rows = dry_run(tmp_path / "in.txt", "--out", tmp_path / "g.ng")
    assert columns == ["source", "destination"]
    assert rows == [[k, k + 1] for k in range(5)]
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_preview_goes_on_in_the_next_file(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"{ord(name)},0\n{ord(name)},1\n")
    (edges,) = previewed(str(tmp_path / "*.csv"), tmp_path)["edges"]
    assert [row[0] for row in edges["rows"]] == [97, 97, 98, 98, 99]


def test_a_wrong_delimiter_header_or_column_shows(tmp_path):
    (tmp_path / "in.csv").write_text("id,from,to\n0,7,8\n1,8,7\n")
    out = ["--out", tmp_path / "g.ng"]
    columns, rows = dry_run(tmp_path / "in.csv", *out)
    assert rows == [[7, 8], [8, 7]]
    swapped = dry_run(tmp_path / "in.csv", *out, "--columns", "src=to,dst=from")
    assert swapped == (columns, [[8, 7], [7, 8]])
    said = refused(tmp_path / "in.csv", *out, "--dry-run", "--no-header")
    assert 'in.csv, line 1: "id" is not a number' in said


def test_a_bad_row_behind_the_first_is_left_to_the_import(tmp_path):
    (tmp_path / "in.txt").write_text("0 1\n" * 5 + "x y\n")
    assert len(dry_run(tmp_path / "in.txt", "--out", tmp_path / "g.ng")[1]) == 5


def test_an_input_without_edges_has_no_rows(tmp_path):
    (tmp_path / "in.csv").write_text("src,dst\n")
    assert dry_run(tmp_path / "in.csv", "--out", tmp_path / "g.ng")[1] == []


def test_ids_that_are_renumbered_are_shown_as_the_input_has_them(tmp_path):
    (tmp_path / "in.txt").write_text(f"{2**50} 7\n")
    out = ["--out", tmp_path / "g.ng"]
    assert dry_run(tmp_path / "in.txt", *out, "--relabel")[1] == [[2**50, 7]]
    assert "is too large" in refused(tmp_path / "in.txt", *out, "--dry-run")


@pytest.mark.parametrize("layout", ["pairs", "rows"])
def test_arrays_are_shown_by_edge(layout, tmp_path):
    ends = np.arange(12).reshape(6, 2)
    np.save(tmp_path / "in.npy", ends if layout == "pairs" else ends.T.copy())
    assert dry_run(tmp_path / "in.npy", "--out", tmp_path / "g.ng")[1] == ends[:5].tolist()


def test_nodes_are_shown_with_names_tensors_and_classes(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "edges.csv").write_text("src,dst,w,kind\nb,a,0.5,3\n")
    (tmp_path / "nodes.csv").write_text("id,y,x_0,x_1\na,no,1,2.5\nb,,3,nan\n")
    preview = previewed(tmp_path, tmp_path)
    assert preview["nodes"] == [
        {
            "type": "node",
            "num_nodes": 2,
            "names": ["a", "b"],
            "tensors": [
                {"name": "x", "dtype": "f32", "shape": [2], "rows": [[1, 2.5], [3, "nan"]]},
                {"name": "y", "dtype": "i64", "shape": [], "rows": ["no", None]},
            ],
        }
    ]
    (edges,) = preview["edges"]
    assert edges["type"] == ["node", "to", "node"]
    assert edges["columns"] == ["source", "destination", "weight"]
    assert edges["rows"] == [["b", "a", 0.5]]
    kind = {"name": "kind", "dtype": "i64", "shape": [], "rows": [3]}
    assert edges["tensors"] == [kind]


def test_wide_rows_are_cut_and_narrow_dtypes_named(tmp_path):
    x = np.arange(3000, dtype=np.float32).reshape(3, 1000)
    tensor = TensorPlan("x", "f32", (1000,), lambda: iter([x]), 3)
    chunk = EdgeChunk(np.array([0]), np.array([1]))
    edge = EdgePlan(chunks=lambda: iter([chunk]), num_edges=1)
    plan = GraphPlan("test", "test", [NodePlan(num_nodes=3, tensors=[tensor])], [edge])
    (nodes,) = preview_import(plan, tmp_path / "g.ng", ImportOptions(x_dtype="f16"))["nodes"]
    (shown,) = nodes["tensors"]
    assert (shown["dtype"], shown["shape"]) == ("f16", [1000])
    assert shown["rows"] == x[:, :64].tolist()


def test_the_table_names_columns_as_they_are_stored(tmp_path):
    (tmp_path / "in.csv").write_text("user,item,time\n3,4,5\n")
    given = ["--bipartite", "user,rates,item", "--columns", "src=0,dst=1"]
    shown = import_command(tmp_path / "in.csv", *given, "-o", tmp_path / "g.ng", "--dry-run")[0]
    assert "First edges of type (user, rates, item)" in shown
    for heading in ("source (user)", "destination (item)", "time"):
        assert heading in shown


def test_a_dry_run_ends_with_the_notes_of_the_plan(tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n3,4\n")
    shown = import_command(tmp_path / "in.csv", "-o", tmp_path / "g.ng", "--dry-run")[0]
    assert "note: [columns-guessed]" in shown
    assert "name the columns with --columns src=NAME,dst=NAME" in shown
