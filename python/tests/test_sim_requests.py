"""Streams of requests: the locality that was asked for, exact repeats, each request served once."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes

import neargraph as ng
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.sim.requests import Requests, request_stream

SEED = 3
COMMUNITIES, MEMBERS, DEGREE = 64, 32, 12
NODES = COMMUNITIES * MEMBERS
FANOUTS = [6, 4]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Communities without an edge between them, each member with some random neighbours."""
    random = np.random.default_rng(SEED)
    members = np.repeat(np.arange(NODES), DEGREE)
    sources = members // MEMBERS * MEMBERS + random.integers(0, MEMBERS, len(members))
    nodes = Nodes(NODES, {"x": np.zeros((NODES, 4), np.float32)})
    graph = Graph({"node": nodes}, {("node", "to", "node"): Edges(sources, members)})
    path = graph.write(tmp_path_factory.mktemp("communities") / "communities.ng")
    with ng.open(path, memory="64MB") as opened:
        yield opened


def draw(store, count=600, **how):
    return Requests.draw(store, count, fanouts=FANOUTS, seed=SEED, **how)


def sampled(store, target, stream):
    sampler = ng.NumpySampler(store, FANOUTS, seed=SEED, attrs=[])
    return set(np.asarray(sampler.sample(np.array([target]), stream=stream).nodes()).tolist())


