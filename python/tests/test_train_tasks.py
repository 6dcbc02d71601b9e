"""Nodes, links and graphs are trained by one loop; what does not go together is refused by name."""

import numpy as np
import pytest

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")
pytest.importorskip("torchmetrics")
from neargraph.train import TrainConfig, fit  # noqa: E402
from neargraph.train.engine import Trainer  # noqa: E402
from neargraph.train.holdout import Holdout  # noqa: E402
from neargraph.train.labels import LabelFacts  # noqa: E402

SMALL = {"fanouts": (4, 4), "epochs": 2, "hidden": 16, "batch_size": 64, "lr": 0.01}


def node_store(path, y, nodes=600):
    rng = np.random.default_rng(11)
    x = torch.from_numpy(rng.standard_normal((nodes, 6)).astype(np.float32))
    code = torch.from_numpy(rng.integers(0, 3, nodes))
    edges = torch.from_numpy(rng.integers(0, nodes, (2, 3000)))
    masks = {f"{name}_mask": code == n for n, name in enumerate(("train", "val", "test"))}
    ng.from_pyg(pyg.Data(x=x, y=y(x), edge_index=edges, **masks), path)
    return path


def typed_store(path, users=200, items=120, kept=None):
    """Users and items; ``kept`` says whether the import keeps the reverse, which is else a type."""
    rng = np.random.default_rng(12)
    data = pyg.HeteroData()
    data["user"].x = torch.from_numpy(rng.standard_normal((users, 8)).astype(np.float32))
    data["item"].x = torch.from_numpy(rng.standard_normal((items, 8)).astype(np.float32))
    data["user"].y = (data["user"].x[:, 0] > 0).long()
    ends = [rng.integers(0, users, 2000), rng.integers(0, items, 2000)]
    edges = torch.from_numpy(np.stack(ends))
    data["user", "buys", "item"].edge_index = edges
    if kept is None:
        data["item", "rev_buys", "user"].edge_index = edges.flip(0)
    code = torch.from_numpy(rng.integers(0, 3, users))
    for number, name in enumerate(("train", "val", "test")):
        data["user"][f"{name}_mask"] = code == number
    ng.from_pyg(data, path, reverse=bool(kept))
    return path


def graph_store(path, graphs=60, *, features=True):
    rng = np.random.default_rng(13)
    sizes = rng.integers(3, 9, graphs)
    graph = torch.from_numpy(np.repeat(np.arange(graphs), sizes))
    label = torch.from_numpy(rng.integers(0, 2, graphs))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    pairs = [rng.integers(0, n, (2, 3 * n)) + s for n, s in zip(sizes, starts, strict=True)]
    edges = torch.from_numpy(np.concatenate(pairs, axis=1))
    x = torch.randn(len(graph), 4) + label[graph].unsqueeze(1) * 3
    data = pyg.Data(edge_index=edges, graph_id=graph, graph_y=label[graph])
    if features:
        data.x = x
    data.num_nodes = len(graph)
    # Deleting a node takes the reverse of its edges.
    ng.from_pyg(data, path, reverse=True)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, edge_ids=True, split_sizes=(60, 20, 20))
    run_import(plan_generated(1000, 6000, 16, 4), path, options)
    return path


def run(path, **settings):
    with ng.open(path, memory="64MB") as store:
        return fit(store, TrainConfig(**{**SMALL, **settings}))


def test_several_yes_or_no_labels_are_found_and_learned(tmp_path):
    def labels(x):
        y = (x[:, :3] > 0).float()
        y[::5, 1] = float("nan")
        return y

    path = node_store(tmp_path / "g.ng", labels)
    result = run(path, epochs=12, metrics=("f1-micro", "roc-auc"))
    assert result.objective == "labels (3), bce"
    assert result.test["roc-auc"] > 0.8
    assert sum(result.missing_labels.values()) == 120
    assert list(result.test) == ["f1-micro", "roc-auc"]


