"""The benchmark of persistent memory by a stand-in: places, counts, and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("torch")

from benchmarks.persistent_memory.gathering import units  # noqa: E402
from benchmarks.persistent_memory.room import (  # noqa: E402
    PREFIX,
    check_places,
    file_system,
    scratch,
)
from benchmarks.persistent_memory.whole import loads_of, whole_ctypes  # noqa: E402

SHM = Path("/dev/shm")


@pytest.fixture
def tmpfs(tmp_path):
    if not SHM.is_dir() or file_system(SHM) != "tmpfs":
        pytest.skip("/dev/shm is not on tmpfs")
    if file_system(tmp_path) == "tmpfs":
        pytest.skip("temporary files are on tmpfs, too")
    folder = SHM / f"neargraph-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-r", str(folder)], check=True)


def start(tmpfs, disk, *more):
    """The benchmark on a small matrix."""
    command = [sys.executable, "-m", "benchmarks.persistent_memory", "--columns", "100"]
    command += ["--matrix", "8MB", "--cold-rows", "64", "--tmpfs", str(tmpfs), "--disk", str(disk)]
    command += ["--out", str(disk / "report.json"), *more]
    # Shells let programs in the background ignore SIGINT, and their children with them.
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=_take_interrupts
    )


def _take_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_units_are_counted_where_rows_lie():
    assert units(np.array([0]), 256) == 1
    assert units(np.array([0, 1]), 400) == 2 + 3
    assert units(np.arange(16), 16) == 16
    assert units(np.array([7]), 4096) == 16


def test_a_folder_goes_with_an_interrupt(tmp_path):
    def interrupted():
        with scratch(tmp_path) as folder:
            (folder / "rows").write_bytes(b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_goes_and_what_a_living_one_has_stays(tmp_path):
    (tmp_path / f"{PREFIX}left").mkdir()
    with scratch(tmp_path) as one:
        assert list(tmp_path.iterdir()) == [one]
        with scratch(tmp_path) as two:
            assert sorted(tmp_path.iterdir()) == sorted([one, two])


def test_wrong_places_are_refused_with_the_remedy(tmpfs, tmp_path):
    with pytest.raises(SystemExit, match="give --tmpfs"):
        check_places(tmp_path, tmp_path, 1 << 20)
    with pytest.raises(SystemExit, match="give --tmpfs"):
        check_places(tmpfs / "missing", tmp_path, 1 << 20)
    with pytest.raises(SystemExit, match="with --disk"):
        check_places(tmpfs, tmpfs, 1 << 20)
    with pytest.raises(SystemExit, match="--matrix smaller"):
        check_places(tmpfs, tmp_path, 1 << 50)


def test_every_way_to_a_whole_file_gives_its_bytes(tmpfs, tmp_path):
    size = 3 * 4096 + 8
    text = bytes(np.random.default_rng(1).integers(32, 127, size, dtype=np.uint8))
    paths = [folder / "text" for folder in (tmpfs, tmp_path)]
    for path in paths:
        path.write_bytes(text)
    for load in loads_of(*paths, True, None):
        try:
            made = load.make(load.path, size)
        except OSError:
            # Not every file system has direct I/O.
            assert "O_DIRECT" in load.name
            continue
        found = made.encode() if load.make is whole_ctypes else made.numpy().tobytes()
        assert found == text, load


def test_a_small_run_prints_its_tables_and_leaves_nothing(tmpfs, tmp_path):
    run = start(tmpfs, tmp_path, "--runs", "1", "--targets", "64")
    printed, _ = run.communicate(timeout=300)
    assert run.returncode == 0
    assert "stands in for persistent memory" in printed
    for title in ("Rows of 100 f32", "The mean of", "The whole matrix", "as in Table 4.1"):
        assert title in printed
    assert list(tmpfs.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmpfs, tmp_path, number):
    run = start(tmpfs, tmp_path, "--runs", "2000")
    until = time.monotonic() + 120
    while not list(tmpfs.glob(f"{PREFIX}*/100/rows.f32")):
        assert run.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    run.send_signal(number)
    run.communicate(timeout=120)
    assert run.returncode != 0
    assert list(tmpfs.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
