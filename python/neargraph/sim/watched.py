"""Measures a loader: its read requests, its time, and the time of these requests on another disk.

What must not live here: how a loader reads; it is run as users run it. The invariant: processor
times are measured, and disk times are modelled.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

from .config import Config, check, config, whole

if TYPE_CHECKING:
    from neargraph.store import Store

# A log of requests (`Store.log_reads`): size of its header, and its records.
_HEAD_BYTES = 16
RECORD = np.dtype([("offset", "<u8"), ("bytes", "<u4"), ("file", "<u4")])
_FOLLOWS = 1 << 31
# The rate is steady if two consecutive parts of the time differ by less than this share.
_STEADY_SHARE = 0.15
_STRETCHES = 12
_WARMING, _MEASURING = "warming up the loader (s)", "measuring the loader (s)"
# The number of parts of the measured time.
_PARTS = 5

# Called with (phase, done, total).
Progress = Callable[[str, int, int], None]
# Batches, seeds, wall seconds and processor seconds.
Part = tuple[int, int, float, float]


class SsdTimes(TypedDict):
    """Simulated times of a loader's requests on an SSD, as `Watched.on_ssd` returns them."""

    seconds: float
    """Seconds per batch."""
    disk_seconds: float
    """The part of the requests and of temporary files."""
    bound_by: str
    """The resource that takes the most time."""


