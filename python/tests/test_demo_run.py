"""The demo from start to end on a small generated graph."""

import json

import pytest

pytest.importorskip("torch_geometric")

from neargraph.datasets import plan_generated
from neargraph.demo import __main__ as command
from neargraph.demo import run


def test_the_demo_prints_its_table_and_leaves_picture_and_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "choose_graph", lambda *_: plan_generated(4000, 20_000, 300, 8))
    monkeypatch.setattr(
        "sys.argv", ["demo", "--out", str(tmp_path), "--epochs", "1", "--memory", "48MB"]
    )
    command.main()
    out, _ = capsys.readouterr()
    assert "from disk (48MB)" in out
    figures = json.loads((tmp_path / "demo.json").read_text())
    assert figures["loss_difference_max"] == 0
    assert figures["accuracy_disk"] == figures["accuracy_memory"]
    assert figures["accuracy_disk"] > 0.5
    assert 0 < figures["budget_peak_bytes"] <= figures["budget_limit_bytes"] == 48_000_000
    assert figures["rss_process_had_torch"] is False
    assert figures["rss_added_bytes"] < 2 * 48_000_000
    assert 0 < figures["useful_share"] <= 1
    assert figures["read_bytes"] > 0
    pytest.importorskip("matplotlib")
    assert (tmp_path / "loss.png").read_bytes()[:4] == b"\x89PNG"
