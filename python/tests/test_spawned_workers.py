"""Every loader can be sent to a process that is started anew, and makes the same batches there."""

import pickle

import numpy as np
import pytest
from graphs import homogeneous
from sampled import PLAIN, epoch_of, values

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data  # noqa: E402


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    graph = homogeneous()
    edges, nodes = graph.edges[PLAIN], graph.nodes["node"]
    data = Data(
        x=torch.from_numpy(nodes.tensors["x"]),
        edge_index=torch.from_numpy(np.stack([edges.sources, edges.destinations])),
        graph_id=torch.arange(300) // 10,
    )
    path = tmp_path_factory.mktemp("spawned") / "g.ng"
    ng.from_pyg(data, path, reverse=True)
    with ng.open(path, memory="64MB") as store:
        store.snapshot().share()
        yield store


SHORT_WALKS = {"num_walks": 3, "walk_length": 2}
LOADERS = {
    "NeighborLoader": lambda store, **how: ng.NeighborLoader(store, [2], **how),
    "links by number": lambda store, **how: ng.LinkNeighborLoader(
        store, [2], neg_sampling="binary", batch_size=500, **how
    ),
    "links": lambda store, **how: ng.LinkNeighborLoader(store, [2], [[0, 1], [1, 2]], **how),
    "GraphSAINT nodes": lambda store, **how: ng.GraphSAINTNodeSampler(store, 9, 3, **how),
    "GraphSAINT edges": lambda store, **how: ng.GraphSAINTEdgeSampler(store, 9, 3, **how),
    "GraphSAINT walks": lambda store, **how: ng.GraphSAINTRandomWalkSampler(store, 9, 2, 3, **how),
    "ShaDow": lambda store, **how: ng.ShaDowKHopSampler(store, 2, 3, **how),
    "PinSAGE": lambda store, **how: ng.PinSAGELoader(store, [3], **SHORT_WALKS, **how),
    "parts": lambda store, **how: ng.RandomNodeLoader(store, 3, **how),
    "clusters": lambda store, **how: ng.ClusterGCNLoader(store, 3, **how),
    "given clusters": lambda store, **how: ng.ClusterGCNLoader(
        store, 3, partition=np.arange(300) % 3, **how
    ),
    "graphs": lambda store, **how: ng.GraphLoader(store, 9, **how),
}


def again(loader):
    """The first batch, as another process makes it of what it is sent."""
    return values(pickle.loads(pickle.dumps(loader._source))[0, 0])


@pytest.mark.parametrize("name", LOADERS)
def test_what_a_process_is_sent_makes_the_same_batches(store, name):
    loader = LOADERS[name](store)
    first = values(next(iter(loader)))
    assert again(loader) == first


def test_a_loader_of_layers_by_type_can_be_sent(shop_store):
    shop_store.snapshot().share()
    loader = ng.HGTLoader(shop_store, [4, 4], "item", batch_size=5)
    assert again(loader) == values(next(iter(loader)))


@pytest.mark.parametrize("name", ["GraphSAINT walks", "clusters"])
def test_a_process_that_is_started_anew_makes_the_same_batches(store, name):
    how = {"num_workers": 1, "multiprocessing_context": "spawn"}
    assert epoch_of(LOADERS[name](store, **how)) == epoch_of(LOADERS[name](store))


@pytest.mark.parametrize("norms", ["pyg", "paper"])
def test_coefficients_are_sent_by_the_folder_that_keeps_them(store, tmp_path, norms):
    how = {"sample_coverage": 30, "norms": norms, "log": False}
    kept = LOADERS["GraphSAINT nodes"](store, **how, save_dir=str(tmp_path))
    assert again(kept) == values(next(iter(kept)))
    sent = pickle.dumps(kept._source.collator.norms)
    assert len(sent) < 1000
    without = LOADERS["GraphSAINT nodes"](store, **how)
    with pytest.raises(ng.UnsupportedArgument, match="give save_dir") as caught:
        pickle.dumps(without._source)
    assert "\n" not in str(caught.value)
    with pytest.raises(ng.UnsupportedArgument, match="give save_dir"):
        list(
            LOADERS["GraphSAINT nodes"](
                store, **how, num_workers=1, multiprocessing_context="spawn"
            )
        )
