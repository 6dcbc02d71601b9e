"""The command line as a user meets it: output, exit codes, one-line errors, JSON."""

import json
from pathlib import Path

import pytest

import neargraph as ng
from neargraph.cli import commands, main
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "g.ng"
    run_import(plan_generated(800, 4000, 16, 4), path, ImportOptions(split_sizes=(60, 20, 20)))
    return path


def run(*arguments, capsys):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def edge_file(folder):
    (folder / "e.csv").write_text("src,dst\n" + "".join(f"{k},{k + 1}\n" for k in range(500)))
    return folder / "e.csv"


def test_import_prints_the_estimate_then_the_report(tmp_path, capsys):
    code, out, err = run("import", edge_file(tmp_path), "--out", tmp_path / "g.ng", capsys=capsys)
    assert (code, err) == (0, "")
    assert out.index("Estimate for") < out.index("memory budget") < out.index("Wrote")
    assert "format" in out
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert (store.num_nodes, store.num_edges) == (501, 500)


def test_a_dry_run_estimates_and_writes_nothing(tmp_path, capsys):
    source = edge_file(tmp_path)
    code, out, _ = run(
        "import", source, "--out", tmp_path / "g.ng", "--dry-run", "--json", capsys=capsys
    )
    estimate = json.loads(out)["estimate"]
    assert code == 0
    assert 450 <= estimate["edges"] <= 550
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


def test_every_import_option_reaches_the_store(tmp_path, capsys):
    code, out, _ = run(
        "import",
        edge_file(tmp_path),
        "--out",
        tmp_path / "g.ng",
        "--undirected",
        "--unique",
        "--self-loops",
        "add",
        "--edge-ids",
        "--fill",
        "0.7",
        "--page-size",
        "8KiB",
        "--split-sizes",
        "50,25,25",
        "--seed",
        "3",
        "--num-nodes",
        "600",
        "--memory",
        "128MB",
        "--threads",
        "1",
        "--json",
        capsys=capsys,
    )
    assert code == 0, out
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        assert json.loads(out)["report"]["fingerprint"] == store.fingerprint
        kind = store.schema.edge_types[0]
        assert (kind.undirected, kind.has_edge_ids) == (True, True)
        assert (store.num_nodes, store.num_edges) == (600, 2 * 500 + 600)
        assert len(store.split("train")) == 300
        assert store.info()["page_bytes"] == 8192


def test_info_shows_types_and_tensors(store, capsys):
    code, out, _ = run("info", store, capsys=capsys)
    assert code == 0
    for word in ("node - to - node", "x f32", "split_0 u8", "800", "4,000"):
        assert word in out
    code, out, _ = run("info", store, "--json", capsys=capsys)
    assert json.loads(out)["num_edges"] == 4000


