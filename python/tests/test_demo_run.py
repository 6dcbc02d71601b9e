"""The demo from start to end on a small graph: what it shows, and when it fails."""

import copy
import json
import math
import sys

import numpy as np
import pytest

import neargraph as ng

pytest.importorskip("torch_geometric")
pytest.importorskip("onnxscript")

from neargraph.datasets import plan_planted
from neargraph.demo import __main__ as command
from neargraph.demo import children, graph, picture, run, serving, table
from neargraph.demo.settings import DemoSettings, Job, Training
from neargraph.exceptions import NeargraphError

MEMORY = 24_000_000


def small(name, seed, say):
    plan = plan_planted(40_000, 200_000, 256, 8, seed)
    training = Training(batch_size=64, hidden=16, lr=0.01)
    return graph.Recipe("small", plan, training, (8.0, 2.0, 2.0))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run, and what it printed."""
    out = tmp_path_factory.mktemp("demo")
    patch, printed = pytest.MonkeyPatch(), []
    patch.setattr(run, "recipe_of", small)
    patch.setattr(command, "print", printed.append, raising=False)
    arguments = ["--out", str(out), "--memory", str(MEMORY), "--json"]
    patch.setattr("sys.argv", ["demo", *arguments])
    command.main()
    patch.undo()
    return out, printed


@pytest.fixture
def figures(finished):
    return json.loads((finished[0] / "demo.json").read_text())


def test_losses_and_accuracy_are_the_same_from_disk_memory_and_mapped_rows(figures):
    comparison = figures["comparison"]
    assert comparison["steps"] == 50
    assert comparison["steps_mapped"] > 1
    assert comparison["largest_loss_difference"] == 0
    assert run.is_equal(figures)
    assert 0.5 < figures["runs"]["disk"]["accuracy"] <= 1
    assert figures["runs"]["mapped"]["accuracy"] is None


def test_the_loader_looks_ahead_and_stays_within_a_budget_below_the_graph(figures):
    disk, alone = figures["runs"]["disk"], figures["loader_alone"]
    assert disk["reading"]["window"] > 1
    assert figures["graph"]["disk_bytes"] > 1.5 * MEMORY
    assert 0 < disk["budget_peak_bytes"] <= disk["budget_limit_bytes"] == MEMORY
    assert 0 < alone["budget_peak_bytes"] <= MEMORY
    assert alone["torch_loaded"] is False
    assert alone["added_bytes"] < 2 * MEMORY
    assert figures["runs"]["memory"]["budget_peak_bytes"] > figures["graph"]["disk_bytes"]


def test_both_counts_of_reader_threads_are_measured_under_the_limit(figures):
    mapped = figures["runs"]["mapped"]
    assert [turn["steps"] > 0 for turn in mapped["turns"]] == [True, True]
    assert mapped["cached_bytes"] > 0
    if mapped["is_limited"]:
        assert 0 < mapped["limit_bytes"] <= mapped["wanted_limit_bytes"]
    else:
        assert mapped["why_not_limited"]


def test_the_served_answers_show_the_update(figures):
    served = figures["serving"]
    before, after, new = served["before"], served["after"], served["new"]
    assert served["new_node"] == 40_000
    assert after["neighbors"] == [*before["neighbors"], 40_000]
    assert after["probabilities"] != before["probabilities"]
    assert new["neighbors"][0] == served["node"]
    assert after["probabilities"][served["label"]] > before["probabilities"][served["label"]]
    assert [name for name, _ in served["lines"]] == ["serve", "ask", "update", "ask", "ask"]


def test_the_demo_prints_its_figures_and_leaves_a_picture_a_store_and_no_second_copy(finished):
    out, printed = finished
    assert json.loads(printed[0])["picture"] == str(out / "demo.png")
    assert (out / "demo.png").read_bytes()[:4] == b"\x89PNG"
    assert {path.name for path in out.iterdir()} >= {"small.ng", "sage.ngm", "demo.json"}
    assert not (out / "demo-rows.npy").exists()


def test_the_table_has_a_row_for_each_source_and_every_note(figures, capsys):
    table.show(figures)
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "everything in memory",
        "disk, neargraph in 24 MB",
        "np.memmap, x[n_id]",
        "np.memmap, 8 reader threads",
        "in all 50 steps, to the last bit",
        "The budget is 24 MB",
        "Node 40,000, the new one",
    ):
        assert text in shown
    assert "DIFFER" not in shown


def test_a_run_without_a_limit_says_so_in_the_notes_and_in_the_picture(figures):
    mapped = figures["runs"]["mapped"]
    mapped |= {"is_limited": False, "why_not_limited": "no cgroup here"}
    assert "NO memory limit: no cgroup here." in dict(table.notes(figures))["np.memmap"]
    assert "NOT limited" in picture._of_mapped(figures)


def test_a_machine_that_others_use_is_named_beside_the_speeds(figures):
    figures["machine"] = {"cores": 4, "load_average": 1.9}
    assert "machine" not in dict(table.notes(figures))
    figures["machine"]["load_average"] = 2.1
    assert "load average 2.1" in dict(table.notes(figures))["machine"]


def test_a_mapped_run_that_is_killed_is_a_row_without_figures(figures, tmp_path, capsys):
    killed = {"failed": "the process was killed", "wanted_limit_bytes": 10**8}
    figures["runs"]["mapped"] = killed
    figures["comparison"] = run.compared(figures["runs"])
    assert run.is_equal(figures)
    table.show(figures)
    shown = capsys.readouterr().out
    assert "failed" in shown
    assert "the process was killed" in shown
    assert picture.draw(figures, tmp_path / "demo.png")


@pytest.mark.parametrize("change", ["loss", "accuracy", "mapped"])
def test_a_difference_of_one_bit_is_an_error_in_capitals(figures, tmp_path, monkeypatch, change):
    changed = copy.deepcopy(figures)
    runs = changed["runs"]
    if change == "loss":
        runs["disk"]["losses"][7] = math.nextafter(runs["disk"]["losses"][7], 9)
    elif change == "accuracy":
        runs["disk"]["accuracy"] += 1e-4
    else:
        runs["mapped"]["losses"][0] = math.nextafter(runs["mapped"]["losses"][0], 9)
    changed["comparison"] = run.compared(runs)
    assert "DIFFER" in dict(table.notes(changed))["losses"]
    monkeypatch.setattr(run, "run_demo", lambda _: changed)
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"differ between disk, memory and np\.memmap"):
        command.main()


def test_a_process_that_fails_ends_in_one_line_with_its_last_words(tmp_path, monkeypatch):
    job = Job("disk", "no.ng", "", MEMORY, Training(), 1, 1, 1, 0)
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    for script, said in (
        ("echo first >&2; echo last words >&2; exit 3", "disk: .* exit code 3: last words"),
        ("exit 1", "exit code 1: no error message was printed"),
        ("kill -9 $$", "killed, probably because memory ran out"),
        ('echo \'{"step": 1, "steps": 2}\'', "exit code 0"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(children.ChildFailed, match=said):
            children.train(job, "train from disk", lambda *_: None)


def test_an_update_that_the_answers_do_not_show_is_an_error(finished, monkeypatch):
    monkeypatch.setattr(
        serving, "_asked", lambda *_: {"neighbors": [], "commit": 1, "class": 0, "probability": 1}
    )
    out = finished[0]
    with pytest.raises(NeargraphError, match="do not show the update"):
        serving.serve_model(out / "small.ng", out / "sage.ngm", MEMORY)


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "recipe_of", small)
    full = run.shutil.disk_usage(tmp_path)._replace(free=1_000_000)
    monkeypatch.setattr(run.shutil, "disk_usage", lambda _: full)
    with pytest.raises(NeargraphError, match=r"the disk has 1 MB free.*needs 98\.3 MB"):
        run.run_demo(DemoSettings(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--memory", "much", "error: 'much'"),
        ("--epochs", "0", "error: --epochs 0 is out of range: use 1 or more"),
        ("--seed", "-1", "error: --seed -1 is out of range: use 0 or more"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, option, value, said
):
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path / "out"), option, value])
    with pytest.raises(SystemExit, match=said):
        command.main()
    assert not (tmp_path / "out").exists()


def test_a_budget_that_is_too_small_ends_in_one_line_and_leaves_no_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "recipe_of", small)
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path), "--memory", "1MB"])
    with pytest.raises(SystemExit, match=r"error: train from disk: .*exit code 1: .*--memory"):
        command.main()
    assert not (tmp_path / "demo-rows.npy").exists()


def test_rows_are_written_bit_for_bit_or_not_at_all(finished, tmp_path):
    def interrupt(*_):
        raise OSError(28, "No space left on device")

    with ng.open(finished[0] / "small.ng", memory="64MB") as store:
        with pytest.raises(OSError, match="No space left"):
            graph._write_rows(store, tmp_path / "rows.npy", interrupt)
        assert not list(tmp_path.iterdir())
        assert graph._write_rows(store, tmp_path / "rows.npy", lambda *_: None) == 256
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
        assert rows.dtype == np.float32
        assert np.array_equal(rows, store.column("x"))
