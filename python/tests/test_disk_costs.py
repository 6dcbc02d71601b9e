"""What reads cost is measured once a day for a disk; logs of reads have what was counted."""

import json
import os
import time

import numpy as np
import pytest
from graphs import Edges, Graph, Nodes
from test_cli_commands import run

import neargraph as ng

ROWS = 70_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store whose rows have the 64 MiB that a measurement needs."""
    found = tmp_path_factory.mktemp("costs") / "g.ng"
    rng = np.random.default_rng(1)
    sources, destinations = rng.integers(0, ROWS, (2, 4 * ROWS))
    rows = {"x": np.ones((ROWS, 256), np.float32)}
    edges = {("node", "to", "node"): Edges(sources, destinations, edge_ids=False)}
    return Graph({"node": Nodes(ROWS, rows)}, edges).write(found)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "neargraph"


def plan(path):
    """(reads, bytes) that choosing a plan took, what it chose."""
    with ng.open(path, memory="32MB") as store:
        if store.info()["backend"] not in ("uring", "odirect"):
            pytest.skip("only what goes past the page cache is kept")
        loader = ng.NeighborLoader(store, [5], batch_size=64, reading="window", seed=1)
        next(iter(loader))
        loader.close()
        return store.stats()["reads"]


def test_the_disk_is_measured_once_and_again_after_a_day_or_damage(path, cache):
    def measured():
        return plan(path) > 4096

    assert measured()
    (file,) = cache.iterdir()
    text = file.read_text()
    assert not measured()
    assert file.read_text() == text
    for broken in (b"", text.encode()[:-5], b"\xff" * 40):
        file.write_bytes(broken)
        assert measured()
        assert file.read_text().startswith("neargraph disk costs 1\n")
    old = time.time() - 25 * 3600
    os.utime(file, (old, old))
    assert measured()


def test_doctor_measures_the_disk_of_a_store_and_keeps_it(path, cache, tmp_path, capsys):
    found = json.loads(run("doctor", path, "--disk", "--json", capsys=capsys)[1])["measured"]
    assert found["reads_per_s"] > 0
    if cache.exists():
        (file,) = cache.iterdir()
        assert f"reads_per_s {found['reads_per_s']:.1f}" in file.read_text()
    assert "per second" in run("doctor", path, "--disk", capsys=capsys)[1]


def test_doctor_measures_the_disk_below_a_folder_and_leaves_nothing_there(cache, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    found = json.loads(run("doctor", folder, "--disk", "--json", capsys=capsys)[1])["measured"]
    assert found["reads_per_s"] > 0
    assert found["bytes_per_s"] > 0
    assert not found["kept"]
    assert list(folder.iterdir()) == []
    assert not cache.exists()


def test_rates_that_are_told_are_kept_and_not_measured(path, cache):
    with ng.open(path, memory="32MB") as store:
        store.set_disk_rates(16_000, 1e9)
    assert plan(path) < 4096
    (file,) = cache.iterdir()
    assert file.read_text().endswith("reads_per_s 16000.0\nbytes_per_s 1000000000.0\n")
    with ng.open(path, memory="32MB") as store:
        for reads, bytes_ in ((0, 1e9), (-5, 1e9), (float("nan"), 1e9), (1e4, float("inf"))):
            with pytest.raises(ValueError, match="not valid disk rates"):
                store.set_disk_rates(reads, bytes_)
    assert "reads_per_s 16000.0" in file.read_text()


def test_rates_that_are_told_after_a_plan_hold_for_the_next_plan_of_the_same_store(path, cache):
    with ng.open(path, memory="32MB") as store:

        def seconds():
            loader = ng.NeighborLoader(store, [5], batch_size=64, reading="window", seed=1)
            batches = iter(loader)
            next(batches)
            expected = loader.chosen()["device_s_per_batch"]
            loader.close()
            return expected

        store.set_disk_rates(100_000, 1e9)
        fast = seconds()
        store.set_disk_rates(1_000, 1e7)
        assert seconds() > 10 * fast
        store.measure_disk()
        reads = store.stats()["reads"]
        assert seconds() > 0
        assert store.stats()["reads"] - reads < 4096, "it was not measured once more"


def test_a_cache_folder_that_cannot_be_made_is_no_error(path, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert plan(path) > 0


def test_a_log_has_the_reads_and_bytes_that_were_counted(path, tmp_path):
    with ng.open(path, memory="32MB") as store:
        ids = np.random.default_rng(2).integers(0, ROWS, 5000)
        store.reset_stats()
        with store.log_reads(tmp_path / "reads"):
            store.snapshot().features(None, ids)
        stats = store.stats()
        store.snapshot().features(None, ids[::-1] // 2)
    bytes_ = np.fromfile(tmp_path / "reads", "<u4", offset=16).reshape(-1, 4)[:, 2]
    assert (len(bytes_), bytes_.sum()) == (stats["reads"], stats["read_bytes"])
    assert 0 < stats["device_busy_seconds"] < 60
