"""Streams of requests are what their files say: localities, arrivals, and each request once."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import neargraph as ng
from neargraph.importers import import_graph

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.serving import replay, streams

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
    requests, about = streams.local(store, "repeats", asked, 1_500, SEED)
    assert about["equation_7"] == pytest.approx(asked, abs=0.1), f"seed {SEED}"
    targets = np.concatenate(requests)
    assert len(np.unique(targets)) / len(targets) == about["distinct_targets"]
    assert about["equation_7_shuffled"] < 0.1


def test_distinct_targets_share_the_hub_and_what_is_drawn_from_it(store):
    found = {}
    for asked in (0.0, 0.5, 0.9):
        requests, about = streams.local(store, "neighbours", asked, 400, SEED)
        assert about["distinct_targets"] == 1.0
        assert min(int(ids[0]) for ids in requests) >= HUBS, "only leaves are asked for"
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


def test_a_file_gives_back_what_was_written_and_refuses_what_is_not_a_stream(tmp_path):
    arrivals = streams.poisson(100.0, 3, SEED)
    requests = [np.array(ids) for ids in ([7], [], [1, 2, 3])]
    streams.Stream(arrivals, requests, {"seed": SEED}).save(tmp_path / "s.csv")
    found = streams.Stream.load(tmp_path / "s.csv")
    assert found.about == {"seed": SEED}
    assert np.array_equal(found.arrivals_us, arrivals)
    assert [ids.tolist() for ids in found.requests] == [[7], [], [1, 2, 3]]
    for text in ("5,2,1\n", "5,1,1\n4,1,1\n"):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(SystemExit, match="not a request"):
            streams.Stream.load(tmp_path / "bad.csv")


def test_arrivals_follow_the_rate_and_the_seed():
    arrivals = streams.poisson(2_000.0, 20_000, SEED)
    assert (np.diff(arrivals) >= 0).all()
    assert arrivals[-1] == pytest.approx(10e6, rel=0.05)
    assert np.array_equal(arrivals, streams.poisson(2_000.0, 20_000, SEED))
    assert not np.array_equal(arrivals, streams.poisson(2_000.0, 20_000, SEED + 1))


def test_an_open_loop_asks_each_request_once_and_counts_errors_as_missed():
    asked = Counter()

    async def ask(ids):
        asked[int(ids[0])] += 1
        if ids[0] % 4 == 0:
            raise OSError

    requests = [np.array([number]) for number in range(40)]
    feed = replay.Feed(requests)
    found = asyncio.run(replay.opened(ask, feed, 4_000.0, 0.01, SEED))
    assert asked == Counter(range(40))
    assert found["missed"] == 10
    with pytest.raises(SystemExit, match="all 40 requests"):
        feed.take()
