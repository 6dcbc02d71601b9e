"""Rows in another order than nodes: by command and by call, with ids and batches as they were."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from typer.testing import CliRunner

import neargraph as ng
from neargraph.cli.app import app
from neargraph.exceptions import BudgetTooSmall, NodeOutOfRange, UnsupportedArgument

NODES, GROUP = 6000, 40
RUN = CliRunner().invoke


def graph() -> Data:
    """Groups of neighbours whose ids say nothing, and a few nodes that everybody knows."""
    rng = np.random.default_rng(11)
    names = rng.permutation(NODES)
    destination = np.repeat(np.arange(NODES), 8)
    source = destination // GROUP * GROUP + rng.integers(0, GROUP, len(destination))
    source[::8] = rng.integers(0, 10, NODES) * 577
    index = torch.from_numpy(names[np.stack([source, destination])])
    x = torch.from_numpy(rng.standard_normal((NODES, 256)).astype(np.float32))
    mask = torch.from_numpy(rng.random(NODES) < 0.2)
    return Data(x=x, edge_index=index, y=torch.arange(NODES) % 7, train_mask=mask)


def batches(path, reading: str, memory: str = "64MB") -> list[tuple[np.ndarray, ...]]:
    with ng.open(path, memory=memory) as store:
        loader = ng.NeighborLoader(
            store, [4, 4], batch_size=20, input_nodes="train", seed=3, reading=reading
        )
        found = [(b.n_id.numpy(), b.x.numpy(), b.y.numpy(), b.edge_index.numpy()) for b in loader]
        loader.close()
    return found


def same(a, b) -> bool:
    pairs = [pair for x, y in zip(a, b, strict=True) for pair in zip(x, y, strict=True)]
    return all(np.array_equal(left, right) for left, right in pairs)


def test_the_command_reorders_and_every_batch_stays(tmp_path):
    data = graph()
    path = tmp_path / "g.ng"
    ng.from_pyg(data, path)
    expected = batches(path, "on_demand")
    options = ["--fanouts", "4,4", "--batch-size", "20", "--json"]
    dry = RUN(app, ["reorganize", str(path), "--by", "locality", "--dry-run", *options])
    assert dry.exit_code == 0, dry.output
    estimate = json.loads(dry.stdout)
    assert (estimate["written"], estimate["seeds"]) == (None, "train")
    with ng.open(path, memory="64MB") as store:
        assert store.info()["format_version"] == 1
    done = RUN(app, ["reorganize", str(path), "--by", "locality", *options])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["pages"] == estimate["pages"]
    [pages] = report["pages"]
    assert (pages["node_type"], pages["tensor"]) == ("node", "x")
    assert pages["pages_after"] < 0.7 * pages["pages_before"]
    assert RUN(app, ["verify", str(path)]).exit_code == 0
    for reading in ["on_demand", "scan", "window"]:
        assert same(batches(path, reading), expected), reading
    with ng.open(path, memory="64MB") as store:
        assert store.info()["format_version"] == 3
        assert store.schema.node_types[0].has_order
        assert np.array_equal(store.column("x"), data.x)
        ids = np.array([5, 0, 5999, 5])
        assert np.array_equal(store.snapshot().features(None, ids), data.x[ids])
        assert np.array_equal(store.snapshot().split("train"), np.flatnonzero(data.train_mask))
    shown = RUN(app, ["reorganize", str(path), "--fanouts", "4,4", "--batch-size", "20"]).output
    assert all(text in shown for text in ["pages per batch", "Reorganised"])
    assert "reordered" in RUN(app, ["info", str(path)]).output
    assert RUN(app, ["compact", str(path)]).exit_code == 0
    assert same(batches(path, "on_demand"), expected)


def test_a_store_that_was_reorganised_is_changed_by_ids(tmp_path):
    data = graph()
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        before = store.snapshot()
        phases = []
        report = store.reorganize(
            num_neighbors=[4],
            batch_size=50,
            progress=lambda phase, done, total: phases.append((phase, done <= total)),
        )
        assert {phase for phase, _ in phases} == {"heat", "count pages", "rewrite"}
        assert all(sane for _, sane in phases)
        assert report["written"]["checkpoint_id"] == before.checkpoint_id + 1
        with store.write() as tx:
            new = tx.add_node(None, features={"x": data.x[7].numpy()})
            tx.update_features(None, 3, "x", data.x[9].numpy())
        snap = store.snapshot()
        found = snap.features(None, [3, 9, new, 4])
        assert np.array_equal(found, data.x[[9, 9, 7, 4]])
        assert np.array_equal(before.features(None, [3]), data.x[[3]])
        assert np.array_equal(store.column("x")[:NODES][10:], data.x[10:])


def test_what_is_visited_most_comes_first(tmp_path):
    ng.from_pyg(graph(), tmp_path / "g.ng")
    path = str(tmp_path / "g.ng")
    np.save(tmp_path / "visits.npy", np.array([17, 4, 17]))
    (tmp_path / "visits.txt").write_text("17, 4\n17\n")
    options = ["--fanouts", "4", "--batch-size", "20", "--json"]
    for visits in ["visits.npy", "visits.txt"]:
        done = RUN(app, ["reorganize", path, "--visits", str(tmp_path / visits), *options])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["by"] == "visits"
    (tmp_path / "bad.txt").write_text("17 x")
    refused = RUN(app, ["reorganize", path, "--visits", str(tmp_path / "bad.txt")])
    assert isinstance(refused.exception, UnsupportedArgument)
    with ng.open(path, memory="64MB") as store, pytest.raises(NodeOutOfRange):
        store.reorganize(visits=[NODES])


def test_what_cannot_be_done_is_refused_and_the_store_stays(tmp_path):
    ng.from_pyg(graph(), tmp_path / "g.ng")
    expected = batches(tmp_path / "g.ng", "on_demand")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        for arguments in [{"by": "name"}, {"batches": 0}, {"input_nodes": []}]:
            with pytest.raises(UnsupportedArgument):
                store.reorganize(**arguments)
    small = ng.open(tmp_path / "g.ng", memory="24MB")
    with small as store, pytest.raises(BudgetTooSmall, match="raise memory= to at least"):
        store.reorganize()
    refused = RUN(app, ["reorganize", str(tmp_path / "g.ng"), "--fanouts", "a,b"])
    assert isinstance(refused.exception, UnsupportedArgument)
    assert same(batches(tmp_path / "g.ng", "on_demand"), expected)


def test_node_types_are_ordered_each_by_itself(tmp_path):
    rng = np.random.default_rng(4)
    data = HeteroData()
    for name, count in [("paper", 900), ("author", 300)]:
        data[name].x = torch.from_numpy(rng.standard_normal((count, 9)).astype(np.float32))
    writes = np.stack([rng.integers(0, 300, 4000), rng.integers(0, 900, 4000)])
    data["author", "writes", "paper"].edge_index = torch.from_numpy(writes)
    cites = rng.integers(0, 900, (2, 3000))
    data["paper", "cites", "paper"].edge_index = torch.from_numpy(cites)
    ng.from_pyg(data, tmp_path / "g.ng")
    with ng.open(tmp_path / "g.ng", memory="64MB") as store:
        for by in ["heat", "locality"]:
            report = store.reorganize(by, num_neighbors=[3, 3], input_nodes="paper", batch_size=30)
            assert {pages["node_type"] for pages in report["pages"]} == {"paper", "author"}
            for name in ["paper", "author"]:
                assert np.array_equal(store.column("x", name), data[name].x)


def copied(batch) -> tuple[np.ndarray, ...]:
    """The same arrays, which do not keep the batch's memory."""
    arrays = (batch.n_id, batch.x, batch.y, batch.edge_index)
    return tuple(array.numpy().copy() for array in arrays)


