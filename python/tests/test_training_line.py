"""One line says how training goes on; where stderr is no terminal there is none."""

import io
import logging
import sys
import time

import pytest

import neargraph as ng
from neargraph.cli import settings
from neargraph.cli.training_line import epoch_line, pass_line, training_line
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import

pytest.importorskip("torch_geometric")

from neargraph.train import TrainConfig, fit

CONFIG = TrainConfig(fanouts=(5, 3), batch_size=128, hidden=8, epochs=2, lr=0.01, seed=5)
NOW = {
    "phase": "epoch 2",
    "step": 1200,
    "steps": 9000,
    "value": 0.25,
    "seeds_per_second": 1234.5,
    "waiting_share": 0.126,
    "waiting_seconds": 0.1,
    "busy": ["read"],
}
HEAD = "epoch 2 of 3, batch 1,200 of 9,000, loss 0.2500, 1,234 seeds/s, 13 % of the time waiting"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def fresh_settings():
    # Commands of earlier tests may have been silent.
    settings.reset()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("line") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20))
    run_import(plan_generated(3000, 20_000, 200, 6), path, options)
    return path


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, HEAD),
        ({"waiting_seconds": 3.2}, f"{HEAD}, reading rows for 3 s"),
        (
            {"waiting_seconds": 12, "busy": ["load", "sample"], "step": 0, "value": None},
            "epoch 2 of 3, batch 0 of 9,000, loading the topology and sampling for 12 s",
        ),
        ({"waiting_seconds": 1, "busy": []}, f"{HEAD}, preparing for 1 s"),
        ({"phase": "val"}, HEAD.replace("epoch 2 of 3", "val").replace("loss", "accuracy")),
    ],
)
def test_a_line_has_the_rates_and_what_is_waited_for(changes, line):
    assert pass_line(NOW | changes, 3) == line


@pytest.mark.parametrize(
    ("useful", "read", "tail"),
    [
        (5_000_000, 9_000_000, ", 90 % hits, 9 MB read, 5 MB used"),
        (53_900, 0, ", 90 % hits, 0 B read, 53.9 kB used"),
        (0, 0, ""),
    ],
)
def test_the_line_of_an_epoch_says_what_was_read_for_what(useful, read, tail):
    row = {"epoch": 1, "loss": 0.5, "seeds_per_second": 7.0, "hit_rate": 0.9}
    line = epoch_line({**row, "useful_bytes": useful, "read_bytes": read}, 2)
    assert line == f"epoch 1 of 2: loss 0.5000, 7 seeds/s{tail}"


def test_passes_are_watched_while_they_go_on(path):
    passes, seen = [], []

    def progress(phase, step, steps, value):
        seen.append(passes[-1].plain())

    with ng.open(path, memory="64MB") as store:
        fit(store, CONFIG, progress=progress, watch=passes.append)
    assert [now.phase for now in passes] == ["epoch 1", "val", "epoch 2", "val", "test"]
    assert all(now.step == now.steps for now in passes)
    assert [now.seeds for now in passes] == [1800, 600, 1800, 600, 600]
    first = seen[0]
    assert (first["phase"], first["step"], first["waiting_seconds"]) == ("epoch 1", 1, 0.0)
    assert 0 < first["waiting_share"] <= 1
    assert first["seeds_per_second"] > 0


def test_a_loader_says_how_long_a_batch_has_been_waited_for(path):
    waits = []

    def transform(batch):
        time.sleep(0.02)
        waits.append(loader.waiting())
        return batch

    with ng.open(path, memory="64MB") as store:
        loader = ng.NeighborLoader(store, [5, 3], "train", batch_size=128, transform=transform)
        assert (loader.waiting(), loader.busy()) == (0.0, [])
        list(loader)
    assert len(waits) == 15
    assert all(waited >= 0.02 for waited in waits)
    assert loader.waiting() == 0.0


def test_the_line_is_drawn_on_a_terminal_with_decisions_above_it(monkeypatch, path):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    log = logging.getLogger("neargraph.loader")
    level, handlers = log.level, list(log.handlers)
    with ng.open(path, memory="64MB") as store, training_line(2) as line:
        log.info("reading='scan', window=61")
        fit(store, CONFIG, watch=line)
    assert "reading='scan', window=61" in terminal.getvalue()
    assert "batch 5 of 5" in terminal.getvalue()
    assert (log.level, log.handlers) == (level, handlers)


def test_nothing_is_drawn_where_stderr_is_no_terminal_or_silence_is_asked_for(monkeypatch):
    for stream, silent in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        with training_line(2, silent):
            logging.getLogger("neargraph.loader").info("a line")
        assert stream.getvalue() == ""
