"""G3: training is unaffected by being on disk, by caches, back ends, prefetch or a resume."""

import numpy as np
import pytest

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from neargraph.train import TrainConfig, fit  # noqa: E402

SAGE = TrainConfig(fanouts=(5, 3), batch_size=128, hidden=16, epochs=2, lr=0.01, seed=5)
GCN = TrainConfig(model="gcn", fanouts=(5, 3), batch_size=128, hidden=16, epochs=2, lr=0.01, seed=5)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "g.ng"
    run_import(
        plan_generated(3000, 20_000, 200, 6),
        path,
        ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20)),
    )
    return path


@pytest.fixture(scope="module")
def in_memory(path):
    with ng.open(path, memory="1GB", backend="memory") as store:
        return {c.model: fit(store, c, in_memory=True) for c in (SAGE, GCN)}


@pytest.mark.reliability
@pytest.mark.parametrize("config", [SAGE, GCN], ids=["sage", "gcn"])
@pytest.mark.parametrize("backend", ["auto", "pread", "mmap", "memory"])
@pytest.mark.parametrize("memory", ["24MB", "256MB"])
def test_losses_from_disk_are_those_from_memory_to_the_last_bit(
    config, backend, memory, path, in_memory
):
    with ng.open(path, memory=memory, backend=backend) as store:
        result = fit(store, config)
    wanted = in_memory[config.model]
    differences = [abs(a - b) for a, b in zip(result.losses, wanted.losses, strict=True)]
    print(f"G3 {config.model} {backend} {memory}: max difference {max(differences)}")
    assert max(differences) == 0
    assert result.val_accuracy == wanted.val_accuracy
    assert result.test_accuracy == wanted.test_accuracy
    assert len(result.losses) == 2 * 15
    assert wanted.test_accuracy > 0.5


def test_another_seed_gives_other_losses(path, in_memory):
    other = TrainConfig(fanouts=(5, 3), batch_size=128, hidden=16, epochs=2, lr=0.01, seed=6)
    with ng.open(path, memory="64MB") as store:
        assert fit(store, other).losses != in_memory["sage"].losses


class Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", [3, 10, 15, 22])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(stop_at, path, in_memory, tmp_path):
    config = TrainConfig(
        fanouts=(5, 3), batch_size=128, hidden=16, epochs=2, lr=0.01, seed=5, save_steps=4
    )
    seen = 0

    def stop(phase, step, steps, value):
        nonlocal seen
        seen += phase.startswith("epoch")
        if seen == stop_at:
            raise Stop

    with ng.open(path, memory="64MB") as store:
        with pytest.raises(Stop):
            fit(store, config, state=tmp_path / "run.pt", progress=stop)
        result = fit(store, config, state=tmp_path / "run.pt")
    assert result.losses == in_memory["sage"].losses
    assert result.test_accuracy == in_memory["sage"].test_accuracy
    assert result.resumed_at_step == {3: 0, 10: 8, 15: 12, 22: 19}[stop_at]
    assert not list(tmp_path.glob(".*"))


def test_a_checkpoint_of_other_settings_is_refused_by_name(path, tmp_path):
    short = TrainConfig(fanouts=(3,), batch_size=512, hidden=8, epochs=1)
    with ng.open(path, memory="64MB") as store:
        fit(store, short, state=tmp_path / "run.pt")
        other = TrainConfig(fanouts=(3,), batch_size=512, hidden=9, epochs=1)
        with pytest.raises(ng.StateMismatch, match="hidden=8"):
            fit(store, other, state=tmp_path / "run.pt")
        (tmp_path / "run.pt").write_bytes(b"rubbish")
        with pytest.raises(ng.StateMismatch, match="not a readable training state"):
            fit(store, short, state=tmp_path / "run.pt")


def test_a_finished_run_goes_on_with_more_epochs(path, in_memory, tmp_path):
    with ng.open(path, memory="64MB") as store:
        one = TrainConfig(fanouts=(5, 3), batch_size=128, hidden=16, epochs=1, lr=0.01, seed=5)
        fit(store, one, state=tmp_path / "run.pt")
        assert fit(store, SAGE, state=tmp_path / "run.pt").losses == in_memory["sage"].losses


def test_what_cannot_be_trained_is_said_by_name(tmp_path, hetero):
    with pytest.raises(ng.UnsupportedArgument, match="one node type"):
        fit(hetero)
    run_import(plan_generated(100, 300, 4, 2), tmp_path / "g.ng")
    with (
        ng.open(tmp_path / "g.ng", memory="64MB") as store,
        pytest.raises(ng.NameNotFound, match="--split-sizes"),
    ):
        fit(store)


def test_missing_labels_take_no_part(tmp_path):
    plan = plan_generated(600, 3000, 16, 3)
    labels = (np.arange(600) % 3).astype(np.float32)
    labels[::2] = np.nan
    plan.nodes[0].tensors[1].dtype = "f32"
    plan.nodes[0].tensors[1].chunks = lambda: iter([labels])
    run_import(plan, tmp_path / "g.ng", ImportOptions(split_sizes=(60, 20, 20)))
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        result = fit(store, TrainConfig(fanouts=(3,), hidden=8, epochs=1))
        assert result.num_classes == 3
        assert all(np.isfinite(result.losses))
