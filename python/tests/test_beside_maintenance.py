"""What a process sees of others that rewrite the store, write to it, or open it."""

import contextlib
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

import neargraph as ng
from neargraph import _core
from neargraph.cli import main

BACKENDS = ("memory", "mmap", "pread", "odirect", "uring")
FS_IOC_SETFLAGS, IMMUTABLE = 0x40086602, 0x10

MAINTAIN = """
import sys
import neargraph as ng
print("begins", flush=True)
for _ in range(20):
    with ng.open(sys.argv[1], memory="64MB") as store:
        store.compact()
        store.reorganize("heat", num_neighbors=[3], batch_size=100, batches=1)
"""

WAIT = """
import signal, sys, threading, time
import neargraph as ng
signal.signal(signal.SIGINT, signal.default_int_handler)  # Background jobs of a shell ignore it.
store = ng.open(sys.argv[1], memory="64MB", busy_timeout=float("inf"))
def tick():
    for _ in range(20):
        time.sleep(0.01)
    print("waits", store.num_nodes, flush=True)
threading.Thread(target=tick).start()
try:
    with store.write():
        print("writes", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def path(homo_graph, tmp_path):
    return homo_graph.write(tmp_path / "g.ng")


def child(code: str, path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def works(path, backend: str) -> bool:
    try:
        ng.open(path, memory="32MB", backend=backend).close()
    except ng.IoFailed:
        return False
    return True


def test_opening_and_checking_a_store_never_fails_while_another_process_rewrites_it(path):
    backends = [backend for backend in BACKENDS if works(path, backend)]
    ids = np.arange(64)
    with ng.open(path, memory="32MB") as store:
        rows = store.snapshot().features(None, ids)
        num_edges = store.num_edges
    maintains = child(MAINTAIN, path)
    held = [ng.open(path, memory="32MB", backend=backend) for backend in backends]
    assert maintains.stdout is not None
    assert maintains.stdout.readline() == "begins\n"
    rounds = 0
    while maintains.poll() is None:
        with ng.open(path, memory="32MB", backend=backends[rounds % len(backends)]) as store:
            assert store.info()["num_edges"] == num_edges
            assert (store.snapshot().features(None, ids) == rows).all()
            assert store.scrub()["ok"]
        if rounds % 5 == 0:
            report = json.loads(_core.verify(str(path), 32_000_000))
            assert report["ok"], report
        for store in held:
            assert (store.snapshot().features(None, ids) == rows).all()
        rounds += 1
    assert (maintains.returncode, rounds > 0) == (0, True)
    for store in held:
        assert store.scrub()["ok"], "its files are gone and still read"
        store.close()


def test_a_writer_waits_for_another_process_while_threads_run_and_ctrl_c_ends_it(path):
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        for ends in ("ctrl-c", "the first closes"):
            waits = child(WAIT, path)
            assert waits.stdout is not None
            assert waits.stdout.readline().startswith("waits"), "another thread runs and reads"
            if ends == "ctrl-c":
                waits.send_signal(signal.SIGINT)
            else:
                store.close()
            output, _ = waits.communicate(timeout=60)
            assert output == ("interrupted\n" if ends == "ctrl-c" else "writes\n")


def test_a_second_handle_of_the_same_process_waits_as_well(path):
    first, second = ng.open(path, memory="64MB"), ng.open(path, memory="64MB", busy_timeout=600)
    with first.write() as tx:
        tx.add_edge(None, 1, 2)
    threading.Timer(0.2, first.close).start()
    with second.write() as tx:
        tx.add_edge(None, 2, 3)
    assert second.lsn == 2
    second.close()


def test_a_writer_that_may_not_wait_is_told_at_once_and_by_the_command_line_too(path, capsys):
    with ng.open(path, memory="64MB") as store:
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        for command in ("checkpoint", "compact"):
            with pytest.raises(SystemExit) as left:
                main([command, str(path), "--busy-timeout", "0"])
            assert left.value.code == 2
            assert "another process or handle is writing" in capsys.readouterr().err
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="busy_timeout"):
            ng.open(path, busy_timeout=wrong)


def test_a_store_behind_a_link_is_rewritten_where_it_is(path, tmp_path):
    link = tmp_path / "link.ng"
    link.symlink_to(path)
    with ng.open(link, memory="64MB") as store:
        before = store.checkpoint_id
        store.compact()
        store.reorganize("heat", num_neighbors=[3], batch_size=100, batches=1)
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
    assert link.is_symlink()
    with ng.open(path, memory="64MB") as store:
        assert (store.checkpoint_id, store.lsn) == (before + 3, 1)


@contextlib.contextmanager
def unremovable(file):
    """A file that nobody can remove; the test is left out where there is no such thing."""
    handle = os.open(file, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, FS_IOC_SETFLAGS, struct.pack("l", IMMUTABLE))
    except OSError as error:
        os.close(handle)
        pytest.skip(f"files cannot be made immutable here: {error}")
    try:
        yield
    finally:
        fcntl.ioctl(handle, FS_IOC_SETFLAGS, struct.pack("l", 0))
        os.close(handle)


def test_old_files_that_cannot_be_removed_are_no_failure_but_a_warning(path, tmp_path):
    stuck = tmp_path / "g.ng" / "stuck"
    stuck.write_bytes(b"")
    with ng.open(path, memory="64MB") as store:
        with (
            unremovable(stuck),
            pytest.warns(RuntimeWarning, match="old files could not be removed"),
        ):
            report = store.compact()
        assert ".g.ng.partial" in report["leftover"]
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        assert store.compact()["leftover"] is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["g.ng"]


def test_a_handle_writes_after_a_rewriting_that_failed(path):
    def stop(*_: object) -> None:
        raise RuntimeError("enough")

    with ng.open(path, memory="64MB") as store:
        with pytest.raises(RuntimeError, match="enough"):
            store.compact(stop)
        with store.write() as tx:
            tx.add_edge(None, 1, 2)
        assert store.lsn == 1


def test_compiled_files_are_not_written_through_a_link_inside_the_store(path, tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "g.ng" / "compiled").symlink_to(elsewhere)
    for options in (["--layout", "direct"], ["--seeds", "all"]):
        with pytest.raises(SystemExit) as left:
            main(["compile", str(path), "--json", *options])
        assert left.value.code == 2
        assert "is a symbolic link" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())
