"""Links are scored from their past alone: trained by time, checked batch by batch."""

import numpy as np
import pytest

import neargraph as ng

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pytest.importorskip("torchmetrics")
from sampled import PLAIN, Edges, Graph, Nodes  # noqa: E402

from neargraph.train import TrainConfig, fit  # noqa: E402
from neargraph.train.engine import Trainer  # noqa: E402

PAST = {
    "task": "link",
    "val_after": 700,
    "test_after": 850,
    "fanouts": (6,),
    "batch_size": 64,
    "hidden": 8,
    "lr": 0.01,
    "dropout": 0.1,
    "epochs": 4,
    "eval_negatives": 10,
    "eval_edges": 100,
    "train_edges": 1200,
    "negatives": "triplet",
    "metrics": ("mrr", "hits@10"),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Nodes of each of two groups join nodes of the same group; who joins changes with time."""
    rng = np.random.default_rng(31)
    print("seed 31")
    nodes, count = 120, 3000
    times = np.sort(rng.integers(0, 1000, count))
    sources = rng.integers(0, nodes, count)
    targets = rng.integers(0, nodes // 2, count) * 2 + sources % 2
    x = np.zeros((nodes, 8), np.float32)
    x[np.arange(nodes), np.arange(nodes) % 2] = 1
    x += rng.standard_normal(x.shape).astype(np.float32) / 2
    graph = Graph({"node": Nodes(nodes, {"x": x})}, {PLAIN: Edges(sources, targets, times=times)})
    return graph.write(tmp_path_factory.mktemp("times") / "g.ng")


@pytest.mark.parametrize(
    ("model", "temporal"), [("temporal", "auto"), ("temporal", "uniform"), ("sage", "last")]
)
@pytest.mark.parametrize("negatives", ["binary", "triplet"])
def test_links_are_learned_from_their_past(path, model, temporal, negatives):
    config = TrainConfig(**{**PAST, "negatives": negatives}, model=model, temporal=temporal)
    with ng.open(path, memory="64MB") as store:
        result = fit(store, config)
    assert result.losses[-1] < result.losses[0]
    assert result.test["mrr"] > 0.2
    assert set(result.test) == {"mrr", "hits@10"}


def test_links_are_cut_by_time_and_each_batch_has_only_earlier_edges(path):
    config = TrainConfig(**PAST, model="temporal")
    with ng.open(path, memory="64MB") as store:
        task = Trainer(store, config).task
        assert int(task._times["train"].max()) < 700 <= int(task._times["val"].min())
        assert int(task._times["val"].max()) < 850 <= int(task._times["test"].min())
        seen = 0
        for loader in (task.train_loader(), task.loader("val"), task.loader("test")):
            for batch in loader:
                assert task.fault(batch) is None
                seed_times = batch.seed_time[batch.batch[batch.edge_index[1]]]
                assert (batch.edge_time <= seed_times).all()
                seen += len(batch.edge_time)
        assert seen > 5000


def test_a_test_link_sees_events_of_the_time_after_the_cut_that_came_before_it(path):
    config = TrainConfig(**PAST, model="temporal")
    with ng.open(path, memory="64MB") as store:
        (first, *_) = Trainer(store, config).task.loader("test")
        assert int(first.edge_time.max()) > 850


@pytest.mark.parametrize("phase", ["train", "test"])
def test_a_batch_with_a_later_edge_is_refused_by_its_number(path, phase):
    config = TrainConfig(**PAST, model="sage", temporal="last")
    with ng.open(path, memory="64MB") as store:
        trainer = Trainer(store, config)

        def spoil(batch):
            batch.edge_time = batch.edge_time.clone()
            batch.edge_time[-1] = 10**6
            return batch

        trainer.task._feed = type(trainer.task._feed)(store, config, ["x"], transform=spoil)
        if phase == "train":
            trainer.loader = trainer.task.train_loader()
            with pytest.raises(
                ng.UnsupportedArgument, match=r"epoch 1, batch 1 of .* of time 1000000"
            ):
                trainer.run()
        else:
            with pytest.raises(ng.UnsupportedArgument, match=r"test, batch 1 of .* see the future"):
                trainer.evaluate("test")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "temporal", "temporal": "off"}, "because this model uses only the past"),
        ({"temporal": "last", "val_after": None, "test_after": None}, "give test_after"),
        ({"temporal": "last", "model": "gcn"}, "include the future"),
        ({"model": "temporal", "task": "graph"}, "does not support the task 'graph'"),
    ],
)
def test_what_would_see_the_future_is_refused(path, settings, message):
    with (
        ng.open(path, memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match=message),
    ):
        fit(store, TrainConfig(**{**PAST, **settings}))


@pytest.mark.parametrize(
    ("other", "is_seen"),
    [
        (("item", "rev_buys", "user"), True),
        (("user", "likes", "item"), True),
        (("item", "like", "item"), False),
    ],
)
def test_a_type_without_times_that_could_hold_the_links_is_refused(tmp_path, other, is_seen):
    rng = np.random.default_rng(32)
    print("seed 32")
    users, items, count = 50, 40, 800
    sizes = {"user": users, "item": items}
    ends = rng.integers(0, users, count), rng.integers(0, items, count)
    more = [rng.integers(0, sizes[other[place]], count) for place in (0, 2)]
    graph = Graph(
        {
            name: Nodes(size, {"x": rng.standard_normal((size, 4)).astype(np.float32)})
            for name, size in sizes.items()
        },
        {
            ("user", "buys", "item"): Edges(*ends, times=rng.integers(0, 1000, count)),
            other: Edges(*more),
        },
    )
    settings = {**PAST, "target": "user,buys,item", "model": "hetero-sage", "temporal": "last"}
    config = TrainConfig(**{**settings, "epochs": 1})
    with ng.open(graph.write(tmp_path / "g.ng"), memory="64MB") as store:
        if not is_seen:
            assert fit(store, config).losses
            return
        with pytest.raises(ng.UnsupportedArgument, match=f"{other[1]}.*have no times") as caught:
            fit(store, config)
    assert "\n" not in str(caught.value)


def test_nodes_have_no_time_to_ask_about(path):
    with (
        ng.open(path, memory="64MB") as store,
        pytest.raises(ng.UnsupportedArgument, match="does not support the task 'node'"),
    ):
        fit(store, TrainConfig(model="temporal"))


def test_users_and_items_are_referred_to_models_of_several_types(shop_path):
    settings = {"task": "link", "target": "user,buys,item", "model": "temporal", "fanouts": (5,)}
    message = r"the models 'rgcn', 'hetero-sage', 'hetero-gat' with temporal='last'"
    refused = pytest.raises(ng.UnsupportedArgument, match=message)
    with ng.open(shop_path, memory="64MB") as store, refused:
        fit(store, TrainConfig(test_after=10, **settings))
