"""Models that answer from a store: equal to the model in PyG on the batch that the engine samples,
whatever is in memory; what does not fit a store is refused by name."""

import os
import shutil
import signal
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gnn = pytest.importorskip("torch_geometric.nn")
pytest.importorskip("onnxscript")

from graphs import Edges, Graph, Nodes, homogeneous  # noqa: E402
from torch import nn  # noqa: E402

import neargraph as ng  # noqa: E402

FANOUTS = [5, 3]
IDS = [7, 250, 0, 7, 12, 299]


class WithAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = gnn.GINEConv(nn.Linear(6, 8), edge_dim=3)
        self.second = gnn.GATv2Conv(8, 4, heads=2, edge_dim=3)

    def forward(self, x, edge_index, edge_attr):
        h = self.first(x, edge_index, edge_attr).relu()
        return self.second(h, edge_index, edge_attr)


class OfTypes(nn.Module):
    def __init__(self):
        super().__init__()
        layers = {
            ("paper", "cites", "paper"): gnn.SAGEConv(4, 3),
            ("author", "writes", "paper"): gnn.SAGEConv((3, 4), 3),
        }
        self.layer = gnn.HeteroConv(layers)

    def forward(self, x_dict, edge_index_dict):
        return self.layer(x_dict, edge_index_dict)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = gnn.SAGEConv(6, 4)

    def forward(self, x, edge_index, edge_label_index):
        h = self.layer(x, edge_index)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(dim=1)


class OfGraphs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = gnn.GCNConv(3, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x, edge_index, batch, size: int):
        h = self.layer(x, edge_index).relu()
        return self.out(gnn.global_mean_pool(h, batch, size))


@pytest.fixture(scope="module")
def models(homo_path, hetero_path, tmp_path_factory):
    """Models by name, with the paths of their files."""
    torch.manual_seed(1)
    folder, made = tmp_path_factory.mktemp("models"), {}
    with ng.open(homo_path, memory="64MB") as homo, ng.open(hetero_path, memory="64MB") as hetero:
        fanouts = {triple: [4, 4] for triple in hetero.edge_types}
        for name, model, store, draws in (
            ("sage", ng.nn.GraphSAGE(6, 8, 5), homo, FANOUTS),
            ("gcn", gnn.GCN(6, 8, 2, 5), homo, FANOUTS),
            ("attributes", WithAttributes(), homo, FANOUTS),
            ("types", OfTypes(), hetero, fanouts),
        ):
            ng.export(model.eval(), store, folder / name, fanouts=draws)
            made[name] = (model, folder / name)
    return made


def close(found, wanted):
    wanted = wanted.detach().numpy()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


def eager(model, store, ids, seed, fanouts=FANOUTS):
    """What the model gives in PyG for the distinct `ids`, on all of the batch."""
    unique = list(dict.fromkeys(ids))
    batch = ng.NumpySampler(store, fanouts, seed=0).sample(np.array(unique), stream=seed)
    given = [torch.from_numpy(batch.features("x")), torch.from_numpy(batch.edge_index())]
    if isinstance(model, WithAttributes):
        given.append(torch.from_numpy(batch.edge_features("edge_attr")))
    rows = model(*given)[: len(unique)]
    return rows[[unique.index(one) for one in ids]]


@pytest.mark.parametrize("prepare", ["metadata", "hot", "all"])
@pytest.mark.parametrize("name", ["sage", "gcn", "attributes"])
def test_answers_are_those_of_pyg_on_the_batch_that_is_sampled(name, prepare, homo, models):
    model, path = models[name]
    with ng.Engine(homo, path, prepare=prepare) as engine:
        assert engine.wait_until_ready(60), engine.explain()
        assert engine.ready == 1.0
        for seed in (0, 5):
            close(engine.run(IDS, seed=seed), eager(model, homo, IDS, seed))
        assert engine.run([], seed=0).shape == (0, *engine.run([1]).shape[1:])


def test_a_model_that_norms_by_degrees_gets_those_of_the_whole_graph(homo, tmp_path):
    torch.manual_seed(2)
    model, unique = ng.nn.GCN(6, 8, 5).eval(), list(dict.fromkeys(IDS))
    batch = ng.NumpySampler(homo, FANOUTS, seed=0).sample(np.array(unique), stream=3)
    degrees = ng.nn.InDegrees(homo)(torch.from_numpy(np.array(batch.nodes(), dtype=np.int64)))
    example = (torch.from_numpy(batch.features("x")), torch.from_numpy(batch.edge_index()), degrees)
    ng.export(model, example, tmp_path / "gcn", fanouts=FANOUTS)
    with ng.Engine(homo, tmp_path / "gcn") as engine:
        assert "in_degree: in-degrees" in engine.explain()
        close(engine.run(unique, seed=3), model(*example)[: len(unique)])


