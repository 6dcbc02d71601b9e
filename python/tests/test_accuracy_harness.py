"""The comparison of accuracies with PyG: what is run again, what a digest covers, the table."""

import dataclasses
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy.ledger import Ledger, Run, estimate, runs_of
from benchmarks.accuracy.ours import LEAST_BYTES, memory_of
from benchmarks.accuracy.rows import ROWS, Published, Row, chosen
from benchmarks.accuracy.sets import SETS, drawn_codes, fold_codes
from benchmarks.accuracy.tables import compared, fill, markdown
from benchmarks.accuracy.worker import SIDES

ROW = Row("tiny", "none", "node", "gcn", "accuracy", {"epochs": 2}, "full", seeds=3, seconds=8.0)


def result(value: float) -> dict[str, float]:
    peaks = {"budget_peak": 15_000_000, "budget_limit": 16_000_000, "rss_peak": 2_000_000}
    return {"value": value, "seconds": 4.0, **peaks}


def filled(path: Path, theirs: list[float], ours: list[float]) -> Ledger:
    ledger = Ledger(path)
    for side, values in (("pyg", theirs), ("ours", ours)):
        for seed, value in enumerate(values):
            ledger.add(Run(ROW, seed, side), result(value))
    return ledger


def test_what_is_there_is_not_run_again(tmp_path):
    runs = runs_of([ROW], None)
    assert [(run.seed, run.side) for run in runs] == [
        (seed, side) for seed in range(3) for side in ("pyg", "ours")
    ]
    ledger = filled(tmp_path / "results.jsonl", [0.5, 0.6], [0.5])
    for found in (ledger, Ledger(tmp_path / "results.jsonl")):
        missing = [(run.seed, run.side) for run in found.missing(runs)]
        assert missing == [(1, "ours"), (2, "pyg"), (2, "ours")]


def test_a_failure_is_kept_shown_and_tried_again(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.5, 0.6, 0.7], [0.5, 0.6])
    ledger.add(Run(ROW, 2, "ours"), {"failed": "exit 1: no room"})
    again = Ledger(tmp_path / "results.jsonl")
    assert compared(again, ROW).verdict == "failed"
    assert "tiny, seed 2, ours: exit 1: no room" in markdown([compared(again, ROW)])
    assert again.missing(runs_of([ROW], None)) == [Run(ROW, 2, "ours")]
    again.add(Run(ROW, 2, "ours"), result(0.7))
    assert compared(Ledger(again.path), ROW).verdict == "equal"


@pytest.mark.parametrize("printed", ["", "no result"])
def test_a_worker_that_ends_without_a_result_is_a_failure(monkeypatch, printed):
    ended = subprocess.CompletedProcess([], 0, stdout=printed, stderr="")
    monkeypatch.setattr(accuracy, "prepared", lambda graph: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    found = accuracy._result(Run(ROW, 0, "ours"), threads=1)
    assert found == {"failed": "exit 0 without a result on its last line"}


def test_a_line_cut_short_costs_that_run_alone(tmp_path):
    path = tmp_path / "results.jsonl"
    filled(path, [0.5, 0.6], [])
    path.write_bytes(path.read_bytes()[:-9])
    ledger = Ledger(path)
    assert ledger.damaged == 1
    ledger.add(Run(ROW, 2, "pyg"), result(0.7))
    again = Ledger(path)
    assert [again.result(Run(ROW, seed, "pyg")) is None for seed in range(3)] == [
        False,
        True,
        False,
    ]


def test_a_digest_covers_what_decides_a_result_and_nothing_else():
    same = dataclasses.replace(ROW, seeds=9, seconds=1.0, published=Published(0.9, "a paper"))
    assert same.digest == ROW.digest
    others = [
        dataclasses.replace(ROW, settings={"epochs": 3}),
        dataclasses.replace(ROW, in_memory="sampled"),
        dataclasses.replace(ROW, graph="other"),
        dataclasses.replace(ROW, model="sage"),
        dataclasses.replace(ROW, metric="roc-auc"),
        dataclasses.replace(ROW, is_folded=True),
    ]
    assert len({row.digest for row in (ROW, *others)}) == 1 + len(others)


def test_results_of_other_settings_are_not_taken(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.5], [0.5])
    changed = dataclasses.replace(ROW, settings={"epochs": 3})
    assert ledger.result(Run(changed, 0, "pyg")) is None
    assert len(ledger.missing(runs_of([changed], None))) == 6


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.0, "equal"), (0.99, "equal"), (1.01, "better"), (-1.01, "worse")]
)
def test_a_row_agrees_up_to_one_deviation_of_the_seeds_of_pyg(shift, verdict, tmp_path):
    theirs = [0.50, 0.60, 0.75]
    deviation = statistics.stdev(theirs)
    ours = [value + shift * deviation for value in theirs]
    row = compared(filled(tmp_path / "results.jsonl", theirs, ours), ROW)
    assert row.difference == pytest.approx(shift, abs=1e-9)
    assert row.verdict == verdict


