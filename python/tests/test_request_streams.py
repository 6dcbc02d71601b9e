"""Streams of requests are what their files say: localities, arrivals, and each request once."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import neargraph as ng
from neargraph.importers import import_graph

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.serving import streams

HUBS, LEAVES, SEED = 300, 8, 5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Hubs in a ring, each with leaves of one edge."""
    folder = tmp_path_factory.mktemp("hubs")
    hubs = np.arange(HUBS)
    ring = np.stack([hubs, (hubs + 1) % HUBS])
    leaves = np.stack([np.arange(HUBS, HUBS * (1 + LEAVES)), np.repeat(hubs, LEAVES)])
    edges = np.concatenate([ring, leaves], axis=1)
    np.save(folder / "edge_index.npy", np.concatenate([edges, edges[::-1]], axis=1))
    import_graph(folder, folder / "hubs.ng", memory="64MB")
    with ng.open(folder / "hubs.ng", memory="64MB") as opened:
        yield opened


@pytest.mark.parametrize("asked", [0.0, 0.5, 0.9])
def test_repeated_targets_have_the_locality_that_was_asked_for(store, asked):
    (first, targets), about = streams.local(store, "repeats", asked, [500, 1_500], SEED)
    assert about["equation_7"] == pytest.approx(asked, abs=0.1), f"seed {SEED}"
    assert len(first) == 500
    assert len(np.intersect1d(first, targets)) <= 1, "a part repeats targets of another one"
    assert len(np.unique(targets)) / len(targets) == about["distinct_targets"]
    assert about["equation_7_shuffled"] < 0.1


def test_distinct_targets_share_the_hub_and_what_is_drawn_from_it(store):
    found = {}
    for asked in (0.0, 0.5, 0.9):
        (targets,), about = streams.local(store, "neighbours", asked, [400], SEED)
        assert about["distinct_targets"] == 1.0
        assert targets.min() >= HUBS, "only leaves are asked for"
        found[asked] = about["equation_7"]
    # A leaf's subgraph is the leaf, its hub, and 10 neighbours of the hub at most.
    assert found[0.0] < 0.1 < found[0.5] < 0.6 < found[0.9], found


def test_equation_7_is_1_for_the_same_target_and_0_for_strangers(store):
    far = [np.array([HUBS]), np.array([HUBS + LEAVES * HUBS // 2])]
    assert streams.equation_7(store, [far[0], far[0]], 1, 10) == 1.0
    assert streams.equation_7(store, far, 1, 10) == 0.0
    assert streams.equation_7(store, far[:1], 1, 10) is None


def test_a_shuffle_in_windows_moves_requests_within_them_alone():
    made = streams.shuffled(np.arange(95), 10, np.random.default_rng(SEED))
    assert not np.array_equal(made, np.arange(95))
    assert all(
        set(made[at : at + 10]) == set(range(at, min(at + 10, 95))) for at in range(0, 95, 10)
    )


def test_a_file_says_how_it_was_made_and_has_a_line_for_each_request(tmp_path):
    requests = [np.array(ids, dtype=np.int64) for ids in ([7], [], [1, 2, 3])]
    streams.Stream(np.array([4, 5, 9]), requests, {"seed": SEED}).save(tmp_path / "s.csv")
    head, *lines = (tmp_path / "s.csv").read_text().splitlines()
    assert json.loads(head.removeprefix("#")) == {"seed": SEED}
    assert lines == ["4,1,7", "5,0", "9,3,1,2,3"]


def test_arrivals_follow_the_rate_and_the_seed():
    arrivals = streams.poisson(2_000.0, 20_000, SEED)
    assert (np.diff(arrivals) >= 0).all()
    assert arrivals[-1] == pytest.approx(10e6, rel=0.05)
    assert np.array_equal(arrivals, streams.poisson(2_000.0, 20_000, SEED))
    assert not np.array_equal(arrivals, streams.poisson(2_000.0, 20_000, SEED + 1))
