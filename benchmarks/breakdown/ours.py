"""The same work by this system, in one process, once: `import` prepares the graph, `serve` answers.

The import reads the same text and rows and is done once in the life of a graph. A process that
serves opens the store and answers; nothing is prepared but metadata. It has opened the store once
before the clock starts, which loads code, as the host has imported its libraries; no batch was
asked, and the pages are evicted again. BatchI/O is the time in which
the device had reads of the batch in flight, PureInfer that of the model, BatchPrep all the rest of
the request. What opening takes is the first batch's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.importers import ImportOptions, plan_source, run_import
from neargraph.importers.npy import array_tensor

from ..machine import evict

Report = dict[str, Any]


def imported(asked: Report) -> Report:
    """Text and rows become a store: undirected, sorted, without doubles, with loops."""
    start = time.perf_counter()
    plan = plan_source(asked["text"], "text")
    rows = np.load(asked["rows"], mmap_mode="r")
    plan.nodes[0].num_nodes = len(rows)
    plan.nodes[0].tensors = [array_tensor(rows, "x", asked["rows"])]
    options = ImportOptions(
        undirected=True, unique=True, self_loops="add", dense=True, overwrite=True, memory=1 << 30
    )
    report = run_import(plan, asked["store"], options)
    return {**report, "wall_seconds": time.perf_counter() - start}


@contextmanager
def opened(asked: Report) -> Iterator[tuple[ng.Store, ng.Engine]]:
    """The store and an engine on it."""
    how = {"fanouts": asked["fanouts"], "threads": asked["threads"]}
    with (
        ng.open(asked["store"], memory=asked["memory"]) as store,
        ng.Engine(store, asked["model"], **how) as engine,
    ):
        yield store, engine


def served(asked: Report) -> Report:
    """The seconds of each stage, of the first batch and of later ones."""
    with opened(asked):
        pass
    evict(list(Path(asked["store"]).glob("*.dat")))
    start = time.perf_counter()
    with opened(asked) as (store, engine):
        found: Report = {"open": time.perf_counter() - start, "batches": []}
        for seed, seeds in enumerate(asked["batches"]):
            ids = np.array(seeds)
            did, before = engine.stats(), store.stats()
            began = time.perf_counter()
            engine.run(ids, seed)
            wall = time.perf_counter() - began
            done, after = engine.stats(), store.stats()
            infer = done["run_seconds"] - did["run_seconds"]
            busy = after["device_busy_seconds"] - before["device_busy_seconds"]
            busy = min(busy, wall - infer)
            one = {"prep": wall - infer - busy, "io": busy, "infer": infer}
            one["reads"] = after["reads"] - before["reads"]
            found["batches"].append(one)
    return found


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    print(json.dumps({"import": imported, "serve": served}[sys.argv[1]](given)))
