"""Each kind of layer is exported, passes the checker, and gives in onnxruntime what PyG gives."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from export_cases import CASES  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.modelfile.comparing import BOUND, Wanted  # noqa: E402
from neargraph.modelfile.inputs import Inputs  # noqa: E402

# What each model calls; the others call scatters alone.
CALLED = {
    "SAGE mean": {"ScatterMean"},
    "SAGE softmax": {"EdgeSoftmax", "ScatterSum"},
    "GCN": {"AddSelfLoops", "GcnNorm", "RemoveSelfLoops", "ScatterSum"},
    "GCN with weights": {
        "AddSelfLoops",
        "GcnNorm",
        "RemoveSelfLoopsAttr",
        "ScatterSum",
        "SelfLoopAttr",
    },
    "GAT": {"AddSelfLoops", "EdgeSoftmax", "RemoveSelfLoops", "ScatterSum"},
    "GAT with attributes": {
        "AddSelfLoops",
        "EdgeSoftmax",
        "RemoveSelfLoopsAttr",
        "ScatterMean",
        "ScatterSum",
    },
    "RGCN": {"ScatterMean"},
    "HGT": {"EdgeSoftmax", "ScatterSum", "SegmentMatmul"},
    "NGCF": {"Degree", "ScatterSum"},
    "custom min": {"ScatterMin"},
    "custom mul": {"ScatterMul"},
}


def check_reference_device(path, model, example):
    """The file gives in the reference device of the engine what the model gives."""
    dfg = ng.Dfg.open(path)
    dfg.check()
    inputs = Inputs(model, example)
    wanted = Wanted(model, inputs)
    assert [name for name, _, _ in wanted.cases] == ["example", "larger", "smaller", "no edges"]

    def run(values):
        arrays = {n: np.asarray(v) for n, v in zip(inputs.names, values, strict=True)}
        return list(dfg.run({name: arrays[name] for name in dfg.inputs}).values())

    assert wanted.largest_difference(run, "the reference device") <= BOUND


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_exported_and_equal_to_pyg_at_four_sizes(name, tmp_path):
    torch.manual_seed(0)
    model, example = CASES[name]()
    done = ng.export(model.eval(), example, tmp_path / "model")
    print("export:", json.dumps({"layer": name, "difference": done.largest_difference}))
    assert done.checked_in == "onnxruntime"
    assert done.notes == ()
    assert done.largest_difference <= BOUND
    assert set(done.functions) == CALLED.get(name, set(done.functions))
    proto = onnx.load(tmp_path / "model" / "model.onnx")
    onnx.checker.check_model(tmp_path / "model" / "model.onnx", full_check=True)
    check_reference_device(tmp_path / "model", model, example)
    left = {node.op_type for node in proto.graph.node if node.domain == ""}
    assert not {one for one in left if one.startswith("Scatter")}
