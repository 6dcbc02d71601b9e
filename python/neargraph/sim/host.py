"""This host as it is: its disk measured, a trace run on it, what simulated devices gain over it.

The invariant: nothing is compared with this host that was not measured on it.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument

from .config import Config, Mode, change, check, config, constants, model_of, whole
from .runs import Runs, in_parallel, job_of, simulate
from .trace import Trace

if TYPE_CHECKING:
    from neargraph.store import Store

Host = dict[str, Any]

DEPTHS = (1, 2, 4, 8, 16, 32, 64)
# A shorter file says little: disks and their caches give some blocks sooner than others.
_FILE_BYTES = 256 << 20
_CHUNK_BYTES = 8 << 20
# Of the constants of a device, those that are no quantity: halving them means nothing.
_NO_QUANTITY = ("energy.", "payload.", "discrete.", "flash.page_bytes")
_SHOWN = 5


def measure_host(path: str | os.PathLike[str] = ".", depths: Sequence[int] = DEPTHS) -> Host:
    """Measures the disk under a path, and what a read costs the processor: 3 s and more.

    Args:
        path: A store, whose longest file is read where it has 256 MiB; else a directory, in which
            a file of that size is written, read and removed.
        depths: Reads in flight at which random reads of 4 KiB are measured, ascending from 1.

    Returns:
        ``depths``, ``reads_per_s`` at each, ``bytes_per_s`` (reads of 256 KiB in sequence),
        ``read_bytes``, ``cpu_ns_per_read``, ``cores``, ``depth`` (reads kept in flight),
        ``cache_pages`` (0: no page cache), ``path`` and ``backend``. `simulate_host` takes it as
        it is, or with values of your own.

    Raises:
        UnsupportedArgument: The path is no directory, or nothing can be written there.

    Example:
        >>> host = measure_host(".")                                        # doctest: +SKIP
        >>> host["reads_per_s"][-1] > host["reads_per_s"][0]                # doctest: +SKIP
        True
    """
    if not depths or depths[0] != 1 or list(depths) != sorted(set(depths)):
        raise UnsupportedArgument(f"depths {list(depths)} do not ascend from 1")
    with _file_to_read(Path(path)) as file:
        text = _core.measure_host(str(file.parent), file.name, list(depths))
    found: Host = json.loads(text)
    rest = {"cores": os.cpu_count() or 1, "depth": depths[-1], "cache_pages": 0}
    return found | rest | {"path": str(path)}


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


@dataclass
class Answer:
    """What simulated devices gain over this host.

    Attributes:
        host: What was measured.
        host_targets_per_s: Of this host.
        speedups: By platform, targets a second over those of this host.
        over_cc: The same over the paper's baseline CC.
        best: The fastest platform.
        hangs_on: What the answer hangs on: (constant, speed-up of the best with half of it, with
            double of it), the most important first.
        runs: Every platform's run.
    """

    host: Host
    host_targets_per_s: float
    speedups: dict[str, float]
    over_cc: dict[str, float]
    best: str
    hangs_on: list[tuple[str, float, float]]
    runs: Runs

    def words(self) -> str:
        """The answer in a sentence or two."""
        best, here = self.best, self.host_targets_per_s
        text = (
            f"The best of these devices, {best}, would do {self.speedups[best]:.3g} times as many "
            f"targets a second as this host does with io_uring ({here:,.0f}), and "
            f"{self.over_cc[best]:.3g} times as many as the baseline of the publication, CC."
        )
        if self.hangs_on:
            name, half, double = self.hangs_on[0]
            text += (
                f" That hangs most on {name}: with half of it the gain is {half:.3g}, with double "
                f"{double:.3g}."
            )
        return text

    def plain(self) -> dict[str, Any]:
        """All but the runs, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "runs"}


def what_would_it_buy(
    store: "Store | Trace",
    host: "Host | str | os.PathLike[str]",
    *,
    fanouts: Sequence[int] = (3, 3, 3),
    batch_size: int = 128,
    batches: int = 8,
    seed: int = 0,
    platforms: str | Sequence[str] = "all",
    mode: Mode = "detailed",
    device: Config | None = None,
    **model: Any,
) -> Answer:
    """The gain of computational SSDs over this host with io_uring, on what a sampler visits.

    Args:
        store: An open store, or a trace; `fanouts`, `batch_size`, `batches` and `seed` are for a
            store alone.
        host: Of `measure_host`, or a path that it measures once everything else has been checked.
        platforms: Names, or "all".
        mode: As in `simulate`.
        device: Constants, of `config`; those of the mode unless given.
        model: ``hidden``, ``outputs``, ``backward`` and ``layer``, as in `simulate`.

    Raises:
        UnsupportedArgument: As `simulate` and `simulate_host`.

    Example:
        >>> answer = what_would_it_buy(store, measure_host("."))            # doctest: +SKIP
        >>> answer.speedups[answer.best]                                    # doctest: +SKIP
        4.2
    """
    if isinstance(store, Trace):
        trace = store
    else:
        trace = Trace.from_sampler(
            store, fanouts=fanouts, seed=seed, batch_size=batch_size, batches=batches
        )
    made = config(mode) if device is None else device
    how: dict[str, Any] = {"mode": mode, **model}
    runs = simulate(trace, platforms=platforms, device=made, **how)
    speeds = dict(zip(runs["platform"].tolist(), runs["targets_per_s"].tolist(), strict=True))
    cc = simulate(trace, platforms=["CC"], device=made, **how)["targets_per_s"][0]
    if not isinstance(host, dict):
        host = measure_host(host)
    here = simulate_host(trace, host, device=made, **model)["targets_per_s"]
    best = max(speeds, key=lambda name: speeds[name])
    return Answer(
        host=host,
        host_targets_per_s=here,
        speedups={name: speed / here for name, speed in speeds.items()},
        over_cc={name: float(speed / cc) for name, speed in speeds.items()},
        best=best,
        hangs_on=_hangs_on(trace, best, made, here, how),
        runs=runs,
    )


def _hangs_on(
    trace: Trace, platform: str, device: Config, here: float, how: dict[str, Any]
) -> list[tuple[str, float, float]]:
    """The constants whose halving and doubling moves the speed-up most."""
    values = constants(device)
    numbers = [name for name, value in values.items() if _is_quantity(name, value)]

    def gains(name: str) -> list[float]:
        found = []
        for factor in (0.5, 2.0):
            other = json.loads(json.dumps(device))
            value = values[name] * factor
            whole = isinstance(values[name], int)
            change(other, name, max(1, round(value)) if whole else value)
            try:
                runs = simulate(trace, platforms=[platform], device=other, **how)
            except UnsupportedArgument:
                # A device that cannot be, such as one with half a register.
                return []
            found.append(float(runs["targets_per_s"][0]) / here)
        return found

    both = zip(numbers, in_parallel(gains, numbers), strict=True)
    found = [(name, pair[0], pair[1]) for name, pair in both if pair]
    found.sort(key=lambda entry: -abs(math.log(entry[1] / entry[2])))
    return found[:_SHOWN]


def _is_quantity(name: str, value: Any) -> bool:
    """Whether half of a constant and double of it mean something."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(value) and not name.startswith(_NO_QUANTITY)


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
