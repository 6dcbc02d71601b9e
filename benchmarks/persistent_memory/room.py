"""Where the files of a run may lie, and that none of them outlives it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX = "neargraph-persistent-memory-"
# A store takes up to 1.4 times the bytes of the matrix beside it; then a copy of either in memory.
PLACE_SHARE = 2.6
MEMORY_SHARE = 5.5
MEMORY_ALONE = 800_000_000


def file_system(path: Path) -> str:
    """The kind of file system that holds a path."""
    whole, found = path.resolve(), (-1, "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), left.split()[4]))
        # A later mount at the same point hides an earlier one.
        if whole.is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), right.split()[0])
    return found[1]


def check_places(tmpfs: Path, disk: Path, matrix_bytes: int) -> None:
    """Raises `SystemExit`, which says what to do, if a place is wrong or has too little room."""
    if not tmpfs.is_dir() or file_system(tmpfs) != "tmpfs":
        raise SystemExit(
            f"{tmpfs} is not a folder on tmpfs, which stands in for persistent memory; mount one "
            "(mount -t tmpfs -o size=2G tmpfs /mnt/pm) and give --tmpfs /mnt/pm"
        )
    if file_system(disk) in ("tmpfs", "ramfs"):
        raise SystemExit(f"{disk} is not on a disk; give a folder that is, with --disk")
    need = int(PLACE_SHARE * matrix_bytes)
    for place, option in ((tmpfs, "--tmpfs"), (disk, "--disk")):
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        if free < need:
            raise SystemExit(
                f"{place} has {free / 1e6:,.0f} MB free and {need / 1e6:,.0f} MB are needed; make "
                f"--matrix smaller, or give another folder with {option}"
            )
    memory = int(MEMORY_SHARE * matrix_bytes) + MEMORY_ALONE
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    if found is not None and int(found[1]) * 1024 < memory:
        raise SystemExit(
            f"{int(found[1]) * 1024 / 1e6:,.0f} MB of memory are available and "
            f"{memory / 1e6:,.0f} MB are needed, tmpfs included; make --matrix smaller"
        )


@contextmanager
def scratch(home: Path) -> Iterator[Path]:
    """A folder under `home` that goes with the block, interrupted or not.

    A lock on the folder says that its process lives. What a killed one has left goes first.
    """
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{PREFIX}*"):
        remove_unlocked(left)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in endings}
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        for number, handler in before.items():
            signal.signal(number, handler)


def remove_unlocked(folder: Path) -> None:
    """Removes a folder of `scratch` whose process is gone."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(lock)


class Ended(KeyboardInterrupt):
    """A signal ends the run. Python's compiler drops other exceptions where it folds constants."""


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """SIGTERM and SIGHUP leave the block as Ctrl-C does, so that files are removed."""

    def end(number: int, _frame: Any) -> None:
        raise Ended(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except Ended as ended:
        raise SystemExit(128 + ended.args[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
