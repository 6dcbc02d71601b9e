"""How rows are read is told in one line of the log, before anything is written to disk."""

import logging

import numpy as np
import pytest

import neargraph as ng
from neargraph.datasets import plan_generated
from neargraph.importers import ImportOptions, run_import
from neargraph.loader.notes import decision_line

SCAN = {"reading": "scan", "window": 61, "phases": 1, "device_s_per_batch": 0.0521}
PHASES = {"reading": "scan", "window": 130, "phases": 2, "device_s_per_batch": 0.0312}
DEALT = {
    "reading": "distribute",
    "window": 250,
    "phases": 2,
    "device_s_per_batch": 0.0048,
    "write_bytes_per_batch": 34e6,
}


class Watched(logging.Handler):
    """What had been written when each line was logged."""

    def __init__(self, store):
        super().__init__(logging.INFO)
        self.store, self.lines = store, []

    def emit(self, record):
        written = self.store.stats()["temporary_write_bytes"]
        self.lines.append((record.getMessage(), written))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("decisions") / "g.ng"
    options = ImportOptions(undirected=True, unique=True, split_sizes=(60, 20, 20), dense=True)
    run_import(plan_generated(40_000, 200_000, 500, 6), path, options)
    return path


@pytest.mark.parametrize(
    ("decided", "line"),
    [
        (
            {"chosen": SCAN, "others": [DEALT], "consumer_s": 0.2},
            "reading='scan', window=61: expected 52 ms of disk time per batch; "
            "reading='distribute' would take 4.8 ms and write 34 MB; the training loop takes "
            "200 ms per batch",
        ),
        (
            {
                "chosen": PHASES,
                "before": SCAN,
                "others": [SCAN],
                "reading_s": 0.104,
                "sampling_s": 0.02,
                "consumer_s": None,
                "epoch_write_bytes": 3_100_000_000,
                "write_directory": "/scratch",
                "is_asked": False,
            },
            "reading='scan' in two phases, window=130, instead of reading='scan', window=61: "
            "expected 31 ms of disk time per batch; measured before: 104 ms of reading and 20 ms "
            "of sampling per batch; reading='scan' would take 52 ms; the time of the training loop "
            "is not known yet; an epoch writes at most 3.1 GB of temporary files in /scratch "
            '(none with temporary_writes="never")',
        ),
        (
            {
                "chosen": DEALT,
                "epoch_write_bytes": 10_000_000,
                "write_directory": "/scratch",
                "is_asked": True,
            },
            "reading='distribute', 250 batches at a time: expected 4.8 ms of disk time per batch; "
            "the time of the training loop is not known yet; an epoch writes at most 10 MB of "
            "temporary files in /scratch",
        ),
    ],
    ids=["first", "change", "asked"],
)
def test_a_line_says_what_why_and_what_is_written(decided, line):
    assert decision_line(decided) == line


@pytest.mark.parametrize(
    ("options", "start", "writes"),
    [
        ({"reading": ng.Reading("scan", two_phase=False)}, "reading='scan', window=", False),
        (
            {"reading": ng.Reading("scan", two_phase=True)},
            "reading='scan' in two phases, window=",
            True,
        ),
        ({"reading": "distribute"}, "reading='distribute', ", True),
    ],
    ids=["scan", "two-phases", "distribution"],
)
def test_each_decision_is_one_line_before_anything_is_written(
    path, monkeypatch, options, start, writes
):
    log = logging.getLogger("neargraph.loader")
    with ng.open(path, memory="80MB") as store:
        watched = Watched(store)
        monkeypatch.setattr(log, "handlers", [watched])
        log.setLevel(logging.INFO)
        sampler = ng.NumpySampler(store, [5, 4], seed=3)
        found = [batch.nodes().copy() for batch in sampler.batches("train", 128, **options)]
        log.setLevel(logging.NOTSET)
        total = store.stats()["temporary_write_bytes"]
        plain = ng.NumpySampler(store, [5, 4], seed=3).batches("train", 128, reading="on_demand")
        assert all(np.array_equal(a, b.nodes()) for a, b in zip(found, plain, strict=True))
    ((line, written),) = watched.lines
    assert line.startswith(start)
    assert written == 0
    assert ("of temporary files in" in line) == writes == (total > 0)
