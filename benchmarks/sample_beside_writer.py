"""Sampling from a snapshot while a writer in the same process makes 10,000 updates a second.

Both are pinned to a core of their own. The quiet run samples a copy of the store, pinned likewise,
with nobody writing; both must give the same batches. Prints a table and, as the last line, JSON,
also in `.bench/sample_beside_writer.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench" / "beside"
WIDTH = 64
BATCH = 100
UPDATES_PER_SECOND = 10_000


def build(path: Path, nodes: int, edges: int) -> None:
    """A graph with hubs: ends are drawn by a power of a uniform number."""
    from neargraph import _core

    rng = np.random.default_rng(3)
    ends = [(nodes * rng.random(edges) ** 2.2).astype(np.int64) for _ in range(2)]
    importer = _core.Importer(str(path), overwrite=True)
    node = importer.node_type("node", nodes)
    importer.push_edges(importer.edge_type("node", "edge", "node", undirected=True), *ends)
    x = importer.begin_tensor("node", node, "x", "f32", [WIDTH])
    importer.build_topology()
    for first in range(0, nodes, 1 << 16):
        rows = rng.random((min(1 << 16, nodes - first), WIDTH), dtype=np.float32)
        importer.push_rows(x, rows)
    importer.finish()


class PacedWriter(threading.Thread):
    """Edges and rows in batches of 100, as many a second as asked for, on core 0."""

    def __init__(self, store: Any, nodes: int) -> None:
        super().__init__(daemon=True)
        self.store, self.nodes = store, nodes
        self.stopped = threading.Event()
        self.operations = 0
        self.late_seconds = 0.0

    def run(self) -> None:
        os.sched_setaffinity(0, {0})
        rng = np.random.default_rng(11)
        rows = rng.random((BATCH // 2, WIDTH), dtype=np.float32)
        start = time.perf_counter()
        while not self.stopped.is_set():
            ends = rng.integers(0, self.nodes, (3, BATCH // 2))
            with self.store.write() as tx:
                tx.add_edges(None, ends[0], ends[1])
                tx.update_features("node", ends[2], "x", rows)
            self.operations += BATCH
            due = start + self.operations / UPDATES_PER_SECOND
            now = time.perf_counter()
            self.late_seconds = max(0.0, now - due)
            if due > now:
                self.stopped.wait(due - now)
        self.seconds = time.perf_counter() - start


def sample(store: Any, batches: int, seeds: np.ndarray) -> tuple[str, float]:
    """A digest of all batches, and seeds a second."""
    import neargraph as ng

    sampler = ng.NumpySampler(store.snapshot(), [15, 10], seed=5)
    digest = hashlib.blake2b(digest_size=16)
    start = time.perf_counter()
    for batch in sampler.batches(seeds[: batches * 1024], 1024):
        digest.update(np.ascontiguousarray(batch.nodes()[::97]))
        digest.update(np.ascontiguousarray(batch.edge_index()[:, ::97]))
        digest.update(np.ascontiguousarray(batch.features("x")[::97]))
    return digest.hexdigest(), batches * 1024 / (time.perf_counter() - start)


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """One run, in this process."""
    import neargraph as ng

    os.sched_setaffinity(0, {1})
    store = ng.open(args.store, memory=args.memory)
    seeds = np.random.default_rng(9).permutation(args.nodes)
    sample(store, 8, seeds)
    writer = None
    if args.writer:
        # The snapshot comes first: both runs must see the graph as it was imported.
        snapshot = store.snapshot()
        writer = PacedWriter(store, args.nodes)
        writer.start()
        time.sleep(1.0)
    else:
        snapshot = store.snapshot()
    digest, rate = sample(snapshot, args.batches, seeds)
    result: dict[str, Any] = {"digest": digest, "seeds_per_second": rate}
    if writer is not None:
        writer.stopped.set()
        writer.join()
        result["updates_per_second"] = writer.operations / writer.seconds
        result["late_seconds"] = writer.late_seconds
        result["updates"] = store.update_stats()
    store.close()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store")
    parser.add_argument("--writer", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--memory", default="1GB")
    args = parser.parse_args()
    if args.store:
        print(json.dumps(run_one(args)))
        return 0
    BENCH.mkdir(parents=True, exist_ok=True)
    origin = BENCH / "origin.ng"
    build(origin, args.nodes, args.edges)
    runs: dict[str, list[dict[str, Any]]] = {"quiet": [], "beside": []}
    for _ in range(args.runs):
        for name in runs:
            copy = BENCH / f"{name}.ng"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(origin, copy)
            os.sync()
            command = [sys.executable, __file__, "--store", str(copy)]
            command += ["--batches", str(args.batches), "--nodes", str(args.nodes)]
            command += ["--memory", args.memory] + (["--writer"] if name == "beside" else [])
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
            if done.returncode != 0:
                raise SystemExit(done.stderr[-2000:])
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, {k: v for k, v in runs[name][-1].items() if k != "updates"}, flush=True)
    rates = {name: [run["seeds_per_second"] for run in runs[name]] for name in runs}
    ratios = [b / q for b, q in zip(rates["beside"], rates["quiet"], strict=True)]
    digests = {run["digest"] for name in runs for run in runs[name]}
    report = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
        "same_batches": len(digests) == 1,
        "runs": runs,
    }
    print(f"beside a writer / quiet: {report['ratio']}, same batches: {report['same_batches']}")
    (BENCH.parent / "sample_beside_writer.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