@pytest.mark.parametrize("two_phase", [True, False])
def test_sampling_first_finds_rows_in_another_order(tmp_path, two_phase):
    data = graph()
    path = tmp_path / "g.ng"
    ng.from_pyg(data, path)
    expected = batches(path, "on_demand")
    with ng.open(path, memory="64MB") as store:
        store.reorganize("heat", num_neighbors=[4, 4], batch_size=20, input_nodes="train")
    with ng.open(path, memory="28MB") as store:
        options = {"reading": ng.Reading("scan", two_phase=two_phase), "batch_size": 20, "seed": 3}
        loader = ng.NeighborLoader(store, [4, 4], input_nodes="train", **options)
        found = [copied(batch) for batch in loader]
        assert loader.chosen()["phases"] == 1 + two_phase
        loader.close()
    assert same(found, expected)


def test_a_compiled_epoch_of_a_reordered_store_is_the_sampled_one(tmp_path):
    data = graph()
    path = tmp_path / "g.ng"
    ng.from_pyg(data, path)
    with ng.open(path, memory="64MB") as store:
        store.reorganize("heat", num_neighbors=[4, 4], batch_size=20, input_nodes="train")
    options = ["--fanouts", "4,4", "--batch-size", "20", "--seed", "3", "--no-shuffle"]
    done = RUN(app, ["compile", str(path), "--memory", "28MB", *options])
    assert done.exit_code == 0, done.output
    expected = batches(path, "on_demand")
    with ng.open(path, memory="28MB") as store:
        loader = ng.NeighborLoader(
            store, [4, 4], input_nodes="train", batch_size=20, seed=3, reading="compiled"
        )
        found = [copied(batch) for batch in loader]
        loader.close()
    assert same(found, expected)
