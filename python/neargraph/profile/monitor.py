"""Measures the use of memory, disk, processor and GPU while a block of code runs.

Rates are differences of counters, so they are exact at any sampling interval. Memory and GPU use
are means over samples, which a thread takes. The invariant: a value that cannot be measured is
None, not 0.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any, TypedDict

_PROC = Path("/proc")

# In /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
_IOWAIT = 4
_TICKS = 8


class SystemUse(TypedDict):
    """The use of the machine during a block of code, as `Monitor.result` returns it.

    The values of a GPU are None without one, or if it does not report them.
    """

    seconds: float
    memory_bytes: float | None
    """Resident memory of this process, mean."""
    disk_bytes_per_s: float
    """Bytes that devices read for this process."""
    iowait_percent: float
    """Of the whole machine; the kernel has no value for one process."""
    cpu_percent: float
    """Of this process; 100 means all cores."""
    gpu_memory_bytes: float | None
    """Memory in use on the device, mean."""
    gpu_idle_percent: float | None
    """Samples with a utilisation of 0."""
    gpu_percent: float | None
    """Utilisation, mean."""


class Gpu:
    """Reads memory and utilisation of a GPU through torch."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def look(self) -> tuple[float, float | None]:
        """Returns the bytes in use on the device, and its utilisation in percent, if available."""
        import torch

        free, total = torch.cuda.mem_get_info(self._device)
        try:
            used: float | None = float(torch.cuda.utilization(self._device))
        except Exception:  # requires a package of NVIDIA that may be missing
            used = None
        return float(total - free), used


class Monitor:
    """Measures this process and this machine during a ``with`` block.

    Args:
        interval: Seconds between samples: 0.1 for runs of a few seconds, 1 for longer runs.
        gpu: A `Gpu`, or None without one.

    Example:
        >>> with Monitor() as monitor:
        ...     pass
        >>> monitor.result()["seconds"] >= 0
        True
    """

    def __init__(self, interval: float = 0.1, gpu: Any = None) -> None:
        self._interval, self._gpu = interval, gpu
        self._memory: list[int] = []
        self._gpu_looks: list[tuple[float, float | None]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ng-monitor", daemon=True)

    def __enter__(self) -> "Monitor":
        self._look()
        self._first = _counters()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._last = _counters()
        self._look()
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._look()

    def _look(self) -> None:
        self._memory.append(_resident_bytes())
        if self._gpu is not None:
            self._gpu_looks.append(self._gpu.look())

    def result(self) -> SystemUse:
        """Returns the use of the machine during the block, which must have ended."""
        took = {name: self._last[name] - count for name, count in self._first.items()}
        seconds, ticks = took["seconds"], took["ticks"]
        used = [busy for _, busy in self._gpu_looks if busy is not None]
        return {
            "seconds": seconds,
            "memory_bytes": _mean([float(count) for count in self._memory]),
            "disk_bytes_per_s": took["disk_bytes"] / seconds,
            "iowait_percent": 100 * took["iowait"] / ticks if ticks else 0.0,
            "cpu_percent": 100 * took["cpu_seconds"] / seconds / (os.cpu_count() or 1),
            "gpu_memory_bytes": _mean([held for held, _ in self._gpu_looks]),
            "gpu_idle_percent": _mean([100.0 * (busy == 0) for busy in used]),
            "gpu_percent": _mean(used),
        }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _resident_bytes() -> int:
    pages = int((_PROC / "self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _counters() -> dict[str, float]:
    ticks = [int(word) for word in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:]]
    times = os.times()
    return {
        "seconds": time.perf_counter(),
        "ticks": sum(ticks[:_TICKS]),
        "iowait": ticks[_IOWAIT],
        "cpu_seconds": times.user + times.system,
        "disk_bytes": _disk_bytes(),
    }


def _disk_bytes() -> int:
    """Bytes that devices have read for this process, including page faults of mapped files."""
    try:
        lines = (_PROC / "self/io").read_text().splitlines()
    except OSError:  # not readable in some containers
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), 0)