def equation_7(store, targets, window):
    """One pair after the other, as the equation is written."""
    parts = [sampled(store, target, at // window) for at, target in enumerate(targets.tolist())]
    return float(np.mean([len(one & next_) / len(next_) for one, next_ in pairwise(parts)]))


def targets_of(trace):
    """Targets of each batch."""
    columns = trace.columns
    is_target = columns["hop"] == 0
    ends = columns["first_entry"].astype(int)
    return [columns["node"][a:b][is_target[a:b]].tolist() for a, b in pairwise(ends)]


@pytest.mark.parametrize("wanted", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("window", [16, 64])
def test_adjacent_requests_share_what_was_asked_for(store, wanted, window):
    drawn = draw(store, locality=wanted, window=window)
    assert drawn.about["locality"] == pytest.approx(wanted, abs=0.02), f"seed {SEED}"
    measured = equation_7(store, drawn.targets, window)
    assert drawn.about["locality"] == pytest.approx(measured, abs=1e-9)
    assert len(np.unique(drawn.targets)) == len(drawn.targets) == 600
    assert drawn.about["locality_arrived"] == drawn.about["locality"]


def test_more_locality_needs_more_targets_close_to_the_last(store):
    found = [draw(store, locality=wanted).about for wanted in (0, 0.1, 0.3, 0.5, 0.7)]
    for name in ("locality", "near"):
        values = [about[name] for about in found]
        assert values == sorted(set(values)), f"seed {SEED}: {name} {values}"


def test_no_locality_is_that_of_random_targets(store):
    drawn = draw(store)
    random = np.random.default_rng(SEED + 1).permutation(NODES)[:600]
    own = equation_7(store, random, 64)
    assert drawn.about["near"] == 0
    assert drawn.about["locality"] == pytest.approx(own, abs=0.02)
    # One random target in 64 is of the same community.
    assert 0 < own < 2 / COMMUNITIES
    less_than_that = draw(store, locality=own / 1000)
    assert np.array_equal(less_than_that.targets, drawn.targets)


def test_a_locality_out_of_reach_is_refused_with_the_largest(store):
    with pytest.raises(UnsupportedArgument, match=r"locality=0\.99 cannot be reached") as refused:
        draw(store, locality=0.99)
    largest = float(str(refused.value).split("repeats= is ")[1].split(";")[0])
    assert draw(store, locality=largest).about["locality"] == pytest.approx(largest, abs=0.02)
    # Without common draws a subgraph shares less.
    with pytest.raises(UnsupportedArgument, match="raise fanouts= or window="):
        draw(store, locality=largest, window=1)


def test_a_long_stream_is_tuned_on_its_start_and_refused_where_it_misses(store, monkeypatch):
    monkeypatch.setattr("neargraph.sim.requests.SAMPLE", 50)
    reached = draw(store, 600, locality=0.6).about["locality"]
    assert reached == pytest.approx(0.6, abs=0.1), f"seed {SEED}"
    monkeypatch.setattr("neargraph.sim.requests.MISSED", (0.6 - reached) / 2)
    with pytest.raises(UnsupportedArgument, match=f"all 600 requests have only {reached:.2f}"):
        draw(store, 600, locality=0.6)


@pytest.mark.parametrize(("repeats", "exact"), [(0.0, 0), (0.25, 150), (0.5, 300), (0.9, 540)])
def test_repeats_are_counted_exactly_and_the_rest_is_new(store, repeats, exact):
    for shuffle_within in (0, 100):
        drawn = draw(store, repeats=repeats, shuffle_within=shuffle_within)
        assert len(drawn.targets) - len(np.unique(drawn.targets)) == exact
        assert drawn.about["repeats"] == exact


def test_repeats_and_locality_go_together(store):
    drawn = draw(store, repeats=0.2, locality=0.4)
    assert drawn.about["locality"] == pytest.approx(0.4, abs=0.02), f"seed {SEED}"
    assert drawn.about["repeats"] == 120
    assert drawn.about["locality"] == pytest.approx(equation_7(store, drawn.targets, 64), abs=1e-9)


def test_every_node_can_be_asked_for_once(store):
    assert np.array_equal(np.sort(draw(store, NODES).targets), np.arange(NODES))
    with pytest.raises(UnsupportedArgument, match=f"need {NODES + 1} different targets"):
        draw(store, NODES + 1)
    assert len(draw(store, NODES + 1, repeats=0.1).targets) == NODES + 1


def test_shuffling_moves_requests_within_their_stretch_alone(store):
    plain, mixed = (draw(store, locality=0.6, shuffle_within=within) for within in (0, 100))
    assert mixed.about["locality"] == plain.about["locality"]
    assert mixed.about["locality_arrived"] < plain.about["locality"] / 2
    measured = equation_7(store, mixed.targets, 64)
    assert mixed.about["locality_arrived"] == pytest.approx(measured, abs=1e-9)
    assert not np.array_equal(plain.targets, mixed.targets)
    for at in range(0, 600, 100):
        parts = (drawn.targets[at : at + 100] for drawn in (plain, mixed))
        assert Counter(next(parts).tolist()) == Counter(next(parts).tolist())


@pytest.mark.parametrize("repeats", [0.0, 0.4])
@pytest.mark.parametrize("within", [2, 70, 10_000])
def test_order_by_affinity_loses_and_doubles_no_request(store, repeats, within):
    drawn = draw(store, repeats=repeats, window=1)
    trace = drawn.trace(store, reorder_within=within)
    served = [target for batch in targets_of(trace) for target in batch]
    assert len(served) == 600
    for at in range(0, 600, within):
        part = slice(at, at + within)
        assert Counter(served[part]) == Counter(drawn.targets[part].tolist())
        assert served[at] == drawn.targets[at], "a stretch begins with who arrived first"


def test_order_by_affinity_is_the_greedy_one(store):
    drawn = draw(store, 300, window=1)
    left = {target: sampled(store, target, 0) for target in drawn.targets.tolist()}
    wanted = [int(drawn.targets[0])]
    last = left.pop(wanted[0])
    while left:
        wanted.append(max(left, key=lambda target: len(left[target] & last)))
        last = left.pop(wanted[-1])
    trace = drawn.trace(store, reorder_within=300)
    assert [target for batch in targets_of(trace) for target in batch] == wanted


def test_order_brings_back_what_shuffling_took(store):
    drawn = draw(store, locality=0.6, shuffle_within=600)
    about = drawn.trace(store, reorder_within=600).about["requests"]
    assert about["locality_arrived"] < 0.1 < 0.5 < about["locality_served"]
    kept = drawn.trace(store).about["requests"]
    assert kept["locality_served"] == kept["locality_arrived"]


def test_a_kept_result_leaves_the_batches_and_is_counted(store):
    drawn = draw(store, repeats=0.5)
    all_kept = drawn.trace(store, keep_results=600)
    batches = targets_of(all_kept)
    asked = [target for batch in batches for target in batch]
    assert sorted(asked) == np.unique(drawn.targets).tolist()
    assert [len(batch) for batch in batches] == [64] * 4 + [44]
    counts = all_kept.about["requests"]
    assert (counts["answered"], counts["joined"], counts["computed"]) == (300, 0, 300)
    for keep in (0, 1, 20):
        found = drawn.trace(store, keep_results=keep)
        counts = found.about["requests"]
        answered = 0
        results: list[int] = []
        for target in drawn.targets.tolist():
            answered += target in results
            results = [target, *(one for one in results if one != target)][:keep]
        assert counts["answered"] == answered
        assert counts["answered"] + counts["joined"] + counts["computed"] == 600
        assert counts["computed"] == sum(len(batch) for batch in targets_of(found))
    assert drawn.trace(store).about["requests"]["joined"] > 0


def test_windows_are_batches_and_equal_seeds_make_equal_traces(store, tmp_path):
    how = {
        "locality": 0.3,
        "repeats": 0.1,
        "fanouts": FANOUTS,
        "window": 50,
        "seed": SEED,
    }
    first, again = (request_stream(store, 330, reorder_within=100, **how) for _ in range(2))
    assert all(np.array_equal(again.columns[name], c) for name, c in first.columns.items())
    assert first.about == again.about
    assert len(targets_of(first)) == 7
    other = request_stream(store, 330, reorder_within=100, **{**how, "seed": SEED + 1})
    assert targets_of(other) != targets_of(first)
    first.save(tmp_path / "t.npz")
    loaded = ng.sim.Trace.load(tmp_path / "t.npz", store)
    assert loaded.about == first.about
    run = ng.sim.simulate(loaded, platforms=["GList"], mode="detailed", merged=True, grouped=4)
    assert run["targets_per_s"][0] > 0


def test_a_batch_visits_the_subgraphs_that_the_equation_measures(store):
    drawn = draw(store, 130, locality=0.5)
    columns = drawn.trace(store).columns
    ends = columns["first_entry"].astype(int)
    for at, target in enumerate(drawn.targets.tolist()):
        batch = at // 64
        visited = set(columns["node"][ends[batch] : ends[batch + 1]].tolist())
        assert sampled(store, target, batch) <= visited


def test_requests_of_a_small_graph_with_lone_nodes(homo):
    for locality in (0.0, 0.3):
        drawn = Requests.draw(homo, homo.num_nodes, locality=locality, fanouts=[3, 2], window=8)
        assert len(np.unique(drawn.targets)) == homo.num_nodes
        assert drawn.about["locality"] >= locality - 0.02
    trace = request_stream(homo, 2, fanouts=[3, 2], tensor=None)
    assert trace.about["feature_bytes"] == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": 1}, "count=1 is not valid: expected a whole number from 2"),
        ({"count": 3.0}, "count=3.0"),
        ({"locality": -0.1}, "locality=-0.1 is not valid: expected a number from 0 to 1"),
        ({"locality": 40}, "locality=40"),
        ({"locality": float("nan")}, "locality=nan"),
        ({"locality": "half"}, "locality='half'"),
        ({"locality": True}, "locality=True"),
        ({"repeats": 1.0}, "the first request has no earlier one"),
        ({"repeats": -1}, "repeats=-1 is not valid: expected a number from 0 to 1"),
        ({"repeats": None}, "repeats=None"),
        ({"fanouts": []}, "expected 1 to 16"),
        ({"fanouts": [3, 0]}, "fanouts=0"),
        ({"window": 0}, "window=0"),
        ({"window": "64"}, "window='64'"),
        ({"shuffle_within": -1}, "shuffle_within=-1"),
        ({"reorder_within": 1}, "reorder_within=1 changes nothing"),
        (
            {"reorder_within": 1 << 20},
            "reorder_within=1048576 is not valid: expected a whole number",
        ),
        ({"keep_results": -1}, "keep_results=-1"),
        ({"keep_results": 2.5}, "keep_results=2.5"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_nonsense_is_refused_with_its_name(store, wrong, said):
    given = {"count": 20, "fanouts": FANOUTS, **wrong}
    with pytest.raises(UnsupportedArgument) as refused:
        request_stream(store, given.pop("count"), **given)
    assert said in str(refused.value)


def test_stores_without_what_a_trace_needs_are_refused(hetero, homo):
    with pytest.raises(UnsupportedArgument, match="one node type and one edge type"):
        request_stream(hetero, 20)
    with pytest.raises(NameNotFound, match="no tensor 'z'"):
        request_stream(homo, 20, tensor="z")
