"""Histories of real graphs, replayed into a store and into plain Python; both must agree."""

import sys
from pathlib import Path

import numpy as np
import pytest
from realdata import data

import neargraph as ng

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.replay import (  # noqa: E402
    DblpTrace,
    GitTrace,
    create,
    figures,
    pairs_of,
    replay,
    rows_of,
)


def run(trace, path, keep_every):
    """Replays a trace, and compares the end, snapshots on the way and the store once reopened."""
    create(trace, path, 0.9)
    with ng.open(path, memory="64MB") as store:
        result = replay(store, trace, keep_every)
        model = result.model
        assert store.lsn == len(result.days)
        assert len(result.kept) == len(result.days) // keep_every
        for snapshot, pairs in result.kept:
            assert np.array_equal(pairs_of(snapshot), pairs)
        result.kept.clear()
        compare(store.snapshot(), model)
    with ng.open(path, memory="64MB") as store:
        assert store.checkpoint_id > 1
        compare(store.snapshot(), model)
    return figures(result)


def compare(snapshot, model):
    live = model.live()
    assert snapshot.num_nodes == len(model.nodes)
    assert np.array_equal(np.setdiff1d(np.arange(len(model.nodes)), live), snapshot.dead_nodes())
    assert np.array_equal(pairs_of(snapshot), model.pairs())
    versions = np.array(model.versions)
    for part in np.array_split(live, 20):
        assert np.array_equal(snapshot.features(None, part), rows_of(part, versions[part]))


@pytest.mark.timeout(900)
def test_six_repositories_grow_and_shrink_day_by_day(tmp_path):
    found = run(GitTrace(data("git_trace").parent), tmp_path / "git.ng", 700)
    assert found["days"] == 3063
    assert found["list_updates"] == 875_716
    assert found["evictions_per_operation"] < 0.03, "HolisticGNN, section 4.1: lower than 3 %"


@pytest.mark.timeout(900)
def test_a_graph_of_co_authors_grows_year_by_year(tmp_path):
    found = run(DblpTrace(data("dblp_coauthor_temporal").parent), tmp_path / "dblp.ng", 6)
    assert found["days"] == 25
    assert found["evictions_per_operation"] < 0.03