@pytest.mark.parametrize("loss", ["mse", "l1"])
def test_numbers_are_found_and_learned(tmp_path, loss):
    path = node_store(tmp_path / "g.ng", lambda x: x[:, 0] * 2)
    result = run(path, epochs=20, loss=loss)
    assert result.objective == f"values (1), {loss}"
    assert result.test["rmse"] < 1.6
    assert result.losses[-1] < result.losses[0] / 2


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
def test_whole_numbers_below_minus_one_are_no_classes(tmp_path, kind):
    """They are numbers, and none of them is an unknown class: not -1 either."""

    def labels(x):
        return (x[:, 0] * 3).round().to(kind)

    path = node_store(tmp_path / "g.ng", labels)
    with pytest.raises(
        ng.UnsupportedArgument, match=r"has the label -\d+: classes must be 0 or more"
    ):
        run(path, objective="single-label")
    with ng.open(path, memory="64MB") as store:
        values = store.column("y")
    assert (values == -1).any()
    if np.issubdtype(values.dtype, np.integer):
        with pytest.raises(ng.UnsupportedArgument, match="give objective='regression'"):
            run(path)
    else:
        assert run(path).objective == "values (1), mse"
    result = run(path, objective="regression", epochs=8)
    assert result.missing_labels == {"train": 0, "val": 0, "test": 0}
    assert result.losses[-1] < result.losses[0] * 0.6


def test_what_is_known_of_labels_does_not_depend_on_the_order_of_blocks():
    codes = np.ones(2, np.uint8)
    whole, parts = np.array([[1.0], [-1.0]]), np.array([[0.5], [2.5]])
    for blocks in ([whole, parts], [parts, whole]):
        facts = LabelFacts(1, is_flat=True, is_float=True)
        for block in blocks:
            facts.add(block, codes)
        assert facts.tally("values").known["train"] == 4
        assert facts.tally("classes").known["train"] == 3


@pytest.mark.parametrize("model", ["hetero-sage", "hetero-gat", "rgcn"])
def test_labels_of_one_node_type_of_several_are_learned(tmp_path, model):
    path = typed_store(tmp_path / "g.ng", users=900)
    result = run(path, model=model, epochs=20, dropout=0.1, target="user")
    assert result.test_accuracy > 0.65
    assert result.losses[-1] < result.losses[0]


@pytest.mark.parametrize(
    "sampler",
    ["neighbor", "labor", "cluster", "saint-walk", "saint-edge", "random-node", "shadow"],
)
def test_every_sampler_of_nodes_feeds_the_same_loop_and_repeats_itself(plain, sampler):
    settings = {"sampler": sampler}
    settings |= {"parts": 10} if sampler in ("cluster", "random-node") else {}
    settings |= {"batch_parts": 2} if sampler == "cluster" else {}
    if sampler.startswith("saint"):
        settings |= {"steps": 4, "coverage": 5}
    first, second = (run(plain, **settings) for _ in range(2))
    assert first.losses == second.losses
    assert len(first.history) == 2
    assert first.test_accuracy is not None
    words = {
        "cluster": "batch_parts=2 of parts=10 clusters",
        "random-node": "one of parts=10 parts",
    }
    notes = [note for note in first.notes if note.startswith("batch_size=64 applies to")]
    assert [note.endswith(words[sampler]) for note in notes] == [True] * (sampler in words)


@pytest.mark.parametrize("sampler", ["neighbor", "hgt"])
def test_samplers_of_several_types_train(tmp_path, sampler):
    result = run(typed_store(tmp_path / "g.ng"), model="hetero-sage", sampler=sampler)
    assert len(result.test) == 1


def test_graphs_are_split_whole_and_learned(tmp_path):
    path = graph_store(tmp_path / "g.ng")
    result = run(
        path,
        model="gin",
        task="graph",
        fanouts=(-1, -1),
        epochs=15,
        holdout=(20.0, 20.0),
        dropout=0.1,
    )
    assert result.test_accuracy > 0.8
    assert result.seeds == 15 * 36


def test_whole_graphs_have_layers_and_no_counts_of_neighbours(tmp_path):
    path = graph_store(tmp_path / "h.ng")
    with pytest.raises(ng.UnsupportedArgument, match="expected -1 for each layer, -1,-1,-1"):
        run(path, model="gin", task="graph", fanouts=(4, 4, 4))


