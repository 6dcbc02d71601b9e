"""GraphSAGE: the same numbers as PyG's layers on edge lists, with and without trimming."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.nn import GraphSAGE  # noqa: E402
from neargraph.nn.dropout import dropout, relu_dropout  # noqa: E402
from neargraph.nn.sage import adjacency  # noqa: E402
from neargraph.nn.trim import Hops  # noqa: E402


def graph(num_nodes=200, num_edges=1500):
    generator = torch.Generator().manual_seed(4)
    x = torch.rand(num_nodes, 12, generator=generator)
    return x, torch.randint(0, num_nodes, (2, num_edges), generator=generator)


def plain(model, x, edge_index):
    for layer, conv in enumerate(model.convs):
        x = conv(x if layer == 0 else x.relu(), edge_index)
    return x


def test_the_sparse_product_equals_pyg_on_the_edge_list_with_gradients():
    x, edge_index = graph()
    edge_index = torch.cat([edge_index, edge_index[:, :100]], dim=1)  # Parallel edges count.
    torch.manual_seed(0)
    model = GraphSAGE(12, 8, 3, dropout=0.0)
    ours, wanted = model(x, edge_index), plain(model, x, edge_index)
    assert torch.allclose(ours, wanted, atol=1e-5)
    gradients = []
    for out in (ours, wanted):
        model.zero_grad()
        out.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def test_trimming_changes_nothing_for_the_seeds(homo):
    import neargraph as ng

    (batch, *_) = ng.NeighborLoader(homo, num_neighbors=[5, 4, 3], batch_size=32, seed=3)
    torch.manual_seed(0)
    model = GraphSAGE(batch.x.size(1), 8, 3, num_layers=3).eval()
    whole = model(batch.x.float(), batch.edge_index)[: batch.batch_size]
    trimmed = model(
        batch.x.float(), batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges
    )
    assert trimmed.shape == whole.shape
    assert torch.allclose(whole, trimmed, atol=1e-5)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.3333])
def test_dropout_keeps_its_share_and_the_expectation(share):
    torch.manual_seed(11)
    x = torch.full((997, 1009), 2.0, requires_grad=True)
    out = dropout(x, share, True)
    kept = out != 0
    # Six standard deviations of a million draws.
    assert abs(float(kept.float().mean()) - (1 - share)) < 6 * (share * (1 - share) / 1e6) ** 0.5
    assert abs(float(out.detach().mean()) - 2.0) < 0.02
    assert torch.unique(out[kept]).numel() == 1
    out.sum().backward()
    assert torch.equal(x.grad != 0, kept)
    # Rows and columns are as random as elements are.
    spread = (share * (1 - share) / 997) ** 0.5
    assert float(kept.float().mean(0).std()) == pytest.approx(spread, rel=0.2)
    assert float(kept.float().mean(1).std()) == pytest.approx(spread, rel=0.2)


def test_dropout_follows_the_seed_and_is_absent_in_evaluation():
    x = torch.ones(5, 3)
    first, second = (torch.manual_seed(2) and dropout(x, 0.5, True) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, dropout(x, 0.5, True))
    assert dropout(x, 0.5, False) is x
    assert torch.equal(dropout(x, 0.0, True), x)
    assert not dropout(x, 1.0, True).any()
    for share in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            dropout(x, share, True)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_relu_with_dropout_equals_one_after_the_other(share, training):
    torch.manual_seed(3)
    values = torch.randn(101, 33)
    values[0, :4] = torch.tensor([0.0, -0.0, float("nan"), float("inf")])
    grad = torch.randn(101, 33)

    def run(function):
        x = values.clone().requires_grad_()
        torch.manual_seed(5)
        out = function(x)
        out.backward(grad)
        return out.detach(), x.grad

    both = run(lambda x: relu_dropout(x, share, training))
    apart = run(lambda x: dropout(x.relu(), share, training))
    for one, other in zip(both, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_hops_are_cut_one_per_layer():
    hops = Hops((2, 4, 8), (6, 9))
    assert [hops.kept(layer, 2) for layer in (0, 1, 2)] == [(14, 15), (6, 6), (2, 0)]
    with pytest.raises(ValueError, match="2 counts: expected 3"):
        Hops.of([1, 2], [3, 4])


def test_a_node_without_neighbours_gets_a_zero_mean():
    matrix = adjacency(torch.empty(2, 0, dtype=torch.int64), 4, 4)
    assert matrix.to_dense().sum() == 0
    torch.manual_seed(0)
    model = GraphSAGE(12, 8, 3).eval()
    assert model(torch.rand(4, 12), torch.empty(2, 0, dtype=torch.int64)).isfinite().all()
