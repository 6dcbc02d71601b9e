"""An open store: what it says about itself, what it reads, how it ends."""

import json
import pickle

import numpy as np
import pytest

import neargraph as ng
from neargraph import _core


def test_a_store_says_what_it_holds(homo, hetero):
    assert homo.node_types == ["node"]
    assert homo.num_nodes == 300
    assert homo.num_edges == 1500
    assert hetero.metadata() == (
        ["paper", "author", "venue"],
        [
            ("paper", "cites", "paper"),
            ("author", "writes", "paper"),
            ("venue", "holds", "paper"),
        ],
    )
    assert homo.info()["memory_bytes"] == 64_000_000
    json.dumps(homo.info())
    assert "300" in repr(homo)


def test_missing_paths_and_other_directories_are_told_apart(tmp_path):
    with pytest.raises(ng.StoreNotFound) as missing:
        ng.open(tmp_path / "none.ng")
    assert "none.ng" in str(missing.value)
    assert isinstance(missing.value, FileNotFoundError)
    (tmp_path / "plain").mkdir()
    with pytest.raises(ng.NotAStore, match="plain"):
        ng.open(tmp_path / "plain")


def test_bad_memory_and_back_ends_are_refused(homo_path):
    with pytest.raises(ValueError, match="size"):
        ng.open(homo_path, memory="lots")
    with pytest.raises(ValueError, match="tape"):
        ng.open(homo_path, memory="64MB", backend="tape")


def test_neighbour_lists_come_in_list_order_with_edge_ids(homo, homo_graph):
    triple = ("node", "to", "node")
    ids = [7, 0, 299, 7, 12]
    got = homo.snapshot().neighbors(None, ids)
    for k, node in enumerate(ids):
        part = slice(got.indptr[k], got.indptr[k + 1])
        pairs = list(zip(got.indices[part].tolist(), got.edge_ids[part].tolist(), strict=True))
        assert pairs == homo_graph.in_edges(triple, node)
    assert homo.snapshot().degrees(triple, ids).tolist() == np.diff(got.indptr).tolist()


def test_rows_come_in_the_order_asked_for(homo, hetero, homo_graph, hetero_graph):
    ids = [5, 299, 5, 0]
    x = homo_graph.nodes["node"].tensors["x"]
    assert np.array_equal(homo.snapshot().features("node", ids, "x"), x[ids])
    assert np.array_equal(homo.labels, homo_graph.nodes["node"].tensors["y"])
    attr = hetero_graph.edges["author", "writes", "paper"].tensors["edge_attr"]
    got = hetero.snapshot().edge_features("author__writes__paper", [3, 3, 399])
    assert np.array_equal(got, attr[[3, 3, 399]])


def test_splits_come_back_as_ids_and_as_the_masks_they_were(homo, hetero, homo_graph, hetero_graph):
    column = homo_graph.nodes["node"].tensors["split_0"]
    for code, name in enumerate(("train", "val", "test"), start=1):
        assert np.array_equal(homo.split(name), np.flatnonzero(column == code))
        assert np.array_equal(homo.mask(name), column == code)
    paper = hetero_graph.nodes["paper"].tensors
    assert hetero.mask("train").shape == (120, 2)
    assert np.array_equal(hetero.mask("val")[:, 1], paper["split_1"] == 2)
    assert np.array_equal(hetero.split("test", index=1), np.flatnonzero(paper["split_1"] == 3))


def test_unknown_names_are_errors_that_list_the_known_ones(homo, hetero):
    snap = hetero.snapshot()
    for call in (
        lambda: snap.features("paper", [0], "z"),
        lambda: snap.features("journal", [0]),
        lambda: snap.neighbors(("paper", "likes", "paper"), [0]),
        lambda: snap.neighbors(None, [0]),
        lambda: hetero.split("train", "author"),
        lambda: homo.split("holdout"),
        lambda: homo.lookup(["a"]),
    ):
        with pytest.raises(ng.NameNotFound) as caught:
            call()
        assert "\\" not in str(caught.value)
        assert " " in str(caught.value)
    with pytest.raises(ng.NameNotFound, match="'paper', 'author', 'venue'"):
        snap.features("journal", [0])


def test_ids_out_of_range_are_errors(homo):
    snap = homo.snapshot()
    for bad in ([300], [-1], np.array([2**63], np.uint64)):
        with pytest.raises(ng.NodeOutOfRange):
            snap.features(None, bad, "x")
        with pytest.raises(ng.NodeOutOfRange):
            snap.neighbors(None, bad)
    with pytest.raises(TypeError, match="integers"):
        snap.features(None, [0.5], "x")
    assert snap.features(None, [], "x").shape == (0, 6)


def test_string_ids_go_both_ways(tmp_path):
    out = _core.Importer(str(tmp_path / "s.ng"))
    out.node_type("person", strings=True)
    knows = out.edge_type("person", "knows", "person")
    out.push_string_edges(knows, ["ann", "bob", "ann"], ["bob", "żółć", "żółć"])
    out.build_topology()
    out.finish()
    with ng.open(tmp_path / "s.ng", memory="64MB") as store:
        ids = store.lookup(["żółć", "nobody", "ann"])
        assert ids[1] == -1
        assert store.names(ids[[0, 2]]) == ["żółć", "ann"]
        got = store.snapshot().neighbors("knows", ids[:1])
        assert sorted(store.names(got.indices)) == ["ann", "bob"]


def test_a_closed_store_says_so_everywhere(homo_path):
    store = ng.open(homo_path, memory="64MB")
    sampler = ng.NumpySampler(store, [2])
    running = sampler.batches(None, 10)
    next(running)
    store.close()
    store.close()
    for call in (
        store.stats,
        store.info,
        lambda: store.labels,
        lambda: store.snapshot().neighbors(None, [0]),
        lambda: sampler.sample([1]),
        lambda: list(sampler.batches([1], 1)),
    ):
        with pytest.raises(ng.StoreClosed, match=r"homo\.ng"):
            call()
    assert "closed" in repr(store)


def test_a_pickled_store_opens_again(homo_path, homo):
    twin = pickle.loads(pickle.dumps(homo))
    assert (twin.checkpoint_id, twin.fingerprint) == (homo.checkpoint_id, homo.fingerprint)
    assert np.array_equal(twin.labels, homo.labels)
    twin.close()
    assert homo.labels.shape == (300,)
    assert pickle.loads(pickle.dumps(twin)).closed


def test_a_pickled_snapshot_whose_version_is_gone_says_so(homo):
    snap = pickle.loads(pickle.dumps(homo.snapshot()))
    assert np.array_equal(snap.labels, homo.labels)
    old = pickle.loads(pickle.dumps(homo.snapshot()))
    old.fingerprint = "0" * 16
    with pytest.raises(ng.SnapshotGone, match=r"checkpoint\(\)"):
        _ = old.labels
