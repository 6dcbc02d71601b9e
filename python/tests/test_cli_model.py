"""`neargraph model`: what is in a model file, and one clear error for each damage."""

import json
import re
import sys

import numpy as np
import pytest
from test_cli_without_torch import run as run_without_torch
from typer.testing import CliRunner

import neargraph as ng
from neargraph._modelfiles import manifest
from neargraph.cli import app, main


def shown(*arguments):
    done = CliRunner().invoke(app, ["model", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def small(path):
    """Means of neighbours times a matrix of 10 by 8."""
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 10])
    edge_index = dfg.create_in("edge_index", "i64", [2, "edges"])
    rows = np.arange(80, dtype=np.float32).reshape(10, 8)
    weight = dfg.create_weight("lin.weight", rows)
    mean = dfg.create_op("SpMM_Mean", [edge_index, x])
    product = dfg.create_op("MatMul", [mean, weight])
    dfg.create_out("out", dfg.create_op("ReLU", product))
    dfg.save(path, fanouts=[25, 10], metadata={"schema_sha256": "abc"})
    return path


def test_the_table_names_what_is_in_the_file(tmp_path):
    text = shown(small(tmp_path / "m.ngm"))
    for words in (
        r"parameters +│ 80 ",
        r"weights +│ 320 B of f32",
        r"operator sets +│ ONNX 20, ai.neargraph 1",
        r"fanouts +│ \[25, 10\]",
        r"tensors of a batch +│ x, edge_index",
        r"SHA-256 of the store's schema +│ abc",
        r"SHA-256 of model.onnx +│ [0-9a-f]{64}",
        r"edge_index +│ i64 +│ \[2, edges\]",
        r"out +│ f32 +│ \[nodes, 8\]",
        r"lin.weight +│ f32 +│ \[10, 8\] +│ 320 B",
        r"SpMM_Mean +│ +1 │ cpu",
    ):
        assert re.search(words, text), (words, text)
    assert "problem" not in text


def test_json_has_the_same_facts_and_text_and_drawing_are_those_of_the_graph(tmp_path):
    path = small(tmp_path / "m")
    facts = json.loads(shown(path, "--json", "--draw", tmp_path / "m.svg"))
    assert facts["num_parameters"] == 80
    assert facts["metadata"] == {"fanouts": [25, 10], "schema_sha256": "abc"}
    assert facts["weights"][0] == {
        "name": "lin.weight",
        "dtype": "f32",
        "shape": [10, 8],
        "bytes": 320,
        "file": "model.safetensors",
    }
    assert [node["op"] for node in facts["nodes"]] == ["SpMM_Mean", "MatMul", "Relu"]
    assert facts["problems"] == []
    assert (tmp_path / "m.svg").read_text().startswith("<svg")
    assert shown(path, "--text") == ng.Dfg.open(path).text()
    with pytest.raises(ng.UnsupportedArgument, match="exclude each other"):
        CliRunner().invoke(app, ["model", str(path), "--json", "--text"], catch_exceptions=False)


def test_a_graph_that_cannot_run_yet_says_why(tmp_path):
    dfg = ng.Dfg()
    batch = dfg.create_in("Batch", "i64", ["seeds"])
    edges, x = dfg.create_op("BatchPre", batch)
    dfg.create_out("out", dfg.create_op("SpMM_Mean", [edges, x]))
    dfg.save(tmp_path / "m.ngm")
    text = shown(tmp_path / "m.ngm")
    assert "problem: no device has a kernel for BatchPre" in text
    assert re.search(r"BatchPre +│ +1 │ none", text)


def test_it_runs_without_torch(tmp_path):
    done = run_without_torch("model", small(tmp_path / "m.ngm"), "--draw", tmp_path / "m.svg")
    assert done.returncode == 0, done.stderr
    assert "lin.weight" in done.stdout


def node(proto, op):
    return next(one for one in proto.graph.node if one.op_type == op)


def weight(proto):
    return proto.graph.initializer[0]


def entry(proto, key):
    return next(one for one in weight(proto).external_data if one.key == key)


