"""Links by walks, and links ranked among all nodes: neither knows what is held out."""

import shutil

import numpy as np
import pytest

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric.data")
pytest.importorskip("torchmetrics")
from neargraph.loader.pinsage import HeldOutEdges  # noqa: E402
from neargraph.nn import InDegrees  # noqa: E402
from neargraph.splits import SPLITS  # noqa: E402
from neargraph.train import TrainConfig, evaluate, fit  # noqa: E402
from neargraph.train.engine import Trainer  # noqa: E402
from neargraph.train.holdout import Holdout, edge_blocks  # noqa: E402

SMALL = {"task": "link", "epochs": 2, "hidden": 16, "batch_size": 64, "lr": 0.01}
RANKED = ("recall@5", "ndcg@5")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("rankings") / "g.ng"
    run_import(plan_generated(300, 1500, 16, 4), path, ImportOptions(undirected=True, unique=True))
    return path


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Users and items, as many numbers and edges as `bought` gives back."""
    rng, data = np.random.default_rng(12), pyg.HeteroData()
    data["user"].x = torch.from_numpy(rng.standard_normal((80, 16)).astype(np.float32))
    data["item"].x = torch.from_numpy(rng.standard_normal((60, 16)).astype(np.float32))
    ends = np.stack([rng.integers(0, 80, 700), rng.integers(0, 60, 700)])
    edges = torch.from_numpy(np.unique(ends, axis=1))
    data["user", "buys", "item"].edge_index = edges
    data["item", "rev_buys", "user"].edge_index = edges.flip(0)
    path = tmp_path_factory.mktemp("rankings") / "typed.ng"
    ng.from_pyg(data, path)
    return path


@pytest.mark.parametrize("symmetric", [True, False])
def test_walks_take_every_edge_but_those_that_the_trainer_holds_out(plain, symmetric):
    rule = Holdout(TrainConfig(seed=7, holdout=(12.5, 17.5)), symmetric)
    with ng.open(plain, memory="64MB") as store:
        ((sources, targets, _),) = edge_blocks(store, store.schema.edge_types[0])
        code = rule.codes(sources, targets)
        kept = (code == SPLITS["train"]) & (sources != targets)
        held_out = HeldOutEdges(seed=7, percent=30.0, symmetric=symmetric)
        walks = {"num_walks": 400, "walk_length": 1, "restart": 0.0, "batch_size": 20}
        found = set()
        for batch in ng.PinSAGELoader(store, [300], held_out=held_out, attrs=[], **walks):
            found |= {tuple(pair) for pair in batch.n_id[batch.edge_index].T.tolist()}
    assert 0.2 < (code != SPLITS["train"]).mean() < 0.4
    assert found == set(zip(sources[kept].tolist(), targets[kept].tolist(), strict=True))


@pytest.mark.parametrize("negatives", ["binary", "triplet"])
def test_links_are_trained_on_the_visits_of_walks(plain, negatives):
    config = TrainConfig(
        **{**SMALL, "epochs": 6}, model="pinsage", fanouts=(8, 8), negatives=negatives, dropout=0.0
    )
    with ng.open(plain, memory="64MB") as store:
        result = fit(store, config)
        again = fit(store, config)
        trainer = Trainer(store, config)
        trainer.model.train()
        for batch in trainer.task.train_loader():
            sources, targets, _ = trainer.task._ends(batch, batch)
            trainer.task.predict(batch)
            visits = set(map(tuple, batch.edge_index.T.tolist()))
            asked = set(zip(sources.tolist(), targets.tolist(), strict=True))
            assert visits
            assert not visits & (asked | {pair[::-1] for pair in asked})
    assert result.losses == again.losses
    assert result.losses[-1] < result.losses[0]
    assert result.test["roc-auc"] > 0.55


def split_edges(store, edge_type, holdout):
    """Links of the test [2, n], edges of training [2, m], and all edges [2, e]."""
    ((sources, targets, _),) = edge_blocks(store, edge_type)
    code = holdout.codes(sources, targets)
    pairs = np.stack([sources, targets])
    return pairs[:, code == SPLITS["test"]], pairs[:, code == SPLITS["train"]], pairs


def dense(z_from, z_to, links, edges, same_type):
    """Recall and NDCG at 5 from the matrix of all scores."""
    scores = (z_from @ z_to.T).detach().numpy().astype(np.float64)
    wanted = np.zeros(scores.shape, bool)
    wanted[links[0], links[1]] = True
    known = np.zeros(scores.shape, bool)
    known[edges[0], edges[1]] = True
    if same_type:
        np.fill_diagonal(known, True)
    scores[known & ~wanted] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    hits = np.take_along_axis(wanted, best, axis=1)
    counts = wanted.sum(axis=1)
    gains = 1 / np.log2(np.arange(2, 7))
    ideal = np.concatenate([[0], gains.cumsum()])[np.minimum(counts, 5)]
    asked = counts > 0
    recall = hits.sum(axis=1)[asked] / counts[asked]
    return recall.mean(), ((hits * gains).sum(axis=1)[asked] / ideal[asked]).mean()


def test_links_are_ranked_among_all_nodes_as_in_the_matrix_of_all_scores(plain):
    config = TrainConfig(**SMALL, fanouts=(-1, -1), rank_all=RANKED, dropout=0.0)
    with ng.open(plain, memory="64MB") as store:
        trainer = Trainer(store, config)
        trainer.run()
        found = trainer.evaluate("test", final=True)
        links, train, edges = split_edges(store, store.schema.edge_types[0], trainer.task._holdout)
        x = torch.from_numpy(store.column("x"))
        z = trainer.model(x, torch.from_numpy(train))
    expected = dense(z, z, links, edges, same_type=True)
    assert [found[f"{name} of all"] for name in RANKED] == pytest.approx(expected, abs=1e-6)
    assert {"mrr", "recall@5 of all"} <= set(trainer.result.test)
    assert not list(plain.parent.glob(".scratch-*"))


def test_links_between_two_types_are_ranked_among_those_of_the_second(typed):
    settings = {"model": "hetero-sage", "target": "user,buys,item", "rank_all": RANKED}
    config = TrainConfig(**SMALL, **settings, fanouts=(-1, -1), dropout=0.0)
    with ng.open(typed, memory="64MB") as store:
        trainer = Trainer(store, config)
        found = trainer.evaluate("test", final=True)
        edge_type = store.schema.edge_type(("user", "buys", "item"))
        links, train, edges = split_edges(store, edge_type, trainer.task._holdout)
        x = {name: torch.from_numpy(store.column("x", name)) for name in ("user", "item")}
        there = torch.from_numpy(train)
        both = {("user", "buys", "item"): there, ("item", "rev_buys", "user"): there.flip(0)}
        z = trainer.model(x, both)
    expected = dense(z["user"], z["item"], links, edges, same_type=False)
    assert [found[f"{name} of all"] for name in RANKED] == pytest.approx(expected, abs=1e-6)


def test_links_are_read_by_their_number_and_not_by_that_of_nodes(plain, monkeypatch):
    """A block of a few nodes with long lists would not fit where one of short lists does."""
    with ng.open(plain, memory="64MB") as store:
        edge_type = store.schema.edge_types[0]
        ((sources, targets, _),) = edge_blocks(store, edge_type)
        degrees = InDegrees(store)(torch.arange(300))
        monkeypatch.setattr("neargraph._lists.CHUNK_EDGES", 40)
        blocks = list(edge_blocks(store, edge_type))
        assert torch.equal(InDegrees(store)(torch.arange(300)), degrees)
    assert len(blocks) > len(sources) / 40
    assert all(len(block[0]) <= 40 or len(np.unique(block[1])) == 1 for block in blocks)
    assert np.array_equal(np.concatenate([block[0] for block in blocks]), sources)
    assert np.array_equal(np.concatenate([block[1] for block in blocks]), targets)


@pytest.mark.parametrize("chunk", [1 << 18, 25])
def test_links_that_were_not_drawn_are_no_wrong_answers(typed, monkeypatch, chunk):
    monkeypatch.setattr("neargraph._lists.CHUNK_EDGES", chunk)
    settings = {"model": "hetero-sage", "target": "user,buys,item", "rank_all": RANKED}
    config = TrainConfig(**SMALL, **settings, fanouts=(-1, -1), dropout=0.0, eval_edges=20)
    with ng.open(typed, memory="64MB") as store:
        trainer = Trainer(store, config)
        drawn = trainer.task._links["test"].numpy()
        with trainer.task.ranking("test") as ranking:
            list(ranking.passes())
            known = ranking._known()
            sources = ranking._sources
        edge_type = store.schema.edge_type(("user", "buys", "item"))
        edges = np.hstack([np.stack(block[:2]) for block in edge_blocks(store, edge_type)])
    assert drawn.shape == (2, 20)
    found = {
        (int(source), item)
        for place, source in enumerate(sources)
        for item in known.pairs(place, place + 1)[1].tolist()
    }
    assert found == {(u, i) for u, i in edges.T.tolist() if u in set(drawn[0].tolist())}


def test_deleted_nodes_are_not_ranked_and_move_no_row(plain, tmp_path):
    path, gone = shutil.copytree(plain, tmp_path / "g.ng"), [0, 3, 17, 40]
    config = TrainConfig(**SMALL, rank_all=RANKED, fanouts=(-1, -1), dropout=0.0)
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            for node in gone:
                tx.delete_node(None, node)
        trainer = Trainer(store, config)
        found = trainer.evaluate("test", final=True)
        links, train, edges = split_edges(store, store.schema.edge_types[0], trainer.task._holdout)
        z = trainer.model(torch.from_numpy(store.column("x")), torch.from_numpy(train))
    kept = np.setdiff1d(np.arange(len(z)), gone)
    place = np.full(len(z), -1)
    place[kept] = np.arange(len(kept))
    assert (place[edges] >= 0).all()
    expected = dense(z[kept], z[kept], place[links], place[edges], same_type=True)
    assert [found[f"{name} of all"] for name in RANKED] == pytest.approx(expected, abs=1e-6)


def test_a_run_is_ranked_again_by_evaluate(plain, tmp_path):
    config = TrainConfig(**SMALL, model="pinsage", fanouts=(4, 4), rank_all=RANKED)
    with ng.open(plain, memory="64MB") as store:
        result = fit(store, config, out=tmp_path / "run")
    found = evaluate(tmp_path / "run")["metrics"]
    assert found == result.test
    assert {f"{name} of all" for name in RANKED} <= set(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank_all": ("accuracy",)}, "not a metric of rankings"),
        ({"rank_all": RANKED, "decoder": "mlp"}, "use decoder='dot'"),
        ({"rank_all": RANKED, "task": "node"}, "applies only to the task 'link'"),
        ({"model": "pinsage", "test_after": 3}, "the sampler 'pinsage' ignores times"),
    ],
)
def test_what_walks_and_rankings_cannot_do_is_refused(plain, settings, message):
    with ng.open(plain, memory="64MB") as store, pytest.raises(ng.NeargraphError, match=message):
        fit(store, TrainConfig(**{**SMALL, **settings}))
