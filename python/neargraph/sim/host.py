"""Measures this host's disk, and reads traces from it page by page, without a cache.

What must not live here: the speed of a loader (see `watched`).
"""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

from .config import Config, check, config, model_of, whole
from .runs import job_of
from .trace import Trace

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
# In a shorter file, a few blocks in the disk's cache would distort the rates.
_FILE_BYTES = 256 << 20
_CHUNK_BYTES = 8 << 20
# The most rounds of a measurement, and the largest difference between two that agree.
_ROUNDS = 6
_STEADY_SHARE = 0.15


class Host(TypedDict):
    """The rates of a disk and a processor, as `measure_host` returns them."""

    depths: list[int]
    """Queue depths of the measurement."""
    reads_per_s: list[float]
    """Random reads of 4 KiB per second, at each depth."""
    bytes_per_s: float
    """Rate of sequential reads of 256 KiB."""
    read_bytes: int
    """Size of a random read."""
    cpu_ns_per_read: float
    """Processor time of a read."""
    cores: int
    depth: int
    """Reads that `simulate_host` keeps in flight."""
    cache_pages: int
    """Size of the page cache in `simulate_host`; 0 for none."""
    path: str
    backend: str
    rounds: list[float]
    """Reads per second at the last depth, in each round."""


class HostRun(TypedDict):
    """The simulated run of a trace on a host."""

    targets_per_s: float
    batches: list[dict[str, Any]]
    """Times of each batch, in picoseconds."""


def measure_host(
    path: str | os.PathLike[str] = ".",
    depths: Sequence[int] = DEPTHS,
    progress: Callable[[str, int, int], None] | None = None,
) -> Host:
    """Measures the rates of the disk at a path, and the processor time of a read.

    This takes at least 6 s. An idle disk can be many times slower at first, so the measurement is
    repeated until two rounds agree within 15 %, at most six times. The last round is the result.

    Args:
        path: A store, whose longest file is read if it has at least 256 MiB; or a directory, in
            which a file of that size is written, read and removed.
        depths: Queue depths for random reads of 4 KiB, ascending from 1.
        progress: Called with (phase, done, total), in rounds.

    Returns:
        The rates, which `simulate_host` takes. You can change values before that.

    Raises:
        UnsupportedArgument: The path is not a directory, or is not writable.

    Example:
        >>> host = measure_host(".")                                        # doctest: +SKIP
        >>> host["reads_per_s"][-1] > host["reads_per_s"][0]                # doctest: +SKIP
        True
    """
    if not depths or depths[0] != 1 or list(depths) != sorted(set(depths)):
        raise UnsupportedArgument(
            f"depths={list(depths)} is not valid: expected ascending numbers that start with 1"
        )
    rates: list[float] = []
    with _file_to_read(Path(path)) as file:
        while not _agree(rates) and len(rates) < _ROUNDS:
            if progress is not None:
                progress("measuring the disk (rounds)", len(rates), max(2, len(rates) + 1))
            text = _core.measure_host(str(file.parent), file.name, list(depths))
            found: dict[str, Any] = json.loads(text)
            rates.append(found["reads_per_s"][-1])
    if progress is not None:
        progress("measuring the disk (rounds)", len(rates), len(rates))
    rest = {"cores": os.cpu_count() or 1, "depth": depths[-1], "cache_pages": 0}
    return cast(Host, found | rest | {"path": str(path), "rounds": rates})


def _agree(rates: list[float]) -> bool:
    """Whether the last two rounds agree.

    >>> _agree([9e3]), _agree([9e3, 90e3]), _agree([9e3, 90e3, 99e3])
    (False, False, True)
    """
    return len(rates) > 1 and abs(rates[-1] / rates[-2] - 1) < _STEADY_SHARE


