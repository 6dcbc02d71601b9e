"""Batches: what they change, what they refuse, and that they count as a whole or not at all."""

import contextlib
import gc
import json
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from update_model import CITES, KINDS, KNOWS, TRIPLES, WRITES, check, make_model, make_store

import neargraph as ng
from neargraph.cli import main


@pytest.fixture
def path(tmp_path):
    return make_store(tmp_path / "g.ng")


@pytest.fixture
def store(path):
    with ng.open(path, memory="32MB", busy_timeout=0) as opened:
        yield opened


def test_a_batch_is_seen_by_later_snapshots_alone(store):
    before = store.snapshot()
    with store.write() as tx:
        new = tx.add_node("paper", {"x": [1, 2, 3]}, label=4, split="val")
        first = tx.add_edge(CITES, new, 3, features={"edge_attr": [0.5, 1.5]})
        assert store.num_nodes == before.num_nodes
    assert (new, first, tx.lsn, store.lsn) == (12, 0, 1, 1)
    assert before.schema.node_type("paper").num_nodes == 12
    assert before.neighbors(CITES, [3]).indices.tolist() == []
    now = store.snapshot()
    assert now.neighbors(CITES, [3]).indices.tolist() == [12]
    assert now.neighbors("rev_cites", [12]).indices.tolist() == [3]
    assert now.features("paper", [12]).tolist() == [[1, 2, 3]]
    assert now.edge_features(CITES, [0]).tolist() == [[0.5, 1.5]]
    assert store.column("y", "paper").tolist() == [0] * 12 + [4]
    assert store.split("val").tolist() == [12]
    assert store.info()["commits_waiting"] == 1
    assert store.checkpoint()["checkpoint_id"] == store.checkpoint_id == 2
    assert store.info()["commits_waiting"] == 0
    with pytest.raises(ng.NodeOutOfRange):
        before.features("paper", [12])


def test_an_exception_undoes_the_whole_batch(store):
    model = make_model()
    with contextlib.suppress(ZeroDivisionError), store.write() as tx:
        tx.add_nodes("paper", {"x": np.ones((5, 3))})
        tx.add_edges(KNOWS, [0, 1], [2, 3], weights=[1, 2])
        tx.delete_node("author", 5)
        raise ZeroDivisionError
    check(model, store.snapshot())
    assert store.lsn == 0
    with store.write():
        pass
    assert store.lsn == 0, "an empty batch is no commit"


def test_what_was_written_is_there_after_reopening(path):
    with ng.open(path, memory="32MB") as store, store.write() as tx:
        tx.add_edge(KNOWS, 1, 2, weight=0.5)
    with ng.open(path, memory="32MB") as store:
        assert store.snapshot().neighbors(KNOWS, [1, 2]).indices.tolist() == [2, 1]


def kill_a_writer_after_three_commits(path):
    script = (
        "import os, sys, neargraph as ng\n"
        "store = ng.open(sys.argv[1], memory='32MB')\n"
        "for _ in range(3):\n"
        "    with store.write() as tx:\n"
        "        tx.add_node('author')\n"
        "tx = store.write().__enter__()\n"
        "tx.add_node('author')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, path]).returncode == -9


def test_a_killed_writer_loses_nothing_that_was_acknowledged(path):
    kill_a_writer_after_three_commits(path)
    with ng.open(path, memory="32MB") as store:
        assert (store.lsn, store.snapshot().schema.node_type("author").num_nodes) == (3, 9)
        assert store.info()["commits_recovered"] == 3


def test_the_last_checkpoint_can_be_read_where_the_log_is_damaged(path, capsys):
    kill_a_writer_after_three_commits(path)
    log = Path(path) / "wal.a"
    whole = log.read_bytes()
    log.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ng.LogDamaged, match="recover=False"):
        ng.open(path, memory="32MB")
    with ng.open(path, memory="32MB", recover=False) as store:
        check(make_model(), store.snapshot())
        assert (store.lsn, store.info()["commits_recovered"]) == (0, 0)
        again = pickle.loads(pickle.dumps(store))
        assert again.lsn == 0
        with pytest.raises(ng.LogDamaged), store.write():
            pass
    for option, code in (("--recover", 2), ("--no-recover", 0)):
        with pytest.raises(SystemExit) as end:
            main(["info", path, option, "--json"])
        assert (end.value.code or 0) == code
    assert json.loads(capsys.readouterr().out)["lsn"] == 0
    log.write_bytes(whole)
    with ng.open(path, memory="32MB", recover=False) as store:
        assert store.lsn == 0
    with ng.open(path, memory="32MB") as store:
        assert store.lsn == 3


