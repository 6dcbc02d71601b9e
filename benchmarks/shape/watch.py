"""A child process, watched: its progress as a bar, its memory, and what is on disk meanwhile.

Children write lines of STAGE DONE TOTAL to the standard error and JSON as the last line of the
standard output. Bytes on disk are those of a folder, less what lies there for others, and of files
without a name that the child has open in it, such as the runs of a sort.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from neargraph.units import format_bytes

EVERY_SECONDS = 0.2
BAR = 24
# Figures of memory over time that are kept of a step.
KEPT = 60


def folder_bytes(folder: Path) -> int:
    """Bytes that all files of a folder take on the disk."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
    return total


def unnamed_bytes(process: int, folder: Path) -> int:
    """The same of files in a folder that have no name any more and that a process has open."""
    place, total, seen = Path(f"/proc/{process}/fd"), 0, set()
    with suppress(OSError):
        for number in os.listdir(place):
            with suppress(OSError):
                target = os.readlink(place / number)
                if target.startswith(str(folder)) and target.endswith(" (deleted)"):
                    stat = os.stat(place / number)
                    total += 0 if stat.st_ino in seen else stat.st_blocks * 512
                    seen.add(stat.st_ino)
    return total


def anonymous_bytes(process: int) -> int:
    """Anonymous resident memory: what is not the page cache."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def thinned(values: list[int], kept: int = KEPT) -> list[int]:
    """At most so many of the values, spread evenly."""
    return values[:: max(1, -(-len(values) // kept))]


def flatness(memory: list[int]) -> float:
    """The most memory in the last half of a run over the most in the half before it; the first
    tenth, in which caches fill, is left out. 1.0 is flat."""
    steady = memory[len(memory) // 10 :]
    half = len(steady) // 2
    return max(steady[half:]) / max(1, max(steady[:half])) if half else 1.0


class Watch:
    """Runs one child to its end."""

    def __init__(self, folder: Path, others: int = 0, quiet: bool = False) -> None:
        self.folder, self.others, self.quiet = folder.resolve(), others, quiet
        self.memory: list[int] = []
        self.disk_peak = 0
        self._shown = 0.0
        self._line = ("", 0, 0)
        self._errors: list[str] = []

    def run(self, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
        """What the child printed last, with `peak_rss_bytes`, `disk_peak_bytes`, `wall_seconds`,
        and `memory_bytes` over time beside it."""
        start = time.perf_counter()
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        reader.start()
        output: list[str] = []
        printer = threading.Thread(target=lambda: output.extend(child.stdout or ()), daemon=True)
        printer.start()
        while True:
            self._sample(child.pid, time.perf_counter() - start)
            done, status, usage = os.wait4(child.pid, os.WNOHANG)
            if done:
                break
            time.sleep(EVERY_SECONDS)
        child.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
        printer.join()
        seconds = time.perf_counter() - start
        self._end()
        if child.returncode != 0:
            tail = "\n".join([*self._errors, *output][-20:])
            raise SystemExit(f"{command[-1][:60]} ended with {child.returncode}:\n{tail}")
        found: dict[str, Any] = json.loads(output[-1])
        found["wall_seconds"] = seconds
        found["processor_seconds"] = usage.ru_utime + usage.ru_stime
        found["peak_rss_bytes"] = usage.ru_maxrss * 1024
        found["disk_peak_bytes"] = self.disk_peak
        found["memory_bytes"] = thinned(self.memory)
        found["flatness"] = flatness(self.memory)
        return found

    def _read(self, child: subprocess.Popen[str]) -> None:
        for line in child.stderr or ():
            parts = line.split()
            if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
                self._line = (parts[0], int(parts[1]), int(parts[2]))
            else:
                self._errors.append(line.rstrip())

    def _sample(self, process: int, seconds: float) -> None:
        now = folder_bytes(self.folder) + unnamed_bytes(process, self.folder) - self.others
        self.disk_peak = max(self.disk_peak, now)
        self.memory.append(anonymous_bytes(process))
        stage, done, total = self._line
        every = 0.5 if sys.stderr.isatty() else 10.0
        if self.quiet or not total or seconds - self._shown < every:
            return
        self._shown = seconds
        full = BAR * done // max(1, total)
        text = (
            f"{stage:8}[{'#' * full}{'.' * (BAR - full)}] {done / total:4.0%} {seconds:5.0f} s  "
            f"memory {format_bytes(self.memory[-1])}, disk {format_bytes(now)}, "
            f"peak {format_bytes(self.disk_peak)}"
        )
        end = "" if sys.stderr.isatty() else "\n"
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(start + text, end=end, file=sys.stderr, flush=True)

    def _end(self) -> None:
        if sys.stderr.isatty() and not self.quiet:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
