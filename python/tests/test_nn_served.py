"""Models of neargraph.nn become files that an engine answers from and that infer computes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

from torch_geometric.data import Data  # noqa: E402

import neargraph as ng  # noqa: E402

NODES, EDGES = 400, 2500


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A store with loops and a node that nothing leads to, and what is in it."""
    rng = np.random.default_rng(3)
    edge_index = rng.integers(1, NODES, (2, EDGES))
    edge_index[1, :40] = edge_index[0, :40]
    data = Data(
        x=torch.from_numpy(rng.standard_normal((NODES, 6), dtype=np.float32)),
        edge_index=torch.from_numpy(edge_index),
    )
    path = tmp_path_factory.mktemp("served") / "g.ng"
    ng.from_pyg(data, path)
    return path, data


@pytest.mark.parametrize("kind", [ng.nn.GCN, ng.nn.GraphSAGE])
def test_a_model_of_neargraph_is_exported_served_and_computed_for_all_nodes(kind, graph, tmp_path):
    path, data = graph
    torch.manual_seed(0)
    model = kind(6, 8, 3).eval()
    with torch.no_grad():
        wanted = model(data.x, data.edge_index).numpy()
    bound = 1e-5 * max(1, np.abs(wanted).max())
    with ng.open(path, memory="64MB") as store:
        # Every neighbour to one hop more than the model has layers, so that in-degrees are right.
        ng.export(model, store, tmp_path / "model.ngm", fanouts=[-1, -1, -1])
        with ng.Engine(store, tmp_path / "model.ngm", prepare="metadata") as engine:
            found = engine.run([5, 0, 399])
    assert np.abs(found - wanted[[5, 0, 399]]).max() <= bound
    result = ng.infer(path, tmp_path / "model.ngm", memory="64MB")
    assert np.abs(result.arrays["out"] - wanted).max() <= bound


def test_in_degrees_of_the_whole_graph_are_an_input_for_all_nodes_too(graph, tmp_path):
    path, data = graph
    torch.manual_seed(0)
    model = ng.nn.GCN(6, 8, 3).eval()
    with ng.open(path, memory="64MB") as store:
        degrees = ng.nn.InDegrees(store)(torch.arange(NODES))
        wanted = model(data.x, data.edge_index, degrees).detach().numpy()
        batch = ng.NumpySampler(store, [4, 3], seed=0).sample(np.arange(5), stream=0)
        nodes = torch.from_numpy(np.array(batch.nodes(), dtype=np.int64))
        edge_index = torch.from_numpy(batch.edge_index())
        example = (torch.from_numpy(batch.features("x")), edge_index, degrees[nodes])
        ng.export(model, example, tmp_path / "model.ngm", fanouts=[4, 3])
    found = ng.infer(path, tmp_path / "model.ngm", memory="64MB").arrays["out"]
    assert np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())