def test_deleting_a_node_takes_all_of_its_edges(store):
    model = make_model()
    with store.write() as tx:
        for source, destination in ((1, 2), (2, 1), (2, 2), (3, 2), (2, 3)):
            tx.add_edge(CITES, source, destination)
            model.add_edge(CITES, source, destination, attr=[0, 0])
        tx.add_edge(WRITES, 4, 2, time=7)
        model.add_edge(WRITES, 4, 2, time=7)
    with store.write() as tx:
        tx.delete_node("paper", 2)
        assert model.delete_node("paper", 2) == 6
        with pytest.raises(ng.NodeNotFound, match="deleted"):
            tx.delete_node("paper", 2)
        with pytest.raises(ng.NodeNotFound, match="deleted"):
            tx.add_edge(CITES, 2, 1)
        with pytest.raises(ng.NodeNotFound, match="deleted"):
            tx.update_features("paper", 2, "x", [0, 0, 0])
    check(model, store.snapshot())
    assert store.num_nodes_live == store.num_nodes - 1


@pytest.mark.parametrize("reuse", [False, True])
def test_ids_of_deleted_nodes_come_back_only_in_stores_made_for_it(tmp_path, reuse):
    with ng.open(make_store(tmp_path / "g.ng", reuse_ids=reuse), memory="32MB") as store:
        assert store.info()["reuse_ids"] is reuse
        with store.write() as tx:
            tx.update_features("paper", 5, "x", [7, 7, 7])
            tx.delete_node("paper", 7)
            tx.delete_node("paper", 5)
        snap = store.snapshot()
        with store.write() as tx:
            ids = tx.add_nodes("paper", count=3)
        assert ids.tolist() == ([5, 7, 12] if reuse else [12, 13, 14])
        assert snap.dead_nodes("paper").tolist() == [5, 7]
        if reuse:
            assert store.snapshot().features("paper", [5]).tolist() == [[0, 0, 0]]
            old = store.snapshot()
            with store.write() as tx:
                tx.delete_node("paper", 5)
            with store.write() as tx:
                assert tx.add_node("paper") == 13, "a snapshot still sees the old node 5"
            assert old.dead_nodes("paper").tolist() == []


def test_a_snapshot_that_nobody_holds_is_gone_at_once(store):
    gc.disable()
    try:
        snap = weakref.ref(store.snapshot())
        sampler = weakref.ref(ng.NumpySampler(store, [2]))
        assert snap() is None
        assert sampler() is None
    finally:
        gc.enable()


def test_deleted_nodes_are_in_no_split_and_in_no_input(store):
    with store.write() as tx:
        tx.set_split("paper", range(6), "train")
        tx.set_split("paper", 0, None)
        for dead in (1, 2, 5, 11):
            tx.delete_node("paper", dead)
    assert store.split("train").tolist() == [3, 4]
    assert np.flatnonzero(store.mask("train")).tolist() == [3, 4]
    sampler = ng.NumpySampler(store, [2])
    seen = [batch.nodes("paper")[: batch.num_seeds] for batch in sampler.batches("paper", 3)]
    assert np.concatenate(seen).tolist() == [0, 3, 4, 6, 7, 8, 9, 10]
    shuffled = sampler.batches("paper", 3, shuffle=True)
    seen = [batch.nodes("paper")[: batch.num_seeds] for batch in shuffled]
    assert sorted(np.concatenate(seen).tolist()) == [0, 3, 4, 6, 7, 8, 9, 10]


