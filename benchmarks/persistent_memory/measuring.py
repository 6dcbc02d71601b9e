"""What is measured of one batch, or of one hand-over: time, memory, and bytes from a disk."""

from __future__ import annotations

import ctypes
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def status() -> dict[str, int]:
    """Bytes of this process by the names of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":") for line in lines if line.endswith("kB"))
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}


@dataclass
class Run:
    """One batch, or one hand-over."""

    seconds: float
    peak_bytes: int
    private_bytes: int
    disk_bytes: int
    read_bytes: int = 0
    all_seconds: float = 0.0


def measured(make: Callable[[], Any]) -> tuple[Any, Run]:
    """What `make` gives; its time, the growth of resident memory, and the bytes read from a disk.

    `private_bytes` is anonymous memory that the result keeps. `peak_bytes` counts mapped pages as
    well, which on tmpfs are the file itself.
    """
    before = status()
    # Sets VmHWM back to what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    start = time.perf_counter()
    made = make()
    seconds = time.perf_counter() - start
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock - blocks
    after = status()
    peak = max(0, after["VmHWM"] - before["VmRSS"])
    private = max(0, after["RssAnon"] - before["RssAnon"])
    return made, Run(seconds, peak, private, 512 * blocks)


def plain_malloc() -> None:
    """Allocations of 1 MiB and more come from the kernel and go back to it, in every width.

    Otherwise glibc keeps blocks below a threshold that grows, and counts of memory mean nothing.
    """
    threshold_parameter = -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(threshold_parameter, 1 << 20)