def test_a_split_that_divides_a_graph_is_refused(tmp_path):
    graph_store(tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        count = store.num_nodes
        store_x = store.column("x")
        edges = torch.stack(store.graph_store.coo()[:2])
        columns = {n: torch.from_numpy(store.column(n)) for n in ("graph_id", "graph_y")}
    mask = torch.arange(count) % 2 == 0
    data = pyg.Data(x=torch.from_numpy(store_x), edge_index=edges, train_mask=mask, **columns)
    ng.from_pyg(data, tmp_path / "h.ng")
    with pytest.raises(ng.UnsupportedArgument, match="divides graph 0"):
        run(tmp_path / "h.ng", task="graph", fanouts=(-1,))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"negatives": "triplet", "loss": "bpr", "num_negatives": 3},
        {"decoder": "mlp"},
        {"model": "gcn"},
    ],
)
def test_links_are_trained_and_ranked(plain, settings):
    # After 4 epochs the decoder "mlp" has learned nothing on some processors; all have after 10.
    result = run(plain, task="link", epochs=10, eval_negatives=20, **settings)
    assert set(result.test) == {"mrr", "hits@10", "roc-auc"}
    assert result.losses[-1] < result.losses[0]
    assert result.test["roc-auc"] > 0.6


def test_links_between_two_types_are_trained_by_a_recommender(tmp_path):
    path = typed_store(tmp_path / "g.ng")
    settings = {"model": "ngcf", "task": "link", "target": "user,buys,item"}
    result = run(path, **settings, negatives="triplet", loss="bpr")
    assert result.objective == "links user,buys,item, bpr with triplet negatives"
    assert 0 < result.test["mrr"] < 1


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory):
    """A symmetric graph of which the store does not say that it is one."""
    rng = np.random.default_rng(15)
    print("seed 15")
    edges = np.unique(rng.integers(0, 400, (2, 3000)), axis=1)
    edges = torch.from_numpy(np.unique(np.hstack([edges, edges[::-1]]), axis=1))
    path = tmp_path_factory.mktemp("both") / "g.ng"
    ng.from_pyg(pyg.Data(x=torch.ones(400, 4), edge_index=edges), path)
    with ng.open(path, memory="64MB") as store:
        assert not store.schema.edge_types[0].undirected
    return path


@pytest.mark.parametrize("kind", ["undirected", "both ways", "typed", "stored reverse"])
def test_no_batch_carries_a_message_along_an_edge_that_is_held_out(
    plain, both_ways, tmp_path, kind
):
    typed = kind in ("typed", "stored reverse")
    path = {"undirected": plain, "both ways": both_ways}.get(kind)
    path = path or typed_store(tmp_path / "g.ng", kept=None if kind == "typed" else True)
    settings = {"model": "hetero-sage", "target": "user,buys,item"} if typed else {}
    config = TrainConfig(**SMALL, **settings, task="link", holdout=(15.0, 15.0))
    with ng.open(path, memory="64MB") as store:
        task = Trainer(store, config).task
        held = set()
        for split in ("val", "test"):
            for source, target in task._links[split].T.tolist():
                held |= {(source, target)} if typed else {(source, target), (target, source)}
        assert len(held) > 100
        seen = removed = 0
        for loader in (task.train_loader(), task.loader("val"), task.loader("test")):
            for batch in loader:
                parts = messages(batch, typed)
                before = sum(len(pairs) for pairs in parts)
                assert any(held & pairs for pairs in map(set, parts)) or before < 50
                task._take_out(batch, None)
                after = messages(batch, typed)
                assert not any(held & set(pairs) for pairs in after)
                seen, removed = seen + before, removed + before - sum(map(len, after))
    assert 0.2 < removed / seen < 0.4


