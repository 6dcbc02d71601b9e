"""Heads, attention dropout, normalisation and readout reach the model, or are refused by name."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")
pytest.importorskip("torchmetrics")
from neargraph.train import TrainConfig, fit  # noqa: E402
from neargraph.train.engine import Trainer  # noqa: E402

SMALL = {"fanouts": (4, 4), "epochs": 2, "hidden": 16, "batch_size": 32, "lr": 0.01}
GRAPHS, EACH = 40, 5


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A store with labels of nodes and of graphs, whose label is their number of edges' parity."""
    rng = np.random.default_rng(41)
    count = GRAPHS * EACH
    starts = np.repeat(np.arange(GRAPHS) * EACH, 8)
    code = torch.from_numpy(np.repeat(rng.integers(0, 3, GRAPHS), EACH))
    graph = torch.arange(GRAPHS).repeat_interleave(EACH)
    data = pyg.Data(
        x=torch.from_numpy(rng.standard_normal((count, 6)).astype(np.float32)),
        y=torch.from_numpy(rng.integers(0, 3, count)),
        graph_id=graph,
        graph_y=graph % 2,
        edge_index=torch.from_numpy(rng.integers(0, EACH, (2, len(starts))) + starts),
        **{f"{name}_mask": code == n for n, name in enumerate(("train", "val", "test"))},
    )
    path = tmp_path_factory.mktemp("settings") / "g.ng"
    ng.from_pyg(data, path)
    return path


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    rng = np.random.default_rng(42)
    data = pyg.HeteroData()
    data["user"].x = torch.from_numpy(rng.standard_normal((60, 6)).astype(np.float32))
    data["item"].x = torch.from_numpy(rng.standard_normal((40, 6)).astype(np.float32))
    data["user"].y = (data["user"].x[:, 0] > 0).long()
    ends = np.stack([rng.integers(0, 60, 300), rng.integers(0, 40, 300)])
    data["user", "buys", "item"].edge_index = torch.from_numpy(ends)
    data["item", "rev_buys", "user"].edge_index = torch.from_numpy(ends[::-1].copy())
    for number, name in enumerate(("train", "val", "test")):
        data["user"][f"{name}_mask"] = torch.arange(60) % 3 == number
    path = tmp_path_factory.mktemp("settings") / "typed.ng"
    ng.from_pyg(data, path)
    return path


def trained(path, **settings):
    """The trainer after its run, and the losses."""
    with ng.open(path, memory="64MB") as store:
        torch.manual_seed(0)
        trainer = Trainer(store, TrainConfig(**{**SMALL, **settings}))
        return trainer, trainer.run().losses


def test_heads_and_attention_dropout_reach_gat(plain):
    gat, losses = trained(plain, model="gat", heads=8, attention_dropout=0.3)
    assert [(conv.heads, conv.dropout) for conv in gat.model.convs] == [(8, 0.3)] * 2
    usual, others = trained(plain, model="gat")
    assert [(conv.heads, conv.dropout) for conv in usual.model.convs] == [(4, 0.0)] * 2
    assert losses != others


def test_heads_and_attention_dropout_reach_each_edge_type(typed):
    made, _ = trained(typed, model="hetero-gat", heads=4, attention_dropout=0.2)
    layers = [conv for layer in made.model.convs for conv in layer.convs.values()]
    assert [(conv.heads, conv.dropout) for conv in layers] == [(4, 0.2)] * 4


@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
def test_the_readout_of_graphs_is_the_one_that_is_named(plain, pool):
    whole = {"model": "gin", "task": "graph", "fanouts": (-1, -1)}
    made, losses = trained(plain, **whole, pool=pool)
    assert made.task.head.pool == pool
    if pool == "mean":
        assert losses == trained(plain, **whole)[1]


@pytest.mark.parametrize("model", ["sage", "sage-max", "sage-pool", "gcn", "gin", "gat"])
def test_models_with_batch_normalisation_train(plain, model):
    made, losses = trained(plain, model=model, norm="batch")
    assert [norm.num_features for norm in made.model.norms] == [16]
    assert all(norm.num_batches_tracked > 0 for norm in made.model.norms)
    assert losses != trained(plain, model=model)[1]


def test_statistics_of_batches_are_part_of_a_checkpoint(plain, tmp_path):
    config = {**SMALL, "model": "gin", "norm": "batch", "save_steps": 1}
    with ng.open(plain, memory="64MB") as store:
        whole = fit(store, TrainConfig(**{**config, "epochs": 3}))
        fit(store, TrainConfig(**{**config, "epochs": 1}), state=tmp_path / "run.pt")
        rest = fit(store, TrainConfig(**{**config, "epochs": 3}), state=tmp_path / "run.pt")
    assert rest.losses == whole.losses
    assert rest.test == whole.test


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 2}, "heads=2 applies only to the models 'gat', 'hetero-gat', 'temporal'"),
        (
            {"model": "gin", "attention_dropout": 0.1},
            "applies only to the models 'gat', 'hetero-gat';",
        ),
        ({"pool": "sum"}, "pool='sum' applies only to the task 'graph'"),
        (
            {"task": "graph", "fanouts": (-1,), "holdout": (5.0, 5.0)},
            "applies only to stores without a split",
        ),
        ({"norm": "batch", "fanouts": (4,)}, "with a hidden layer, which needs several fanouts"),
    ],
)
def test_a_setting_that_would_be_ignored_is_refused(plain, settings, message):
    with pytest.raises(ng.UnsupportedArgument, match=message):
        trained(plain, **settings)


@pytest.mark.parametrize("setting", [{"heads": 2}, {"norm": "batch"}, {"attention_dropout": 0.5}])
def test_hetero_sage_takes_none_of_them(typed, setting):
    (name,) = setting
    with pytest.raises(ng.UnsupportedArgument, match=f"{name}=.* applies only to the models "):
        trained(typed, model="hetero-sage", **setting)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "heads=0 is not valid: expected 1 or more"),
        ({"attention_dropout": 1.0}, "attention_dropout=1.0 is not valid: expected at least 0"),
        ({"norm": "layer"}, "norm='layer' is not valid: expected one of 'none', 'batch'"),
        ({"pool": "median"}, "pool='median' is not valid: expected one of 'mean', 'sum', 'max'"),
    ],
)
def test_a_value_that_is_not_valid_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)


def test_heads_that_do_not_divide_the_width_are_refused(plain):
    with pytest.raises(ValueError, match="hidden_channels=16 and heads=3 are not valid"):
        trained(plain, model="gat", heads=3)
