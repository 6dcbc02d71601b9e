"""This host's disk: measured, and traces read from it page by page, without a cache.

What must not live here: what a loader makes of it (see `watched`).
"""

import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

from .config import Config, check, config, model_of, whole
from .runs import job_of
from .trace import Trace

Host = dict[str, Any]

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
# A shorter file says little: disks and their caches give some blocks sooner than others.
_FILE_BYTES = 256 << 20
_CHUNK_BYTES = 8 << 20
# Rounds of a measurement, and what two that agree differ in at most.
_ROUNDS = 6
_STEADY_SHARE = 0.15


def measure_host(path: str | os.PathLike[str] = ".", depths: Sequence[int] = DEPTHS) -> Host:
    """Measures the disk under a path, and what a read costs the processor: 6 s and more.

    A disk that was not read for long can be many times slower at first, so it is measured until two
    rounds agree within 15 %, six times at most; what is returned is of the last round.

    Args:
        path: A store, whose longest file is read where it has 256 MiB; else a directory, in which
            a file of that size is written, read and removed.
        depths: Reads in flight at which random reads of 4 KiB are measured, ascending from 1.

    Returns:
        ``depths``, ``reads_per_s`` at each, ``bytes_per_s`` (reads of 256 KiB in sequence),
        ``read_bytes``, ``cpu_ns_per_read``, ``cores``, ``depth`` (reads kept in flight),
        ``cache_pages`` (0: no page cache), ``path``, ``backend``, and ``rounds`` (reads a second
        at the last depth in each round). `simulate_host` takes it as it is, or with values of your
        own.

    Raises:
        UnsupportedArgument: The path is no directory, or nothing can be written there.

    Example:
        >>> host = measure_host(".")                                        # doctest: +SKIP
        >>> host["reads_per_s"][-1] > host["reads_per_s"][0]                # doctest: +SKIP
        True
    """
    if not depths or depths[0] != 1 or list(depths) != sorted(set(depths)):
        raise UnsupportedArgument(f"depths {list(depths)} do not ascend from 1")
    rates: list[float] = []
    with _file_to_read(Path(path)) as file:
        while not _agree(rates) and len(rates) < _ROUNDS:
            text = _core.measure_host(str(file.parent), file.name, list(depths))
            found: Host = json.loads(text)
            rates.append(found["reads_per_s"][-1])
    rest = {"cores": os.cpu_count() or 1, "depth": depths[-1], "cache_pages": 0}
    return found | rest | {"path": str(path), "rounds": rates}


def _agree(rates: list[float]) -> bool:
    """Whether the last two rounds found the same disk.

    >>> _agree([9e3]), _agree([9e3, 90e3]), _agree([9e3, 90e3, 99e3])
    (False, False, True)
    """
    return len(rates) > 1 and abs(rates[-1] / rates[-2] - 1) < _STEADY_SHARE


def simulate_host(
    trace: Trace,
    host: Host,
    *,
    device: Config | None = None,
    hidden: int = 128,
    outputs: int = 10,
    backward: bool = True,
    layer: str = "sage",
) -> dict[str, Any]:
    """Runs a trace on a measured host (`CC-uring`): no barrier between hops, the curve of the disk,
    the time of its cores, no page cache unless ``cache_pages`` says so, which then keeps pages from
    batch to batch.

    Batches are read while the discrete accelerator of `device` computes the one before.

    Returns:
        ``targets_per_s`` and ``batches``, with times in picoseconds.

    Raises:
        UnsupportedArgument: For a host that cannot be.
    """
    model = model_of(hidden, outputs, backward, layer)
    device = config("detailed") if device is None else device
    check(device)
    # Page after page, so that nodes which share a page find it in the cache.
    job = job_of(trace, "CC", device, model, "striped")
    wanted = ["depths", "reads_per_s", "bytes_per_s", "read_bytes", "cpu_ns_per_read"]
    wanted += ["cores", "depth", "cache_pages"]
    missing = [name for name in wanted if name not in host]
    if missing:
        raise UnsupportedArgument(f"the host has no {', '.join(missing)}; use measure_host")
    _check(host)
    about = json.dumps({name: host[name] for name in wanted})
    found: dict[str, Any] = json.loads(_core.simulate_host(trace.core, json.dumps(job), about))
    return found


def _check(host: Host) -> None:
    """Kinds of the numbers of a host; what they may be is checked where they are used."""
    for name, least in (("read_bytes", 1), ("cores", 1), ("depth", 1), ("cache_pages", 0)):
        whole(f"the host's {name}", host[name], least, 1 << 40)
    for depth in host["depths"]:
        whole("a depth of the host", depth, 1, 1 << 16)
    numbers = [*host["reads_per_s"], host["bytes_per_s"], host["cpu_ns_per_read"]]
    for number in numbers:
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise UnsupportedArgument(f"the host has {number!r} where a number belongs")


def replay_on_host(
    trace: Trace, path: str | os.PathLike[str] = ".", depth: int = DEPTHS[-1]
) -> np.ndarray:
    """Makes the reads of a trace on the disk under a path, as `simulate_host` takes them: seconds
    by batch, [batches]. For checks of the model against the disk itself.

    Raises:
        UnsupportedArgument: As `measure_host`.
    """
    model = {"hidden": 1, "outputs": 1, "backward": False}
    job = json.dumps(job_of(trace, "CC", config("detailed"), model, "random"))
    with _file_to_read(Path(path)) as file:
        seconds = _core.replay_on_host(trace.core, job, str(file.parent), file.name, depth)
    return np.array(seconds)


@contextmanager
def _file_to_read(path: Path) -> Iterator[Path]:
    """The longest file of a store, or one that is written for this and removed."""
    if not path.is_dir():
        raise UnsupportedArgument(f"{path} is no directory and no store")
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
            f"{parent}: no file of {_FILE_BYTES >> 20} MiB to measure can be written there "
            f"({error})"
        ) from error
