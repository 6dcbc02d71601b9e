"""Model files in fewer bits: what they give, what they weigh, what is refused, in both runtimes."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from torch_geometric.data import Data  # noqa: E402
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, SimpleConv  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.cli.app import main  # noqa: E402
from neargraph.exceptions import (  # noqa: E402
    ExportFailed,
    UnsupportedArgument,
    UnsupportedModel,
    WrongInput,
)

NODES, WIDTH, CLASSES = 60, 24, 3
LAYERS = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv}
WAYS = ["int8", "f16", "fixed4", "fixed8", "fixed16", "fixed32"]


class Net(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first, self.second = layer(WIDTH, 16), layer(16, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def graph(seed=0, nodes=NODES):
    """Nodes whose class is where their features are largest, with edges inside of a class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, nodes)
    x = rng.normal(size=(nodes, WIDTH)).astype(np.float32)
    x[np.arange(nodes), y] += 4
    ends = rng.integers(0, nodes, (2, 8 * nodes))
    ends = ends[:, y[ends[0]] == y[ends[1]]]
    mask = np.arange(nodes) % 2 == 0
    return {"x": x, "edge_index": ends, "y": y, "val_mask": mask, "test_mask": ~mask}


@pytest.fixture(scope="module", params=LAYERS)
def model_file(request, tmp_path_factory):
    torch.manual_seed(1)
    data = graph()
    model = Net(LAYERS[request.param])
    x, edge_index, y = (torch.as_tensor(data[name]) for name in ("x", "edge_index", "y"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(30):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edge_index), y).backward()
        optimizer.step()
    path = tmp_path_factory.mktemp(request.param) / "model"
    ng.export(model.eval(), (x, edge_index), path, metadata={"origin": "a test"})
    return path


def inputs(data):
    return {name: data[name] for name in ("x", "edge_index")}