def test_in_training_no_batch_carries_the_reverse_of_a_link_that_it_asks_about(both_ways):
    config = TrainConfig(**{**SMALL, "fanouts": (-1,)}, task="link")
    with ng.open(both_ways, memory="64MB") as store:
        trainer = Trainer(store, config)
        trainer.model.train()
        count = 0
        for batch in trainer.task.train_loader():
            sources, targets, _ = trainer.task._ends(batch, batch)
            asked = set(zip(sources.tolist(), targets.tolist(), strict=True))
            before = set(map(tuple, batch.edge_index.T.tolist()))
            count += len(before & {pair[::-1] for pair in asked})
            trainer.task.predict(batch)
            after = set(map(tuple, batch.edge_index.T.tolist()))
            assert not after & (asked | {pair[::-1] for pair in asked})
    assert count > 500


def messages(batch, typed):
    if not typed:
        pairs = batch.n_id[batch.edge_index].T.tolist()
        return [[tuple(pair) for pair in pairs]]
    there, back = batch["user", "buys", "item"], batch["item", "rev_buys", "user"]
    users, items = batch["user"].n_id, batch["item"].n_id
    first = zip(
        users[there.edge_index[0]].tolist(), items[there.edge_index[1]].tolist(), strict=True
    )
    second = zip(
        users[back.edge_index[1]].tolist(), items[back.edge_index[0]].tolist(), strict=True
    )
    return [list(first), list(second)]


def test_both_directions_of_an_edge_fall_on_the_same_side_and_shares_are_kept():
    rng = np.random.default_rng(14)
    print("seed 14")
    a, b = rng.integers(0, 10**9, (2, 40_000))
    holdout = Holdout(TrainConfig(holdout=(10.0, 20.0), seed=3), symmetric=True)
    codes = holdout.codes(a, b)
    assert np.array_equal(codes, holdout.codes(b, a))
    shares = np.bincount(codes, minlength=4) / len(codes)
    assert shares[1:] == pytest.approx([0.7, 0.1, 0.2], abs=0.01)
    other = Holdout(TrainConfig(holdout=(10.0, 20.0), seed=4), symmetric=True)
    assert (codes != other.codes(a, b)).any()


