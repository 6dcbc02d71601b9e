"""Nodes without features learn rows in the store, resume exactly, and leave other rows alone."""

import shutil

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")
pytest.importorskip("torchmetrics")
pytest.importorskip("yaml")
from neargraph.nn import embedding_tensors  # noqa: E402
from neargraph.train import TrainConfig, evaluate, fit, resume  # noqa: E402
from neargraph.train.engine import Trainer  # noqa: E402
from neargraph.update.tensor import add_parts  # noqa: E402

LIGHT = TrainConfig(
    model="lightgcn",
    task="link",
    target="user,buys,item",
    embedding=16,
    embedding_lr=0.1,
    negatives="triplet",
    loss="bpr",
    fanouts=(5, 5),
    batch_size=256,
    epochs=3,
    save_steps=2,
    eval_negatives=20,
    seed=3,
)


class Stop(Exception):
    pass


def taste_store(path, *, features=False, users=240, items=160, groups=4):
    """Users of each group buy items of the same group, so that rows can tell what is bought."""
    rng = np.random.default_rng(21)
    print("seed 21")
    buyer = rng.integers(0, users, 5000)
    bought = rng.integers(0, items // groups, 5000) * groups + buyer % groups
    edges = torch.from_numpy(np.unique(np.stack([buyer, bought]), axis=1))
    data = pyg.HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = users, items
    if features:
        data["item"].x = torch.from_numpy(rng.standard_normal((items, 8)).astype(np.float32))
    data["user"].y = torch.arange(users) % groups
    code = torch.from_numpy(rng.integers(0, 3, users))
    for number, name in enumerate(("train", "val", "test")):
        data["user"][f"{name}_mask"] = code == number
    data["user", "buys", "item"].edge_index = edges
    data["item", "rev_buys", "user"].edge_index = edges.flip(0)
    ng.from_pyg(data, path)
    return path


@pytest.fixture
def path(tmp_path):
    return taste_store(tmp_path / "g.ng")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never stopped, and its store after it."""
    folder = tmp_path_factory.mktemp("whole")
    path = taste_store(folder / "g.ng")
    with ng.open(path, memory="64MB") as store:
        result = fit(store, LIGHT, out=folder / "run")
        return folder / "run", result, rows_of(store)


def rows_of(store):
    return {name: store.column("emb", name).copy() for name in ("user", "item")}


def test_lightgcn_learns_what_users_buy_from_edges_alone(whole):
    _, result, rows = whole
    assert result.num_parameters == 0
    assert result.test["roc-auc"] > 0.8
    assert result.losses[-1] < result.losses[0] / 1.2
    assert any("in the tensor 'emb' of the store" in note for note in result.notes)
    assert rows["user"].shape == (240, 16)


@pytest.mark.parametrize("stop_at", [3, 15, 31])
def test_a_stopped_run_goes_on_with_the_rows_of_its_checkpoint(path, whole, tmp_path, stop_at):
    seen = 0

    def stop(phase, step, steps, value):
        nonlocal seen
        seen += phase.startswith("epoch")
        if seen == stop_at:
            raise Stop

    out = tmp_path / "run"
    with ng.open(path, memory="64MB") as store, pytest.raises(Stop):
        fit(store, LIGHT, out=out, progress=stop)
    result = resume(out)
    assert result.resumed_at_step < len(result.losses)
    assert result.losses == whole[1].losses
    assert result.test == whole[1].test
    assert result.best_epoch == whole[1].best_epoch
    with ng.open(path, memory="64MB") as store:
        for name, rows in rows_of(store).items():
            assert np.array_equal(rows, whole[2][name])


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("100B", r"embedding_memory='100B' is not valid: expected at least \d+ bytes"),
        ("lots", "embedding_memory= needs a size, but 'lots' is not a valid size"),
    ],
)
def test_too_little_memory_for_rows_is_named_by_its_own_setting(path, size, words):
    with ng.open(path, memory="64MB") as store, pytest.raises(ValueError, match=words) as caught:
        fit(store, TrainConfig.of({**LIGHT.plain(), "embedding_memory": size}))
    assert "raise memory" not in str(caught.value)


def test_rows_written_after_the_checkpoint_go_back(path, whole, tmp_path):
    """Little memory writes rows at each step, so the store is ahead of the checkpoint."""

    def stop(phase, step, steps, value):
        if (phase, step) == ("epoch 2", 3):
            raise Stop

    config = TrainConfig.of({**LIGHT.plain(), "embedding_memory": "8KB"})
    out = tmp_path / "run"
    with ng.open(path, memory="64MB") as store, pytest.raises(Stop):
        fit(store, config, out=out, progress=stop)
    with ng.open(path, memory="64MB") as store:
        steps = store.column("emb_adagrad_step", "item")
        saved = torch.load(out / "states" / "last.pt", weights_only=True)
        assert steps[:, 0].max() > saved["embeddings"]["item"]["step"]
    assert resume(out).losses == whole[1].losses


def test_evaluating_measures_the_rows_of_the_run_and_writes_nothing(whole):
    out, result, rows = whole
    path = out.parent / "g.ng"
    with ng.open(path, memory="64MB") as store:
        before = store.lsn
    assert evaluate(out)["metrics"] == result.test
    with ng.open(path, memory="64MB") as store:
        assert store.lsn == before
        assert np.array_equal(store.column("emb", "user"), rows["user"])
    with pytest.raises(ng.UnsupportedArgument, match="use state='last'"):
        evaluate(out, state="best")


def test_rows_of_a_run_that_went_on_elsewhere_are_not_measured(whole, tmp_path):
    moved = tmp_path / "g.ng"
    shutil.copytree(whole[0].parent / "g.ng", moved)
    shutil.copytree(whole[0], tmp_path / "run")
    with ng.open(moved, memory="64MB") as store:
        last = tmp_path / "run" / "states" / "last.pt"
        fit(store, TrainConfig.of({**LIGHT.plain(), "epochs": 4}), state=last)
    with pytest.raises(ng.StateMismatch, match="resume the run of this"):
        evaluate(whole[0], store=moved)


def test_a_new_run_does_not_begin_with_rows_of_another_one(path):
    small = TrainConfig.of({**LIGHT.plain(), "epochs": 1})
    with ng.open(path, memory="64MB") as store:
        first = fit(store, small)
        before = store.lsn
        with pytest.raises(ng.UnsupportedArgument, match=r"already has the tensor"):
            fit(store, small)
        assert store.lsn == before
        other = TrainConfig.of({**small.plain(), "embedding_name": "emb2"})
        assert fit(store, other).losses == first.losses


def test_rows_of_a_start_that_failed_before_its_first_step_are_taken_over(path, tmp_path):
    """Also by another start, and then no checkpoint of the first one trains them."""
    small = TrainConfig.of({**LIGHT.plain(), "epochs": 1})
    first, last = tmp_path / "first.pt", tmp_path / "last.pt"

    def stop(*_):
        raise Stop

    with ng.open(path, memory="64MB") as store:
        with pytest.raises(Stop):
            fit(store, small, state=first, progress=stop)
        before = store.lsn
        for other in ({"embedding": 8}, {"seed": 9}, {"embedding_optimizer": "adam"}):
            with pytest.raises(ng.UnsupportedArgument, match="give another embedding_name"):
                fit(store, TrainConfig.of({**small.plain(), **other}))
        assert store.lsn == before
        result = fit(store, small, state=last)
        with pytest.raises(ng.StateMismatch, match=r"run=.* use the store of the run"):
            fit(store, small, state=first)
    with ng.open(taste_store(tmp_path / "h.ng"), memory="64MB") as store:
        assert fit(store, small).losses == result.losses


def test_tensors_of_a_start_that_was_killed_while_it_made_them_are_completed(path, monkeypatch):
    made = []

    def stop_at_rows(*given):
        made.append(given[2])
        if len(made) == 4:
            raise Stop
        return add_parts(*given)

    small = TrainConfig.of({**LIGHT.plain(), "epochs": 1})
    with ng.open(path, memory="64MB") as store:
        with monkeypatch.context() as patch:
            patch.setattr(embedding_tensors, "add_parts", stop_at_rows)
            with pytest.raises(Stop):
                fit(store, small)
        assert made[-1] == "emb"
        assert fit(store, small).losses


def test_a_new_run_does_not_begin_with_rows_that_were_never_trained_or_imported(path):
    with ng.open(path, memory="64MB") as store:
        store.add_tensor("emb", np.ones((160, 16), np.float32), "item")
        before = store.lsn
        with pytest.raises(ng.UnsupportedArgument, match="'item' already has the tensor 'emb'"):
            fit(store, LIGHT)
        assert store.lsn == before


def test_rows_of_another_run_at_the_same_step_are_neither_measured_nor_trained(whole, tmp_path):
    other = taste_store(tmp_path / "g.ng")
    with ng.open(other, memory="64MB") as store:
        fit(store, LIGHT)
        rows = rows_of(store)
        last = tmp_path / "last.pt"
        shutil.copy(whole[0] / "states" / "last.pt", last)
        longer = TrainConfig.of({**LIGHT.plain(), "epochs": 4})
        with pytest.raises(ng.StateMismatch, match=r"run=.* use the store of the run"):
            fit(store, longer, state=last)
        assert all(np.array_equal(now, rows[name]) for name, now in rows_of(store).items())
    with pytest.raises(ng.StateMismatch, match=r"run=.* use the store of the run"):
        evaluate(whole[0], store=other)


def test_types_with_features_read_them_and_the_others_learn(tmp_path):
    path = taste_store(tmp_path / "g.ng", features=True)
    config = TrainConfig(
        model="hetero-sage",
        target="user",
        embedding=12,
        embedding_lr=0.1,
        fanouts=(5, 5),
        epochs=8,
        batch_size=40,
        hidden=32,
        dropout=0.1,
        lr=0.01,
    )
    with ng.open(path, memory="64MB") as store:
        trainer = Trainer(store, config)
        for batch in trainer.loader:
            assert "x" in batch["item"]
            assert not {"emb", "emb_adagrad"} & {*batch["item"].keys(), *batch["user"].keys()}
        result = trainer.run()
        names = {t.name: {m.name for m in t.tensors} for t in store.schema.node_types}
    assert "emb" in names["user"]
    assert "emb" not in names["item"]
    assert result.losses[-1] < result.losses[0] / 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedding": 0, "embedding_lr": None}, "nodes have no tensor 'x'; learn rows with"),
        ({"patience": 2}, "give test_on='last'"),
        ({"lr": 0.01}, "for learned rows, give embedding_lr="),
        ({"clip": 1.0}, "for learned rows, give embedding_lr="),
        ({"hidden": 32}, "applies only to models with hidden layers"),
        (
            {"embedding": 0, "embedding_lr": None, "embedding_name": "a"},
            "applies only to learned rows",
        ),
    ],
)
def test_settings_without_effect_are_refused_and_nothing_is_written(path, settings, message):
    config = TrainConfig.of({**LIGHT.plain(), **settings})
    with ng.open(path, memory="64MB") as store:
        with pytest.raises(ng.UnsupportedArgument, match=message):
            fit(store, config)
        assert store.lsn == 0


def test_a_store_that_cannot_be_written_to_is_refused_in_one_line(path, monkeypatch):
    monkeypatch.setattr(ng.Store, "read_only_because", property(lambda store: "the disk is full"))
    with ng.open(path, memory="64MB") as store:
        with pytest.raises(ng.UnsupportedArgument, match="read-only: the disk is full") as caught:
            fit(store, LIGHT)
        assert store.lsn == 0
    assert "\n" not in str(caught.value)


def test_embeddings_are_refused_where_all_nodes_have_features(tmp_path):
    data = pyg.Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    ng.from_pyg(data, tmp_path / "g.ng")
    config = TrainConfig(task="link", embedding=4)
    with (
        ng.open(tmp_path / "g.ng", memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="all node types have a tensor 'x'"),
    ):
        fit(store, config)


@pytest.mark.parametrize("model", ["lightgcn", "ngcf"])
def test_rows_of_two_widths_are_refused_with_the_words_of_options(tmp_path, model):
    path = taste_store(tmp_path / "g.ng", features=True)
    config = {"model": model, "task": "link", "target": "user,buys,item"}
    for more, message in (
        ({}, "'user' have width 0 and the rows of 'item' have width 8"),
        ({"embedding": 4}, "'user' have width 4 and the rows of 'item'"),
    ):
        with ng.open(path, memory="64MB") as store:
            with pytest.raises(ng.UnsupportedArgument, match=message) as caught:
                fit(store, TrainConfig(**config, **more))
            assert store.lsn == 0
        assert "in_channels" not in str(caught.value)


def test_a_model_without_parameters_on_features_is_refused(tmp_path):
    ends = torch.tensor([[0, 1, 2, 3] * 10, [1, 2, 3, 0] * 10])
    data = pyg.Data(
        x=torch.ones(40, 2), edge_index=ends + torch.arange(0, 40, 4).repeat_interleave(4)
    )
    ng.from_pyg(data, tmp_path / "g.ng")
    config = TrainConfig(task="link", model="lightgcn", holdout=(20.0, 20.0))
    with (
        ng.open(tmp_path / "g.ng", memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="nothing to learn"),
    ):
        fit(store, config)