@pytest.mark.parametrize("to", WAYS)
def test_files_in_fewer_bits_are_right_and_run_in_both_runtimes(model_file, to, tmp_path):
    data = graph()
    done = ng.quantise(model_file, tmp_path / "narrow", to=to, data=data)
    before, after = done.measured
    assert (before.name, after.name) == ("float", to)
    assert before.evaluated == after.evaluated == NODES // 2
    assert before.right >= 0.95 * before.evaluated, "the model was trained"
    lost = {"fixed4": 0.2}.get(to, 0.05) * before.evaluated
    assert after.right >= before.right - lost, done.table()
    assert before.largest_difference == 0.0 < after.largest_difference
    onnx.checker.check_model(tmp_path / "narrow" / "model.onnx", full_check=True)
    session = onnxruntime.InferenceSession(
        tmp_path / "narrow" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    narrow = ng.Dfg.open(tmp_path / "narrow")
    empty = {"x": data["x"][:1] * 0, "edge_index": np.empty((2, 0), np.int64)}
    for batch in (inputs(data), inputs(graph(7, 23)), empty):
        found = narrow.run(batch)["out"]
        wanted = session.run(None, batch)[0]
        assert np.abs(found - wanted).max(initial=0) <= 1e-5 * max(1, np.abs(wanted).max())
    # A step of a row that another sum rounds to would be larger by far.
    exact = narrow.run(inputs(data), devices=["cpu-scalar"])["out"]
    assert np.abs(exact - narrow.run(inputs(data))["out"]).max() <= 1e-4


# The softmax of GAT is in single precision, which devices sum in different orders.
@pytest.mark.parametrize("model_file", ["gcn", "sage"], indirect=True)
def test_fixed_point_has_the_same_bits_on_every_device(model_file, tmp_path):
    data = graph()
    ng.quantise(model_file, tmp_path / "fixed.ngm", to="fixed8", data=data)
    fixed = ng.Dfg.open(tmp_path / "fixed.ngm")
    runs = [fixed.run(inputs(data), devices=[name])["out"] for name in ("cpu", "cpu-scalar")]
    assert np.array_equal(*runs)
    again = ng.quantise(model_file, tmp_path / "again.ngm", to="fixed8", data=data)
    assert (tmp_path / "again.ngm").read_bytes() == (tmp_path / "fixed.ngm").read_bytes()
    assert all(bits == 8 for bits, _ in again.formats.values())
    assert again.runs <= 1 + 2 * 3 * len(again.formats)
    assert again.losses[1] < again.losses[0] + 0.1


def weight_bytes(path):
    """Bytes of two-dimensional weights by dtype."""
    found = {}
    for weight in ng.Dfg.open(path).info()["weights"]:
        if len(weight["shape"]) == 2:
            found[weight["dtype"]] = found.get(weight["dtype"], 0) + weight["bytes"]
    return found


def test_weights_are_as_narrow_in_the_file_as_said(model_file, tmp_path):
    data = graph()
    matrices = weight_bytes(model_file)["f32"] // 4
    for to, dtype, wide in [("int8", "i8", 1), ("f16", "f16", 2), ("fixed16", "i16", 2)]:
        done = ng.quantise(model_file, tmp_path / f"{to}.ngm", to=to, data=data)
        assert weight_bytes(tmp_path / f"{to}.ngm") == {dtype: matrices * wide}
        assert done.measured[1].weight_bytes < done.measured[0].weight_bytes
        assert any("weight" in name for name in done.narrowed)
    said = ng.Dfg.open(tmp_path / "int8.ngm").info()["metadata"]
    assert (said["origin"], said["quantised"]) == ("a test", "int8")


def test_data_may_be_of_pyg_or_come_without_labels(model_file, tmp_path):
    data = graph()
    tensors = {name: torch.as_tensor(array) for name, array in data.items()}
    done = ng.quantise(model_file, tmp_path / "pyg", to="int8", data=Data(**tensors))
    assert done.measured[1].evaluated == NODES // 2
    heard = []
    done = ng.quantise(
        model_file,
        tmp_path / "plain",
        to="fixed12",
        data=inputs(data),
        rounds=1,
        progress=lambda runs, most: heard.append((runs, most)),
    )
    assert done.measured[1].right is None
    assert "no labels" in done.table()
    assert heard[-1][0] == done.runs == len(heard) <= heard[0][1]
    # Squares of differences, so the search begins and ends near 0.
    assert done.losses[0] == 0.0 < done.losses[1] < 1e-2
    none = ng.quantise(model_file, tmp_path / "none", to="f16")
    assert none.measured == ()
    assert none.losses is None


def test_what_does_not_fit_is_named_and_nothing_is_written(model_file, tmp_path):
    data = graph()
    target = tmp_path / "target"

    def refused(kind, words, **given):
        given = {"to": "int8", "data": data} | given
        with pytest.raises(kind, match=words):
            ng.quantise(model_file, target, **given)
        assert not target.exists()

    refused(UnsupportedArgument, "to='int4' is not valid", to="int4")
    refused(
        UnsupportedArgument,
        "needs example inputs to choose the fixed-point formats",
        to="fixed8",
        data=None,
    )
    refused(UnsupportedArgument, "data= has no 'x'", data={"edge_index": data["edge_index"]})
    whole = data | {"x": data["edge_index"]}
    refused(UnsupportedArgument, "'x' in data= has dtype int64: expected float32", data=whole)
    refused(WrongInput, "33 is not a valid number of bits", to="fixed33")
    bad = data["x"].copy()
    bad[3, 3] = np.nan
    refused(WrongInput, '"x" is NaN on the calibration data', to="fixed8", data=data | {"x": bad})

    def interrupt(runs, most):
        raise KeyboardInterrupt(f"at {runs} of {most}")

    refused(KeyboardInterrupt, "at 1 of", to="fixed8", progress=interrupt)
    with pytest.raises(ExportFailed, match="already exists"):
        ng.quantise(model_file, model_file)


def test_a_model_without_linear_layers_is_refused(tmp_path):
    data = inputs(graph())
    example = tuple(map(torch.as_tensor, data.values()))
    ng.export(SimpleConv(aggr="sum").eval(), example, tmp_path / "sum")
    with pytest.raises(UnsupportedModel, match="no weight can be quantised"):
        ng.quantise(tmp_path / "sum", tmp_path / "narrow")


def test_outliers_and_rows_of_zeros_change_no_other_row(model_file, tmp_path):
    data = graph()
    ng.quantise(model_file, tmp_path / "int8", to="int8")
    narrow = ng.Dfg.open(tmp_path / "int8")
    alone = {"x": data["x"], "edge_index": np.stack([np.arange(NODES)] * 2)}
    before = narrow.run(alone)["out"]
    odd = data["x"].copy()
    odd[0], odd[1] = 1e20, 0
    after = narrow.run(alone | {"x": odd})["out"]
    assert np.array_equal(before[2:], after[2:])
    assert np.isfinite(after).all()


def test_the_command_prints_both_and_reads_a_store(model_file, tmp_path, capsys):
    data = graph()
    np.savez(tmp_path / "data.npz", **data)
    arguments = ["quantise", str(model_file), "--data", str(tmp_path / "data.npz")]
    with pytest.raises(SystemExit) as ended:
        main([*arguments[:2], str(tmp_path / "a.ngm"), *arguments[2:], "--json"])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in said["measured"]] == ["float", "int8"]
    tensors = {name: torch.as_tensor(array) for name, array in data.items()}
    ng.from_pyg(Data(**tensors), tmp_path / "g.ng")
    with pytest.raises(SystemExit):
        main(
            ["quantise", str(model_file), str(tmp_path / "b.ngm"), "--data", str(tmp_path / "g.ng")]
        )
    assert "correct nodes" in capsys.readouterr().out
    with ng.open(tmp_path / "g.ng") as store:
        found = ng.quantise(model_file, tmp_path / "c.ngm", data=store).measured
    assert [row.right for row in found] == [row["right"] for row in said["measured"]]