def test_what_is_in_memory_and_how_many_threads_there_are_changes_no_byte(homo, models):
    answers = set()
    for prepare in ("metadata", "hot", "all"):
        for threads in (1, 2, 3):
            with ng.Engine(homo, models["sage"][1], prepare=prepare, threads=threads) as engine:
                answers.add(engine.run(IDS, seed=3).tobytes())
                engine.wait_until_ready(60)
                answers.add(engine.run(IDS, seed=3).tobytes())
    assert len(answers) == 1
    with ng.Engine(homo, models["sage"][1]) as engine:
        assert engine.run(IDS, seed=4).tobytes() not in answers


def test_types_of_nodes_come_by_name(hetero, models):
    model, path = models["types"]
    ids = [3, 100, 3]
    with ng.Engine(hetero, path, prepare="all") as engine:
        assert engine.node_type == "paper"
        found = engine.run(ids, seed=2)
        draws = engine.metadata["fanouts"]
        batch = ng.NumpySampler(hetero, draws, seed=0).sample(("paper", [3, 100]), stream=2)
        x = {t: torch.from_numpy(batch.features("x", t)).float() for t in ("paper", "author")}
        triples = [("paper", "cites", "paper"), ("author", "writes", "paper")]
        edges = {triple: torch.from_numpy(batch.edge_index(triple)) for triple in triples}
        close(found, model(x, edges)["paper"][[0, 1, 0]])
        assert "rows of tensor" in engine.explain()


def test_long_requests_are_cut_and_put_together(homo, models):
    model, path = models["sage"]
    with ng.Engine(homo, path, batch_nodes=2) as engine:
        found = engine.run(IDS, seed=1)
        for ids, places in (([7, 250], [0, 1]), ([0, 12], [2, 4]), ([299], [5])):
            close(found[places], eager(model, homo, ids, 1))
        assert (found[0] == found[3]).all()


def test_pairs_are_scored_by_dot_product_or_by_the_decoder(homo, models, tmp_path):
    pairs = np.array([[1, 2, 1, 30], [9, 2, 7, 1]])
    unique = list(dict.fromkeys(pairs.reshape(-1).tolist()))
    with ng.Engine(homo, models["sage"][1]) as engine:
        found = engine.scores(pairs, seed=1)
        h = eager(models["sage"][0], homo, unique, 1)
        local = np.array([[unique.index(one) for one in row] for row in pairs.tolist()])
        close(found, (h[local[0]] * h[local[1]]).sum(dim=1))
    torch.manual_seed(2)
    decoder = Decoder().eval()
    example = (torch.randn(9, 6), torch.randint(9, (2, 20)), torch.randint(9, (2, 5)))
    ng.export(decoder, example, tmp_path / "decoder", fanouts=[4])
    with ng.Engine(homo, tmp_path / "decoder") as engine:
        batch = ng.NumpySampler(homo, [4], seed=0).sample(np.array(unique), stream=1)
        x, edge_index = map(torch.from_numpy, (batch.features("x"), batch.edge_index()))
        close(engine.scores(pairs, seed=1), decoder(x, edge_index, torch.from_numpy(local)))
        assert engine.scores(np.zeros((2, 0), np.int64)).shape == (0,)
        with pytest.raises(ng.UnsupportedArgument, match="takes pairs"):
            engine.run([1])


