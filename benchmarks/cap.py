"""A hard limit on the memory of a benchmark's process, page cache included: a cgroup of its own.

Version 1 and 2 of the memory controller are supported; where none can be made, `Cap.why_not` says
why and nothing is limited. A group is removed when its run is over, and so is whatever is left of
the run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
EVERY_SECONDS = 0.02
UNLIMITED = 1 << 62


class Cap:
    """A memory cgroup with a limit in bytes, or without one; use it in a ``with`` block.

    A process that has several at a time gives each a name.
    """

    def __init__(self, limit: int | None, name: str = "", every: float = EVERY_SECONDS) -> None:
        self.limit, self.every = limit, every
        self.v2 = (ROOT / "cgroup.controllers").exists()
        base = ROOT if self.v2 else ROOT / "memory"
        self.path = base / f"neargraph-bench-{os.getpid()}{name}"
        self.why_not: str | None = None
        self.peak_anon_bytes = 0
        self._stop = threading.Event()

    def __enter__(self) -> Cap:
        try:
            self.path.mkdir()
            self._write("memory.max" if self.v2 else "memory.limit_in_bytes", self.limit)
            swap = self.path / ("memory.swap.max" if self.v2 else "memory.swappiness")
            swap.write_text("0")
        except OSError as error:
            self.why_not = f"no memory cgroup can be made here ({error})"
            if self.path.exists():
                self.path.rmdir()
            return self
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.why_not is not None:
            return
        self._stop.set()
        self._watcher.join()
        for _ in range(100):
            members = (self.path / "cgroup.procs").read_text().split()
            if not members:
                break
            for member in members:
                os.kill(int(member), signal.SIGKILL)
            time.sleep(0.05)
        self.path.rmdir()

    def _write(self, name: str, value: int | None) -> None:
        none = "max" if self.v2 else str(-1)
        (self.path / name).write_text(none if value is None else str(value))

    def popen(self, command: list[str], **options: object) -> subprocess.Popen[str]:
        """Starts a command inside, so that its first page counts already."""
        if self.why_not is None:
            entry = self.path / "cgroup.procs"
            command = ["/bin/sh", "-c", f'echo $$ > "{entry}" && exec "$@"', "sh", *command]
        return subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload]

    def _watch(self) -> None:
        """Anonymous memory of all processes inside; shared memory is memory of theirs too."""
        names = ("anon", "shmem") if self.v2 else ("total_rss", "total_shmem")
        while not self._stop.wait(self.every):
            lines = (self.path / "memory.stat").read_text().splitlines()
            stat = dict(line.split() for line in lines)
            now = sum(int(stat.get(name, 0)) for name in names)
            self.peak_anon_bytes = max(self.peak_anon_bytes, now)

    def peak_bytes(self) -> int | None:
        """The most that was charged, page cache included; None where it is not known."""
        file = self.path / ("memory.peak" if self.v2 else "memory.max_usage_in_bytes")
        return int(file.read_text()) if file.exists() else None

    def kills(self) -> int:
        """How many processes the limit has killed."""
        file = self.path / ("memory.events" if self.v2 else "memory.oom_control")
        if not file.exists():
            return 0
        stat = dict(line.split() for line in file.read_text().splitlines())
        return int(stat.get("oom_kill", 0))