def test_info_reads_the_first_and_last_time_where_it_is_asked_to(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("src,dst,time\n0,1,-7\n1,2,40\n2,0,3\n")
    run("import", tmp_path / "e.csv", "--out", tmp_path / "t.ng", capsys=capsys)
    for asked in (False, True):
        more = ["--times"] if asked else []
        _, out, _ = run("info", tmp_path / "t.ng", *more, capsys=capsys)
        assert ("time -7 to 40" in out) is asked
        (edge,) = json.loads(run("info", tmp_path / "t.ng", "--json", *more, capsys=capsys)[1])[
            "edge_types"
        ]
        assert (edge.get("first_time"), edge.get("last_time")) == (
            (-7, 40) if asked else (None,) * 2
        )


def test_verify_passes_a_sound_store(store, capsys):
    code, out, _ = run("verify", store, capsys=capsys)
    assert code == 0
    assert "ok" in out
    assert json.loads(run("verify", store, "--json", capsys=capsys)[1])["ok"] is True


def test_verify_names_what_is_damaged_and_exits_with_1(store, capsys):
    victim = max(store.glob("*.dat"), key=lambda file: file.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x10
    victim.write_bytes(content)
    code, out, _ = run("verify", store, capsys=capsys)
    assert code == 1
    assert "DAMAGED" in out
    assert victim.name in out
    code, out, _ = run("verify", store, "--json", capsys=capsys)
    problems = json.loads(out)["problems"]
    assert code == 1
    assert [problem["file"] for problem in problems] == [victim.name]


def test_train_prints_accuracy_and_what_was_read(store, capsys):
    pytest.importorskip("torch_geometric")
    arguments = (
        "train",
        store,
        "--fanouts",
        "5,3",
        "--epochs",
        "1",
        "--hidden",
        "8",
        "--memory",
        "64MB",
        "--batch-size",
        "128",
    )
    code, out, _ = run(*arguments, capsys=capsys)
    assert code == 0
    for word in ("test accuracy", "seeds/s", "hit rate", "budget peak"):
        assert word in out
    code, out, _ = run(*arguments, "--json", capsys=capsys)
    result = json.loads(out)
    assert len(result["losses"]) == 4
    assert 0 <= result["test_accuracy"] <= 1


def test_doctor_says_what_it_found(tmp_path, capsys):
    code, out, _ = run("doctor", tmp_path, capsys=capsys)
    assert code == 0
    for word in ("python", "torch", "back end", "memlock"):
        assert word in out
    facts = json.loads(run("doctor", tmp_path, "--json", capsys=capsys)[1])
    assert facts["probe"]["backend"]
    assert facts["advice"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "{d}/none.ng"], "none.ng"),
        (["info", "{d}"], "not a store"),
        (["verify", "{d}/none.ng"], "none.ng"),
        (["train", "{d}/none.ng"], "none.ng"),
        (["doctor", "{d}/none"], "none"),
        (["import", "{d}/none.csv", "--out", "{d}/g.ng"], "none.csv: no such file"),
        (["import", "{d}/e.csv", "--out", "{d}/no/g.ng"], "does not exist"),
        (
            ["import", "{d}/e.csv", "--out", "{d}/g.ng", "--memory", "lots"],
            "'lots' is not a valid size",
        ),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--split-sizes", "1,2"], "60,20,20"),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--self-loops", "maybe"], "keep, remove"),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--columns", "a=1"], "is not a valid column"),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--columns", "src=9"], "have 2 columns"),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--format", "xml"], "not a valid format"),
        (["import", "{d}/e.csv", "--out", "{d}/g.ng", "--page-size", "5000"], "4096"),
        (["train", "{d}/none.ng", "--fanouts", "many"], "expected comma-separated whole numbers"),
        (["train", "{d}/none.ng", "--model", "sagee"], "is not one of 'sage', "),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(arguments, message, tmp_path, capsys):
    edge_file(tmp_path)
    code, out, err = run(*(a.replace("{d}", str(tmp_path)) for a in arguments), capsys=capsys)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["e.csv"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", "NONE", "--out", "G"],
        ["update", "NONE", "--from", "NONE"],
        *([name, "NONE"] for name in ("info", "verify", "checkpoint", "compact", "compile")),
        *([name, "NONE"] for name in ("reorganize", "scrub", "train", "simulate")),
        ["profile", "train", "NONE"],
        ["train", "STORE", "--memory", "3 apples"],
    ],
)
def test_debug_shows_the_traceback_and_the_exit_code_stays(store, tmp_path, arguments, capsys):
    places = {"NONE": tmp_path / "none", "G": tmp_path / "out.ng", "STORE": store}
    given = [places.get(word, word) for word in arguments]
    code, _, said = run(*given, capsys=capsys)
    assert code == 2
    assert "Traceback" not in said
    code, _, more = run(*given, "--debug", capsys=capsys)
    assert code == 2
    assert "Traceback" in more
    assert more.endswith(said), "the line that everybody sees comes last"


def test_a_usage_error_stays_what_it_is_with_debug(capsys):
    assert run("info", "--debug", capsys=capsys)[0] == 2
    code, _, said = run("info", "--colour", "--debug", capsys=capsys)
    assert (code, "Traceback" in said) == (2, False)


def test_the_readme_lists_the_commands_as_the_table_of_commands_does():
    lines = []
    for group in commands.GROUPS:
        lines.append(f"| **{group}** | |")
        of_group = [entry for entry in commands.COMMANDS if entry.group == group]
        lines += [f"| `{entry.name}` | {entry.summary} |" for entry in of_group]
    assert "\n".join(lines) in (ROOT / "README.md").read_text()
