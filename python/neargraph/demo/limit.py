"""A hard limit on the memory of a child process, page cache included, by a cgroup.

As root, the group is created directly, with version 1 or 2 of the memory controller; otherwise
`systemd-run --user` creates it. If neither works, nothing is limited, and `why_not` has the reason.
The invariant: the child reads the limit in force with `memory_limit`, so no limit is only claimed.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
_PROBE_SECONDS = 5.0


class MemoryLimit:
    """A limit in bytes; use it in a ``with`` block, and start the child with `command`."""

    def __init__(self, limit_bytes: int, root: Path = ROOT) -> None:
        self._limit = limit_bytes
        self._is_v2 = (root / "cgroup.controllers").exists()
        self._group = (root if self._is_v2 else root / "memory") / f"neargraph-demo-{os.getpid()}"
        self._way: str | None = None
        self.why_not: str | None = None

    def __enter__(self) -> "MemoryLimit":
        try:
            self._group.mkdir()
            bound, swap = (
                (("memory.max", str(self._limit)), ("memory.swap.max", "0"))
                if self._is_v2
                else (("memory.limit_in_bytes", str(self._limit)), ("memory.swappiness", "0"))
            )
            for name, value in (bound, swap):
                # A kernel without swap does not have this file.
                if name == bound[0] or (self._group / name).exists():
                    (self._group / name).write_text(value)
            self._way = "cgroup"
        except OSError as error:
            self._remove()
            if self._systemd_works():
                self._way = "systemd"
            else:
                self.why_not = f"a memory cgroup cannot be created here ({error.strerror})"
        return self

    def __exit__(self, *_: object) -> None:
        if self._way == "cgroup":
            self._remove()

    def command(self, command: list[str]) -> list[str]:
        """Returns a command that runs `command` inside the group, in the same process."""
        if self._way == "cgroup":
            entry = self._group / "cgroup.procs"
            return ["/bin/sh", "-c", f'echo $$ > "{entry}" && exec "$@"', "sh", *command]
        return [*self._scope(), *command] if self._way == "systemd" else command

    def _scope(self) -> list[str]:
        limits = ["-p", f"MemoryMax={self._limit}", "-p", "MemorySwapMax=0"]
        return ["systemd-run", "--user", "--scope", "--quiet", "--collect", *limits, "--"]

    def _systemd_works(self) -> bool:
        if shutil.which("systemd-run") is None:
            return False
        try:
            probe = [*self._scope(), "true"]
            done = subprocess.run(probe, capture_output=True, timeout=_PROBE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _remove(self) -> None:
        """Removes the group. The kernel can take a moment after the last process ended."""
        for _ in range(50):
            try:
                self._group.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)


def memory_limit(groups: Path = Path("/proc/self/cgroup"), root: Path = ROOT) -> int | None:
    """The limit of this process's own memory cgroup in bytes; None if it has none."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            file = root / path.lstrip("/") / "memory.max"
        elif "memory" in controllers.split(","):
            file = root / "memory" / path.lstrip("/") / "memory.limit_in_bytes"
        else:
            continue
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < _UNLIMITED:
            return int(text)
    return None
