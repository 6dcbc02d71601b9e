"""GCN over a store equals PyG's GCN on the full graph, since degrees come from the store."""

import itertools

import pytest
from realdata import data

import neargraph as ng
from neargraph.importers import import_graph

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.nn import GCNConv  # noqa: E402

from neargraph.nn import GCN, InDegrees  # noqa: E402


class FullBatch(torch.nn.Module):
    """PyG's own GCN, with its own normalisation."""

    def __init__(self, *widths):
        super().__init__()
        self.convs = torch.nn.ModuleList(GCNConv(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, x, edge_index):
        for layer, conv in enumerate(self.convs):
            x = conv(x if layer == 0 else x.relu(), edge_index)
        return x


def full_graph(store):
    (batch,) = ng.NeighborLoader(store, num_neighbors=[-1], batch_size=store.num_nodes)
    order = torch.argsort(batch.n_id)
    return batch.x[order].float(), batch.n_id[batch.edge_index]


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("loops", ["keep", "add"])
@pytest.mark.parametrize("layers", [2, 3])
def test_full_neighbour_batches_give_the_logits_of_the_full_graph(trim, loops, layers, tmp_path):
    source = data("npz_graphs", "citeseer.npz")  # It has self-loops of its own.
    import_graph(source, tmp_path / "g.ng", undirected=True, self_loops=loops)
    with ng.open(tmp_path / "g.ng", memory="128MB") as store:
        x, edge_index = full_graph(store)
        torch.manual_seed(1)
        widths = [x.size(1), *[16] * (layers - 1), 6]
        plain = FullBatch(*widths).eval()
        model = GCN(x.size(1), 16, 6, num_layers=layers).eval()
        model.load_state_dict(plain.state_dict())
        degrees = InDegrees(store)
        wanted = plain(x, edge_index).detach()
        worst = 0.0
        for batch in ng.NeighborLoader(store, num_neighbors=[-1] * layers, batch_size=500):
            hops = (batch.num_sampled_nodes, batch.num_sampled_edges) if trim else ()
            out = model(batch.x, batch.edge_index, degrees(batch.n_id), *hops)
            seeds = batch.n_id[: batch.batch_size]
            worst = max(
                worst, float((out.detach()[: batch.batch_size] - wanted[seeds]).abs().max())
            )
        assert worst < 1e-5
        assert torch.allclose(model(x, edge_index), wanted, atol=1e-5)


def test_degrees_of_the_sample_would_be_wrong(tmp_path):
    # The test above can fail: without the store's degrees it does.
    source = data("npz_graphs", "citeseer.npz")
    import_graph(source, tmp_path / "g.ng", undirected=True)
    with ng.open(tmp_path / "g.ng", memory="128MB") as store:
        x, edge_index = full_graph(store)
        model = GCN(x.size(1), 16, 6).eval()
        wanted = model(x, edge_index)
        batch = next(iter(ng.NeighborLoader(store, num_neighbors=[-1, -1], batch_size=500)))
        out = model(batch.x, batch.edge_index)
        assert (out[:500] - wanted[batch.n_id[:500]]).abs().max() > 1e-3


def test_sampled_sums_are_the_full_sums_in_expectation(tmp_path):
    source = data("npz_graphs", "cora.npz")
    import_graph(source, tmp_path / "g.ng", undirected=True)
    with ng.open(tmp_path / "g.ng", memory="128MB") as store:
        torch.manual_seed(2)
        degrees = InDegrees(store)
        model = GCN(1433, 4, 4, num_layers=1).eval()
        seeds = torch.arange(200)

        def logits(fanout, stream_seed):
            (batch,) = ng.NeighborLoader(
                store, num_neighbors=[fanout], batch_size=200, input_nodes=seeds, seed=stream_seed
            )
            with torch.no_grad():
                return model(batch.x, batch.edge_index, degrees(batch.n_id))[:200]

        exact = logits(-1, 0)
        mean = torch.stack([logits(2, seed) for seed in range(300)]).mean(0)
        once = logits(2, 0)
        assert (mean - exact).abs().mean() < 0.12 * (once - exact).abs().mean()
