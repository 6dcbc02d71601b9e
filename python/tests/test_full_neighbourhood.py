"""Full-neighbour mode (-1) against the raw arrays and against PyG on the whole graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neargraph as ng


@settings(max_examples=25, deadline=None)
@given(data=st.data(), hops=st.integers(1, 3))
def test_every_expanded_node_has_all_its_in_edges_in_order(homo_path, homo_graph, data, hops):
    seeds = data.draw(st.lists(st.integers(0, 299), min_size=1, max_size=6, unique=True))
    with ng.open(homo_path, memory="64MB") as store:
        batch = ng.NumpySampler(store, [-1] * hops).sample(seeds)
        nodes, (_, col), ids = batch.nodes(), batch.edge_index(), batch.edge_ids()
        expanded = sum(batch.num_sampled_nodes()[:-1])
        for local, node in enumerate(nodes.tolist()):
            expected = [e for _, e in homo_graph.in_edges(("node", "to", "node"), node)]
            got = ids[col == local].tolist()
            assert got == (expected if local < expanded else [])


def test_nodes_are_those_within_k_hops_numbered_by_hop(homo, homo_graph):
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("torch_geometric.utils")
    edges = homo_graph.edges["node", "to", "node"]
    edge_index = torch.from_numpy(np.stack([edges.sources, edges.destinations]))
    seeds = [7, 40, 299]
    for hops in (1, 2, 3):
        batch = ng.NumpySampler(homo, [-1] * hops).sample(seeds)
        for k in range(hops + 1):
            within = utils.k_hop_subgraph(seeds, k, edge_index, num_nodes=300)[0]
            count = sum(batch.num_sampled_nodes()[: k + 1])
            assert sorted(batch.nodes()[:count].tolist()) == sorted(within.tolist())


def test_a_gnn_gives_the_same_output_as_on_the_whole_graph(homo, homo_graph):
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("torch_geometric.nn")
    raw, edges = homo_graph.nodes["node"].tensors, homo_graph.edges["node", "to", "node"]
    torch.manual_seed(0)
    model = nn.GraphSAGE(6, 16, num_layers=2, out_channels=4).eval()
    with torch.no_grad():
        edge_index = torch.from_numpy(np.stack([edges.sources, edges.destinations]))
        whole = model(torch.from_numpy(raw["x"]), edge_index)
        for batch in ng.NeighborLoader(homo, [-1, -1], batch_size=64, shuffle=True):
            part = model(batch.x, batch.edge_index)[: batch.batch_size]
            assert (part - whole[batch.n_id[: batch.batch_size]]).abs().max() < 1e-5


@pytest.mark.filterwarnings("ignore:There exist node types")
def test_a_heterogeneous_gnn_gives_the_same_output_as_on_the_whole_graph(hetero, hetero_graph):
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    layers = [
        nn.HeteroConv(
            {t: nn.SAGEConv((-1, -1), 8) for t in hetero.edge_types[:2]}, aggr="sum"
        ).eval()
        for _ in range(2)
    ]

    def run(x, edge_index):
        # Authors have no in-edges, so their features stay as they are after the first layer.
        hidden = layers[0](x, edge_index)
        return layers[1]({"paper": hidden["paper"], "author": x["author"]}, edge_index)["paper"]

    raw = {n: hetero_graph.nodes[n].tensors["x"].astype(np.float32) for n in ("paper", "author")}
    x = {name: torch.from_numpy(array) for name, array in raw.items()}
    index = {
        t: torch.from_numpy(np.stack([e.sources, e.destinations]))
        for t, e in hetero_graph.edges.items()
        if t[0] in x
    }
    with torch.no_grad():
        whole = run(x, index)
        loader = ng.NeighborLoader(
            hetero, [-1, -1], input_nodes=("paper", None), batch_size=32, x_dtype=torch.float32
        )
        for batch in loader:
            part_x = {name: batch[name].x for name in x}
            part = run(part_x, {t: batch[t].edge_index for t in index})
            seeds = batch["paper"].n_id[: batch["paper"].batch_size]
            assert (part[: len(seeds)] - whole[seeds]).abs().max() < 1e-5
