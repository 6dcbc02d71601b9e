"""The published accuracy of GCN on Cora's Planetoid split, from disk, over ten seeds."""

import statistics

import pytest
from realdata import data

import neargraph as ng
from neargraph.importers import import_graph

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.train import TrainConfig, fit  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    # The model is small: a second thread costs more in waiting than it brings.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.reliability
def test_gcn_on_cora_reaches_the_published_accuracy(tmp_path):
    source = data("planetoid_raw", "ind.cora.graph")
    import_graph(source, tmp_path / "cora.ng", unique=True, self_loops="remove")
    accuracies = []
    with ng.open(tmp_path / "cora.ng", memory="64MB") as store:
        for seed in range(10):
            config = TrainConfig(
                model="gcn",
                fanouts=(-1, -1),
                batch_size=140,
                hidden=16,
                epochs=100,
                lr=0.01,
                weight_decay=5e-4,
                dropout=0.5,
                row_normalize=True,
                seed=seed,
                val_every=100,
            )
            accuracies.append(fit(store, config).test_accuracy)
    mean, deviation = statistics.mean(accuracies), statistics.stdev(accuracies)
    print(f"Cora GCN test accuracy over 10 seeds: {mean:.4f} +- {deviation:.4f}")
    assert 0.79 <= mean <= 0.84
