"""Node and edge tables of several types in one command: keys, features, labels, part files."""

import gzip

import numpy as np
import pytest
from import_command import edges_of, import_command, refused
from realdata import Raw, RawEdges, check_store

import neargraph as ng
from neargraph.importers import Tables, TextHints, import_graph

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

BUYS = ("user", "buys", "item")
USERS = """user_id,city,age,income,churned
u17,Berlin,34,51000.5,no
u4,Paris,28,43000,yes
u99,Rome,51,99000,no
"""
ITEMS = pa.table(
    {
        "sku": ["A-1", "B-7", "C-3"],
        "price": pa.array([9.5, 3.25, 7.0], pa.float32()),
        "picture": pa.array([[0.5, 1], [2, 3], [4, 5]], pa.list_(pa.float32())),
    }
)
PURCHASES = """user_id,sku,time,amount
u17,A-1,100,2
u4,B-7,200,1
u17,B-7,300,3
"""
NAMED = ["--key", "user=user_id", "--key", "item=sku"]
ROWS = [("u17", "A-1", 100, None), ("u4", "B-7", 200, None), ("u17", "B-7", 300, None)]


@pytest.fixture
def shop(tmp_path):
    """The options that name the tables of a small shop."""
    (tmp_path / "users.csv").write_text(USERS)
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    (tmp_path / "buys.csv").write_text(PURCHASES)
    return [
        *("--nodes", f"user={tmp_path}/users.csv"),
        *("--nodes", f"item={tmp_path}/items.parquet"),
        *("--edges", f"user,buys,item={tmp_path}/buys.csv"),
    ]


def test_one_command_imports_keys_features_and_labels(shop, tmp_path):
    chosen = ["--features", "user=age,income", "--features", "item=picture"]
    chosen += ["--label", "user=churned"]
    import_command(*shop, *NAMED, *chosen, "--out", tmp_path / "g.ng")
    assert edges_of(tmp_path / "g.ng", BUYS) == ROWS
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        users, items = (store.schema.node_type(name) for name in ("user", "item"))
        assert {tensor.name for tensor in users.tensors} == {"x", "y"}
        assert {tensor.name for tensor in items.tensors} == {"x", "price"}
        found = store.snapshot().features("user", [0, 1, 2], "x")
        assert found.tolist() == [[34, 51000.5], [28, 43000], [51, 99000]]
        assert store.snapshot().features("user", [0, 1, 2], "y").tolist() == [0, 1, 0]
        assert store.snapshot().features("item", [1], "x").tolist() == [[2, 3]]
        assert store.snapshot().names([0, 1, 2], "user") == ["u17", "u4", "u99"]
        assert store.snapshot().edge_features(BUYS, [0, 1, 2], "amount").tolist() == [2, 1, 3]


def test_python_imports_the_same_tables(shop, tmp_path):
    command = import_command(*shop, *NAMED, "--out", tmp_path / "g.ng", "--json")[0]
    tables = Tables(
        edges={BUYS: tmp_path / "buys.csv"},
        nodes={"user": tmp_path / "users.csv", "item": tmp_path / "items.parquet"},
        keys={"user": "user_id", "item": "sku"},
    )
    report = import_graph(tables, tmp_path / "h.ng")
    assert report["fingerprint"] in command