@dataclass
class Watched:
    """Measurements of a loader after its caches and windows were full.

    Attributes:
        reading: How rows were read: "held in memory", "scan", "window", "distribute" or "batch by
            batch"; "modelled" if no loader ran.
        batches: Number of measured batches.
        targets: Number of their seeds.
        seconds: Measured seconds per batch; NaN if no loader ran.
        cpu_seconds: Processor seconds per batch, of all threads of the process.
        cores: Number of cores of the machine.
        is_steady: Whether the rate was steady before the measurement.
        requests: Read requests in their order: ``offset``, ``bytes`` and ``file``, a number.
        written_bytes: Bytes per batch written to temporary files, which are read once. `requests`
            does not have these reads.
        rates: Measured targets/s of parts of the time.
    """

    reading: str
    batches: int
    targets: int
    seconds: float
    cpu_seconds: float
    cores: int
    is_steady: bool
    requests: np.ndarray
    written_bytes: float = 0.0
    rates: Sequence[float] = ()

    @property
    def targets_per_s(self) -> float:
        """Measured targets per second."""
        return self.targets_per_batch / self.seconds

    @property
    def targets_per_batch(self) -> float:
        """Mean number of targets per batch."""
        return self.targets / self.batches

    @property
    def alternates(self) -> bool:
        """Whether the disk and the processor take turns instead of working at the same time.

        This is the case for "distribute": all rows of a window are read, written and read again
        before its batches are made.
        """
        return self.reading == "distribute"

    def disk_on_host(self, host: Mapping[str, Any]) -> float:
        """Models the seconds of the disk per batch on a measured host.

        Each request takes 1 / (reads/s). Each byte beyond the size of a measured read takes
        1 / (bytes/s).

        Args:
            host: The result of `measure_host`. Its rate at the highest queue depth is used, because
                loaders keep their queue full.
        """
        longer = np.maximum(0, self.requests["bytes"].astype(np.int64) - host["read_bytes"])
        each = 1 / host["reads_per_s"][-1] + longer / host["bytes_per_s"]
        temporary = 2 * self.written_bytes / host["bytes_per_s"]
        return float(each.sum() / self.batches + temporary)

    def on_host(self, host: Mapping[str, Any]) -> float:
        """Models the seconds per batch on a measured host.

        This is the larger of the times of the disk (`disk_on_host`) and of the processor, or their
        sum if the loader `alternates`.
        """
        return self._with_processor(self.disk_on_host(host))

    def _with_processor(self, disk: float) -> float:
        cpu = self.cpu_seconds / self.cores
        return disk + cpu if self.alternates else max(disk, cpu)

    def on_ssd(self, device: Config | None = None, depth: int = 64) -> SsdTimes:
        """Simulates the same requests on an SSD that computes nothing.

        Temporary files of the loader are written and read at the full rate of all dies, channels
        and the link, and at no other time than the requests.

        Args:
            device: Constants from `config`. Default: those of mode `detailed`.
            depth: Requests in flight.

        Raises:
            UnsupportedArgument: A constant is out of range, or there are too many pages.
        """
        device = config("detailed") if device is None else device
        check(device)
        depth = whole("depth", depth, 1, 1 << 16)
        first, pages = self._pages(device["flash"]["page_bytes"])
        found = json.loads(_core.simulate_requests(first, pages, json.dumps(device), depth))
        reads = found["outcome"]["makespan"] * 1e-12 / self.batches
        temporary = self.written_bytes * temporary_s_per_byte(device)
        disk = reads + temporary
        bound = found["bound"][1] if reads >= temporary else "temporary files"
        return {
            "seconds": self._with_processor(disk),
            "disk_seconds": disk,
            "bound_by": bound if disk >= self.cpu_seconds / self.cores else "processor",
        }

    def _pages(self, page_bytes: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns first page and number of pages of each request, with files in sequence."""
        offset = self.requests["offset"].astype(np.uint64)
        end = offset + self.requests["bytes"]
        files, number = np.unique(self.requests["file"], return_inverse=True)
        ends = [int(end[number == at].max()) for at in range(len(files))]
        sizes = np.array([-(-last // page_bytes) for last in ends], dtype=np.uint64)
        base = (np.cumsum(sizes) - sizes)[number] if len(files) else offset
        first = offset // page_bytes
        count = (end + np.uint64(page_bytes - 1)) // page_bytes - first
        return (base + first).astype(np.uint64), count.astype(np.uint32)


def temporary_s_per_byte(device: Config) -> float:
    """Returns the seconds in which an otherwise idle device writes a byte and reads it back.

    >>> device = config("paper", **{"pcie.bytes_per_s": 1e12, "flash.channels": 1})
    >>> device = {**device, "flash": {**device["flash"], "dies_per_channel": 1}}
    >>> round(temporary_s_per_byte(device) * 4000 * 1e6)    # 30 us, then 5 us on the channel
    35
    """
    flash = device["flash"]

    def rate(array_ns: float) -> float:
        arrays = flash["channels"] * flash["dies_per_channel"] * flash["planes"]
        channels = flash["channels"] * (flash["channel_bytes_per_s"] or math.inf)
        link = device["pcie"]["bytes_per_s"] or math.inf
        cells = arrays * flash["page_bytes"] / (array_ns * 1e-9) if array_ns else math.inf
        return float(min(cells, channels, link))

    senses = flash["sense_types_ns"] or [flash["sense_ns"]]
    return 1 / rate(flash["program_ns"]) + 1 / rate(float(np.mean(senses)))


def watch_loader(
    store: "Store",
    fanouts: Sequence[int] = (15, 10),
    *,
    batch_size: int = 1024,
    input_nodes: Any = None,
    seed: int = 0,
    seconds: float = 10.0,
    warm_seconds: float = 60.0,
    progress: Progress | None = None,
    **how: Any,
) -> Watched:
    """Runs `NeighborLoader` on a store, within the store's memory, and measures it.

    Args:
        store: An open store of one node type.
        fanouts: Neighbours per node by hop.
        batch_size: Seeds per batch.
        input_nodes: As in `NeighborLoader`.
        seed: Random seed of seeds and draws.
        seconds: Seconds for which the loader is measured.
        warm_seconds: The longest time to wait before that for a steady rate.
        progress: Called with (phase, done, total), in seconds.
        how: Further arguments of `NeighborLoader`, such as ``temporary_writes``.

    Raises:
        UnsupportedArgument: A time is not above 0, or the loader rejects an argument.

    Example:
        >>> watched = watch_loader(store, seconds=1, warm_seconds=1)        # doctest: +SKIP
        >>> watched.targets_per_s                                           # doctest: +SKIP
        87012.4
    """
    from neargraph.loader.neighbor import NeighborLoader

    _check_times(seconds=seconds, warm_seconds=warm_seconds)
    loader = NeighborLoader(
        store, list(fanouts), input_nodes, batch_size=batch_size, shuffle=True, seed=seed, **how
    )
    try:
        batches, tell = _endless(loader), progress or _silent
        is_steady = _warm_up(loader, _timed(batches, _WARMING, warm_seconds, tell), warm_seconds)
        tell(_WARMING, math.ceil(warm_seconds), math.ceil(warm_seconds))
        measured = _timed(batches, _MEASURING, seconds, tell)
        with tempfile.TemporaryDirectory(prefix="neargraph-") as folder:
            path = Path(folder) / "requests"
            before = store.stats()["temporary_write_bytes"]
            with store.log_reads(path):
                parts = _watch(measured, seconds, _window(loader), seconds + warm_seconds)
            tell(_MEASURING, math.ceil(seconds), math.ceil(seconds))
            written = store.stats()["temporary_write_bytes"] - before
            requests = _read(path)
        chosen = loader.chosen()
    finally:
        loader.close()
    count, targets, took, cpu = (sum(part[at] for part in parts) for at in range(4))
    return Watched(
        reading=chosen["reading"] if chosen else "batch by batch",
        batches=int(count),
        targets=int(targets),
        seconds=took / count,
        cpu_seconds=cpu / count,
        cores=os.cpu_count() or 1,
        is_steady=is_steady,
        requests=requests,
        written_bytes=written / count,
        rates=[part[1] / part[2] for part in parts],
    )


def _check_times(**times: float) -> None:
    for name, value in times.items():
        if not 0 < value <= 86_400:
            raise UnsupportedArgument(
                f"{name}={value!r} is not valid: expected more than 0 seconds, at most 86,400"
            )


def _endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def _silent(_phase: str, _done: int, _total: int) -> None:
    pass


def _timed(batches: Iterator[Any], phase: str, seconds: float, progress: Progress) -> Iterator[Any]:
    """Yields the batches, and reports each second since the first was requested."""
    start, total, told = time.perf_counter(), math.ceil(seconds), -1
    while True:
        done = min(total, int(time.perf_counter() - start))
        if done > told:
            told = done
            progress(phase, done, total)
        yield next(batches)


def _window(loader: Any) -> int:
    """Returns the loader's look-ahead in batches, which is one cycle of sampling and reading."""
    return int((loader.chosen() or {}).get("window") or 1)


def _run(batches: Iterator[Any], seconds: float, window: int, most: float) -> Part:
    """Takes whole windows of batches for at least `seconds`; stops inside a window after `most`.

    Rates differ within a window: if all of its rows are read before the first batch is due, its
    batches arrive at once.
    """
    start, cpu = time.perf_counter(), time.process_time()
    count = targets = 0
    took = 0.0
    while took < seconds or count % window or not count:
        targets += int(next(batches).batch_size)
        count += 1
        took = time.perf_counter() - start
        if took >= most:
            break
    return count, targets, took, time.process_time() - cpu


def _watch(batches: Iterator[Any], seconds: float, window: int, most: float) -> list[Part]:
    """Returns parts of whole windows, which together take at least `seconds`."""
    parts: list[Part] = []
    took = 0.0
    while took < seconds:
        parts.append(_run(batches, min(seconds - took, seconds / _PARTS), window, most - took))
        took += parts[-1][2]
    return parts


def _warm_up(loader: Any, batches: Iterator[Any], seconds: float) -> bool:
    """Runs until the look-ahead is full and the rate is steady. Returns whether it is steady."""
    rates: list[float] = []
    done, left = 0, seconds
    while left > 0:
        window = _window(loader)
        count, _, took, _ = _run(batches, seconds / _STRETCHES, window, left)
        done, left = done + count, left - took
        rates.append(count / took)
        is_whole = done >= 2 * window and count % window == 0
        if is_whole and len(rates) > 2 and abs(rates[-1] / rates[-2] - 1) < _STEADY_SHARE:
            return True
    return False


def _read(path: Path) -> np.ndarray:
    requests = np.fromfile(path, dtype=RECORD, offset=_HEAD_BYTES)
    requests["file"] &= _FOLLOWS - 1
    return requests
