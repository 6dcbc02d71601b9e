"""`neargraph update` on rows and files that are wrong in every way: one line, never a traceback."""

import gzip
import json
import random
import zipfile

import numpy as np
import pytest
from update_model import make_store

import neargraph as ng
from neargraph.cli import main

GOOD = "add_edge,cites,0,1,,,1,2"
HEADER = "op,edge_type,source,destination,time,weight,edge_attr_0,edge_attr_1"


@pytest.fixture
def path(tmp_path):
    return make_store(tmp_path / "g.ng")


def run(capsys, *arguments) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(["update", *map(str, arguments)])
    return left.value.code or 0, *capsys.readouterr()


def edge(kind="cites", source="0", destination="1", time="", weight="", a="1", b="2") -> str:
    return f"add_edge,{kind},{source},{destination},{time},{weight},{a},{b}"


BAD = {
    "field of more than 128 KiB": edge(a="1" * 140_000),
    "id of 2^63": edge(source=str(2**63)),
    "id of 2^64": edge(destination=str(2**64)),
    "id of 5,000 digits": edge(source="9" * 5000),
    "negative id": edge(source="-1"),
    "id of 2^63 below 0": edge(source=str(-(2**63))),
    "fraction as id": edge(source="1.5"),
    "text as id": edge(source="nan"),
    "time of 2^63": edge("writes", time=str(2**63), a="", b=""),
    "time below -2^63": edge("writes", time=str(-(2**63) - 1), a="", b=""),
    "weight inf": edge("knows", weight="inf", a="", b=""),
    "weight nan": edge("knows", weight="nan", a="", b=""),
    "weight beyond f32": edge("knows", weight="1e39", a="", b=""),
    "value beyond f32": edge(a="1e39"),
    "huge number as value": edge(a="9" * 5000),
    "NUL in a field": edge(a="1\0"),
    "NUL in a name": edge("ci\0tes"),
    "too few fields": "add_edge,cites,0",
    "too many fields": GOOD + ",1",
    "an empty line": "",
    "unknown operation": GOOD.replace("add_edge", "paint"),
    "operation of 100 KB": GOOD.replace("add_edge", "a" * 100_000),
    "unknown type": edge("paints"),
    "type of 100 KB": edge("x" * 100_000),
    "bytes that are no UTF-8": edge("ci\udcfftes"),
}


def write(path, rows):
    text = "\n".join([HEADER, *rows]) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@pytest.mark.parametrize("why", BAD)
def test_a_bad_row_stops_the_run_with_one_line_or_is_skipped_and_listed(
    path, tmp_path, capsys, why
):
    source = write(tmp_path / "e.csv", [GOOD, BAD[why], GOOD])
    code, _, said = run(capsys, path, "--from", source)
    assert code == 2
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "row 2" in said
    assert len(said) < 3000
    with ng.open(path, memory="32MB") as store:
        assert store.lsn == 0
    code, out, said = run(capsys, path, "--from", source, "--on-error", "skip", "--json")
    assert (code, said) == (0, "")
    facts = json.loads(out)
    assert (facts["applied"], facts["skipped"], len(facts["messages"])) == (2, 1, 1)
    assert facts["messages"][0].startswith("row 2: ")


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_an_update_whose_rows_were_all_skipped_fails(path, tmp_path, capsys, dry):
    source = write(tmp_path / "e.csv", [BAD["unknown operation"]] * 3)
    arguments = [path, "--from", source, "--on-error", "skip", *dry]
    code, out, said = run(capsys, *arguments, "--json")
    assert code == 2
    assert json.loads(out)["skipped"] == 3, "the report is there all the same"
    assert "none of the 3 rows" in said
    source.write_text(HEADER + "\n")
    assert run(capsys, *arguments)[0] == 0, "no rows are no failure"


