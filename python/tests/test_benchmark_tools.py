"""The graphs of the benchmarks are what their pages say, and tables tell what was measured."""

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.kronecker import expanded, symmetric
from benchmarks.planted import CENTROID, CLASSES, NOISE, planted, rows
from benchmarks.systems.drive import stretch_of
from benchmarks.training_tables import against_fio, plan, ratios, verdict

NODES, DEGREE, SEED = 20_000, 25.0, 11


def silent(text):
    """Says nothing."""


def ends(indptr, indices):
    """Both ends of each entry."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices.astype(np.int64)


def keys(indptr, indices):
    """The entries as pairs in order."""
    row, column = ends(indptr, indices)
    return list(zip(row.tolist(), column.tolist(), strict=True))


def test_the_planted_graph_is_simple_symmetric_and_skewed_as_its_page_says():
    indptr, indices, labels = planted(NODES, DEGREE, SEED, silent)
    row, column = ends(indptr, indices)
    assert not (row == column).any()
    pairs = row * NODES + column
    assert len(np.unique(pairs)) == len(pairs)
    assert np.array_equal(np.sort(column * NODES + row), np.sort(pairs))
    degrees = np.diff(indptr)
    assert degrees.mean() == pytest.approx(DEGREE, rel=0.02)
    assert np.median(degrees) < 0.6 * DEGREE
    assert degrees.max() > 10 * DEGREE
    # 60 % of the draws stay inside by intent, and 1 / 32 of the others by chance.
    inside = (labels[row] == labels[column]).mean()
    assert 0.5 < inside < 0.65
    assert len(np.unique(labels)) == CLASSES
    # Ids are permuted: neighbours lie as far apart as two random ids do.
    assert np.abs(row - column).mean() == pytest.approx(NODES / 3, rel=0.05)


def test_equal_seeds_give_equal_graphs_and_others_do_not():
    one, same, other = (planted(2_000, 12.0, seed, silent) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[1], other[1])


def test_a_row_is_the_centroid_of_its_class_and_noise():
    labels = np.arange(CLASSES * 400) % CLASSES
    made = np.concatenate(list(rows(labels, 64, SEED)))
    means = np.stack([made[labels == kind].mean(axis=0) for kind in range(CLASSES)])
    noise = made - means[labels]
    assert noise.std() == pytest.approx(NOISE, rel=0.02)
    # The mean of 400 rows has a hundredth of their noise's square beside the centroid's.
    assert means.std() == pytest.approx(np.hypot(CENTROID, NOISE / 20), rel=0.05)


def test_the_expansion_is_the_kronecker_product():
    indptr, indices = symmetric(np.array([0, 2, 3, 3, 3]), np.array([1, 2, 3]))
    assert keys(indptr, indices) == [(0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (3, 1)]
    wide, out = expanded(indptr, indices, 2, 2.0)
    every = itertools.product(keys(indptr, indices), (0, 1), (0, 1))
    by_hand = sorted((2 * i + a, 2 * j + b) for (i, j), a, b in every)
    assert keys(wide, out) == by_hand


def test_every_way_of_reading_has_a_plan_to_print():
    assert plan({}) == ""
    scan = {"reading": "scan", "window": 38, "phases": 2}
    assert plan({"chosen": scan}) == "scan 38, two phases"
    assert plan({"chosen": {"reading": "compiled", "epochs": 1}}).strip() == "compiled"


def test_ratios_are_taken_inside_a_round():
    pairs = [(100.0, 10.0), (300.0, 20.0), (120.0, 40.0)]
    rounds = [
        {"naive-uring": {"ms_per_batch": slow}, "auto": {"ms_per_batch": quick}}
        for slow, quick in pairs
    ]
    assert ratios(rounds, "auto")["naive-uring"] == [10.0, 3.0, 15.0]


def test_ratios_are_void_where_the_baseline_is_slower_than_the_disk_lets_it_be():
    assert verdict(0.6).startswith("VOID")
    assert verdict(0.8) == "ratios count"
    assert "low side" in verdict(0.95)
    assert against_fio([{"auto": {}}]) is None


def test_whole_stretches_are_counted_once_a_plan_has_them():
    def peer(chosen):
        return SimpleNamespace(ahead=SimpleNamespace(chosen=lambda: chosen))

    assert stretch_of(SimpleNamespace()) == 1
    assert stretch_of(peer(None)) == 1
    assert stretch_of(peer({"sampled_first": None})) == 1
    assert stretch_of(peer({"sampled_first": 250})) == 250