def test_edges_that_are_not_there_are_an_error_and_the_batch_goes_on(store):
    with store.write() as tx:
        assert tx.add_edge(CITES, 1, 2) == 0
        assert tx.add_edge(CITES, 1, 2) == 1
        with pytest.raises(ng.EdgeNotFound, match="2 -> 1"):
            tx.delete_edge(CITES, 2, 1)
        with pytest.raises(ng.EdgeNotFound, match="edge id 9"):
            tx.delete_edge(CITES, 1, 2, edge_id=9)
        assert tx.delete_edge(CITES, 1, 2, edge_id=0) == 1
        assert tx.delete_edge(CITES, 1, 2) == 1
        with pytest.raises(ng.EdgeNotFound):
            tx.delete_edge(CITES, 1, 2)
        for bad in (-1, 12):
            with pytest.raises((ng.NodeNotFound, ng.NodeOutOfRange)):
                tx.add_edge(CITES, bad, 0)
            with pytest.raises(ng.NodeNotFound):
                tx.delete_node("paper", bad)
        with pytest.raises(ng.UnsupportedArgument, match="edge id 7 is out of range"):
            tx.update_edge_features(CITES, 7, "edge_attr", [0, 0])
    assert store.num_edges == 0
    assert store.lsn == 1


def test_a_unique_type_takes_the_new_weight_and_keeps_one_edge(store):
    with store.write() as tx:
        assert tx.add_edge(KNOWS, 1, 2, weight=1.5) is None
        tx.add_edge(KNOWS, 2, 1, weight=2.5)
    got = store.snapshot().neighbors(KNOWS, [1, 2])
    assert (got.indices.tolist(), got.weights.tolist()) == ([2, 1], [2.5, 2.5])


@pytest.mark.parametrize("edge_id", [0, 7])
def test_one_edge_of_a_type_without_edge_ids_cannot_be_deleted_alone(store, edge_id):
    with store.write() as tx:
        tx.add_edge(KNOWS, 1, 2, weight=1.0)
        with pytest.raises(ng.UnsupportedArgument, match="have no ids"):
            tx.delete_edge(KNOWS, 1, 2, edge_id=edge_id)
    assert store.lsn == 1
    assert store.snapshot().neighbors(KNOWS, [1, 2]).indices.tolist() == [2, 1]
    with store.write() as tx:
        assert tx.delete_edge(KNOWS, 1, 2) == 1


def test_rows_of_another_shape_or_dtype_are_refused_before_anything_is_done(store):
    with store.write() as tx:
        for bad in ([1, 2], [[1, 2, 3]], 1.0, np.zeros((2, 3))):
            with pytest.raises(ng.RowWidth, match=r"shape \[3\]"):
                tx.add_node("paper", {"x": bad})
        with pytest.raises(ng.RowWidth, match=r"shape \[2, 3\], got \[3, 3\]"):
            tx.update_features("paper", [1, 2], "x", np.zeros((3, 3)))
        with pytest.raises(ng.UnsupportedArgument, match="i64"):
            tx.add_node("paper", label=1.5)
        with pytest.raises(ng.UnsupportedArgument, match="255"):
            tx.add_node("paper", {"split_0": 256})
        with pytest.raises(ng.NameNotFound, match="'z'"):
            tx.add_node("paper", {"z": 1})
        with pytest.raises(ng.NameNotFound, match="must be named"):
            tx.add_node()
        with pytest.raises(ng.UnsupportedArgument, match="has times"):
            tx.add_edge(WRITES, 0, 0)
        with pytest.raises(ng.UnsupportedArgument, match="has no weights"):
            tx.add_edge(CITES, 0, 0, weight=1.0)
        with pytest.raises(ng.RowWidth, match="destinations= has 2 ids: expected 3"):
            tx.add_edges(CITES, [0, 1, 2], [0, 1])
        with pytest.raises(ng.RowWidth, match="weights= has 1 values: expected 2"):
            tx.add_edges(KNOWS, [0, 1], [0, 1], weights=[1])
        with pytest.raises(ng.UnsupportedArgument, match="count="):
            tx.add_nodes("paper")
        with pytest.raises(ng.UnsupportedArgument, match="count=-1 is not valid"):
            tx.add_nodes("paper", count=-1)
    check(make_model(), store.snapshot())


def test_a_call_that_is_refused_has_done_nothing_and_the_batch_goes_on(store):
    model = make_model()
    x = np.asarray(store.snapshot().features("paper", [0], "x"))
    with store.write() as tx:
        with pytest.raises(ng.NodeNotFound):
            tx.add_edge(CITES, 99, 1)
        with pytest.raises(ng.NodeNotFound):
            tx.add_edges(CITES, [0, 99], [1, 1])
        with pytest.raises(ng.NodeNotFound):
            tx.update_features("paper", [0, 99], "x", np.repeat(x + 1, 2, axis=0))
    check(model, store.snapshot())