def test_columns_that_are_there_twice_or_have_absurd_numbers_are_refused(path, tmp_path, capsys):
    for header in (
        "op,id,id",
        "op,x_0,x_1,x_01",
        "op,x_" + "9" * 5000,
        "op,x_0,x_99999999999",
        "o\udcffp,id",
        "op," + "a" * 200_000,
    ):
        row = ",".join(["add_node", *["1"] * header.count(",")])
        source = tmp_path / "e.csv"
        source.write_bytes(f"{header}\n{row}\n".encode("utf-8", "surrogateescape"))
        code, _, said = run(capsys, path, "--from", source, "--on-error", "skip")
        assert (code, said.count("\n")) == (2, 1), header[:40]
        assert len(said) < 3000


def test_files_that_cannot_be_read_are_refused(path, tmp_path, capsys):
    whole = gzip.compress((HEADER + "\n" + f"{GOOD}\n" * 50_000).encode())
    (tmp_path / "none.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flip.csv.gz").write_bytes(whole[:60] + bytes(64) + whole[124:])
    (tmp_path / "none.parquet").write_bytes(b"PAR1 no PAR1")
    (tmp_path / "none.npz").write_bytes(b"PK no")
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    np.savez(tmp_path / "objects.npz", op=np.array(["add_node", None], dtype=object))
    np.savez(tmp_path / "lengths.npz", op=np.array(["add_node"] * 3), id=np.arange(2))
    np.savez(tmp_path / "single.npz", op=np.array("add_node"))
    for name, header in (
        ("paren", "(" * 40),
        ("huge", "{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807,), }"),
    ):
        head = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w") as file:
            file.writestr("op.npy", head)
    (tmp_path / "folder.csv").mkdir()
    for source in sorted(tmp_path.iterdir()):
        if source.suffix == ".ng":
            continue
        for more in ([], ["--on-error", "skip"]):
            code, _, said = run(capsys, path, "--from", source, *more)
            assert (code, said.count("\n")) == (2, 1), (source.name, said)
            assert source.name in said
            assert len(said) < 3000


