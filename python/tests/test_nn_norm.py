"""Batch normalisation between the layers of a model."""

import pytest

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.nn")

from neargraph.nn import GAT, GCN, GIN, GraphSAGE  # noqa: E402

MODELS = {"sage": GraphSAGE, "gcn": GCN, "gat": GAT, "gin": GIN}


def example(seed=70):
    torch.manual_seed(seed)
    print(f"seed {seed}")
    return torch.rand(40, 6), torch.randint(0, 40, (2, 160))


@pytest.mark.parametrize("name", MODELS)
def test_hidden_rows_are_normalised_before_their_activation(name):
    x, edges = example()
    model = MODELS[name](6, 8, 3, num_layers=3, norm="batch").train()
    seen = []
    for norm in model.norms:
        norm.register_forward_hook(lambda *parts: seen.append(parts[-1].detach()))
    model(x, edges)
    assert len(seen) == 2
    for rows in seen:
        assert rows.mean(dim=0).abs().max() < 1e-5
        assert (rows.var(dim=0, unbiased=False) - 1).abs().max() < 0.05


@pytest.mark.parametrize("name", MODELS)
def test_without_a_norm_parameters_and_outputs_are_as_ever(name):
    x, edges = example()
    torch.manual_seed(1)
    plain = MODELS[name](6, 8, 3).eval()
    torch.manual_seed(1)
    normed = MODELS[name](6, 8, 3, norm="batch").eval()
    own = plain.state_dict()
    assert not [key for key in own if "norm" in key]
    missing = normed.load_state_dict(own, strict=False).missing_keys
    assert missing
    assert all("norm" in key for key in missing)
    assert not torch.equal(plain(x, edges), normed(x, edges))


def test_gin_is_that_of_pygs_layers_with_batch_normalisation():
    x, edges = example()
    model = GIN(6, 8, 3, num_layers=2, dropout=0.0, norm="batch")
    convs = [
        pyg.GINConv(pyg.MLP([a, b, b], norm="batch_norm"), train_eps=True)
        for a, b in ((6, 8), (8, 3))
    ]
    norm = torch.nn.BatchNorm1d(8)
    for theirs, ours in zip(convs, model.convs, strict=True):
        ours.nn.lins.load_state_dict(theirs.nn.lins.state_dict())
    for _ in range(3):
        wanted = convs[1](norm(convs[0](x, edges)).relu(), edges)
        assert torch.allclose(model(x, edges), wanted, atol=1e-5)


def test_a_single_row_is_normalised_by_the_statistics_until_now():
    x, edges = example()
    model = GraphSAGE(6, 8, 3, dropout=0.0, norm="batch").train()
    model(x, edges)
    alone = x[:1], torch.zeros(2, 0, dtype=torch.int64)
    trained = model(*alone)
    assert torch.allclose(trained, model.eval()(*alone), atol=1e-6)


def test_a_norm_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="norm='layer' is not valid: expected 'none' or 'batch'"):
        GIN(6, 8, 3, norm="layer")
