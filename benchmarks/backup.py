"""Backing a store up and restoring it, beside `cp -r` and a sync of the same files.

Each copy begins with the store out of the page cache, and the kinds take turns. Before each
increment 1,000 rows at random change. Prints a table and, as the last line, JSON, also in
`.bench/backup.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench" / "backup"
CHANGED_ROWS = 1000


def build(path: Path, nodes: int) -> None:
    """Generates a store with 128 columns and the given number of nodes, unless it exists."""
    from neargraph.datasets import plan_generated
    from neargraph.importers import ImportOptions, run_import

    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        run_import(plan_generated(nodes, 4 * nodes, 128, 8), path, ImportOptions())


def size(path: Path) -> int:
    """Bytes on disk of all files below."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def evict(path: Path) -> None:
    """Lets the files below leave the page cache."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def timed(source: Path, work: Callable[[], Any]) -> float:
    """Seconds of work on files that are not in the page cache."""
    evict(source)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def copy(source: Path, target: Path) -> None:
    """What `cp -r` does, made durable as a backup is."""
    subprocess.run(["cp", "-r", source, target], check=True)
    for file in target.iterdir():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def one_round(store: Path, number: int) -> dict[str, Any]:
    """Seconds and bytes of each kind, once."""
    import neargraph as ng

    names = ("copy", "whole", "increment", "restored")
    copied, whole, increment, restored = (BENCH / name for name in names)
    for path in (copied, whole, increment, restored):
        shutil.rmtree(path, ignore_errors=True)
    found: dict[str, Any] = {"store_bytes": size(store)}
    found["cp_seconds"] = timed(store, lambda: copy(store, copied))
    shutil.rmtree(copied)
    rng = np.random.default_rng(number)
    with ng.open(store, memory="256MB") as handle:
        found["backup_seconds"] = timed(store, lambda: handle.backup(whole))
        ids = np.unique(rng.integers(0, handle.num_nodes, CHANGED_ROWS))
        with handle.write() as tx:
            tx.update_features(None, ids, "x", rng.random((len(ids), 128), dtype=np.float32))
        handle.checkpoint()
        reports = []
        found["increment_seconds"] = timed(
            store, lambda: reports.append(handle.backup(increment, base=whole))
        )
    found["increment_pages"] = reports[0]["pages_copied"]
    found["pages"] = reports[0]["pages"]
    found["backup_bytes"], found["increment_bytes"] = size(whole), size(increment)
    found["restore_seconds"] = timed(whole, lambda: ng.restore(increment, restored))
    for path in (whole, increment, restored):
        shutil.rmtree(path)
    return found


def main() -> None:
    """Runs the rounds and prints what they gave."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    store = BENCH / f"{args.nodes}.ng"
    build(store, args.nodes)
    rounds = [one_round(store, number) for number in range(args.rounds)]

    def of(key: str, per: str) -> str:
        ratios = [found[key] / found[per] for found in rounds]
        return f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})"

    table = {
        "backup, seconds / cp -r": of("backup_seconds", "cp_seconds"),
        "increment, seconds / cp -r": of("increment_seconds", "cp_seconds"),
        "restore, seconds / cp -r": of("restore_seconds", "cp_seconds"),
        "backup, bytes / store": of("backup_bytes", "store_bytes"),
        "increment, bytes / store": of("increment_bytes", "store_bytes"),
        "increment, pages / pages": of("increment_pages", "pages"),
    }
    for name, value in table.items():
        print(f"{name:30} {value}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True)
    result = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "commit": commit.stdout.decode().strip(),
        "rounds": rounds,
        "table": table,
    }
    (ROOT / ".bench" / "backup.json").write_text(json.dumps(result, indent=1))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
