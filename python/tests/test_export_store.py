"""The example of an export comes from the store, and the file says of which kind of store."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

from graphs import homogeneous  # noqa: E402
from torch import nn  # noqa: E402
from torch_geometric import nn as gnn  # noqa: E402

import neargraph as ng  # noqa: E402
from neargraph.modelfile.comparing import BOUND  # noqa: E402
from neargraph.modelfile.sampling import schema_parts, schema_sha256  # noqa: E402


def said_by(path):
    proto = onnx.load(path / "model.onnx")
    return {entry.key: json.loads(entry.value) for entry in proto.metadata_props}


@pytest.mark.parametrize("name", ["GraphSAGE", "GCN"])
def test_our_own_models_are_exported_from_a_store(name, homo, tmp_path):
    torch.manual_seed(0)
    model = getattr(ng.nn, name)(6, 8, 5).eval()
    done = ng.export(model, homo, tmp_path / "model", fanouts=[5, 3])
    assert done.inputs == ("x", "edge_index")
    assert done.largest_difference <= BOUND
    assert said_by(tmp_path / "model") == {
        "neargraph.fanouts": [5, 3],
        "neargraph.schema": schema_parts(homo.schema),
        "neargraph.schema_sha256": schema_sha256(homo.schema),
        "neargraph.neargraph_version": ng.__version__,
    }


class WithAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = gnn.GINEConv(nn.Linear(6, 4), edge_dim=3)

    def forward(self, x, edge_index, edge_attr, size=None):
        return self.layer(x, edge_index, edge_attr, size)


def test_arguments_without_a_default_are_tensors_of_the_batch(homo, tmp_path):
    done = ng.export(WithAttributes().eval(), homo, tmp_path / "model", fanouts=[5])
    assert done.inputs == ("x", "edge_index", "edge_attr")


class OfTypes(nn.Module):
    def __init__(self):
        super().__init__()
        layers = {
            ("paper", "cites", "paper"): gnn.SAGEConv(4, 3),
            ("author", "writes", "paper"): gnn.SAGEConv((3, 4), 3),
        }
        self.layer = gnn.HeteroConv(layers)

    def forward(self, x_dict, edge_index_dict):
        return self.layer(x_dict, edge_index_dict)


def test_a_store_of_many_types_gives_dictionaries(hetero, tmp_path):
    fanouts = {triple: [4, 4] for triple in hetero.edge_types}
    done = ng.export(OfTypes().eval(), hetero, tmp_path / "model", fanouts=fanouts)
    assert set(done.inputs) >= {"x_dict.paper", "edge_index_dict.author__writes__paper"}
    assert said_by(tmp_path / "model")["neargraph.fanouts"] == {
        "paper__cites__paper": [4, 4],
        "author__writes__paper": [4, 4],
        "venue__holds__paper": [4, 4],
    }


def test_a_store_without_fanouts_or_with_other_tensors_is_refused(homo, tmp_path):
    class Wants(nn.Module):
        def forward(self, x, edge_index, colour):
            return x

    with pytest.raises(ng.ExportFailed, match="a store needs fanouts"):
        ng.export(WithAttributes().eval(), homo, tmp_path / "model")
    with pytest.raises(
        ng.ExportFailed, match=r"forward\(\) requires colour, but a batch .* edge_attr"
    ):
        ng.export(Wants().eval(), homo, tmp_path / "model", fanouts=[5])


def test_the_hash_of_a_schema_is_of_types_and_not_of_counts(homo, tmp_path):
    path = homogeneous(num_nodes=100, num_edges=300).write(tmp_path / "small.ng")
    with ng.open(path, memory="64MB") as small:
        assert schema_sha256(small.schema) == schema_sha256(homo.schema)


def test_the_hash_of_another_schema_differs(homo, hetero):
    assert schema_sha256(homo.schema) != schema_sha256(hetero.schema)
