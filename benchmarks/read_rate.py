"""Random 4 KiB reads through the io_uring back end beside fio, on the same file in the same run.

One thread reads through `Reader` at depth 64 and checks the crc32c of every block; fio reads with
O_DIRECT, io_uring, depth 64 and one job, and looks at nothing. The two take turns, so that both see
the same machine. The bar: at least 80 % of fio's rate, at a mean depth of at least 48.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RATIO_MIN = 0.8
DEPTH_MIN = 48.0


def build() -> Path:
    """The release build of the reading program."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "ng-io"]
    subprocess.run([*command, "--example", "read_rate"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "examples" / "read_rate"


def run_ours(program: Path, args: argparse.Namespace, seed: int) -> dict[str, float]:
    """One run of the reading program; it fails if a block is wrong."""
    settings = [args.file, args.mib, args.seconds, 1, args.depth, args.back_end, seed]
    command = [str(program), *map(str, settings)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, float] = json.loads(output)
    return result


def run_fio(args: argparse.Namespace) -> dict[str, float]:
    """One run of fio: reads per second, and the mean depth that the drive saw."""
    command = [
        "fio",
        "--name=read_rate",
        f"--filename={args.file}",
        f"--size={args.mib}m",
        "--rw=randread",
        "--bs=4k",
        "--ioengine=io_uring",
        "--direct=1",
        f"--iodepth={args.depth}",
        "--numjobs=1",
        "--time_based",
        f"--runtime={args.seconds}",
        "--output-format=json",
    ]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    report = json.loads(output[output.index("{") :])
    job = report["jobs"][0]
    drive = report.get("disk_util") or [{"in_queue": 0}]
    depth = drive[0]["in_queue"] / max(job["read"]["runtime"], 1)
    cores = (job["usr_cpu"] + job["sys_cpu"]) / 100
    return {"reads_per_s": job["read"]["iops"], "drive_depth": depth, "cores": cores}


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def commit() -> str:
    """The commit that is checked out, with a mark if the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=ROOT / ".bench" / "read_rate.dat")
    parser.add_argument("--mib", type=int, default=2048, help="length of the file")
    parser.add_argument("--seconds", type=int, default=5, help="length of a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each")
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--back-end", default="uring", help="uring, odirect, pread or mmap")
    return parser.parse_args()


def main() -> int:
    """Takes turns and compares."""
    args = parse()
    if shutil.which("fio") is None:
        print("fio is missing; install it with: apt-get install fio", file=sys.stderr)
        return 2
    args.file.parent.mkdir(parents=True, exist_ok=True)
    program = build()
    # The first run writes the file and is not counted.
    run_ours(program, args, 0)
    ours, fio = [], []
    print(f"{'':8}{'reads/s':>10}{'depth':>8}{'at drive':>10}{'cores':>8}")
    for round_number in range(1, args.rounds + 1):
        mine = run_ours(program, args, round_number)
        theirs = run_fio(args)
        ours.append(mine)
        fio.append(theirs)
        for name, row in (("ours", mine), ("fio", theirs)):
            depth = row.get("mean_depth", float(args.depth))
            print(
                f"{name:8}{row['reads_per_s']:10,.0f}{depth:8.1f}"
                f"{row['drive_depth']:10.1f}{row['cores']:8.2f}",
                flush=True,
            )
    ratios = [a["reads_per_s"] / b["reads_per_s"] for a, b in zip(ours, fio, strict=True)]
    rates = [spread([row["reads_per_s"] for row in rows]) for rows in (ours, fio)]
    ratio = rates[0]["median"] / rates[1]["median"]
    depth = min(row["mean_depth"] for row in ours)
    moved = sum(row["reads"] for row in ours) * 4096
    report = {
        "benchmark": "read_rate",
        "commit": commit(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "ours": rates[0],
        "fio": rates[1],
        "ratio": ratio,
        "ratio_per_round": spread(ratios),
        "mean_depth_min": depth,
        "bytes_read": moved,
        "rounds": args.rounds,
    }
    out = ROOT / ".bench" / "read_rate.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    met = ratio >= RATIO_MIN and depth >= DEPTH_MIN
    print(f"ratio of medians {ratio:.2f} (bar {RATIO_MIN})")
    print(f"mean depth {depth:.1f} (bar {DEPTH_MIN})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
