"""The nearest rows of a table are those of a plain search, whatever the blocks."""

import json

import numpy as np
import pytest
from graphs import Graph, Nodes

import neargraph as ng
from neargraph.cli.app import main
from neargraph.exceptions import NameNotFound, NodeNotFound, NodeOutOfRange, UnsupportedArgument


def plain(rows, ids, k, metric, include_self):
    """All scores, sorted; equal ones by id."""
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True) if metric == "cosine" else rows
    found = []
    for one in ids:
        scores = scaled @ scaled[one]
        order = sorted(range(len(rows)), key=lambda at: (-scores[at], at))
        found.append([at for at in order if include_self or at != one][:k])
    return found


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("include_self", [False, True])
def test_neighbours_are_those_of_a_plain_search_whatever_the_blocks(
    metric, include_self, tmp_path, monkeypatch
):
    print("seed", 21)
    random = np.random.default_rng(21)
    # Small whole numbers: many rows are equally near.
    rows = random.integers(1, 4, (900, 3)).astype(np.float32)
    np.save(tmp_path / "h.npy", rows)
    ids = [0, 17, 899, 17]
    wanted = plain(rows.astype(np.float64), ids, 12, metric, include_self)
    exact = metric == "dot"
    for block in (64 << 20, 4096):
        monkeypatch.setattr("neargraph.nearest._BLOCK_BYTES", block)
        for table in (rows, tmp_path / "h.npy"):
            found, scores = ng.topk(table, ids, 12, metric=metric, include_self=include_self)
            assert found.shape == scores.shape == (4, 12)
            assert (np.diff(scores, axis=1) <= 0).all()
            if exact:
                assert found.tolist() == wanted


def test_a_tensor_of_a_store_is_searched_without_deleted_nodes(tmp_path, monkeypatch, capsys):
    print("seed", 22)
    random = np.random.default_rng(22)
    rows = random.integers(-3, 4, (400, 6)).astype(np.float16)
    path = Graph({"node": Nodes(400)}, {}).write(tmp_path / "g.ng")
    monkeypatch.setattr("neargraph.nearest._BLOCK_BYTES", 4096)
    with ng.open(path, memory="64MB") as store:
        store.add_tensor("h", rows)
        for include_self in (False, True):
            how = {"k": 7, "include_self": include_self}
            wanted = ng.topk(rows.astype(np.float32), [0, 5, 399], **how)
            found = ng.topk(store, [0, 5, 399], tensor="h", **how)
            assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))
        best = ng.topk(store, [5], 1, tensor="h")[0].item()
        with store.write() as tx:
            tx.delete_node("node", best)
        left = np.delete(np.arange(400), best)
        scores = rows[left].astype(np.float32) @ rows[5].astype(np.float32)
        wanted = sorted((at for at in range(399) if left[at] != 5), key=lambda at: -scores[at])
        assert ng.topk(store, [5], 398, tensor="h")[0].tolist() == [left[wanted].tolist()]
        with pytest.raises(NodeNotFound, match=f"node {best} was deleted"):
            ng.topk(store, [best], tensor="h")
        with pytest.raises(UnsupportedArgument, match="tensor= is required"):
            ng.topk(store, [5])
        with pytest.raises(NameNotFound):
            ng.topk(store, [5], tensor="g")
    capsys.readouterr()
    with pytest.raises(SystemExit) as left_with:
        main(["topk", path, "--tensor", "h", "--ids", "5", "--k", "3", "--json"])
    assert not left_with.value.code
    assert json.loads(capsys.readouterr().out)["ids"] == [left[wanted][:3].tolist()]


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(UnsupportedArgument, match="apply to stores only"):
        ng.topk(np.eye(2), [0], tensor="h")
    rows = np.eye(3, dtype=np.float32)
    assert ng.topk(rows, [0], k=9)[0].shape == (1, 2)
    assert ng.topk(rows, [], k=2)[0].shape == (0, 2)
    with pytest.raises(NodeOutOfRange, match="id 3 is out of range: the table has 3 rows"):
        ng.topk(rows, [3])
    with pytest.raises(UnsupportedArgument, match="metric='l2' is not valid"):
        ng.topk(rows, [0], metric="l2")
    with pytest.raises(UnsupportedArgument, match="k=0"):
        ng.topk(rows, [0], k=0)
    with pytest.raises(
        UnsupportedArgument, match=r"the table has shape \[.*\]: expected \[nodes, width\]"
    ):
        ng.topk(rows[None], [0])
