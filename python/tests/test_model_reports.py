"""The dictionaries that models and servers return have the keys of their types."""

import numpy as np
import pytest

import neargraph as ng
from neargraph import model_reports, plugins
from neargraph.client import reports


def check(found, kind):
    """A report has all keys that its type requires, and no others than the type has."""
    assert kind.__required_keys__ <= set(found), kind
    assert set(found) <= kind.__required_keys__ | kind.__optional_keys__, kind


@pytest.fixture
def mean(tmp_path):
    dfg = ng.Dfg()
    x = dfg.create_in("x", "f32", ["nodes", 6])
    edge_index = dfg.create_in("edge_index", "i64", [2, "edges"])
    rows = dfg.create_op("SpMM_Mean", [edge_index, x])
    weight = dfg.create_weight("w", np.ones((6, 2), np.float32))
    dfg.create_out("out", dfg.create_op("MatMul", [rows, weight]))
    dfg.save(tmp_path / "mean.ngm", fanouts=[3])
    return dfg


def test_reports_of_a_model_have_the_keys_of_their_types(mean, tmp_path):
    for dfg in (mean, ng.Dfg.open(tmp_path / "mean.ngm")):
        info = dfg.info()
        check(info, model_reports.ModelInfo)
        for value in [*info["inputs"], *info["outputs"]]:
            check(value, model_reports.ValueInfo)
        for weight in info["weights"]:
            check(weight, model_reports.WeightInfo)
        for node in info["nodes"]:
            check(node, model_reports.NodeInfo)
    inputs = {"x": np.ones((3, 6), np.float32), "edge_index": np.array([[1, 2], [0, 0]])}
    for steps in (info["steps"], mean.explain(), mean.explain(inputs)):
        assert steps
        for step in steps:
            check(step, model_reports.StepInfo)
    assert set(mean.explain(inputs)[0]) == {*mean.explain()[0], "seconds", "bytes"}


def test_reports_of_an_engine_and_of_inference_have_the_keys_of_their_types(homo, mean):
    with ng.Engine(homo, mean, fanouts=[3]) as engine:
        engine.run([1, 2])
        check(engine.stats(), model_reports.EngineStats)
    with ng.Inference(homo, mean) as inference:
        plan = inference.plan
    check(plan, model_reports.InferencePlan)
    assert plan["passes"]
    for one in plan["passes"]:
        check(one, model_reports.PassPlan)
    check(ng.Devices("octa").accelerator, plugins.AcceleratorConfig)


def test_reports_of_a_server_have_the_keys_of_their_types(homo_graph, mean, tmp_path):
    homo_graph.write(tmp_path / "homo.ng")
    with ng.serve(tmp_path, memory="64MB") as server, ng.Client(server.address) as client:
        check(client.register_model("mean", tmp_path / "mean.ngm"), reports.ServedModel)
        check(client.models()[0], reports.ServedModel)
        (graph,) = client.graphs()
        check(graph, reports.ServedGraph)
        check(graph["snapshot"], reports.SnapshotInfo)
        for node_type in graph["node_types"]:
            check(node_type, reports.ServedNodeType)
            for tensor in node_type["tensors"]:
                check(tensor, reports.ServedTensor)
        for edge_type in graph["edge_types"]:
            check(edge_type, reports.ServedEdgeType)
        devices = client.devices()
        check(devices, reports.DeviceList)
        for device in devices["devices"]:
            check(device, reports.DeviceInfo)
        check(client.server_info(), reports.ServerInfo)
        updates = ng.Updates()
        updates.add_node()
        applied = client.apply(updates)
        check(applied, reports.ApplyResult)
        check(applied["results"][0], reports.ChangeResult)
        check(client.update_graph("new", {"paper": 3}), reports.UpdateGraphResult)