def test_a_call_that_is_interrupted_half_way_spoils_its_batch(store, monkeypatch):
    class Interrupted:
        def __init__(self, core):
            self.add_nodes = core.add_nodes

        def set_rows(self, *_):
            raise KeyboardInterrupt

    batch = store.write().__enter__()
    core = batch._core
    monkeypatch.setattr(ng.Transaction, "_core", property(lambda _: Interrupted(core)))
    with pytest.raises(KeyboardInterrupt):
        batch.add_node("paper", {"x": [1, 2, 3]})
    with pytest.raises(ng.TransactionEnded, match="halfway"):
        batch.__exit__(None)
    check(make_model(), store.snapshot())


def test_a_batch_ends_with_its_block(store):
    batch = store.write()
    with pytest.raises(ng.TransactionEnded, match="with block"):
        batch.add_node("author")
    with batch:
        batch.add_node("author")
    with pytest.raises(ng.TransactionEnded, match="ended"):
        batch.add_node("author")
    with pytest.raises(ng.TransactionEnded, match="already used"), batch:
        pass
    with pytest.raises(ng.StoreBusy, match="this thread"), store.write(), store.write():
        pass
    for wait in (store.checkpoint, store.close):
        with pytest.raises(ng.StoreBusy, match="this thread"), store.write():
            wait()
    assert store.lsn == 1


def test_there_is_one_writer_and_its_place_is_free_after_it_closed(path):
    second = ng.open(path, memory="32MB", busy_timeout=0)
    with ng.open(path, memory="32MB") as first, second:
        with first.write() as tx:
            tx.add_node("author")
        with pytest.raises(ng.StoreBusy, match="another process"), second.write():
            pass
        assert second.num_nodes == 18, "a reader elsewhere sees the last checkpoint"
        first.close()
    with ng.open(path, memory="32MB") as second, second.write() as tx:
        assert tx.add_node("author") == 7


def test_a_store_without_reverse_says_what_builds_it(homo_graph, tmp_path):
    with ng.open(homo_graph.write(tmp_path / "h.ng"), memory="64MB") as store:
        with store.write() as tx:
            with pytest.raises(ng.ReverseMissing, match="--reverse"):
                tx.delete_node(None, 3)
            assert tx.add_edge(None, 1, 2) == 1500
        assert store.lsn == 1


