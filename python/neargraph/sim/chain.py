"""The alternatives to this host, the simplest first: an ordinary SSD, an SSD whose cores sample, an
SSD whose dies sample.

What must not live here: the choice between them (see `answer`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .config import Config, change
from .presets import PRESETS
from .runs import PICOS, Runs, simulate
from .trace import Trace
from .watched import Watched

HERE = "this host"
UNCACHED = "uncached reader"
URING = "CC-uring"
# The simplest first. Other platforms are not SSDs.
_WHERE = {
    HERE: "as it is",
    UNCACHED: "as it is",
    URING: "ordinary SSD",
    "CC": "ordinary SSD",
    "CC-pipe": "ordinary SSD",
    "CC-512": "ordinary SSD",
    "SSD-mmap": "ordinary SSD",
    "SSD-direct": "ordinary SSD",
    "SmartSage": "cores of the SSD",
    "SmartSAGE-coalesced": "cores of the SSD",
    "FPGA-CSD": "processor beside the SSD",
    "GList": "cores of the SSD",
    "BG-1": "cores of the SSD",
    "BG-DG": "cores of the SSD",
    "BG-SP": "dies of the SSD",
    "BG-DGSP": "dies of the SSD",
    "BG-2": "dies of the SSD",
}


@dataclass
class Step:
    """One way to make batches.

    Attributes:
        name: "this host", "uncached reader", "CC-uring", or a platform.
        where: The place of sampling: this host "as it is" or with an "ordinary SSD", or a part of
            an SSD.
        targets_per_s: Median over seeds. For this host: mean of the measured time.
        least: Minimum over the batches of all seeds. For this host: over parts of the time.
        most: Maximum, likewise.
        bound_by: The resource whose work alone is the lower bound of the time.
        tlc_targets_per_s: Targets/s with flash of three bits per cell (preset "tlc"). None for this
            host's own disk.
    """

    name: str
    where: str
    targets_per_s: float
    least: float
    most: float
    bound_by: str
    tlc_targets_per_s: float | None = None


def where(name: str) -> str:
    """Returns the place of sampling on a platform."""
    return _WHERE.get(name, "memory of the host" if name.startswith("host-") else "SSD")


def rank(name: str) -> int | None:
    """Returns the rank of a platform, 0 for the simplest, or None if it is not an SSD."""
    return list(_WHERE).index(name) if name in _WHERE else None


def tlc_of(device: Config) -> Config:
    """Returns the device with flash of three bits per cell."""
    made: Config = json.loads(json.dumps(device))
    for name, value in PRESETS["tlc"].items():
        change(made, name, value)
    return made


def platform_steps(
    traces: Sequence[Trace],
    platforms: Sequence[str],
    device: Config,
    how: dict[str, Any],
    tell: Callable[[int, int], None],
) -> tuple[list[Step], list[Runs]]:
    """Simulates platforms on traces that differ only in their seeds, also with TLC flash.

    Args:
        tell: Called with (done, total) simulated traces.

    Returns:
        The steps, and the runs of each trace.
    """
    found = []
    pairs = [(trace, of) for of in (device, tlc_of(device)) for trace in traces]
    for at, (trace, of) in enumerate(pairs):
        tell(at, len(pairs))
        found.append(simulate(trace, platforms=platforms, device=of, **how))
    tell(len(pairs), len(pairs))
    runs, tlc = found[: len(traces)], found[len(traces) :]
    speeds = np.array([found["targets_per_s"] for found in runs])
    slow = np.array([found["targets_per_s"] for found in tlc])
    steps = [
        Step(
            name=row["platform"],
            where=where(row["platform"]),
            targets_per_s=float(np.median(speeds[:, at])),
            least=min(_rates(runs, at)),
            most=max(_rates(runs, at)),
            bound_by=row["bound_by"],
            tlc_targets_per_s=float(np.median(slow[:, at])),
        )
        for at, row in enumerate(runs[0].rows)
    ]
    return steps, runs


def _rates(runs: Sequence[Runs], at: int) -> list[float]:
    """Returns the targets/s of each batch of one platform, over all seeds."""
    batches = [batch for found in runs for batch in found.details[at]["batches"]]
    return [batch["targets"] / (batch["interval"] * PICOS) for batch in batches]


def host_steps(
    watched: Watched, host: Mapping[str, Any], device: Config, compute_s: float
) -> list[Step]:
    """Returns the steps of this host's loader: on its own disk, and on an SSD of simulated flash.

    The second rate is the measured one, times the ratio of two modelled ones. So an error of the
    model that concerns both disks cancels out.

    Args:
        compute_s: Seconds in which the discrete accelerator computes a batch, while the next batch
            is prepared.
    """
    targets = watched.targets_per_batch
    modelled = watched.on_host(host)

    def speed(seconds: float) -> float:
        return targets / max(seconds, compute_s)

    def with_ssd(of: Config) -> tuple[float, str]:
        found = watched.on_ssd(of)
        seconds = watched.seconds * found["seconds"] / modelled
        return speed(seconds), found["bound_by"] if seconds >= compute_s else "accelerator"

    here = speed(watched.seconds)
    rates = [
        here,
        *(min(rate, targets / compute_s) if compute_s else rate for rate in watched.rates),
    ]
    is_disk = watched.disk_on_host(host) > watched.cpu_seconds / watched.cores
    bound = "disk" if is_disk else "processor"
    bound = bound if watched.seconds >= compute_s else "accelerator"
    (fast, server), (slow, _) = with_ssd(device), with_ssd(tlc_of(device))
    return [
        Step(HERE, where(HERE), here, min(rates), max(rates), bound),
        Step(URING, where(URING), fast, fast, fast, server, slow),
    ]