def test_graphs_of_a_store_of_many(tmp_path):
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(20), rng.integers(2, 9, 20))
    starts = np.searchsorted(of, np.arange(21))
    sources = rng.integers(0, len(of), 200)
    spread = starts[of[sources] + 1] - starts[of[sources]]
    destinations = starts[of[sources]] + rng.integers(0, 99, 200) % spread
    x = rng.standard_normal((len(of), 3)).astype(np.float32)
    nodes = Nodes(len(of), {"x": x, "graph_id": of})
    graph = Graph({"node": nodes}, {("node", "to", "node"): Edges(sources, destinations)})
    torch.manual_seed(4)
    model = OfGraphs().eval()
    example = (torch.randn(9, 3), torch.randint(9, (2, 20)), torch.arange(9) // 2, 5)
    ng.export(model, example, tmp_path / "model", fanouts=[1])
    with (
        ng.open(graph.write(tmp_path / "many.ng"), memory="64MB") as store,
        ng.Engine(store, tmp_path / "model", batch_nodes=12) as engine,
    ):
        edge_index = torch.from_numpy(np.stack([sources, destinations]))
        wanted = model(torch.from_numpy(x), edge_index, torch.from_numpy(of), 20)
        close(engine.graphs(np.arange(20)), wanted)
        close(engine.graphs([19, 0, 19]), wanted[[19, 0, 19]])
        assert engine.graphs([]).shape == (0, 2)
        with pytest.raises(
            ng.NodeOutOfRange, match="ids of graphs: 20, 77; valid ids are below 20"
        ):
            engine.graphs([20, 3, 77])


def test_ids_that_are_not_there_are_named_once(homo, models):
    with ng.Engine(homo, models["sage"][1]) as engine:
        with pytest.raises(ng.NodeOutOfRange, match=r"300, 301, .* 304 and 15 more; .* below 300"):
            engine.run(np.arange(300, 320))
        with pytest.raises(ng.NodeOutOfRange):
            engine.run([-1])
        with pytest.raises(ng.UnsupportedArgument, match="does not compute whole graphs"):
            engine.graphs([0])


def test_a_model_of_another_store_is_refused_by_what_differs(hetero, models, tmp_path):
    with pytest.raises(ng.InvalidModel, match=r'lacks node type "node"|has node type "paper"'):
        ng.Engine(hetero, models["sage"][1])
    other = homogeneous()
    other.nodes["node"].tensors["x"] = np.zeros((300, 7), np.float32)
    with (
        ng.open(other.write(tmp_path / "wide.ng"), memory="64MB") as wide,
        pytest.raises(ng.InvalidModel, match=r"\[7\] in the store, and the model expects \[6\]"),
    ):
        ng.Engine(wide, models["sage"][1])
    del other.nodes["node"].tensors["x"]
    with (
        ng.open(other.write(tmp_path / "without.ng"), memory="64MB") as without,
        pytest.raises(ng.InvalidModel, match='the store has no "x", only y, split_0, n_id'),
    ):
        ng.Engine(without, models["sage"][1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"devices": ["tpu"]}, "'tpu' is not a valid device"),
        ({"devices": []}, "no device is given"),
        ({"prepare": "some"}, "prepare='some' is not valid"),
        ({"threads": 0}, "threads=0 is not valid"),
        ({"threads": 1025}, "threads=1025 is not valid: expected a number from 1 to 1,024"),
        ({"batch_nodes": 0}, "batch_nodes=0 is not valid"),
        ({"output": "other"}, 'no output "other"; its outputs are out'),
    ],
)
def test_what_there_is_not_is_refused(settings, words, homo, models):
    with pytest.raises(ng.UnsupportedArgument, match=words):
        ng.Engine(homo, models["sage"][1], **settings)


def test_threads_ask_at_once(homo, models):
    with ng.Engine(homo, models["sage"][1], prepare="hot") as engine:
        wanted = {seed: engine.run(IDS, seed=seed).tobytes() for seed in range(8)}
        wrong: list[int] = []

        def ask(first):
            for step in range(40):
                seed = (first + step) % 8
                if engine.run(IDS, seed=seed).tobytes() != wanted[seed]:
                    wrong.append(seed)

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


@pytest.mark.parametrize("memory", [None, "64MB"])
def test_a_newer_commit_is_seen_after_refresh(memory, models, tmp_path):
    path = homogeneous().write(tmp_path / "changing.ng")
    with (
        ng.open(path, memory="64MB") as store,
        ng.Engine(store, models["sage"][1], prepare="all", memory=memory) as engine,
    ):
        engine.wait_until_ready(60)
        before = engine.run(IDS, seed=1)
        assert not engine.refresh()
        with store.write() as tx:
            tx.update_features("node", np.array([7]), "x", np.ones((1, 6), np.float32))
        store.checkpoint()
        assert engine.run(IDS, seed=1).tobytes() == before.tobytes()
        assert engine.refresh()
        after = engine.run(IDS, seed=1)
        assert after.tobytes() != before.tobytes()
        close(after, eager(models["sage"][0], store, IDS, 1))
        assert engine.wait_until_ready(60)
        assert engine.run(IDS, seed=1).tobytes() == after.tobytes()


