"""The machine under a benchmark: its disk's rates, its caches, its counters, what to call it.

Nothing here knows a graph or a system.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .places import BENCH, ROOT

BLOCK_READ = 8 << 20


def drop_caches() -> bool:
    """Whether the page cache could be emptied."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def evict(files: list[Path]) -> None:
    """Empties the page cache of files, and of no others."""
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            # Only clean pages can be dropped.
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def device_folder(path: Path) -> Path:
    """The folder under /sys of the block device that holds a file."""
    number = os.stat(path).st_dev
    return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()


def device_reads(path: Path) -> tuple[int, int]:
    """(reads, bytes read) of the device that holds a file, of all processes, since boot."""
    file = device_folder(path) / "stat"
    if not file.exists():
        return 0, 0
    fields = file.read_text().split()
    return int(fields[0]), int(fields[2]) * 512


def _read_ahead_file(path: Path) -> Path | None:
    """Where the read-ahead of the device under a file is set."""
    folder = device_folder(path)
    files = (place / "queue" / "read_ahead_kb" for place in (folder, folder.parent))
    return next((file for file in files if file.exists()), None)


def read_ahead_kb(path: Path) -> int | None:
    """How far the kernel reads ahead of a mapped page; it decides the fate of np.memmap."""
    file = _read_ahead_file(path)
    return int(file.read_text()) if file is not None else None


@contextmanager
def read_ahead(path: Path, kb: int | None) -> Iterator[None]:
    """Sets the read-ahead of the device under a file, and sets it back; None leaves it."""
    file = _read_ahead_file(path)
    if kb is None or file is None:
        yield
        return
    before = file.read_text()
    file.write_text(str(kb))
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def slowed_disk(path: Path, rates: tuple[int, int] | None) -> Iterator[None]:
    """Holds the disk under a file at (requests, bytes) a second for this process and its children.

    Reads and writes each get these rates; None leaves the disk as it is. The kernel does it (blkio,
    cgroup version 1), so whoever reads past the page cache sees a slower disk and nothing else.
    """
    if rates is None:
        yield
        return
    root = Path("/sys/fs/cgroup/blkio")
    if not (root / "cgroup.procs").exists():
        raise SystemExit("the disk can't be slowed here: no blkio controller of cgroup version 1")
    group = root / f"neargraph-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise SystemExit(f"the disk can't be slowed here: {error}") from None
    try:
        folder = device_folder(path)
        disk = folder.parent if (folder / "partition").exists() else folder
        number = (disk / "dev").read_text().strip()
        for way in ("read", "write"):
            for kind, rate in zip(("iops", "bps"), rates, strict=True):
                (group / f"blkio.throttle.{way}_{kind}_device").write_text(f"{number} {rate}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def read_once(files: list[Path]) -> int:
    """Reads files whole, once for each boot: some devices are slow on blocks not read before.

    The page cache is emptied first, or a file that was just written would not be read at all.
    Returns the bytes that were read.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = BENCH / "read_once.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    done = set(known.get(boot, []))
    total = 0
    for file in files:
        stat = file.stat()
        key = f"{file}:{stat.st_ino}:{stat.st_mtime_ns}:{stat.st_size}"
        if key in done:
            continue
        if total == 0:
            drop_caches()
        with file.open("rb", buffering=0) as stream:
            while part := stream.read(BLOCK_READ):
                total += len(part)
        done.add(key)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({boot: sorted(done)}) + "\n")
    return total


_FIO_RANDOM = ["--rw=randread", "--bs=4k", "--iodepth=64"]
_FIO_SEQUENTIAL = ["--rw=read", "--bs=256k", "--iodepth=16"]


def fio_random(path: Path, seconds: float) -> float:
    """Random 4 KiB reads a second at depth 64, of one file."""
    return float(_fio(path, seconds, _FIO_RANDOM)["iops"])


def fio(path: Path, seconds: float) -> dict[str, float]:
    """The same, and sequential bytes a second."""
    return {
        "random_reads_per_s": fio_random(path, seconds),
        "sequential_bytes_per_s": float(_fio(path, seconds, _FIO_SEQUENTIAL)["bw_bytes"]),
    }


def _fio(path: Path, seconds: float, settings: list[str]) -> dict[str, Any]:
    """What fio says about reads of one file."""
    if shutil.which("fio") is None:
        raise SystemExit("fio is missing; install it with: apt-get install fio")
    common = ["--ioengine=io_uring", "--direct=1", "--numjobs=1", "--time_based", "--randrepeat=0"]
    common += [f"--filename={path}", f"--runtime={seconds}", "--readonly", "--output-format=json"]
    command = ["fio", "--name=read", *common, *settings]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output[output.index("{") :])["jobs"][0]["read"]
    return found


def commit() -> str:
    """The commit that is checked out, with a mark if the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def about(path: Path) -> dict[str, Any]:
    """What has to stand beside every figure."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "utc": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "commit": commit(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "read_ahead_kb": read_ahead_kb(path),
        "load_average": os.getloadavg(),
    }
