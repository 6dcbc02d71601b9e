"""The nearest rows of a table are those of a plain search, whatever the blocks."""

import numpy as np
import pytest

import neargraph as ng
from neargraph.exceptions import NodeOutOfRange, UnsupportedArgument


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


def test_what_cannot_be_searched_is_refused():
    rows = np.eye(3, dtype=np.float32)
    assert ng.topk(rows, [0], k=9)[0].shape == (1, 2)
    assert ng.topk(rows, [], k=2)[0].shape == (0, 2)
    with pytest.raises(NodeOutOfRange, match="no row 3 in a table of 3"):
        ng.topk(rows, [3])
    with pytest.raises(UnsupportedArgument, match="metric 'l2'"):
        ng.topk(rows, [0], metric="l2")
    with pytest.raises(UnsupportedArgument, match="k=0"):
        ng.topk(rows, [0], k=0)
    with pytest.raises(UnsupportedArgument, match="3 dimensions"):
        ng.topk(rows[None], [0])