def test_a_budget_that_does_not_hold_all_says_what_would(models, tmp_path):
    wide = Graph({"node": Nodes(30_000, {"x": np.zeros((30_000, 1024), np.float32)})}, {})
    wide.edges[("node", "to", "node")] = Edges(np.arange(30_000), np.arange(30_000)[::-1].copy())
    model = gnn.SAGEConv(1024, 2).eval()
    example = (torch.randn(9, 1024), torch.randint(9, (2, 20)))
    ng.export(model, example, tmp_path / "wide", fanouts=[2])
    with ng.open(wide.write(tmp_path / "wide.ng"), memory="64MB") as store:
        with pytest.raises(ng.BudgetTooSmall, match="raise memory= to at least"):
            ng.Engine(store, tmp_path / "wide", prepare="all")
        with ng.Engine(store, tmp_path / "wide", prepare="hot") as engine:
            assert engine.wait_until_ready(60), engine.explain()
            assert engine.run([5]).shape == (1, 2)


def test_a_closed_engine_says_so(homo, models):
    engine = ng.Engine(homo, models["sage"][1])
    engine.close()
    with pytest.raises(ng.StoreClosed):
        engine.run([1])


@pytest.mark.parametrize(
    ("ids", "seed", "error", "words"),
    [
        ([1.0], 0, TypeError, "integers, got float64"),
        (np.array([True]), 0, TypeError, "integers, got bool"),
        (["1"], 0, TypeError, "integers"),
        (None, 0, ng.UnsupportedArgument, r"shape \[\]: expected \[n\]"),
        ([[1, 2]], 0, ng.UnsupportedArgument, r"shape \[1, 2\]: expected \[n\]"),
        ([-1], 0, ng.NodeOutOfRange, "-1 is negative"),
        (np.array([2**63], np.uint64), 0, ng.NodeOutOfRange, "does not fit in 64 bits"),
        ([2**70], 0, ng.NodeOutOfRange, "does not fit in 64 bits"),
        ([1], -1, ValueError, "seed=.* is not valid"),
        ([1], 2**64, ValueError, "seed=.* is not valid"),
        ([1], 0.5, TypeError, "integer"),
        ([1], None, TypeError, "integer"),
    ],
)
def test_ids_and_seeds_of_other_kinds_are_refused(ids, seed, error, words, homo, models):
    with ng.Engine(homo, models["sage"][1]) as engine, pytest.raises(error, match=words):
        engine.run(ids, seed=seed)


def test_a_model_file_that_changes_later_changes_no_answer(homo, models, tmp_path):
    shutil.copytree(models["sage"][1], tmp_path / "model")
    with ng.Engine(homo, tmp_path / "model") as engine:
        before = engine.run(IDS, seed=1)
        for file in (tmp_path / "model").iterdir():
            file.write_bytes(b"other")
        assert engine.run(IDS, seed=1).tobytes() == before.tobytes()
        assert engine.refresh() is False
    with pytest.raises(ng.InvalidModel, match="is not a valid manifest"):
        ng.Engine(homo, tmp_path / "model")


def test_an_engine_that_is_closed_while_others_ask_ends_their_requests_with_one_error(
    homo_path, models
):
    engine = ng.Engine(homo_path, models["sage"][1], memory="64MB")
    wanted, errors = engine.run(IDS, seed=1).tobytes(), []

    def ask():
        try:
            while True:
                assert engine.run(IDS, seed=1).tobytes() == wanted
        except ng.StoreClosed as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    engine.run(IDS, seed=2)
    engine.close()
    for thread in threads:
        thread.join(30)
    assert len(errors) == 3


def test_a_forked_child_answers_with_the_same_bytes(homo_path, models):
    with ng.Engine(homo_path, models["sage"][1], memory="64MB", prepare="all") as engine:
        wanted = engine.run(IDS, seed=1).tobytes()
        child = os.fork()
        if child == 0:
            os._exit(0 if engine.run(IDS, seed=1).tobytes() == wanted else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert engine.run(IDS, seed=1).tobytes() == wanted


def ask_for_ever(engine):
    while True:
        engine.run(np.arange(300))


def test_a_long_request_is_stopped_by_an_exception_of_a_signal(homo, models):
    """As Ctrl-C does it."""

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with ng.Engine(homo, models["sage"][1], batch_nodes=1, threads=1) as engine:
            engine.run([1])
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                ask_for_ever(engine)
            assert engine.run([1]).shape == (1, 5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