def test_nested_values_of_parquet_are_bad_rows(path, tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    good = {"op": "add_node", "node_type": "paper", "x": [1.0, 2.0, 3.0]}
    columns = {
        "struct": (arrow.struct([("a", arrow.int64())]), {"a": 1}),
        "list of lists": (arrow.list_(arrow.list_(arrow.float32())), [[1.0], [2.0, 3.0]]),
        "texts": (arrow.list_(arrow.string()), ["a", "b", "c"]),
        "map": (arrow.map_(arrow.string(), arrow.int64()), [("a", 1)]),
        "null inside": (arrow.list_(arrow.float32()), [1.0, None, 2.0]),
        "time": (arrow.timestamp("ns"), 1),
    }
    for name, (kind, value) in columns.items():
        schema = [("op", arrow.string()), ("node_type", arrow.string()), ("x", kind)]
        rows = [{**good, "x": value}, {**good, "x": None}]
        parquet.write_table(
            arrow.Table.from_pylist(rows, schema=arrow.schema(schema)), tmp_path / "e.parquet"
        )
        code, _, said = run(capsys, path, "--from", tmp_path / "e.parquet")
        assert (code, said.count("\n"), "row 1" in said) == (2, 1, True), (name, said)
        arguments = [path, "--from", tmp_path / "e.parquet", "--on-error", "skip", "--json"]
        code, out, _ = run(capsys, *arguments)
        facts = json.loads(out)
        assert (code, facts["applied"], facts["skipped"]) == (0, 1, 1), name
    for column, kind, value in (
        ("node_type", arrow.list_(arrow.string()), ["paper"]),
        ("op", arrow.binary(), b"\xff\xfe"),
        ("id", arrow.float64(), 1.0),
        ("id", arrow.uint64(), 2**64 - 1),
        ("time", arrow.timestamp("us"), 5),
    ):
        names = {"op": arrow.string(), "node_type": arrow.string(), column: kind}
        table = arrow.Table.from_pylist(
            [{**good, column: value}], schema=arrow.schema(names.items())
        )
        parquet.write_table(table, tmp_path / "e.parquet")
        code, _, said = run(capsys, path, "--from", tmp_path / "e.parquet", "--on-error", "skip")
        assert (code, said.count("\n")) == (2, 1), (column, said)


def test_texts_of_parquet_that_are_no_utf8_are_bad_rows(path, tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = arrow.array([b"paper", b"pa\xffper", b"paper"], arrow.binary()).view(arrow.string())
    table = arrow.table({"op": ["add_node"] * 3, "node_type": texts})
    parquet.write_table(table, tmp_path / "e.parquet")
    arguments = [path, "--from", tmp_path / "e.parquet", "--on-error", "skip", "--json"]
    facts = json.loads(run(capsys, *arguments)[1])
    assert (facts["applied"], facts["skipped"]) == (2, 1)
    assert facts["messages"][0].startswith("row 2: ")


def test_random_rows_are_applied_or_listed_and_the_run_goes_on_to_the_end(path, tmp_path, capsys):
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed:", seed)
    draw = random.Random(seed)
    # Without `id` no new node can be refused for its id, which stops a run on purpose.
    names = f"{HEADER},edge_id,node_type,x_0,x_1,x_2".split(",")
    words = ["", "paper", "author", "cites", "writes", "knows", "0", "1", "11", "-1", "1e400",
             "nan", "-inf", "1_0", "\u0663", str(2**31), str(2**63 - 1), str(2**63), str(2**64),
             "9" * 4400, "1" * 140_000, "\x00", "\ufeff", "1.5", "true", "[1]", "None", " 3",
             "\udc80", "1,1"]  # fmt: skip
    ops = ["add_node", "add_edge", "delete_edge", "update", "paint"]
    count = 600
    rows = [
        ",".join([draw.choice(ops), *(draw.choice(words) for _ in names[1:])]) for _ in range(count)
    ]
    good = dict.fromkeys(names, "") | {"op": "add_node", "node_type": "author"}
    source = tmp_path / "e.csv"
    text = "\n".join([",".join(names), *rows, ",".join(good.values())])
    source.write_bytes(text.encode("utf-8", "surrogateescape"))
    code, out, said = run(capsys, path, "--from", source, "--on-error", "skip", "--json")
    assert (code, said) == (0, ""), seed
    facts = json.loads(out)
    assert facts["rows"] == facts["applied"] + facts["skipped"] == count + 1, seed
    assert facts["ops"]["add_node"] >= 1
    with pytest.raises(SystemExit) as left:
        main(["verify", path])
    assert (left.value.code or 0) == 0, seed


def test_the_python_face_refuses_the_same_values(path):
    with ng.open(path, memory="32MB") as store, store.write() as tx:
        with pytest.raises(ng.NodeOutOfRange):
            tx.add_edge("cites", 2**64, 1)
        with pytest.raises(ng.NodeNotFound):
            tx.delete_node("paper", 2**64)
        with pytest.raises(ng.EdgeNotFound):
            tx.delete_edge("cites", 0, 1, 2**64)
        with pytest.raises(ng.EdgeNotFound):
            tx.delete_edge("cites", 0, 1, -1)
        for time in (2**63, -(2**63) - 1, 2**70):
            with pytest.raises(ng.UnsupportedArgument, match="64 bits"):
                tx.add_edge("writes", 0, 1, time=time)
        for weight in (float("nan"), float("inf"), 1e39):
            with pytest.raises(ng.UnsupportedArgument, match="weight"):
                tx.add_edge("knows", 0, 1, weight=weight)
        with pytest.raises(ng.UnsupportedArgument, match="as float32"):
            tx.update_features("paper", 3, "x", [1.0, 1e39, 0.0])
        with pytest.raises(ng.UnsupportedArgument, match="'x'"):
            tx.update_features("paper", 3, "x", [[1.0], [2.0, 3.0]])
