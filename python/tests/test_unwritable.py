"""On a disk that is full or read-only everything that was acknowledged can be read, and what cannot
be written is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import Graph

import neargraph as ng
from neargraph.cli.app import main
from neargraph.exceptions import IoFailed

CHILD = "NEARGRAPH_TEST_SMALL_DISK"
COMMITS = 12
# In a commit: more than the pages that are there have room for.
NODES = 200


def crash(path: Path) -> None:
    """Commits to a store in another process, which then dies."""
    code = (
        "import os, sys, neargraph as ng\n"
        "store = ng.open(sys.argv[1], memory='64MB')\n"
        f"for n in range({COMMITS}):\n"
        "    with store.write() as tx:\n"
        f"        for _ in range({NODES}): tx.add_node('node')\n"
        "os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9


def fill(disk: Path) -> Path:
    """Takes all room of a disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    return filler


def on_a_small_disk(name: str, tmp_path: Path) -> bool:
    """Runs a test of this file again, on a tmpfs of its own; true in that run."""
    if CHILD in os.environ:
        return True
    script = f'mount -t tmpfs -o size=8m tmpfs "${CHILD}" || exit 77; exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", sys.executable]
    command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{name}"]
    command += ["--basetemp", str(tmp_path / "child")]
    done = subprocess.run(
        command, env={**os.environ, CHILD: str(tmp_path)}, capture_output=True, text=True
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    return False


def small_disk() -> Path:
    return Path(os.environ[CHILD])


def test_commits_of_a_crash_are_read_on_a_full_disk(homo_graph: Graph, tmp_path: Path):
    if not on_a_small_disk("test_commits_of_a_crash_are_read_on_a_full_disk", tmp_path):
        return
    path = small_disk() / "graph.ng"
    homo_graph.write(path)
    nodes = num_nodes(path)
    crash(path)
    filler = fill(small_disk())
    with ng.open(path, memory="64MB") as store:
        assert (store.lsn, store.num_nodes) == (COMMITS, nodes + COMMITS * NODES)
        assert "no space left" in str(store.read_only_because)
        assert store.info()["read_only_because"] == store.read_only_because
        with pytest.raises(IoFailed), store.write() as tx:
            tx.add_node("node")
        assert store.lsn == COMMITS
        filler.unlink()
        with store.write() as tx:
            tx.add_node("node")
        assert (store.lsn, store.read_only_because) == (COMMITS + 1, None)
    with ng.open(path, memory="64MB") as store:
        assert (store.lsn, store.num_nodes) == (COMMITS + 1, nodes + COMMITS * NODES + 1)


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def num_nodes(path: Path) -> int:
    with ng.open(path, memory="64MB") as store:
        return store.num_nodes


def test_a_tensor_that_has_no_room_is_not_there_and_takes_none(homo_graph: Graph, tmp_path: Path):
    if not on_a_small_disk("test_a_tensor_that_has_no_room_is_not_there_and_takes_none", tmp_path):
        return
    path = small_disk() / "graph.ng"
    homo_graph.write(path)
    with ng.open(path, memory="64MB") as store:
        rows = np.ones((store.num_nodes, 8), np.float32)
        too_many = np.ones((store.num_nodes, 8192), np.float32)
        free = os.statvfs(small_disk()).f_bfree
        with pytest.raises(IoFailed, match="no space left"):
            store.add_tensor("h", too_many)
        # The writer goes on, with the room that there was.
        assert os.statvfs(small_disk()).f_bfree >= free - 64
        assert store.add_tensor("h", rows) == 1
    assert (run("verify", path), num_nodes(path)) == (0, len(rows))


def test_commits_of_a_crash_are_read_on_a_read_only_disk(homo_graph: Graph, tmp_path: Path):
    if not on_a_small_disk("test_commits_of_a_crash_are_read_on_a_read_only_disk", tmp_path):
        return
    path = small_disk() / "graph.ng"
    homo_graph.write(path)
    crash(path)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk())], check=True)
    with ng.open(path, memory="64MB") as store:
        assert store.lsn == COMMITS
        assert "read-only" in str(store.read_only_because)
        with pytest.raises(IoFailed, match="read-only"):
            store.checkpoint()


def test_closing_reports_a_checkpoint_that_failed(homo_graph: Graph, tmp_path: Path):
    if not on_a_small_disk("test_closing_reports_a_checkpoint_that_failed", tmp_path):
        return
    path = small_disk() / "graph.ng"
    homo_graph.write(path)

    def write_and_fill() -> tuple[ng.Store, Path]:
        store = ng.open(path, memory="64MB")
        with store.write() as tx:
            for _ in range(NODES):
                tx.add_node("node")
        return store, fill(small_disk())

    store, filler = write_and_fill()
    with pytest.raises(IoFailed, match="cannot write"):
        store.close()
    assert store.closed
    filler.unlink()
    with pytest.raises(IoFailed, match="cannot write"), write_and_fill()[0]:
        pass
    (small_disk() / "filler").unlink()
    with (
        pytest.warns(UserWarning, match="closing .* also failed: cannot write"),
        pytest.raises(KeyError),
        write_and_fill()[0],
    ):
        raise KeyError
    (small_disk() / "filler").unlink()
    # Nobody can be told by an exception when a store is collected.
    told = []
    hook, sys.unraisablehook = sys.unraisablehook, told.append
    try:
        store = write_and_fill()[0]
        del store
    finally:
        sys.unraisablehook = hook
    assert [type(error.exc_value) for error in told] == [IoFailed]
    (small_disk() / "filler").unlink()
    with ng.open(path, memory="64MB") as store:
        assert store.lsn == 4


def test_verify_notes_one_damaged_root_slot_and_a_batch_mends_it(
    homo_path: str, tmp_path: Path, capsys
):
    path = tmp_path / "graph.ng"
    shutil.copytree(homo_path, path)
    slot = path / "root.b"
    content = bytearray(slot.read_bytes())
    content[5000] ^= 1
    slot.write_bytes(content)
    assert run("verify", path) == 0
    assert "note: root.b" in capsys.readouterr().out
    assert run("verify", path, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [note["file"] for note in report["notes"]] == ["root.b"]
    with ng.open(path, memory="64MB") as store, store.write() as tx:
        tx.add_node("node")
    assert run("verify", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []


class Stop(Exception):
    pass


READ = {"open": ng.open, "verify": ng._core.verify}


@pytest.mark.parametrize("call", READ)
def test_a_signal_ends_the_reading_of_a_long_log(call: str, homo_graph: Graph, tmp_path: Path):
    path = tmp_path / "graph.ng"
    homo_graph.write(path)
    crash(path)
    for name in ("wal.a", "wal.b"):
        os.truncate(path / name, 1 << 40)

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    try:
        with pytest.raises(Stop):
            READ[call](str(path), 64 << 20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with ng.open(path, memory="64MB") as store:
        assert store.lsn == COMMITS
