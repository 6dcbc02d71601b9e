"""The reverse that an import keeps is an index: it changes what can be deleted, not the graph."""

import json

import numpy as np
import pytest

import neargraph as ng
from neargraph import _core
from neargraph.cli.app import main

TO = ("node", "to", "node")
REVERSE = ("node", "rev_to", "node")
NODES = 400


def make(path, reverse, seed=4, extra=False):
    """A graph with features, labels, splits and edge features; `extra` adds a second edge type."""
    rng = np.random.default_rng(seed)
    out = _core.Importer(str(path))
    node = out.node_type("node", NODES)
    kinds = [out.edge_type(*TO, reverse=reverse, edge_ids=True)]
    if extra:
        kinds.append(out.edge_type("node", "likes", "node", reverse=reverse, edge_ids=True))
    pairs = {kind: rng.integers(0, NODES, (2, 3000)) for kind in kinds}
    for kind in kinds:
        out.push_edges(kind, *pairs[kind])
    out.build_topology()
    for name, kind, rows in (
        ("x", "f32", rng.standard_normal((NODES, 4)).astype(np.float32)),
        ("y", "i64", rng.integers(0, 3, NODES)),
        ("split_0", "u8", rng.integers(1, 4, NODES).astype(np.uint8)),
    ):
        out.push_rows(out.begin_tensor("node", node, name, kind, list(rows.shape[1:])), rows)
    for kind in kinds:
        tensor = out.begin_tensor("edge", kind, "edge_attr", "f32", [2])
        out.push_rows(tensor, np.arange(6000, dtype=np.float32).reshape(3000, 2))
    out.finish()
    return str(path), pairs


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reverse")
    return make(folder / "plain.ng", False)[0], make(folder / "kept.ng", True)[0]


@pytest.fixture
def stores(paths):
    with ng.open(paths[0], memory="64MB") as plain, ng.open(paths[1], memory="64MB") as kept:
        yield plain, kept


