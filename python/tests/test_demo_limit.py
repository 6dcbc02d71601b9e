"""The memory limit of the demo's child: which way it takes, and what the child reads of it."""

import os
import subprocess
import sys

import pytest

from neargraph.demo.limit import MemoryLimit, memory_limit
from neargraph.demo.rss import anonymous_bytes, mapped_bytes

FAKE = """\
#!/bin/sh
test -n "$FAKE_FAILS" && exit 1
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def fake_systemd(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "systemd-run"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_a_group_of_version_2_gets_the_limit_no_swap_and_the_command(tmp_path):
    (tmp_path / "cgroup.controllers").touch()
    with MemoryLimit(700, tmp_path) as limit:
        (group,) = (path for path in tmp_path.iterdir() if path.is_dir())
        assert (group / "memory.max").read_text() == "700"
        assert limit.why_not is None
        command = limit.command(["echo", "a b"])
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "a b\n"
        assert (group / "cgroup.procs").read_text().strip().isdigit()
        for file in group.iterdir():
            file.unlink()
    assert not group.exists()


def test_a_group_of_version_1_has_its_own_names(tmp_path):
    (tmp_path / "memory").mkdir()
    with MemoryLimit(700, tmp_path):
        (group,) = (tmp_path / "memory").iterdir()
        assert (group / "memory.limit_in_bytes").read_text() == "700"
        (group / "memory.limit_in_bytes").unlink()


def test_without_a_group_systemd_runs_the_command(tmp_path, fake_systemd):
    with MemoryLimit(700, tmp_path / "none") as limit:
        command = limit.command([sys.executable, "-c", "print(1)"])
        assert command[0] == "systemd-run"
        assert "MemoryMax=700" in command
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"1\n"
        assert limit.why_not is None


def test_where_nothing_can_limit_the_command_runs_as_it_is(tmp_path, fake_systemd, monkeypatch):
    monkeypatch.setenv("FAKE_FAILS", "1")
    with MemoryLimit(700, tmp_path / "none") as limit:
        assert limit.command(["true"]) == ["true"]
        assert "a memory cgroup cannot be created here" in limit.why_not
    monkeypatch.setenv("PATH", str(tmp_path))
    with MemoryLimit(700, tmp_path / "none") as limit:
        assert limit.command(["true"]) == ["true"]


@pytest.mark.parametrize(
    ("line", "file", "text", "found"),
    [
        ("0::/a/b", "a/b/memory.max", "1000\n", 1000),
        ("0::/a/b", "a/b/memory.max", "max\n", None),
        ("4:memory:/a", "memory/a/memory.limit_in_bytes", "2000\n", 2000),
        ("4:memory:/a", "memory/a/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("3:cpu:/a", "memory/a/memory.limit_in_bytes", "2000\n", None),
        ("0::/gone", "a/memory.max", "1000\n", None),
    ],
)
def test_a_process_reads_its_limit_from_the_group_that_it_is_in(tmp_path, line, file, text, found):
    groups = tmp_path / "groups"
    groups.write_text(f"12:pids:/x\n{line}\n")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert memory_limit(groups, tmp_path) == found
    assert memory_limit(tmp_path / "none", tmp_path) is None


def test_resident_pages_of_a_mapped_file_are_those_that_were_touched(tmp_path):
    np = pytest.importorskip("numpy")
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((1024, 1024), np.float32))
    rows = np.load(path, mmap_mode="r")
    rows._mmap.madvise(1)  # MADV_RANDOM
    assert mapped_bytes(str(path)) <= 128 << 10
    assert rows[512:].sum() == 512 * 1024
    assert 2 << 20 <= mapped_bytes(str(path)) <= (2 << 20) + (128 << 10)
    assert mapped_bytes(str(tmp_path / "other.npy")) == 0


def test_anonymous_memory_of_a_process_that_has_ended_is_nothing():
    assert anonymous_bytes() > 1 << 20
    child = subprocess.Popen(["true"])
    child.wait()
    assert anonymous_bytes(str(child.pid)) == 0
