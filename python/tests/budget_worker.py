"""One phase of the budget test in a process without torch: import, sample or verify.

Run as `python budget_worker.py PHASE STORE MEMORY_BYTES`. Prints one JSON object. The graph is made
chunk by chunk from a counter-based generator, so that the making itself needs no memory worth
counting.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

import neargraph as ng
from neargraph import _core

NODES = 300_000
EDGES = 6_000_000
WIDTH = 448
CHUNK = 1 << 16


def anonymous_rss() -> int:
    """Bytes of anonymous memory of this process now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """The peak of anonymous memory while a block runs, less its size at the start."""

    def __enter__(self) -> Watch:
        self.before = self.peak = anonymous_rss()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def _run(self) -> None:
        while not self.stop.is_set():
            self.peak = max(self.peak, anonymous_rss())
            time.sleep(0.002)

    def __exit__(self, *_: object) -> None:
        self.peak = max(self.peak, anonymous_rss())
        self.stop.set()
        self.thread.join()

    @property
    def grown(self) -> int:
        return self.peak - self.before


def build(path: str, memory: int) -> dict[str, object]:
    """Imports the generated graph under the budget."""
    with Watch() as watch:
        importer = _core.Importer(path, memory=memory)
        importer.node_type("node", NODES)
        edge_type = importer.edge_type("node", "to", "node", undirected=True)
        for start in range(0, EDGES, CHUNK):
            rng = np.random.Generator(np.random.Philox(key=[1, start]))
            count = min(CHUNK, EDGES - start)
            sources = (rng.random(count) ** 3 * NODES).astype(np.int64)
            importer.push_edges(edge_type, sources, rng.integers(0, NODES, count))
        importer.build_topology()
        tensor = importer.begin_tensor("node", 0, "x", "f32", [WIDTH])
        rows = CHUNK // 64
        for start in range(0, NODES, rows):
            rng = np.random.Generator(np.random.Philox(key=[2, start]))
            count = min(rows, NODES - start)
            importer.push_rows(tensor, rng.random((count, WIDTH), dtype=np.float32))
        report = json.loads(importer.finish())
    return {"rss_grown": watch.grown, "disk_bytes": report["disk_bytes"]}


def sample(path: str, memory: int) -> dict[str, object]:
    """Draws batches with features from disk; their hash must not depend on the budget."""
    digest = hashlib.sha256()
    with Watch() as watch, ng.open(path, memory=memory) as store:
        sampler = ng.NumpySampler(store, [10, 5], seed=3)
        batches = 0
        for batch in sampler.batches(np.arange(0, NODES, 10), 128):
            digest.update(batch.nodes())
            digest.update(batch.edge_index())
            digest.update(batch.features("x"))
            del batch
            batches += 1
            if batches == 60:
                break
        stats = store.stats()
    return {
        "rss_grown": watch.grown,
        "budget_peak": stats["budget_peak"],
        "hash": digest.hexdigest(),
        "batches": batches,
    }


def verify(path: str, memory: int) -> dict[str, object]:
    """Checks every block under the budget."""
    with Watch() as watch:
        report = json.loads(_core.verify(path, memory))
    return {"rss_grown": watch.grown, "ok": report["ok"]}


if __name__ == "__main__":
    # The package loads lazily; its own code is no part of what opening a store takes.
    ng.open, ng.NumpySampler  # noqa: B018
    phase, path, memory = sys.argv[1:]
    found = {"import": build, "sample": sample, "verify": verify}[phase](path, int(memory))
    assert "torch" not in sys.modules
    print(json.dumps(found))
