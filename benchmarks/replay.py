"""Replay of real histories of graphs, one commit for each simulated day or year.

`git`: files, folders and authors of six public repositories (git_trace.npz): a new file is a node
with edges to its author and its folder, a change is a new row and one more edge to the author, a
deletion deletes the node. `dblp`: authors and the papers they wrote together, by year. Both are
undirected multigraphs; rows are 64 f32. Prints a table and, as the last line, JSON, which also goes
to `.bench/replay.json`, and draws Figure 20 of HolisticGNN (operations and latency by day).

The data is found through NEARGRAPH_DATA. `python/tests/test_replays.py` compares the same replays
with plain Python dictionaries.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph import _core

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 64
ADD, MODIFY, DELETE = 0, 1, 2

Pairs = Any  # int64 [2, n]: neighbour and node of every entry, sorted


@dataclass
class Model:
    """The graph as Counters of neighbours by node, None for a deleted one; versions of rows."""

    nodes: list[Counter[int] | None] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def play(self, done: list[tuple[str, int, int]]) -> None:
        """Does what a batch did, and compares what the batch said."""
        for op, a, b in done:
            if op == "add_node":
                assert a == len(self.nodes), "ids count up"
                self.nodes.append(Counter())
            elif op == "add_edge":
                self.add_edge(a, b)
            else:
                self.delete_node(a)

    def add_edge(self, a: int, b: int) -> None:
        """One more edge between two nodes."""
        for node, other in {(a, b), (b, a)}:
            counts = self.nodes[node]
            assert counts is not None
            counts[other] += 1

    def delete_node(self, node: int) -> None:
        """Deletes a node and its edges."""
        gone = self.nodes[node]
        assert gone is not None
        for other in gone:
            counts = self.nodes[other]
            if counts is not None:
                counts.pop(node, None)
        self.nodes[node] = None

    def pairs(self) -> Pairs:
        """All entries of all lists, sorted."""
        flat = [
            (other, node)
            for node, counts in enumerate(self.nodes)
            for other, count in (counts or {}).items()
            for _ in range(count)
        ]
        return sort(np.array(flat, np.int64).reshape(-1, 2).T)

    def live(self) -> Any:
        """The nodes that were not deleted."""
        return np.flatnonzero([counts is not None for counts in self.nodes])


def sort(pairs: Pairs) -> Pairs:
    """Entries in an order that does not depend on lists."""
    return pairs[:, np.lexsort(pairs)]


def pairs_of(snapshot: ng.Snapshot) -> Pairs:
    """All entries of all lists of a snapshot, sorted."""
    ids = np.arange(snapshot.num_nodes)
    got = snapshot.neighbors(None, ids)
    return sort(np.stack([got.indices, np.repeat(ids, np.diff(got.indptr))]))


def rows_of(nodes: Any, versions: Any) -> Any:
    """The rows that nodes have in some versions, f32 [n, 64]; any two of them differ."""
    start = np.asarray(nodes, np.float32) * 0.5 + np.asarray(versions, np.float32)
    return start.reshape(-1, 1) + np.arange(WIDTH, dtype=np.float32) / WIDTH


@dataclass
class Day:
    """What happened to the graph in one commit."""

    adds: int = 0
    modifies: int = 0
    deletes: int = 0
    edges: int = 0
    seconds: float = 0.0


class Work:
    """A batch to which edges and rows go as arrays, and what the model has to do after it."""

    def __init__(self, batch: ng.Transaction, versions: list[int]) -> None:
        self._batch, self._versions = batch, versions
        self._edges: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int]] = []
        self.done: list[tuple[str, int, int]] = []

    def add_nodes(self, count: int) -> list[int]:
        """Adds nodes with rows of version 0."""
        first = len(self._versions)
        nodes = list(range(first, first + count))
        ids = self._batch.add_nodes(None, {"x": rows_of(nodes, [0] * count)})
        self._versions += [0] * count
        self.done += [("add_node", node, 0) for node in ids.tolist()]
        return nodes

    def add_edge(self, source: int, destination: int) -> None:
        """Adds an edge."""
        self._edges.append((source, destination))
        self.done.append(("add_edge", source, destination))

    def touch(self, node: int) -> None:
        """Gives a node a new row."""
        self._versions[node] += 1
        self._rows.append((node, self._versions[node]))

    def delete_node(self, node: int) -> None:
        """Deletes a node."""
        self.flush()
        self._batch.delete_node(None, node)
        self.done.append(("delete_node", node, 0))

    def flush(self) -> None:
        """Hands everything to the batch."""
        if self._edges:
            self._batch.add_edges(None, *np.array(self._edges).T)
            self._edges = []
        if self._rows:
            nodes, versions = np.array(self._rows).T
            self._batch.update_features(None, nodes, "x", rows_of(nodes, versions))
            self._rows = []


class GitTrace:
    """The history of files; authors and folders are there from the start."""

    def __init__(self, data: Path) -> None:
        with np.load(data / "git_trace" / "git_trace.npz") as file:
            self._ops = np.stack([file["op"], file["file_id"], file["author_id"]]).T
            self._days = file["time"] // 86400
            self._folder_of = file["file_dir"]
            parents = file["dir_parent"]
            self._authors, folders = int(file["num_authors"]), int(file["num_dirs"])
        self.num_nodes = self._authors + folders
        child = np.flatnonzero(parents >= 0)
        self.edges = self._authors + np.stack([parents[child], child]).astype(np.int64)
        self._nodes: dict[int, int] = {}

    def model(self) -> Model:
        """The graph at the start."""
        model = Model([Counter() for _ in range(self.num_nodes)], [0] * self.num_nodes)
        for a, b in self.edges.T.tolist():
            model.add_edge(a, b)
        return model

    def days(self) -> Iterator[Any]:
        """The operations of each day on which there were any, [n, 3]."""
        starts = np.flatnonzero(np.diff(self._days)) + 1
        return iter(np.split(self._ops, starts))

    def apply(self, ops: Any, work: Work) -> Day:
        """Does the operations of a day."""
        day = Day()
        for op, file, author in ops.tolist():
            if op == ADD:
                (node,) = work.add_nodes(1)
                self._nodes[file] = node
                work.add_edge(node, author)
                work.add_edge(node, self._authors + int(self._folder_of[file]))
                day.adds, day.edges = day.adds + 1, day.edges + 2
            elif op == MODIFY:
                work.touch(self._nodes[file])
                work.add_edge(self._nodes[file], author)
                day.modifies, day.edges = day.modifies + 1, day.edges + 1
            else:
                work.delete_node(self._nodes.pop(file))
                day.deletes += 1
        return day


class DblpTrace:
    """Authors who wrote together, year by year; an author appears with the first paper."""

    def __init__(self, data: Path) -> None:
        with gzip.open(data / "dblp_coauthor_temporal" / "dblp.txt.gz", "rt") as file:
            table = np.loadtxt(file)
        years, self._years = np.unique(table[:, 2], return_inverse=True)
        order = np.argsort(self._years, kind="stable")
        self._edges = np.column_stack([table[order, :2].astype(np.int64), self._years[order]])
        self.num_nodes, self.edges = 0, np.empty((2, 0), np.int64)
        self.num_years = len(years)
        self._nodes: dict[int, int] = {}

    def model(self) -> Model:
        """The graph at the start."""
        return Model()

    def days(self) -> Iterator[Any]:
        """The edges of each year, [n, 3]."""
        return iter(np.split(self._edges, np.flatnonzero(np.diff(self._edges[:, 2])) + 1))

    def apply(self, edges: Any, work: Work) -> Day:
        """Adds the authors and edges of a year."""
        known = len(self._nodes)
        ends = [self._nodes.setdefault(a, len(self._nodes)) for a in edges[:, :2].ravel().tolist()]
        new = len(self._nodes) - known
        if new:
            work.add_nodes(new)
        for a, b in np.reshape(ends, (-1, 2)).tolist():
            work.add_edge(a, b)
        return Day(adds=new, edges=len(edges))


TRACES = {"git": GitTrace, "dblp": DblpTrace}


def create(trace: GitTrace | DblpTrace, path: Path, fill: float) -> None:
    """A store of what the trace starts with."""
    out = _core.Importer(str(path), fill=fill, overwrite=True)
    out.node_type("node", trace.num_nodes)
    edge_type = out.edge_type("node", "to", "node", undirected=True)
    out.push_edges(edge_type, *(np.ascontiguousarray(ends) for ends in trace.edges))
    out.build_topology()
    tensor = out.begin_tensor("node", 0, "x", "f32", [WIDTH])
    out.push_rows(tensor, rows_of(range(trace.num_nodes), [0] * trace.num_nodes))
    out.finish()


@dataclass
class Result:
    """One replay: its days, what the store counted, the model, and snapshots on the way."""

    days: list[Day]
    stats: dict[str, Any]
    model: Model
    kept: list[tuple[ng.Snapshot, Pairs]]


def replay(store: ng.Store, trace: GitTrace | DblpTrace, keep_every: int = 0) -> Result:
    """Replays a trace; keeps a snapshot and what it must hold every so many days."""
    model, days, kept = trace.model(), [], []
    for number, ops in enumerate(trace.days(), 1):
        started = time.perf_counter()
        with store.write() as tx:
            work = Work(tx, model.versions)
            day = trace.apply(ops, work)
            work.flush()
        day.seconds = time.perf_counter() - started
        days.append(day)
        model.play(work.done)
        if keep_every and number % keep_every == 0:
            kept.append((store.snapshot(), model.pairs()))
    return Result(days, store.update_stats(), model, kept)


def figures(result: Result) -> dict[str, Any]:
    """What the paper reports, and the share of updates that evict, in two ways."""
    days, stats = result.days, result.stats
    operations = sum(d.adds + d.modifies + d.deletes + d.edges for d in days)
    ms = np.array([d.seconds for d in days]) * 1e3
    return {
        "days": len(days),
        "added_nodes_per_day": sum(d.adds for d in days) / len(days),
        "added_edges_per_day": sum(d.edges for d in days) / len(days),
        "deleted_nodes_per_day": sum(d.deletes for d in days) / len(days),
        "latency_mean_ms": float(ms.mean()),
        "latency_worst_ms": float(ms.max()),
        "seconds": float(ms.sum() / 1e3),
        "operations": operations,
        "list_updates": stats["list_updates"],
        "evictions": stats["evictions"],
        "evictions_per_operation": stats["evictions"] / operations,
        "evictions_per_list_update": stats["evictions"] / stats["list_updates"],
        "promotions": stats["promotions"],
        "demotions": stats["demotions"],
        "checkpoints": stats["checkpoints"],
        "write_amplification": stats["write_amplification"],
    }


def draw(name: str, result: Result, path: Path) -> None:
    """Operations of each day above, latency of each day below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    days = range(1, len(result.days) + 1)
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(9, 5), sharex=True)
    top.plot(days, [d.adds + d.edges for d in result.days], lw=0.6, label="adds")
    top.plot(days, [d.deletes for d in result.days], lw=0.6, label="deletes")
    top.set(yscale="symlog", ylabel="operations", title=f"{name}: one commit per step")
    top.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    bottom.plot(days, [d.seconds * 1e3 for d in result.days], lw=0.6, color="tab:red")
    step = "simulated day" if name == "git" else "year"
    bottom.set(yscale="log", ylabel="latency, ms", xlabel=step)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--plots", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    data = os.environ.get("NEARGRAPH_DATA")
    if not data:
        raise SystemExit("set NEARGRAPH_DATA to the folder of the real data sets")
    folder = ROOT / ".bench"
    folder.mkdir(exist_ok=True)
    results: dict[str, Any] = {}
    for name, kind in TRACES.items():
        for fill in (0.9, 1.0):
            trace, path = kind(Path(data)), folder / f"replay_{name}.ng"
            create(trace, path, fill)
            with ng.open(path, memory=options.memory) as store:
                result = replay(store, trace)
                assert np.array_equal(pairs_of(store.snapshot()), result.model.pairs())
            results[f"{name}, fill {fill}"] = figures(result)
            if fill == 0.9:
                draw(name, result, options.plots / f"replay_{name}.png")
            shutil.rmtree(path)
    report(results, options.memory, folder)


def report(results: dict[str, Any], memory: str, folder: Path) -> None:
    """The table and the JSON."""
    print(f"{'':28}" + "".join(f"{name:>18}" for name in results))
    for key in next(iter(results.values())):
        print(f"{key:28}" + "".join(f"{one[key]:>18,.4g}" for one in results.values()))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"
    line = json.dumps({"commit": commit, "machine": machine, "memory": memory, "runs": results})
    (folder / "replay.json").write_text(line + "\n")
    print(line)


if __name__ == "__main__":
    main()
