"""A process that answers requests of `benchmarks.latency`, one line of JSON each way.

`pyg`: NumPy samples from memory-mapped arrays with random advice, torch runs PyG's layers.
`ours`: the engine. Only the request itself is timed.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FANOUTS = [25, 10]
HIDDEN = 256


class Pyg:
    """PyG eager over mapped arrays."""

    def __init__(self, settings: dict[str, Any]) -> None:
        import torch

        from neargraph.nn import GraphSAGE

        self.torch = torch
        torch.set_num_threads(settings["threads"])
        self.home = Path(settings["graph"])
        about = json.loads((self.home / "about.json").read_text())
        self.model = GraphSAGE(about["width"], HIDDEN, about["classes"], len(FANOUTS)).eval()
        self.model.load_state_dict(torch.load(Path(settings["model"]).with_suffix(".pt")))
        self.arrays: dict[str, Any] = {}
        self.files: dict[str, int] = {}
        for name in ("indptr", "indices", "feat"):
            path = self.home / f"{name}.npy"
            self.arrays[name] = np.load(path, mmap_mode="r")
            self.files[name] = os.open(path, os.O_RDONLY)
            self.arrays[name]._mmap.madvise(mmap.MADV_RANDOM)

    def evict(self, **_: Any) -> dict[str, Any]:
        """Empties the page cache of the files."""
        for name, array in self.arrays.items():
            array._mmap.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(self.files[name], 0, 0, os.POSIX_FADV_DONTNEED)
        return {}

    def load(self, **_: Any) -> dict[str, Any]:
        """Has everything in memory."""
        for name in self.arrays:
            self.arrays[name] = np.load(self.home / f"{name}.npy")
        return {}

    def run(self, ids: list[int], seed: int) -> dict[str, Any]:
        """Sample, gather, forward."""
        start = time.perf_counter()
        draws = np.random.default_rng(seed)
        indptr, indices, feat = (self.arrays[name] for name in ("indptr", "indices", "feat"))
        seeds = np.unique(np.array(ids))
        nodes, frontier = seeds, seeds
        sources, destinations = [], []
        for fanout in FANOUTS:
            first = indptr[frontier]
            degree = indptr[frontier + 1] - first
            taken = np.minimum(degree, fanout)
            owner = np.repeat(np.arange(len(frontier)), taken)
            place = np.arange(len(owner)) - np.repeat(np.cumsum(taken) - taken, taken)
            drawn = (draws.random(len(owner)) * degree[owner]).astype(np.int64)
            at = first[owner] + np.where(degree[owner] <= fanout, place, drawn)
            found = indices[at].astype(np.int64)
            sources.append(found)
            destinations.append(frontier[owner])
            frontier = np.setdiff1d(found, nodes)
            nodes = np.concatenate([nodes, frontier])
        order = np.argsort(nodes)
        ends = (np.concatenate(part) for part in (sources, destinations))
        edges = np.stack([order[np.searchsorted(nodes, end, sorter=order)] for end in ends])
        with self.torch.no_grad():
            x = self.torch.from_numpy(np.asarray(feat[nodes]))
            out = self.model(x, self.torch.from_numpy(edges))[: len(seeds)].numpy()
        return {"seconds": time.perf_counter() - start, "rows": len(nodes), "sum": float(out.sum())}

    def copy_rows(self, ids: list[int], times: int) -> dict[str, Any]:
        """Rows of nodes out of memory, by `torch.index_select`: seconds each time."""
        x = self.torch.from_numpy(self.arrays["feat"])
        nodes, seconds = self.torch.tensor(ids), []
        for _ in range(times):
            start = time.perf_counter()
            self.torch.index_select(x, 0, nodes)
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}


class Ours:
    """The engine."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.store: Any = None
        self.engine: Any = None

    def open(self, prepare: Any, memory: str) -> dict[str, Any]:
        """Opens store and engine anew, and waits until what shall be in memory is there."""
        import neargraph as ng

        self.close()
        start = time.perf_counter()
        self.store = ng.open(self.settings["graph"] + ".ng", memory=memory)
        self.engine = ng.Engine(
            self.store,
            self.settings["model"],
            prepare=prepare,
            threads=self.settings["threads"],
        )
        opened = time.perf_counter() - start
        self.engine.wait_until_ready()
        ready = time.perf_counter() - start
        return {"seconds": opened, "ready_seconds": ready, "explain": self.engine.explain()}

    def run(self, ids: list[int], seed: int) -> dict[str, Any]:
        """One request."""
        nodes = np.array(ids)
        before, did = self.store.stats(), self.engine.stats()
        start = time.perf_counter()
        out = self.engine.run(nodes, seed)
        seconds = time.perf_counter() - start
        after, done = self.store.stats(), self.engine.stats()
        said = {key: after[key] - before[key] for key in ("reads", "read_bytes")}
        rows, lists = done["rows"] - did["rows"], done["lists"] - did["lists"]
        return {"seconds": seconds, **said, "rows": rows, "lists": lists, "sum": float(out.sum())}

    def copy_rows(self, ids: list[int], times: int, memory: str) -> dict[str, Any]:
        """Rows of nodes out of the hot set, as a model without hops takes them.

        Where all of them are hot a model may read rows where they lie; this one gives them as they
        are, so what is timed is their copy.
        """
        import neargraph as ng

        self.close()
        self.store = ng.open(self.settings["graph"] + ".ng", memory=memory)
        graph = ng.Dfg.from_text('1: "Identity"\n  in={"x"}\n  out={"1_0"}')
        how: dict[str, Any] = {
            "prepare": "hot",
            "threads": self.settings["threads"],
            "batch_nodes": len(ids),
        }
        self.engine = ng.Engine(self.store, graph, fanouts=[], **how)
        self.engine.wait_until_ready()
        seconds, nodes = [], np.array(ids)
        before = self.engine.stats()
        for _ in range(times):
            did = self.engine.stats()
            self.engine.run(nodes)
            done = self.engine.stats()
            seconds.append(sum(done[key] - did[key] for key in ("gather_seconds", "run_seconds")))
        after = self.engine.stats()
        prepared = after["rows_prepared"] - before["rows_prepared"]
        share = prepared / (after["rows"] - before["rows"])
        return {"seconds": seconds, "prepared_share": share}

    def close(self) -> None:
        """Closes what is open."""
        if self.engine is not None:
            self.engine.close()
            self.store.close()

    def stats(self, **_: Any) -> dict[str, Any]:
        """What the engine counts."""
        found: dict[str, Any] = self.engine.stats()
        return found


def main() -> None:
    """Answers until its input ends."""
    kind, settings = sys.argv[1], json.loads(sys.argv[2])
    worker = Pyg(settings) if kind == "pyg" else Ours(settings)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = getattr(worker, asked.pop("do"))(**asked)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