def test_a_forked_child_cannot_use_the_batch_of_its_parent(store):
    reader, writer = os.pipe()
    with store.write() as tx:
        tx.add_node("author")
        child = os.fork()
        if child == 0:
            said = []
            for act in (lambda: tx.add_node("author"), lambda: tx.__exit__(None)):
                try:
                    act()
                except ng.TransactionEnded as error:
                    said.append(str(error))
            try:
                with store.write():
                    pass
            except ng.StoreBusy as error:
                said.append(str(error))
            said.append(str(store.num_nodes))
            os.write(writer, "\n".join(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        tx.add_node("author")
    said = os.read(reader, 4096).decode().split("\n")
    found = ["parent process" in said[0], "another process" in said[2], said[3]]
    assert found == [
        True,
        True,
        "18",
    ]
    assert store.num_nodes == 20


def test_a_pickled_snapshot_is_written_down_first_and_too_old_ones_are_refused(store):
    old = store.snapshot()
    with store.write() as tx:
        tx.add_node("author")
    new = store.snapshot()
    twin = pickle.loads(pickle.dumps(new))
    assert (store.checkpoint_id, twin.num_nodes, twin.fingerprint) == (2, 19, new.fingerprint)
    with pytest.raises(ng.SnapshotGone, match="create a new"):
        pickle.dumps(old)
    assert old.num_nodes == 18


def test_bf16_rows_take_their_bits_and_round_other_numbers(tmp_path):
    torch = pytest.importorskip("torch")
    geometric = pytest.importorskip("torch_geometric.data")
    x = torch.tensor([[1.0, 2.0]] * 4, dtype=torch.bfloat16)
    data = geometric.Data(x=x, edge_index=torch.tensor([[0], [1]]))
    ng.from_pyg(data, tmp_path / "b.ng")
    values = torch.tensor([[1.00390625, -3.1415926], [float("nan"), 1e38]])
    with ng.open(tmp_path / "b.ng", memory="32MB") as store:
        with store.write() as tx:
            tx.update_features(None, [0, 1], "x", values.numpy())
            tx.update_features(None, [2, 3], "x", values.to(torch.bfloat16))
        rows = store.snapshot().features(None, [0, 1, 2, 3], dtype="stored")
    assert np.array_equal(rows[0], rows[2])
    assert np.array_equal(rows[1][1:], rows[3][1:])
    assert torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)[1, 0].isnan()


def random_op(random, model, batch):
    """Does one random thing to both."""
    triple = TRIPLES[random.integers(3)]
    kind = KINDS[triple]
    sources, destinations = model.live(triple[0]), model.live(triple[2])
    choice = random.integers(100)
    if choice < 8 or not sources or not destinations:
        name = "paper" if random.integers(2) else "author"
        x, y = random.standard_normal(3).astype(np.float32), int(random.integers(9))
        wanted = model.add_node(name, x, y)
        label = y if name == "paper" else None
        assert batch.add_node(name, {"x": x}, label=label) == wanted
        return
    source, destination = int(random.choice(sources)), int(random.choice(destinations))
    if choice < 65:
        data = {"time": int(random.integers(5))} if kind.time else {}
        data |= {"weight": float(random.integers(9))} if kind.weight else {}
        attr = random.standard_normal(2).astype(np.float32)
        features = {"edge_attr": attr} if triple == CITES else None
        wanted = model.add_edge(triple, source, destination, attr, **data)
        assert batch.add_edge(triple, source, destination, features=features, **data) == wanted
    elif choice < 85:
        entries = model.list_of(triple, destination)
        if not entries:
            with pytest.raises(ng.EdgeNotFound):
                batch.delete_edge(triple, source, destination)
            return
        entry = entries[random.integers(len(entries))]
        chosen = entry.edge_id if random.integers(2) else None
        wanted = model.delete_edge(triple, entry.source, destination, chosen)
        assert batch.delete_edge(triple, entry.source, destination, chosen) == wanted
    elif choice < 95:
        x = random.standard_normal(3).astype(np.float32)
        model.nodes[triple[2]][destination]["x"] = x
        batch.update_features(triple[2], destination, "x", x)
    elif len(destinations) > 3:
        model.delete_node(triple[2], destination)
        batch.delete_node(triple[2], destination)


@pytest.mark.parametrize("seed", range(4))
def test_random_batches_agree_with_a_model_and_so_do_old_snapshots(store, path, seed):
    random = np.random.default_rng(seed)
    model, kept = make_model(), []
    for step in range(40):
        before = pickle.dumps(model)
        try:
            with store.write() as tx:
                for _ in range(random.integers(1, 12)):
                    random_op(random, model, tx)
                if random.integers(6) == 0:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            model = pickle.loads(before)
        if step % 8 == 0:
            kept.append((store.snapshot(), pickle.dumps(model)))
        if step % 15 == 0:
            store.checkpoint()
    check(model, store.snapshot())
    for snap, then in kept:
        check(pickle.loads(then), snap)
    store.close()
    with ng.open(path, memory="32MB") as again:
        check(model, again.snapshot())


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)
BATCHES = st.lists(st.tuples(st.booleans(), EDGES), max_size=5)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(batches=BATCHES)
def test_undirected_unique_edges_behave_as_a_set_of_pairs(tmp_path_factory, batches):
    path = make_store(tmp_path_factory.mktemp("set") / "g.ng")
    pairs = set()
    with ng.open(path, memory="32MB") as store:
        for adds, edges in batches:
            with store.write() as tx:
                if adds and edges:
                    ends = np.array(edges).T
                    assert tx.add_edges(KNOWS, *ends, weights=np.ones(len(edges))) is None
                    pairs |= {frozenset(edge) for edge in edges}
                for source, destination in [] if adds else edges:
                    if frozenset((source, destination)) in pairs:
                        assert tx.delete_edge(KNOWS, source, destination) == 1
                        pairs.remove(frozenset((source, destination)))
            got = store.snapshot().neighbors(KNOWS, range(6))
            ends = np.repeat(np.arange(6), np.diff(got.indptr))
            found = list(zip(got.indices.tolist(), ends.tolist(), strict=True))
            assert len(found) == len(set(found))
            assert {frozenset(edge) for edge in found} == pairs
