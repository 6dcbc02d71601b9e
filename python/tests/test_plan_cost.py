"""What `benchmarks.plan_cost` says that a log costs is what one computes by hand."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.plan_cost import (
    FOLLOWS,
    MAGIC,
    RECORD,
    curve_seconds,
    figures,
    known_curve,
    mean_curve,
    plan_seconds,
    read_log,
    slower,
)
from benchmarks.training import rates

# (bytes, random a second, sequential a second)
CURVE = [(4096, 100_000.0, 200_000.0), (8192, 80_000.0, 100_000.0), (262_144, 4_000.0, 5_000.0)]


def log(tmp_path, *requests):
    records = np.array(list(requests), RECORD)
    (tmp_path / "t").write_bytes(MAGIC + records.tobytes())
    return read_log(tmp_path / "t")


def test_each_request_costs_a_read_or_its_bytes_whatever_is_more(tmp_path):
    found = log(tmp_path, (0, 4096, 1), (40_960, 262_144, 1), (303_104, 4096, 1 | FOLLOWS))
    by_hand = 1 / 100_000 + 262_144 / 1e9 + 1 / 100_000
    assert plan_seconds(found, 100_000.0, 1e9) == pytest.approx(by_hand, rel=1e-12)


def test_the_curve_takes_the_kind_of_a_request_and_lines_between_lengths(tmp_path):
    found = log(tmp_path, (0, 4096, 1), (4096, 4096, 1 | FOLLOWS), (81_920, 135_168, 2))
    # 135,168 is halfway between 8 KiB and 256 KiB.
    by_hand = 1 / 100_000 + 1 / 200_000 + (1 / 80_000 + 1 / 4_000) / 2
    assert curve_seconds(found, CURVE) == pytest.approx(by_hand, rel=1e-12)


def test_figures_take_both_rates_from_the_curve_and_count_what_is_in_the_log(tmp_path):
    found = figures(log(tmp_path, (0, 4096, 0), (4096, 262_144, FOLLOWS)), CURVE)
    assert found["logged_reads"] == 2
    assert found["logged_bytes"] == 266_240
    assert found["logged_sequential"] == 1
    assert found["bytes_per_s"] == 5_000 * 262_144
    assert found["plan_seconds"] == pytest.approx(1 / 100_000 + 1 / 5_000, rel=1e-12)
    assert figures(log(tmp_path), CURVE)["plan_seconds"] == 0


def test_two_measurements_are_one_by_the_mean_of_their_times():
    (point,) = mean_curve([(4096, 100.0, 10.0)], [(4096, 300.0, 10.0)])
    assert point == pytest.approx((4096, 150.0, 10.0))


def test_another_file_is_not_a_log(tmp_path):
    (tmp_path / "t").write_bytes(b"something else, and long enough")
    with pytest.raises(ValueError, match="not a log"):
        read_log(tmp_path / "t")


def test_on_a_disk_that_is_held_at_rates_both_prices_are_one(tmp_path):
    lengths = [4096, 8192, 40_960, 262_144]
    found = log(tmp_path, *((at * 1_000_000, length, 1) for at, length in enumerate(lengths)))
    priced = figures(found, known_curve(113_000, 1_170_000_000))
    by_hand = sum(max(1 / 113_000, length / 1.17e9) for length in lengths)
    assert priced["plan_seconds"] == pytest.approx(by_hand, rel=1e-9)
    # Between two lengths the curve is a line, and so is time over bytes past the first.
    assert priced["curve_seconds"] == pytest.approx(by_hand, rel=0.02)
    quick = [(length, 9e6, 9e6) for length, _, _ in known_curve(113_000, 1_170_000_000)]
    assert slower(quick, known_curve(113_000, 1_170_000_000)) == known_curve(113_000, 1_170_000_000)


def test_a_disk_is_held_at_two_rates_above_zero():
    assert rates("113000,1.17GB") == (113_000, 1_170_000_000)
    for broken in ("113000", "0,1GB", "-5,1GB", "5,none", "x,1GB"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not like"):
            rates(broken)
