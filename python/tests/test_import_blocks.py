"""Sets of many small graphs as one block-diagonal store with a node tensor `graph_id`."""

import gzip

import numpy as np
import pytest
from realdata import PLAIN, Raw, RawEdges, check_store, data

import neargraph as ng
from neargraph.importers import import_graph


@pytest.mark.parametrize("name", ["bbbp", "hiv"])
def test_molecules_become_one_block_diagonal_graph(name, tmp_path):
    source = data("molecules", f"{name}_graphs.npz")
    import_graph(source, tmp_path / "g.ng", memory="256MB")
    npz = np.load(source)
    sizes = np.diff(npz["node_ptr"])
    shift = np.repeat(npz["node_ptr"][:-1], np.diff(npz["edge_ptr"])).astype(np.int64)
    index = npz["edge_index"].astype(np.int64) + shift
    tensors = {
        "x": npz["x"],
        "graph_id": np.repeat(np.arange(len(sizes)), sizes),
        "graph_y": np.repeat(npz["y"], sizes, axis=0),
    }
    edges = RawEdges(*index, edge_ids=np.arange(index.shape[1]))
    edges.tensors["edge_attr"] = npz["edge_attr"]
    check_store(tmp_path / "g.ng", Raw({"node": len(npz["x"])}, {"node": tensors}, {PLAIN: edges}))


def table(folder, name, part, dtype):
    with gzip.open(folder / f"{name}_{part}.txt.gz", "rt") as lines:
        return np.loadtxt(lines, delimiter=",", dtype=dtype)


@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES", "PROTEINS"])
def test_a_tu_set_becomes_one_block_diagonal_graph(name, tmp_path):
    folder = data("tudataset", name)
    import_graph(folder, tmp_path / "g.ng")
    adjacency = table(folder, name, "A", np.int64) - 1
    graph = table(folder, name, "graph_indicator", np.int64) - 1
    labels = table(folder, name, "graph_labels", np.int64)
    tensors = {
        "graph_id": graph,
        "graph_y": np.unique(labels, return_inverse=True)[1][graph],
        "node_label": table(folder, name, "node_labels", np.int64),
    }
    edges = RawEdges(adjacency[:, 0], adjacency[:, 1])
    if name == "MUTAG":
        edges.edge_ids = np.arange(len(adjacency))
        edges.tensors["edge_label"] = table(folder, name, "edge_labels", np.int64)
        tensors["x"] = np.eye(7, dtype=np.float32)[tensors["node_label"]]
    else:
        values = table(folder, name, "node_attributes", np.float32)
        tensors["x"] = values.reshape(len(graph), -1)
    check_store(tmp_path / "g.ng", Raw({"node": len(graph)}, {"node": tensors}, {PLAIN: edges}))


def test_a_sample_never_leaves_its_graph(tmp_path):
    import_graph(data("molecules", "bbbp_graphs.npz"), tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        sampler = ng.NumpySampler(store, [-1, -1, -1], attrs=["graph_id"])
        for batch in sampler.batches(np.arange(0, 49_068, 97), 64):
            row, column = batch.edge_index()
            graph = batch.features("graph_id")
            assert np.array_equal(graph[row], graph[column])
