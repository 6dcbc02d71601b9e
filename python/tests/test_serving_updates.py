"""Updates of a benchmark do the same to a server and to a store, so that replays are believed."""

import sys
from pathlib import Path

import numpy as np

import neargraph as ng
from neargraph.importers import import_graph

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.serving.updates_worker import KINDS, Work, apply, as_updates, batch

NODES, WIDTH, BATCHES = 200, 4, 60


def test_a_batch_makes_the_same_commit_of_a_server_and_of_a_store(tmp_path):
    draws = np.random.default_rng(3)
    np.save(tmp_path / "edge_index.npy", draws.integers(0, NODES, (2, 900)))
    np.save(tmp_path / "x.npy", draws.standard_normal((NODES, WIDTH)).astype(np.float32))
    (tmp_path / "served").mkdir()
    for path in (tmp_path / "served" / "graph.ng", tmp_path / "copy.ng"):
        import_graph(tmp_path, path, memory="64MB", reverse=True, dense=True)
    work = Work("update", "", "", NODES, WIDTH, seed=5, pool=50, changes=20)
    members, seen, ahead = work.members(), set(), set()
    with (
        ng.serve(tmp_path / "served", memory="64MB") as server,
        ng.Client(server.address) as client,
        ng.open(tmp_path / "copy.ng", memory="64MB") as copy,
    ):
        for number in range(BATCHES):
            changes = batch(work, members, number)
            assert len(changes) == work.changes
            seen |= {kind for kind, *_ in changes}
            applied = client.apply(as_updates(changes))
            apply(copy, changes)
            # The server's first batch with a key may come after a commit of its own.
            ahead.add(applied["snapshot"]["commit"] - copy.lsn)
        assert seen == set(KINDS)
        assert len(ahead) == 1
        assert min(ahead) in (0, 1)
        ids = np.arange(copy.num_nodes)
        assert client.graphs()[0]["node_types"][0]["num_nodes"] == len(ids)
        assert np.array_equal(client.features(ids, "x"), copy.snapshot().features(None, ids))
        mine = copy.snapshot().neighbors(None, ids)
        for node, found in zip(ids, client.neighbors(ids).lists(), strict=True):
            wanted = mine.indices[mine.indptr[node] : mine.indptr[node + 1]]
            assert np.array_equal(found, wanted), node