def test_times_cut_links_where_they_are_given():
    holdout = Holdout(TrainConfig(val_after=10, test_after=20), symmetric=False)
    times = np.array([5, 10, 11, 20, 21])
    assert holdout.codes(times, times, times).tolist() == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "sagee"}, "model='sagee' is not valid: expected one of 'sage'"),
        ({"sampler": "nearby"}, "sampler='nearby' is not valid: expected"),
        ({"model": "cluster", "task": "link"}, "does not support the task 'link'"),
        ({"model": "sage", "sampler": "pinsage"}, "does not support the sampler 'pinsage'"),
        ({"sampler": "hgt"}, "sampler 'hgt' needs a store"),
        ({"sampler": "shadow", "task": "link"}, "does not support the sampler 'shadow'"),
        ({"model": "hetero-sage"}, "this store is homogeneous"),
        ({"metrics": ("mrr",)}, "not a metric of classes"),
        ({"loss": "mse"}, "objective='single-label'; use loss='cross"),
        ({"task": "link", "loss": "bpr"}, "use negatives='triplet'"),
        ({"task": "link", "loss": "mse"}, "loss='mse' does not support the task 'link'"),
        ({"task": "link", "objective": "regression"}, "leave out objective="),
        ({"task": "link", "test_after": 3}, "have no times"),
        ({"objective": "multi-label"}, "labels other than 0 and 1"),
        ({"negatives": "triplet"}, "applies only to the task 'link'"),
        ({"holdout": (5.0, 5.0)}, "applies only to the tasks 'link' and 'graph'"),
        ({"coverage": 3}, "applies only to the samplers 'saint-node'"),
        (
            {"task": "graph", "fanouts": (-1,), "target": "node"},
            "target='node' applies only to the tasks 'node' and 'link'",
        ),
        ({"parts": 10}, "applies only to the samplers 'cluster' and 'random-node'"),
        (
            {"sampler": "random-node", "batch_parts": 2},
            "applies only to the sampler 'cluster'",
        ),
        ({"schedule_factor": 0.5}, "applies only to the schedules 'step' and 'plateau'"),
        ({"sampler": "labor", "method": "weighted"}, "applies only to the sampler 'neighbor'"),
        ({"sampler": "shadow", "fanouts": (3, 4)}, "the same number in each hop"),
        (
            {"task": "link", "split_index": 3},
            "split_index=3 applies only to the tasks 'node' and 'graph'",
        ),
        ({"task": "link", "metrics": ("hits@51",)}, "always 1 if a link is ranked"),
        ({"task": "link", "eval_negatives": 9}, "hits@10 is always 1"),
        ({"task": "link", "holdout": (0, 10), "patience": 2}, "patience=2 needs validations"),
        ({"task": "link", "holdout": (0, 10), "schedule": "plateau"}, "needs validations"),
        ({"task": "link", "holdout": (0, 10), "test_on": "best"}, "test_on='best' needs"),
        ({"hidden": 10**9}, "hidden=1000000000 and 2 layers cannot be created"),
        ({"task": "link", "model": "lightgcn"}, "hidden=16 applies only to models with hidden"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(plain, settings, message):
    with pytest.raises(ng.UnsupportedArgument, match=message) as caught:
        run(plain, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 2**63}, "seed=9223372036854775808"),
        ({"lr": float("nan")}, "lr=nan is not valid: expected a finite number"),
        ({"lr": 1e38}, "lr=1e\\+38 is not valid: expected a number up to 1e\\+36"),
        ({"clip": float("inf")}, "clip=inf is not valid: expected a finite number"),
        ({"weight_decay": float("nan")}, "weight_decay=nan"),
        ({"holdout": (10.0, float("nan"))}, "holdout=.* is not valid"),
        ({"holdout": (30.0, 30.0), "test_after": 5}, "exclude each other"),
    ],
)
def test_a_number_that_is_not_valid_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "link"}, "an edge type must be named"),
        ({"task": "link", "target": "user,sells,item"}, "no edge type"),
        ({"target": "shop"}, "no node type 'shop'"),
    ],
)
def test_a_type_that_is_not_there_is_refused_by_the_name_of_its_option(tmp_path, settings, message):
    path = typed_store(tmp_path / "g.ng")
    with pytest.raises(ng.NameNotFound, match=f"{message}.* name one type as target"):
        run(path, model="hetero-sage", **settings)


def test_labels_of_one_class_alone_are_refused(tmp_path):
    path = node_store(tmp_path / "g.ng", lambda x: torch.ones(len(x), dtype=torch.int64))
    with pytest.raises(ng.UnsupportedArgument, match="only one class"):
        run(path)


@pytest.mark.parametrize("model", ["ngcf", "lightgcn", "hetero-sage"])
def test_a_kept_reverse_trains_as_the_edge_type_that_it_stands_for(tmp_path, model):
    settings = {"model": model, "task": "link", "epochs": 1, "decoder": "mlp"}
    settings |= {"hidden": 64} if model == "lightgcn" else {}
    typed = run(typed_store(tmp_path / "typed.ng"), target="user,buys,item", **settings)
    kept = run(typed_store(tmp_path / "kept.ng", kept=True), **settings)
    assert kept.losses == typed.losses
    assert kept.test == typed.test
    assert [
        note
        for note in kept.notes
        if note.startswith("messages also use the reverse edges item,rev_buys")
    ]
    assert not typed.notes


def test_a_store_of_one_direction_is_refused_with_the_import_that_adds_the_other(tmp_path):
    path = typed_store(tmp_path / "g.ng", kept=False)
    for model in ("ngcf", "lightgcn"):
        with pytest.raises(ng.UnsupportedArgument, match="again with `neargraph import --reverse`"):
            run(path, model=model, task="link", hidden=64, lr=0.003)
    with pytest.raises(
        ng.UnsupportedArgument, match="as one node type with `neargraph import --un"
    ):
        run(path, model="pinsage", task="link")
    assert run(path, model="hetero-sage", task="link", epochs=1).losses


def test_graphs_without_features_are_not_told_to_learn_rows(tmp_path):
    path = graph_store(tmp_path / "g.ng", features=False)
    with pytest.raises(ng.NameNotFound, match=r"no node tensor 'x'; import features$"):
        run(path, task="graph", fanouts=(-1,))


