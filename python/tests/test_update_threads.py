"""Writers and readers at the same time: threads take turns, loaders stay at their commit."""

import threading

import numpy as np
import pytest
from update_model import CITES, KNOWS, make_store

import neargraph as ng

THREADS, BATCHES = 4, 25


@pytest.fixture
def store(tmp_path):
    with ng.open(make_store(tmp_path / "g.ng"), memory="32MB") as opened:
        yield opened


def in_threads(count, work):
    """Runs `work(i)` in `count` threads and raises what they raised."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_batches_of_many_threads_take_turns_and_all_of_them_count(store):
    lsns = []

    def work(number):
        for step in range(BATCHES):
            with store.write() as tx:
                new = tx.add_node("paper", label=number)
                tx.add_edge(CITES, new, step % 12)
                assert tx.delete_edge(CITES, new, step % 12) == 1
                tx.add_edge(CITES, new, number)
            lsns.append(tx.lsn)
            assert store.lsn >= tx.lsn, "a batch is durable when its block has ended"

    in_threads(THREADS, work)
    assert sorted(lsns) == list(range(1, THREADS * BATCHES + 1))
    snap, stats = store.snapshot(), store.update_stats()
    assert snap.degrees(CITES, range(THREADS)).tolist() == [BATCHES] * THREADS
    assert np.bincount(snap.column("y", "paper")[12:]).tolist() == [BATCHES] * THREADS
    assert stats["commits"] == THREADS * BATCHES
    assert stats["syncs"] <= stats["commits"] + 8, "no commit takes two syncs"


def test_a_thread_that_waits_for_its_turn_does_not_stop_the_others(store):
    entered, order = threading.Event(), []

    def late(_):
        entered.set()
        with store.write() as tx:
            order.append("late")
            tx.add_node("author")

    waiting = threading.Thread(target=in_threads, args=(1, late))
    with store.write() as tx:
        waiting.start()
        entered.wait()
        assert store.snapshot().num_nodes == 18
        tx.add_node("author")
        order.append("early")
    waiting.join()
    assert order == ["early", "late"]
    assert store.num_nodes == 20


def test_a_loader_gives_the_same_batches_while_the_store_is_written_to(store):
    pytest.importorskip("torch_geometric")
    random = np.random.default_rng(3)
    with store.write() as tx:
        ids = tx.add_nodes("paper", {"x": random.random((2000, 3))})
        tx.add_edges(CITES, random.choice(ids, 20_000), random.choice(ids, 20_000))

    def batches(loader):
        return [
            (b["paper"].n_id.tolist(), b[CITES].edge_index.tolist(), b["paper"].x.tolist())
            for b in loader
        ]

    settings = {"num_neighbors": [4, 3], "batch_size": 64, "shuffle": True, "seed": 1}
    loader = ng.NeighborLoader(store, input_nodes="paper", **settings)
    expected = batches(ng.NeighborLoader(store, input_nodes="paper", **settings))
    stop = threading.Event()

    def write(_):
        random = np.random.default_rng(4)
        while not stop.is_set():
            with store.write() as tx:
                tx.update_features("paper", random.choice(ids[:1000], 50), "x", np.ones((50, 3)))
                tx.add_edges(CITES, random.choice(ids, 50), random.choice(ids[1500:], 50))
                tx.delete_node("paper", tx.add_node("paper"))
            if store.lsn % 10 == 0:
                store.checkpoint()

    writer = threading.Thread(target=in_threads, args=(1, write))
    writer.start()
    try:
        for _ in range(3):
            loader.set_epoch(0)
            assert batches(loader) == expected
    finally:
        stop.set()
        writer.join()
    assert store.update_stats()["commits"] > 2
    assert loader.snapshot.lsn == 1
    fresh = ng.NeighborLoader(store, input_nodes="paper", **settings)
    assert batches(fresh) != expected
    assert batches(ng.NeighborLoader(loader.snapshot, input_nodes="paper", **settings)) == expected


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_open_a_checkpoint_that_the_loader_writes_for_them(store, context):
    pytest.importorskip("torch_geometric")
    with store.write() as tx:
        tx.add_edges(KNOWS, [0, 1, 2], [1, 2, 3], weights=[1, 2, 3])
    old = store.snapshot()
    settings = {"num_neighbors": [-1], "input_nodes": "author", "batch_size": 3}
    workers = {"num_workers": 1, "multiprocessing_context": context}
    expected = [b[KNOWS].edge_index.tolist() for b in ng.NeighborLoader(store, **settings)]
    assert store.checkpoint_id == 1
    loader = ng.NeighborLoader(store, **settings, **workers)
    assert store.checkpoint_id == 2
    assert [b[KNOWS].edge_index.tolist() for b in loader] == expected
    with store.write() as tx:
        tx.add_edge(KNOWS, 4, 5, weight=1)
    assert [b[KNOWS].edge_index.tolist() for b in loader] == expected
    store.checkpoint()
    with pytest.raises(ng.SnapshotGone, match="create a new"):
        list(loader)
    with pytest.raises(ng.SnapshotGone, match="create a new"):
        ng.NeighborLoader(old, **settings, **workers)