def run(*arguments):
    """Runs the command line, which ends with 0."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert not ended.value.code


def arrays(batch):
    names = ("features", "edge_index", "edge_ids", "edge_features", "nodes", "num_sampled_edges")
    return [np.array(getattr(batch, name)()) for name in names]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_schema_is_that_of_the_graph(stores):
    plain, kept = stores
    assert kept.schema.is_homogeneous
    assert kept.metadata() == plain.metadata() == (["node"], [TO])
    assert kept.edge_types == [TO]
    assert kept.num_edges == plain.num_edges == 3000
    assert [t.triple for t in kept.schema.reverse_types] == [REVERSE]
    assert plain.schema.reverse_types == ()


def test_the_reverse_can_be_asked_for_by_name(stores):
    _, kept = stores
    snapshot = kept.snapshot()
    forward, backward = snapshot.neighbors(None, [7]), snapshot.neighbors(REVERSE, range(NODES))
    found = np.repeat(np.arange(NODES), np.diff(backward.indptr))[backward.indices == 7]
    assert sorted(found) == sorted(forward.indices)
    assert kept.schema.edge_type(("node", "node")).triple == TO
    assert kept.schema.edge_type("rev_to").triple == REVERSE


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "labor"},
        {"replace": True},
        {"reading": "scan"},
        {"reading": "distribute"},
        {"layout": "direct"},
        {"reading": "compiled"},
        {"reading": ng.Reading(check_rows=True)},
    ],
    ids=str,
)
def test_batches_are_those_of_the_same_graph_without_it(stores, how):
    pytest.importorskip("torch")
    from neargraph.loader.direct import compile_direct

    found = []
    of_sampler = ("method", "replace", "layout", "check_rows")
    made = {name: how[name] for name in of_sampler if name in how}
    asked = {name: how[name] for name in how if name not in made}
    for store in stores:
        if "layout" in how:
            compile_direct(store.snapshot())
        if how.get("reading") == "compiled":
            options = ["--seeds", "all", "--fanouts", "4,3", "--batch-size", "64", "--seed", "9"]
            run("compile", store.path, *options)
        sampler = ng.NumpySampler(store, [4, 3], seed=9, **made)
        batches = sampler.batches(None, 64, shuffle=True, **asked)
        found.append([[np.copy(array) for array in arrays(batch)] for batch in batches])
    assert len(found[0]) == 7
    assert all(same(one, other) for one, other in zip(*found, strict=True))


def test_loaders_give_homogeneous_batches(stores):
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    from torch_geometric.loader import NodeLoader

    def batches(store):
        sampler = store.sampler([4, 3], seed=9)
        yield from ng.NeighborLoader(store, [4, 3], "train", batch_size=64, seed=9)
        yield from ng.ClusterGCNLoader(store, 5, batch_size=2, seed=9)
        yield from NodeLoader(store, sampler, input_nodes="train", batch_size=64)

    count = 0
    for one, other in zip(*map(batches, stores), strict=True):
        assert type(other) is data.Data
        assert set(one.keys()) == set(other.keys())
        for name, value in one.to_dict().items():
            if torch.is_tensor(value):
                assert torch.equal(value, other[name]), name
        count += 1
    assert count > 5


def test_training_gives_the_same_losses(stores):
    pytest.importorskip("torch")
    from neargraph.train import TrainConfig, fit

    for model in ("sage", "gcn", "cluster"):
        more = {"parts": 20} if model == "cluster" else {}
        config = TrainConfig(model=model, epochs=1, batch_size=64, fanouts=(4, 3), **more)
        plain, kept = (fit(store, config).losses for store in stores)
        assert plain == kept


def test_a_fanout_that_names_the_reverse_samples_it(stores):
    pytest.importorskip("torch")
    hetero = pytest.importorskip("torch_geometric.data").HeteroData
    _, kept = stores
    fanouts = {TO: [3], REVERSE: [2]}
    [batch] = ng.NeighborLoader(
        kept, fanouts, [5, 6], batch_size=2, reading=ng.Reading(check_rows=True)
    )
    assert type(batch) is hetero
    assert set(batch.edge_types) == {TO, REVERSE}
    edge_index, n_id = batch[REVERSE].edge_index, batch["node"].n_id
    lists = kept.snapshot().neighbors(REVERSE, n_id[edge_index[1]].numpy())
    for place, source in enumerate(n_id[edge_index[0]].tolist()):
        assert source in lists.indices[lists.indptr[place] : lists.indptr[place + 1]]
    attr = batch[REVERSE].edge_attr if "edge_attr" in batch[REVERSE] else None
    assert attr is None
    assert len(batch[TO].edge_attr) == batch[TO].edge_index.shape[1]
    with pytest.raises(ng.UnsupportedArgument, match="rev_to"):
        kept.sampler(fanouts)
    with pytest.raises(ng.UnsupportedArgument, match="rev_to"):
        ng.NeighborLoader(kept, fanouts, [5], reading="direct_layout")


def test_several_types_sample_what_was_named(tmp_path):
    stores = []
    for reverse in (False, True):
        path, _ = make(tmp_path / f"{reverse}.ng", reverse, extra=True)
        stores.append(ng.open(path, memory="64MB"))
    plain, kept = stores
    assert kept.metadata() == plain.metadata()
    assert len(kept.schema.reverse_types) == 2
    samplers = [ng.NumpySampler(store, [3, 2], seed=1, check_rows=True) for store in stores]
    seeds = np.arange(50)
    for triple in plain.edge_types:
        index = [s.sample(seeds, stream=3).edge_index(triple).tolist() for s in samplers]
        # Draws are keyed by the number of the edge type, which the reverse of the first moves.
        if triple == TO:
            assert index[0][1][:50] == index[1][1][:50]
        assert all(index)
    for store in stores:
        store.close()


def test_nodes_are_deleted_by_it(tmp_path):
    path, pairs = make(tmp_path / "g.ng", True)
    [(sources, destinations)] = pairs.values()
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.delete_node(None, 9)
            tx.add_edge(None, 3, 4)
        left = int(((sources != 9) & (destinations != 9)).sum()) + 1
        assert store.num_edges == left
        assert 9 not in store.snapshot().neighbors(None, np.arange(NODES)).indices
        store.compact()
        assert store.edge_types == [TO]
        assert store.num_edges == left
    run("verify", path)


def test_info_names_it_apart_from_the_graph(paths, capsys):
    found = []
    for path in paths:
        run("info", path, "--json")
        found.append(json.loads(capsys.readouterr().out))
    plain, kept = found
    assert [t["relation"] for t in kept["edge_types"]] == ["to"]
    assert [t["relation"] for t in kept["reverse_types"]] == ["rev_to"]
    assert plain["reverse_types"] == []
    assert plain["num_edges"] == kept["num_edges"]
    run("info", paths[1])
    shown = capsys.readouterr().out
    assert "rev_to" in shown
    assert "reverse stored" in shown


def test_the_command_line_trains_and_simulates_on_it(paths, capsys):
    pytest.importorskip("torch")
    run("train", paths[1], "--epochs", "1", "--fanouts", "3,2", "--json")
    assert json.loads(capsys.readouterr().out)["losses"]
    run("simulate", paths[1], "--json")
    assert json.loads(capsys.readouterr().out)
