"""What the device did for a batch against what the requests of the plan cost at its own rates.

    python -m benchmarks.plan_cost --graph planted_4m --cap 2GB
    python -m benchmarks.plan_cost --systems scan,window,naive-uring --batches 50 --seconds 20

The store logs its device requests in the steady state, and counts the time in which at least one
is in flight. Beside it stand two prices of the log, at rates that the same process measured on
the same file before and after it (the mean of both): by two rates, max(1 / IOPS, bytes / bandwidth)
summed over requests (IOPS of random 4 KiB reads, bandwidth of long sequential ones, both at full
depth); and by the curve, what a request of that length and kind (random, or right behind the one
before it) costs. Takes the arguments of `training.py`; prints a table and writes
`.bench/plan_cost.json`. What is read beside the store is not in the log: no compiled epochs, no
distributed rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"ngreads1".ljust(16, b"\0")
RECORD = np.dtype([("offset", "<u8"), ("bytes", "<u4"), ("place", "<u4")])
FOLLOWS = 1 << 31
SYSTEMS = "scan,window,naive-uring"

# (bytes, random requests a second, sequential ones), by length.
Curve = list[tuple[int, float, float]]


def read_log(path: Path) -> Any:
    """The requests of a log that a store wrote, as records [requests]."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path} is not a log of reads")
        return np.fromfile(file, dtype=RECORD)


def plan_seconds(log: Any, reads_per_s: float, bytes_per_s: float) -> float:
    """max(1 / IOPS, bytes / bandwidth), summed over requests."""
    return float(np.maximum(1.0 / reads_per_s, log["bytes"] / bytes_per_s).sum())


def curve_seconds(log: Any, curve: Curve) -> float:
    """What requests of such lengths and kinds cost, summed; between lengths it is a line."""
    lengths = [float(bytes_) for bytes_, _, _ in curve]
    total = 0.0
    for column, wanted in ((1, False), (2, True)):
        sizes = log["bytes"][((log["place"] & FOLLOWS) != 0) == wanted]
        total += float(np.interp(sizes, lengths, [1.0 / point[column] for point in curve]).sum())
    return total


def mean_curve(before: Curve, after: Curve) -> Curve:
    """Two measurements of the same lengths as one: the mean of the times that requests took."""
    mean = [
        2.0 / (1.0 / np.array(a[1:]) + 1.0 / np.array(b[1:]))
        for a, b in zip(before, after, strict=True)
    ]
    return [(point[0], float(m[0]), float(m[1])) for point, m in zip(before, mean, strict=True)]


def known_curve(reads_per_s: float, bytes_per_s: float) -> Curve:
    """The curve of a disk that is held at two rates."""
    lengths = [4096 << power for power in range(7)]
    rates = [1.0 / max(1.0 / reads_per_s, length / bytes_per_s) for length in lengths]
    return [(length, rate, rate) for length, rate in zip(lengths, rates, strict=True)]


def slower(a: Curve, b: Curve) -> Curve:
    """The slower of two curves over the same lengths, rate by rate."""
    return [(x[0], min(x[1], y[1]), min(x[2], y[2])) for x, y in zip(a, b, strict=True)]


def figures(log: Any, curve: Curve) -> dict[str, Any]:
    """Both prices of a log, and what it is made of."""
    reads_per_s, bytes_per_s = curve[0][1], curve[-1][2] * curve[-1][0]
    return {
        "logged_reads": len(log),
        "logged_bytes": int(log["bytes"].sum(dtype=np.int64)),
        "logged_sequential": int(np.count_nonzero(log["place"] & FOLLOWS)),
        "plan_seconds": plan_seconds(log, reads_per_s, bytes_per_s),
        "curve_seconds": curve_seconds(log, curve),
        "reads_per_s": reads_per_s,
        "bytes_per_s": bytes_per_s,
    }


def row(name: str, run: dict[str, Any]) -> list[str]:
    """One run as a line of the table."""
    if "failed" in run:
        return [name, run["failed"], *[""] * 8]
    per_batch = 1e3 / run["batches"]
    busy, plan = run["device_busy_seconds"] * per_batch, run["plan_seconds"] * per_batch
    curve = run["curve_seconds"] * per_batch
    return [
        name,
        f"{run['ms_per_batch']:.1f}",
        f"{busy:.1f}",
        f"{run['mean_depth']:.1f}",
        f"{run['logged_reads'] / run['batches']:,.0f}",
        f"{run['logged_bytes'] / run['batches'] / 1e6:.1f}",
        f"{plan:.1f}",
        share(busy, plan),
        f"{curve:.1f}",
        share(busy, curve),
    ]


def share(busy: float, price: float) -> str:
    """The quotient; nothing where nothing was read."""
    return f"{busy / price:.2f}" if price else "-"


COLUMNS = [
    "",
    "ms/batch",
    "device ms",
    "depth",
    "reads",
    "read MB",
    "plan ms",
    "device/plan",
    "curve ms",
    "device/curve",
]


def main() -> None:
    from . import training, training_tables
    from .places import BENCH

    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
    args = training.parse(["--systems", SYSTEMS, "--runs", "1", *sys.argv[1:]])
    args.label = args.label or "plan_cost"
    names = args.systems
    options = "log=1"
    if args.disk:
        options += ",held_reads={},held_bytes={}".format(*args.disk)
    args.systems = [f"{name}{',' if ':' in name else ':'}{options}" for name in names]
    bench = training.Bench(args)
    bench.go()
    rows = [
        row(name, round_[logged])
        for round_ in bench.rounds
        for name, logged in zip(names, args.systems, strict=True)
    ]
    print("\n".join(training_tables.table(COLUMNS, rows)))
    (BENCH / "plan_cost.json").write_text(json.dumps(bench.rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
