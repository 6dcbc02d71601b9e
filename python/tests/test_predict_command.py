"""`neargraph predict`: answers for splits, ids and files of ids, as JSON, NumPy and Parquet."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

import neargraph as ng  # noqa: E402
from neargraph.cli import main  # noqa: E402
from neargraph.datasets import plan_generated  # noqa: E402
from neargraph.importers import ImportOptions, run_import  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    run_import(
        plan_generated(800, 4000, 16, 4), folder / "g.ng", ImportOptions(split_sizes=(60, 20, 20))
    )
    torch.manual_seed(1)
    with ng.open(folder / "g.ng", memory="64MB") as store:
        ng.export(ng.nn.GraphSAGE(16, 8, 4).eval(), store, folder / "m.ngm", fanouts=[5, 3])
    return folder


def run(made, *more, capsys):
    with pytest.raises(SystemExit) as left:
        main(["predict", str(made / "g.ng"), str(made / "m.ngm"), *map(str, more)])
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err


def test_classes_of_ids_and_of_a_split(made, capsys):
    code, out, err = run(made, "--nodes", "5,700,5", "--top", 2, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [one["node"] for one in found["answers"]] == [5, 700, 5]
    with ng.open(made / "g.ng") as store, ng.Engine(store, made / "m.ngm") as engine:
        rows = engine.run([5, 700, 5])
        test = store.split("test")
    shares = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
    for one, wanted in zip(found["answers"], shares, strict=True):
        first, second = one["classes"]
        assert first["class"] == wanted.argmax()
        assert first["probability"] == pytest.approx(wanted.max(), rel=1e-5)
        assert first["probability"] >= second["probability"]
    code, out, _ = run(made, "--json", capsys=capsys)
    assert [one["node"] for one in json.loads(out)["answers"]] == test.tolist()
    code, out, _ = run(made, capsys=capsys)
    assert "node " in out
    assert "more; use --json or --out for all" in out


def test_rows_go_into_files(made, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    np.save(tmp_path / "ids.npy", np.array([3, 1]))
    for name in ("out.npy", "out.parquet"):
        code, out, _ = run(
            made, "--nodes", tmp_path / "ids.npy", "--out", tmp_path / name, "--json", capsys=capsys
        )
        assert code == 0
        assert json.loads(out)["shape"] == [2, 4]
    rows = np.load(tmp_path / "out.npy")
    table = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert table["node"] == [3, 1]
    assert np.array_equal(np.array([table[f"out_{at}"] for at in range(4)]).T, rows)
    code, out, _ = run(made, "--nodes", "3,1", "--raw", "--json", capsys=capsys)
    assert [one["row"] for one in json.loads(out)["answers"]] == rows.tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "some"], "is not valid: expected train, val, test, all, ids (e.g. 17,4)"),
        (["--nodes", "5,801"], "801"),
        (["--out", "x.csv"], "expected a name ending in .npy or .parquet"),
        (["--top", "0"], "--top is 0"),
        (["--prepare", "much"], "'much' is not one of 'metadata', 'hot', 'all'"),
    ],
)
def test_what_cannot_be_is_one_line(made, options, words, capsys):
    code, _, err = run(made, *options, capsys=capsys)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