def test_a_row_with_a_seed_missing_has_no_verdict(tmp_path):
    row = compared(filled(tmp_path / "results.jsonl", [0.5, 0.6, 0.7], [0.5, 0.6]), ROW)
    assert row.verdict == "incomplete"
    assert compared(Ledger(tmp_path / "none.jsonl"), ROW).difference is None


def test_equal_seeds_of_pyg_leave_no_room(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.5] * 3, [0.5, 0.5, 0.25])
    assert compared(ledger, ROW).difference == float("-inf")
    assert compared(ledger, ROW).verdict == "worse"


def test_the_table_shows_means_deviations_and_peaks(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.4, 0.5, 0.6], [0.5, 0.5, 0.5])
    row = dataclasses.replace(ROW, published=Published(0.815, "a paper, table 2"))
    line = markdown([compared(ledger, row)]).splitlines()[2]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "tiny",
        "accuracy",
        "3",
        "0.5000 ± 0.1000",
        "0.5000 ± 0.0000",
        "+0.00",
        "equal",
        "0.815 (a paper, table 2)",
        "15 MB / 16 MB",
        "2 MB, 2 MB",
    ]


def test_the_estimate_takes_what_other_seeds_took(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.5], [])
    missing = ledger.missing(runs_of([ROW], None))
    # Two runs of PyG's side as long as its first, three of ours by the row's guess.
    assert estimate(ledger, missing) == 2 * 4.0 + 3 * 4.0


def test_the_page_gets_the_table_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n")
    for _ in range(2):
        fill(page, "new\n")
    text = page.read_text()
    assert text == "before\n<!-- results -->\n\nnew\n\n<!-- end of results -->\nafter\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="marks"):
        fill(page, "new")
    assert page.read_text() == "no marks"


def test_rows_have_names_sets_and_programs():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    for row in ROWS:
        assert row.graph in SETS, row.name
        assert set(SIDES[row.kind]) == {"pyg", "ours"}, row.name
        assert json.dumps(dict(row.settings)), row.name


def test_rows_are_chosen_by_how_they_begin():
    assert {row.graph for row in chosen(["cora"])} == {"cora"}
    assert chosen([]) == list(ROWS)
    with pytest.raises(SystemExit, match="'nothing' is not a row"):
        chosen(["nothing"])


def test_each_fold_tests_once_validates_once_and_keeps_the_classes_apart():
    labels = np.array([0] * 125 + [1] * 63)
    codes = fold_codes(labels)
    assert codes.shape == (188, 10)
    for code, times in ((3, 1), (2, 1), (1, 8)):
        assert ((codes == code).sum(axis=1) == times).all()
    for fold in range(10):
        tested = labels[codes[:, fold] == 3]
        assert 12 <= (tested == 0).sum() <= 13
        assert 6 <= (tested == 1).sum() <= 7
        assert ((codes[:, fold] == 2) == (codes[:, (fold + 1) % 10] == 3)).all()


def test_a_drawn_split_has_its_shares_and_is_always_the_same():
    codes = drawn_codes(1000, (0.6, 0.8))
    assert np.bincount(codes).tolist() == [0, 600, 200, 200]
    assert (codes == drawn_codes(1000, (0.6, 0.8))).all()


def test_a_run_has_a_quarter_of_what_is_on_disk_and_never_less_than_16_mb(tmp_path):
    (tmp_path / "pages.dat").write_bytes(b"x" * 1000)
    assert memory_of(tmp_path) == LEAST_BYTES == 16_000_000
    with (tmp_path / "rows.dat").open("wb") as file:
        file.truncate(80_000_000)
    assert memory_of(tmp_path) == 80_001_000 // 4


def test_the_machines_stand_below_the_table(tmp_path):
    ledger = filled(tmp_path / "results.jsonl", [0.5] * 3, [0.5])
    assert "torch" not in markdown([compared(ledger, ROW)])
    here, there = {"cores": 2, "torch": "2.15.0"}, {"cores": 16, "torch": "2.11.0"}
    for seed in range(3):
        ledger.add(Run(ROW, seed, "pyg"), result(0.5) | here)
        ledger.add(Run(ROW, seed, "ours"), result(0.5) | (here if seed else there))
    lines = markdown([compared(ledger, ROW)]).splitlines()
    assert lines[-2:] == ["- 2 cores, torch 2.15.0: tiny", "- 16 cores, torch 2.11.0: tiny (ours)"]