def test_a_star_takes_all_numbers_that_nothing_else_is_made_of(shop, tmp_path):
    chosen = ["--features", "user=*", "--label", "user=churned"]
    import_command(*shop, *NAMED, *chosen, "--out", tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.snapshot().features("user", [0], "x").tolist() == [[34, 51000.5]]


def test_columns_of_ends_may_be_called_like_the_types(tmp_path):
    (tmp_path / "e.csv").write_text("item,when,user\n1,5,0\n")
    tables = Tables({BUYS: tmp_path / "e.csv"})
    import_graph(tables, tmp_path / "g.ng", edge_ids=True)
    assert edges_of(tmp_path / "g.ng", BUYS) == [(0, 1, None, None)]


def test_columns_are_named_for_one_table_among_several(shop, tmp_path):
    (tmp_path / "knows.csv").write_text("a,b,since\nu4,u17,7\n")
    more = ["--edges", f"user,knows,user={tmp_path}/knows.csv"]
    more += ["--columns", "knows:src=b,dst=a,time=since"]
    import_command(*shop, *more, *NAMED, "--edge-ids", "--out", tmp_path / "g.ng")
    assert edges_of(tmp_path / "g.ng", ("user", "knows", "user")) == [("u17", "u4", 7, None)]
    assert edges_of(tmp_path / "g.ng", BUYS) == ROWS


def test_keys_of_csv_keep_their_zeros(tmp_path):
    (tmp_path / "users.csv").write_text("id,age\n007,1\n7,2\n")
    (tmp_path / "knows.csv").write_text("src,dst\n7,007\n")
    tables = Tables({("user", "knows", "user"): tmp_path / "knows.csv"})
    both = Tables(tables.edges, {"user": tmp_path / "users.csv"})
    import_graph(both, tmp_path / "g.ng", edge_ids=True)
    assert edges_of(tmp_path / "g.ng") == [("7", "007", None, None)]
    hints = TextHints(strings=True)
    import_graph(tables, tmp_path / "h.ng", hints=hints, edge_ids=True)
    assert edges_of(tmp_path / "h.ng") == [("7", "007", None, None)]


def test_ids_that_become_text_far_behind_need_strings(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\n" + "1,2\n" * 90_000 + "x9,1\n")
    tables = Tables({("n", "to", "n"): tmp_path / "e.csv"})
    with pytest.raises(ng.ImportFailed, match=r"e\.csv: is damaged after row .*'x9'"):
        import_graph(tables, tmp_path / "g.ng")
    import_graph(tables, tmp_path / "g.ng", hints=TextHints(strings=True), unique=True)
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.num_nodes == 3


@pytest.mark.parametrize("joint", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_csv_tables_are_read_with_the_delimiter_of_their_first_line(joint, ending, tmp_path):
    text = "src,dst,amount\n0,1,2.5\n1,0,3\n".replace(",", joint).encode()
    file = tmp_path / f"e.{ending}"
    file.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    import_graph(Tables({("n", "to", "n"): file}), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        found = store.snapshot().edge_features(("n", "to", "n"), [0, 1], "amount")
        assert found.tolist() == [2.5, 3]


ENDS = np.random.default_rng(1).integers(0, 50, (2, 300))


def write_parts(folder, names=("part-0.parquet", "part-1.parquet", "part-2.parquet")):
    folder.mkdir()
    for name, part in zip(names, np.split(ENDS, 3, axis=1), strict=True):
        pq.write_table(pa.table({"src": part[0], "dst": part[1]}), folder / name)
    return folder


def same_as_parts(path):
    edges = RawEdges(*ENDS, np.arange(ENDS.shape[1]))
    check_store(path, Raw({"node": 50}, {}, {("node", "to", "node"): edges}))


def test_part_files_are_one_table_in_the_order_of_their_names(tmp_path):
    folder = write_parts(tmp_path / "edges")
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.parquet.crc").write_text("")
    files = sorted(folder.glob("*.parquet"))
    sources = [folder, str(folder / "*.parquet"), files, Tables({("node", "to", "node"): folder})]
    for number, source in enumerate(sources):
        import_graph(source, tmp_path / f"{number}.ng", edge_ids=True)
        same_as_parts(tmp_path / f"{number}.ng")


def test_a_folder_of_tables_may_hold_folders_of_parts(tmp_path):
    root = tmp_path / "graph"
    root.mkdir()
    write_parts(root / "edges")
    (root / "nodes.csv").write_text("id\n" + "".join(f"{k}\n" for k in range(50)))
    report = import_graph(root, tmp_path / "g.ng", edge_ids=True)
    assert {note["code"] for note in report["notes"]} == {"parallel-edges"}
    same_as_parts(tmp_path / "g.ng")


def test_node_tables_of_several_files_keep_the_order_of_rows(tmp_path):
    (tmp_path / "n1.csv").write_text("id,x_0\nb,1\n")
    (tmp_path / "n2.csv").write_text("x_0,id\n2,a\n")
    (tmp_path / "e.csv").write_text("src,dst\na,b\n")
    tables = Tables({("n", "to", "n"): tmp_path / "e.csv"}, {"n": str(tmp_path / "n?.csv")})
    import_graph(tables, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert store.snapshot().names([0, 1]) == ["b", "a"]
        assert store.snapshot().features(None, [0, 1], "x").tolist() == [[1], [2]]


def test_types_of_csv_files_are_those_of_all_of_them(tmp_path):
    for number, text in enumerate(("", "0,1,2,5\n", "1,0,0.5,7\nx,0,1,8\n")):
        (tmp_path / f"e{number}.csv").write_text("src,dst,w,kind\n" + text)
    tables = Tables({("n", "to", "n"): str(tmp_path / "e?.csv")})
    import_graph(tables, tmp_path / "g.ng", edge_ids=True)
    expected = [("0", "1", None, 2.0), ("1", "0", None, 0.5), ("x", "0", None, 1.0)]
    assert edges_of(tmp_path / "g.ng") == expected


def test_parquet_is_read_from_standard_input(tmp_path):
    file = write_parts(tmp_path / "edges") / "part-0.parquet"
    import_command("-", "--out", tmp_path / "g.ng", given=file.read_bytes())
    text = b"src,dst,w\n0,1,2\n"
    given = ["--format", "table", "--out", tmp_path / "h.ng"]
    import_command("-", *given, given=text)
    with ng.open(tmp_path / "h.ng", memory="64MB") as store:
        assert store.schema.edge_types[0].has_weight


def bad(options, message, **files):
    return options, message, files


EDGE = ["--edges", "a,to,b=e.csv"]
BAD = {
    "an unknown key": bad(
        [*EDGE, "--nodes", "a=n.csv"],
        'node type "a": an edge names the node "z", which the node table lacks; add its row',
        e="src,dst\nz,y\n",
        n="id\nq\n",
    ),
    "a key twice": bad(
        [*EDGE, "--nodes", "a=n.csv"],
        'rows 0 and 2 of the nodes have the same key "q"',
        e="src,dst\nq,y\n",
        n="id\nq\nr\nq\n",
    ),
    "no such key": bad(
        [*EDGE, "--nodes", "a=n.csv", "--key", "a=name"],
        "n.csv: has no column 'name'; use one of its columns: id, age",
        e="src,dst\n0,1\n",
        n="id,age\n0,1\n",
    ),
    "no such feature": bad(
        [*EDGE, "--nodes", "a=n.csv", "--features", "a=age,size"],
        "n.csv: has no column 'size'",
        e="src,dst\n0,1\n",
        n="id,age\n0,1\n",
    ),
    "features of text": bad(
        [*EDGE, "--nodes", "a=n.csv", "--features", "a=city"],
        "n.csv [city]: has type string, but features must be numbers; convert the column",
        e="src,dst\n0,1\n",
        n="id,city\n0,Rome\n",
    ),
    "a missing feature": bad(
        [*EDGE, "--nodes", "a=n.csv", "--features", "a=age"],
        "n.csv [age]: row 1 is null; fill or drop the row",
        e="src,dst\n0,1\n",
        n="id,age\n0,5\n1,\n",
    ),
    "no such type": bad(
        [*EDGE, "--key", "c=id"],
        "node type 'c' has no table to read its keys from (node types with a table: none)",
        e="src,dst\n0,1\n",
    ),
    "no such table": bad(
        ["--edges", "a,to,b=f.csv"], "f.csv: no such file or folder; check the path"
    ),
    "no match": bad(["--edges", "a,to,b=f*.csv"], "f*.csv: no file matches this pattern"),
    "an empty table": bad(EDGE, "another format than its name says (Empty CSV file)", e=""),
    "no ends": bad(
        EDGE,
        "e.csv: has no column with a name like 'src' (columns: x, y); name the columns with "
        "--columns src=NAME",
        e="x,y\n0,1\n",
    ),
    "other columns": bad(
        ["--edges", "a,to,b=e.csv", "--edges", "a,to,b=f.csv"],
        "f.csv: has the columns src, dst, w, but e.csv has src, dst; import files with the same",
        e="src,dst\n0,1\n",
        f="src,dst,w\n0,1,2\n",
    ),
    "a file twice": bad(
        ["--edges", "a,to,b=e.csv", "--edges", "a,to,b=e.csv"],
        "e.csv: is given twice; give each input once",
        e="src,dst\n0,1\n",
    ),
    "no edges": bad(["--nodes", "a=n.csv"], "--nodes needs a table of edges: --edges SRC,REL,DST"),
    "two ways": bad([*EDGE, "e.csv"], "give either files or --edges (with --nodes), not both"),
    "no input": bad([], "no input: name a file to read, or give tables with --edges"),
    "two names": bad(["--edges", "a,b=e.csv"], "'a,b' is not a valid edge type of --edges, expect"),
    "no names": bad(["--edges", "e.csv"], "'e.csv' is not a valid value of --edges, expected e.g."),
    "no type": bad([*EDGE, "--nodes", "n.csv"], "'n.csv' is not a valid value of --nodes"),
    "columns of no table": bad(
        [*EDGE, "--columns", "has:src=0"],
        "--columns has:src=0: 'has' names no table of --edges; expected one of a,to,b",
        e="src,dst\n0,1\n",
    ),
    "columns that are not": bad(
        [*EDGE, "--columns", "source=0"],
        "'source=0' is not a valid column, expected src=, dst=, time=, weight= or edge_id=",
    ),
    "a header": bad(
        [*EDGE, "--header"], "--header has no effect on the format table; leave out --header"
    ),
    "two types by name": bad(
        [*EDGE, "--bipartite", "a,b"],
        "edge tables already name their node types; leave out --bipartite",
        e="src,dst\n0,1\n",
    ),
    "another format": bad(
        [*EDGE, "--format", "npz"], "cannot be read in the format 'npz'; leave out"
    ),
    "text": bad(
        ["--edges", "a,to,b=e.md"], "e.md: its name is not that of a table; rename it", md="0 1\n"
    ),
    "a name that is empty": bad(EDGE, "a string id is empty", e="src,dst\nx,y\n,y\n"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_and_nothing_is_written(case, tmp_path, monkeypatch):
    options, message, files = BAD[case]
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / ("e.md" if name == "md" else f"{name}.csv")).write_text(text)
    before = sorted(tmp_path.iterdir())
    assert message in refused(*options, "--out", "g.ng")
    assert sorted(tmp_path.iterdir()) == before


def test_files_with_other_types_are_refused(tmp_path):
    folder = write_parts(tmp_path / "edges")
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), folder / "part-3.parquet")
    with pytest.raises(ng.ImportFailed, match=r"column 'src' is string, but in .*part-0\.parquet"):
        import_graph(folder, tmp_path / "g.ng")


def test_a_bad_row_is_named_by_its_file(tmp_path):
    folder = write_parts(tmp_path / "edges")
    rows = {"src": pa.array([0, None]), "dst": pa.array([1, 1])}
    pq.write_table(pa.table(rows), folder / "part-2.parquet")
    with pytest.raises(ng.ImportFailed, match=r"part-2\.parquet \[src\]: row 1 is null"):
        import_graph(folder, tmp_path / "g.ng")


def test_a_folder_with_something_else_is_no_table(tmp_path):
    folder = write_parts(tmp_path / "edges")
    (folder / "notes.txt").write_text("read me")
    tables = Tables({("n", "to", "n"): folder})
    with pytest.raises(ng.ImportFailed, match=r"holds notes\.txt, which is not a table"):
        import_graph(tables, tmp_path / "g.ng")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"edges": {}}, "edges= names no table"),
        ({"edges": {BUYS: "e.csv"}, "keys": {"user": "id"}}, "node type 'user' has no table"),
        ({"edges": {BUYS: "e.csv"}, "columns": {("a", "b", "c"): {}}}, "has no table"),
    ],
)
def test_tables_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Tables(**given)
