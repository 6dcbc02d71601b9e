"""Training stops at the first loss that is not finite and says where, and never hands it out."""

import json

import numpy as np
import pytest

import neargraph as ng
from neargraph.cli.app import main

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")
from neargraph.train import TrainConfig, fit  # noqa: E402

NODES = 200


def make_store(path, bad=(), value=float("nan"), split=None, scale=1.0):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((NODES, 5)) * scale).astype(np.float32)
    for node in bad:
        x[node, 2] = value
    masks = {}
    code = np.arange(NODES) % 3 if split is None else split
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        masks[name] = torch.from_numpy(code == number)
    # Edges stay within a split, so that bad rows are met in their own split alone.
    sources = rng.integers(0, NODES // 3, 600) * 3
    destinations = rng.integers(0, NODES // 3, 600) * 3
    shift = rng.integers(0, 3, 600)
    edges = torch.from_numpy(np.stack([sources + shift, destinations + shift]) % (NODES // 3 * 3))
    y = torch.from_numpy(rng.integers(0, 4, NODES))
    ng.from_pyg(pyg.Data(x=torch.from_numpy(x), y=y, edge_index=edges, **masks), path)
    return path


@pytest.mark.parametrize("model", ["sage", "gcn", "cluster"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_is_named(tmp_path, model, value):
    path = make_store(tmp_path / "g.ng", bad=[3], value=value)
    more = {"parts": 10} if model == "cluster" else {}
    config = TrainConfig(model=model, epochs=2, batch_size=8, fanouts=(3, 3), **more)
    refused = pytest.raises(ng.LossNotFinite, match=r"epoch 1, batch \d+ of \d+")
    with ng.open(path, memory="64MB") as store, refused as caught:
        fit(store, config)
    assert "of the batch, such as node 3;" in str(caught.value)
    assert isinstance(caught.value, ng.NeargraphError)


def test_a_loss_that_runs_away_from_finite_rows_says_so(tmp_path):
    path = make_store(tmp_path / "g.ng")
    config = TrainConfig(epochs=50, batch_size=8, fanouts=(3, 3), lr=1e36, dropout=0.0)
    refused = pytest.raises(ng.LossNotFinite, match=r"epoch \d+, batch \d+")
    with ng.open(path, memory="64MB") as store, refused as caught:
        fit(store, config)
    assert "of the batch, such as" not in str(caught.value)
    assert "lr" in str(caught.value)


@pytest.mark.parametrize(("node", "phase"), [(4, "val"), (5, "test")])
def test_rows_of_validation_and_test_that_are_not_finite_are_named(tmp_path, node, phase):
    path = make_store(tmp_path / "g.ng", bad=[node])
    config = TrainConfig(epochs=1, batch_size=16, fanouts=(3, 3))
    refused = pytest.raises(ng.LossNotFinite, match=rf"{phase}, batch \d+")
    with ng.open(path, memory="64MB") as store, refused as caught:
        fit(store, config)
    assert f"of the batch, such as node {node};" in str(caught.value)


def test_the_checkpoint_before_the_loss_stays(tmp_path):
    path = make_store(tmp_path / "g.ng")
    file = tmp_path / "run.pt"
    settings = {"batch_size": 256, "fanouts": (3, 3), "lr": 1e36, "val_every": 9}
    saved = []
    for epochs in (1, 2):
        with ng.open(path, memory="64MB") as store, pytest.raises(ng.LossNotFinite):
            fit(store, TrainConfig(epochs=epochs, **settings), state=file)
        saved.append(file.read_bytes())
    assert saved[0] == saved[1]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_command_ends_with_a_code_that_is_not_zero(tmp_path, capsys, more):
    path = make_store(tmp_path / "g.ng", bad=[3])
    with pytest.raises(SystemExit) as ended:
        main(["train", str(path), "--epochs", "1", "--batch-size", "8", *more])
    assert ended.value.code == 2
    out = capsys.readouterr()
    assert "epoch 1, batch" in out.err
    assert "nan" not in out.out.lower()


def test_a_batch_without_labels_is_no_loss(tmp_path):
    path = make_store(tmp_path / "g.ng")
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            nodes = np.arange(6, NODES, 3)
            tx.update_features(None, nodes, "y", np.full(len(nodes), -1))
            tx.update_features(None, [0, 3], "y", np.array([0, 1]))
        result = fit(store, TrainConfig(epochs=1, batch_size=8, fanouts=(3, 3)))
    # Two nodes with a label are in two of nine batches at most.
    assert result.missing_labels["train"] == len(nodes)
    assert 1 <= sum(loss != 0.0 for loss in result.losses) <= 2
    assert "NaN" not in json.dumps(result.plain())


def test_a_training_split_without_any_label_is_refused(tmp_path):
    path = make_store(tmp_path / "g.ng")
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            nodes = np.arange(0, NODES, 3)
            tx.update_features(None, nodes, "y", np.full(len(nodes), -1))
        with pytest.raises(ng.UnsupportedArgument, match="no label of the training split"):
            fit(store, TrainConfig(epochs=1, batch_size=8, fanouts=(3, 3)))