def simulate_host(
    trace: Trace,
    host: Mapping[str, Any],
    *,
    device: Config | None = None,
    hidden: int = 128,
    outputs: int = 10,
    backward: bool = True,
    layer: str = "sage",
) -> HostRun:
    """Simulates the uncached reader: a trace on a measured host.

    Hops have no barrier between them. The host reads a batch while the discrete accelerator of
    `device` computes the previous one. It has a page cache, which keeps pages between batches, only
    if its ``cache_pages`` is not 0.

    Args:
        trace: The trace.
        host: The result of `measure_host`, or other values for its keys.
        device: Constants from `config`. Default: those of mode `detailed`.
        hidden: As in `simulate`.
        outputs: As in `simulate`.
        backward: As in `simulate`.
        layer: As in `simulate`.

    Raises:
        UnsupportedArgument: A value of the host is missing or not valid.
    """
    model = model_of(hidden, outputs, backward, layer)
    device = config("detailed") if device is None else device
    check(device)
    # Rows fill page after page, so that nodes of one page share its entry in the cache.
    job = job_of(trace, "CC", device, model, "striped")
    wanted = ["depths", "reads_per_s", "bytes_per_s", "read_bytes", "cpu_ns_per_read"]
    wanted += ["cores", "depth", "cache_pages"]
    missing = [name for name in wanted if name not in host]
    if missing:
        raise UnsupportedArgument(
            f"host= lacks {', '.join(map(repr, missing))}; start from the result of measure_host"
        )
    _check(host)
    about = json.dumps({name: host[name] for name in wanted})
    found: HostRun = json.loads(_core.simulate_host(trace.core, json.dumps(job), about))
    return found


def _check(host: Mapping[str, Any]) -> None:
    """Checks the types of a host's numbers. The core checks their ranges."""
    for name, least in (("read_bytes", 1), ("cores", 1), ("depth", 1), ("cache_pages", 0)):
        whole(f"host[{name!r}]", host[name], least, 1 << 40)
    for depth in host["depths"]:
        whole("host['depths']", depth, 1, 1 << 16)
    rates = [("reads_per_s", rate) for rate in host["reads_per_s"]]
    for name, number in (*rates, *((n, host[n]) for n in ("bytes_per_s", "cpu_ns_per_read"))):
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise UnsupportedArgument(
                f"host[{name!r}] is not valid: expected finite numbers, got {number!r}"
            )


def replay_on_host(
    trace: Trace, path: str | os.PathLike[str] = ".", depth: int = DEPTHS[-1]
) -> np.ndarray:
    """Makes the reads of a trace on the disk at a path, to check the model of `simulate_host`.

    Returns:
        Seconds by batch, [batches].

    Raises:
        UnsupportedArgument: As in `measure_host`.
    """
    model = {"hidden": 1, "outputs": 1, "backward": False}
    job = json.dumps(job_of(trace, "CC", config("detailed"), model, "random"))
    with _file_to_read(Path(path)) as file:
        seconds = _core.replay_on_host(trace.core, job, str(file.parent), file.name, depth)
    return np.array(seconds)


@contextmanager
def _file_to_read(path: Path) -> Iterator[Path]:
    """Yields the longest file of a store, or a temporary file."""
    if not path.is_dir():
        raise UnsupportedArgument(
            f"{path} is not a directory; give a store, or a directory on the disk to measure"
        )
    longest = max(path.glob("*.dat"), key=lambda file: file.stat().st_size, default=None)
    if longest is not None and longest.stat().st_size >= _FILE_BYTES:
        yield longest
        return
    parent = path.parent if (path / "root.a").exists() else path
    try:
        with tempfile.NamedTemporaryFile(dir=parent, prefix=".measure-", suffix=".dat") as file:
            chunk = os.urandom(_CHUNK_BYTES)
            for _ in range(_FILE_BYTES // _CHUNK_BYTES):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            yield Path(file.name)
    except OSError as error:
        raise UnsupportedArgument(
            f"{parent}: cannot write a file of {_FILE_BYTES >> 20} MiB to measure the disk "
            f"({error}); give another directory"
        ) from error