def test_graphs_whose_nodes_were_all_deleted_are_left_out_and_counted(tmp_path):
    path = graph_store(tmp_path / "g.ng")
    with ng.open(path, memory="64MB") as store:
        graph = store.column("graph_id")
        with store.write() as tx:
            for node in np.flatnonzero((graph == 3) | (graph == 40)):
                tx.delete_node("node", int(node))
            tx.delete_node("node", int(np.flatnonzero(graph == 7)[0]))
    result = run(path, task="graph", model="gin", fanouts=(-1,), holdout=(20.0, 20.0), epochs=1)
    assert "2 of 60 graphs are left out: all their nodes were deleted" in result.notes
    with ng.open(path, memory="64MB") as store:
        config = TrainConfig(task="graph", model="gin", fanouts=(-1,), holdout=(20.0, 20.0))
        task = Trainer(store, config).task
        assert sum(len(graphs) for graphs in task._graphs.values()) == 58
        assert result.seeds == len(task._graphs["train"])


@pytest.fixture(scope="module")
def sorted_split(tmp_path_factory):
    """The first of the nodes train, so that most clusters have none of them."""
    path = tmp_path_factory.mktemp("sorted") / "g.ng"
    rng = np.random.default_rng(16)
    print("seed 16")
    x, y = torch.randn(400, 4), torch.from_numpy(rng.integers(0, 3, 400))
    masks = {"train_mask": torch.arange(400) < 100, "val_mask": torch.arange(400) >= 300}
    edges = torch.from_numpy(rng.integers(0, 400, (2, 1200)))
    ng.from_pyg(pyg.Data(x=x, y=y, edge_index=edges, **masks), path)
    return path


def test_batches_without_a_training_node_have_no_part_in_the_loss(sorted_split, tmp_path):
    settings = {"model": "cluster", "parts": 20, "batch_parts": 1, "batch_size": 256}
    result = run(sorted_split, **settings)
    assert len(result.losses) == 10
    for epoch, row in enumerate(result.history):
        assert row["loss"] == pytest.approx(np.mean(result.losses[5 * epoch : 5 * epoch + 5]))
        assert row["loss"] > 0.5
    (note,) = (note for note in result.notes if "no training seed" in note)
    assert note.startswith("15 of 20 batches of epoch 1 ")
    assert "`neargraph reorganize STORE --by locality`" in note

    def stop(phase, step, steps, value):
        if (phase, step) == ("epoch 2", 13):
            raise KeyboardInterrupt

    config = TrainConfig(**{**SMALL, **settings, "save_steps": 3})
    with ng.open(sorted_split, memory="64MB") as store:
        with pytest.raises(KeyboardInterrupt):
            fit(store, config, state=tmp_path / "run.pt", progress=stop)
        rest = fit(store, config, state=tmp_path / "run.pt")
    assert rest.losses == result.losses
    assert [row["loss"] for row in rest.history] == [row["loss"] for row in result.history]


@pytest.mark.parametrize("setting", [{"patience": 2}, {"schedule": "plateau"}, {"test_on": "best"}])
def test_settings_that_go_by_validations_need_known_labels_there(tmp_path, setting):
    path = node_store(tmp_path / "g.ng", lambda x: (x[:, 0] > 0).long())
    with ng.open(path, memory="64MB") as store:
        val = store.split("val")
        with store.write() as tx:
            tx.update_features(None, val, "y", np.full(len(val), -1))
    with pytest.raises(ng.UnsupportedArgument, match="no label of the validation split"):
        run(path, **setting)


def test_a_split_that_is_not_there_is_refused_with_those_that_are(plain, tmp_path):
    with pytest.raises(
        ng.NameNotFound, match="split_index=3 is not a split of node type 'node'; use 0"
    ):
        run(plain, split_index=3)
    with pytest.raises(ng.NameNotFound, match="has no tensor 'y'; import labels"):
        run(graph_store(tmp_path / "g.ng"))
