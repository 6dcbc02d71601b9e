"""A model file: its parts, their hashes, weights for both readers, and nothing half-written."""

import hashlib
import json
import os
import struct
import sys
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from export_cases import CASES, graph, one, two, weights  # noqa: E402
from torch import nn  # noqa: E402
from torch_geometric import nn as gnn  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph import _modelfiles  # noqa: E402

PARTS = {"manifest.json", "model.onnx", "model.safetensors"}


def sage():
    torch.manual_seed(0)
    model, example = two(gnn.SAGEConv, 16)
    return model.eval(), example


def safetensors(data):
    """Name to (dtype, shape, bytes), read from the description of the format alone."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    spans = sorted(entry["data_offsets"] for entry in header.values())
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans)][: len(spans)]
    assert spans[-1][1] == len(body)
    return {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def test_a_folder_has_the_model_its_weights_and_their_hashes(tmp_path):
    model, example = sage()
    ng.export(model, example, tmp_path / "sage")
    assert set(os.listdir(tmp_path)) == {"sage"}
    assert set(os.listdir(tmp_path / "sage")) == PARTS
    said = json.loads((tmp_path / "sage" / "manifest.json").read_text())
    assert (said["format"], said["version"]) == ("neargraph model", 1)
    for name in ("model.onnx", "model.safetensors"):
        digest = hashlib.sha256((tmp_path / "sage" / name).read_bytes()).hexdigest()
        assert said["files"][name] == digest


def test_an_archive_has_the_same_bytes_and_is_not_compressed(tmp_path):
    model, example = sage()
    ng.export(model, example, tmp_path / "sage")
    ng.export(model, example, tmp_path / "sage.ngm")
    with zipfile.ZipFile(tmp_path / "sage.ngm") as archive:
        assert set(archive.namelist()) == PARTS
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        for name in PARTS:
            assert archive.read(name) == (tmp_path / "sage" / name).read_bytes()


def test_weights_lie_in_safetensors_under_the_names_of_the_state(tmp_path):
    model, example = sage()
    ng.export(model, example, tmp_path / "sage")
    found = safetensors((tmp_path / "sage" / "model.safetensors").read_bytes())
    state = model.state_dict()
    assert set(found) == {
        name if name.endswith("bias") else f"{name}.T"
        for name, value in state.items()
        if value.numel() * 4 >= 64
    }
    for name, (dtype, shape, data) in found.items():
        wanted = state[name.removesuffix(".T")]
        wanted = wanted.T if name.endswith(".T") else wanted
        assert (dtype, shape) == ("F32", list(wanted.shape))
        np.testing.assert_array_equal(np.frombuffer(data, "<f4").reshape(shape), wanted.numpy())
    # The external data of ONNX are the same bytes.
    for tensor in onnx.load(tmp_path / "sage" / "model.onnx").graph.initializer:
        if tensor.name in found:
            assert tensor.raw_data == found[tensor.name][2]


def test_the_file_keeps_metadata_and_no_path_of_the_machine(tmp_path):
    model, example = sage()
    fanouts = {("a", "to", "a"): [25, 10]}
    ng.export(model, example, tmp_path / "sage", fanouts=fanouts, metadata={"classes": ["x"]})
    proto = onnx.load(tmp_path / "sage" / "model.onnx")
    found = {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
    assert found == {"neargraph.fanouts": {"a__to__a": [25, 10]}, "neargraph.classes": ["x"]}
    data = (tmp_path / "sage" / "model.onnx").read_bytes()
    for place in (os.path.dirname(__file__), os.path.dirname(torch.__file__), str(tmp_path)):
        assert place.encode() not in data
    sizes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
             for v in proto.graph.input]  # fmt: skip
    assert sizes == [["nodes", 16], [2, "edges"]]


def test_inputs_and_outputs_are_named_by_argument_and_type(tmp_path):
    done = ng.export(*_evaluated("HeteroConv"), tmp_path / "typed")
    assert done.inputs == (
        "x_dict.a",
        "x_dict.b",
        "edge_index_dict.a__x__b",
        "edge_index_dict.b__y__a",
        "edge_index_dict.a__z__a",
    )
    assert set(done.outputs) == {"out.a", "out.b"}
    proto = onnx.load(tmp_path / "typed" / "model.onnx")
    assert [entry.name for entry in proto.graph.input] == list(done.inputs)
    assert [entry.name for entry in proto.graph.output] == list(done.outputs)


def _evaluated(name):
    torch.manual_seed(0)
    model, example = CASES[name]()
    return model.eval(), example


def test_something_at_the_path_is_left_as_it_is(tmp_path):
    model, example = sage()
    (tmp_path / "sage.ngm").write_text("mine")
    with pytest.raises(ng.ExportFailed, match="already exists"):
        ng.export(model, example, tmp_path / "sage.ngm")
    assert (tmp_path / "sage.ngm").read_text() == "mine"
    with pytest.raises(ng.ExportFailed, match="is not a directory"):
        ng.export(model, example, tmp_path / "none" / "sage.ngm")
    assert os.listdir(tmp_path) == ["sage.ngm"]


@pytest.mark.parametrize("step", ["_put", "_sha256", "_zipped", "_sync"])
def test_an_error_of_the_disk_leaves_nothing(step, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_modelfiles, step, fails)
    model, example = sage()
    with pytest.raises(OSError, match="No space left"):
        ng.export(model, example, tmp_path / "sage.ngm")
    assert os.listdir(tmp_path) == []


def test_without_onnxruntime_the_result_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    model, example = sage()
    done = ng.export(model, example, tmp_path / "sage.ngm")
    assert done.checked_in is None
    assert done.notes == ("onnxruntime is not installed, so the file was not run",)


def test_a_model_of_double_precision_is_exported(tmp_path):
    pytest.importorskip("onnxruntime")
    model, (x, edge_index) = two(gnn.SAGEConv, 16, aggr="max")
    done = ng.export(model.eval().double(), (x.double(), edge_index), tmp_path / "sage")
    assert done.largest_difference < 1e-12
    data = (tmp_path / "sage" / "model.safetensors").read_bytes()
    assert {dtype for dtype, _, _ in safetensors(data).values()} == {"F64"}


def test_an_example_may_be_columns_of_a_wider_tensor(tmp_path):
    pytest.importorskip("onnxruntime")

    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = gnn.SAGEConv(16, 4)

        def forward(self, a, b, edge_index, batch, size: int):
            h = self.layer(torch.cat([a, b], dim=1), edge_index)
            return gnn.global_add_pool(h, batch, size)

    x, edge_index = graph()
    example = (x[:, :9], x[:, 9:], edge_index, torch.arange(37) // 5, 8)
    done = ng.export(Joined().eval(), example, tmp_path / "joined")
    assert done.inputs == ("a", "b", "edge_index", "batch", "size")


def test_loops_keep_their_weights_and_infinite_values_stay(tmp_path):
    pytest.importorskip("onnxruntime")
    model, (x, edge_index, weight) = one(gnn.GCNConv(16, 8), 16, weights())
    edge_index[:, 50:60] = torch.arange(10)  # Loops.
    ng.export(model.eval(), (x, edge_index, weight), tmp_path / "gcn")
    model = gnn.SimpleConv(aggr="max")
    x, edge_index = graph()
    x[3] = float("-inf")
    ng.export(model.eval(), (x, edge_index), tmp_path / "max")


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows, self.layer = nn.Embedding(50, 16), gnn.GraphConv(16, 4)

    def forward(self, n_id, edge_index, weights):
        return self.layer(self.rows(n_id), edge_index, weights[0])


def test_a_model_that_begins_with_ids_is_exported(tmp_path):
    _, edge_index = graph()
    example = (torch.randperm(50)[:37], edge_index, [weights()])
    done = ng.export(Embedded().eval(), example, tmp_path / "embedded")
    assert done.inputs == ("n_id", "edge_index", "weights.0")
    assert done.notes == ()