def cycle(proto):
    node(proto, "MatMul").input[0] = "out"


def external_path(proto):
    entry(proto, "location").value = "../../etc/passwd"


def behind_the_end(proto):
    entry(proto, "offset").value = "100000"


def wrong_length(proto):
    entry(proto, "length").value = "4"


def wrong_shape(proto):
    weight(proto).dims[:] = [8, 10]


def absurd_size(proto):
    weight(proto).dims[:] = [1 << 40, 1 << 40]


def missing_weight(proto):
    del proto.graph.initializer[:]


def missing_file(proto):
    entry(proto, "location").value = "other.safetensors"


def unknown_operator(proto):
    node(proto, "Relu").op_type = "FancyRelu"


def unknown_domain(proto):
    node(proto, "Relu").domain = "com.example"


def old_opset(proto):
    proto.opset_import[0].version = 12


def not_finite(proto):
    tensor = weight(proto)
    rows = np.arange(80, dtype=np.float32)
    rows[7] = np.nan
    tensor.ClearField("external_data")
    tensor.data_location = 0
    tensor.raw_data = rows.tobytes()


def control_flow(proto):
    import onnx

    body = onnx.helper.make_graph([], "body", [], [])
    proto.graph.node.append(onnx.helper.make_node("If", ["x"], ["z"], then_branch=body))


DAMAGES = {
    cycle: ("InvalidModel", 'uses "out" before'),
    external_path: ("InvalidModel", "which is not a plain file name; the file must be in"),
    behind_the_end: ("InvalidModel", "ends at byte 100320 of file .*; copy the model file again"),
    wrong_length: ("InvalidModel", "length 4 differs from the 320 bytes of its shape; export"),
    wrong_shape: ("InvalidModel", "MatMul: the inner dimensions of the matrices differ: 10 and 8"),
    absurd_size: ("InvalidModel", r'tensor "lin.weight" has the shape .*; export the model again'),
    missing_weight: ("InvalidModel", 'uses the value "lin.weight", which is not defined; export'),
    missing_file: ("InvalidModel", 'cannot be read from file "other.safetensors": .*; copy the'),
    unknown_operator: ("UnsupportedModel", "FancyRelu: the engine does not support this operator"),
    unknown_domain: (
        "UnsupportedModel",
        'belongs to domain "com.example", which is neither standard',
    ),
    old_opset: (
        "UnsupportedModel",
        "imports opset 12 .*; supported are 18 to 22; export the model",
    ),
    not_finite: ("InvalidModel", "has NaN at index 7; weights must be finite; train the model"),
    control_flow: ("UnsupportedModel", "control flow is not supported; export the model again"),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_gives_one_error_that_says_what_to_do(damage, tmp_path, monkeypatch, capsys):
    onnx = pytest.importorskip("onnx")
    from hashlib import sha256

    folder = small(tmp_path / "m")
    proto = onnx.load(folder / "model.onnx", load_external_data=False)
    damage(proto)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    names = ("model.onnx", "model.safetensors")
    hashes = {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "manifest.json").write_bytes(manifest(hashes))
    kind, words = DAMAGES[damage]
    with pytest.raises(ng.InvalidModel, match=words) as refused:
        ng.Dfg.open(folder).check()
    assert type(refused.value).__name__ == kind
    monkeypatch.setattr(sys, "argv", ["neargraph"])
    if damage is wrong_shape:
        assert re.search(words, shown(folder))
        return
    with pytest.raises(SystemExit) as ended:
        main(["model", str(folder)])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert re.search(words, err)


def test_a_file_that_is_missing_or_changed_is_one_line(tmp_path, capsys):
    folder = small(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"other")
    for path, words in [
        (tmp_path / "none.ngm", "does not exist: give the path of a model file"),
        (folder, "does not match the hash in manifest.json: copy the model again"),
    ]:
        with pytest.raises(SystemExit):
            main(["model", str(path)])
        err = capsys.readouterr().err
        assert words in err
        assert err.count("\n") == 1
