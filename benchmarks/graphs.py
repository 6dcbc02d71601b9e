"""Makes the graphs of the benchmarks under `.bench/graphs/`, one command each.

    python -m benchmarks.graphs planted_4m          # 4 M nodes, 100 M entries, 256 columns
    python -m benchmarks.graphs planted --nodes 1M --degree 25 --width 64 --name small
    python -m benchmarks.graphs narrow --name planted_4m --x-dtype f16   # of arrays that are there
    python -m benchmarks.graphs timed --name planted_4m          # edges with times and weights
    python -m benchmarks.graphs two_way --name planted_4m        # out-edges, too
    python -m benchmarks.graphs typed --name planted_4m          # two node types, four edge types
    python -m benchmarks.graphs reorganized --name planted_4m --by heat      # planted_4m_heat.ng
    python -m benchmarks.graphs planted_16m | cnr_natural | cnr_random | cnr_kronecker | physics

NAME/ holds what the baselines read: indptr.npy and indices.npy (rows are the nodes that sample; the
graphs are symmetric), feat.npy, labels.npy, train.npy, val.npy, test.npy, and about.json with the
degrees beside those of the standard graph. NAME.ng beside it is the store made of the same arrays.
The seed is printed, and equal seeds give equal files.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import kronecker, planted, typed
from .places import GRAPHS, data_folder

Array = Any
Rows = Callable[[], Iterator[Array]]

STANDARD_DEGREES = {"mean": 25, "median": 10, "p99": 232, "max": 16_000}
DEGREE = 24.7
# Times of edges are below this.
TIMES = 1 << 20
SPLIT = {"train": 0.10, "val": 0.05, "test": 0.05}


@dataclass
class Graph:
    """A graph in memory, its rows as a stream that can be asked for again."""

    indptr: Array
    indices: Array
    labels: Array
    width: int
    rows: Rows

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return len(self.indptr) - 1


def say(text: str, started: float = time.perf_counter()) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"[{time.perf_counter() - started:6.1f} s] {text}", flush=True)


def make_planted(nodes: int, degree: float, width: int, seed: int) -> Graph:
    """The standard graph at any size."""
    indptr, indices, labels = planted.planted(nodes, degree, seed, say)
    return Graph(indptr, indices, labels, width, lambda: planted.rows(labels, width, seed))


def make_cnr(width: int, seed: int, natural: bool, factor: int = 1) -> Graph:
    """cnr-2000, symmetric, with generated rows; expanded by `factor` if that is more than 1.

    Its classes are ranges of the natural ids, which on the web are sites.
    """
    with np.load(data_folder("cnr-2000") / "cnr-2000_csr.npz") as file:
        indptr, indices = kronecker.symmetric(file["indptr"].astype(np.int64), file["indices"])
    if factor > 1:
        say(f"expanding {len(indptr) - 1:,} nodes and {len(indices):,} entries {factor} times")
        indptr, indices = kronecker.expanded(indptr, indices, factor, per_row=3.0)
    nodes = len(indptr) - 1
    labels = np.arange(nodes, dtype=np.int64) * planted.CLASSES // nodes
    if not natural:
        order = planted.generator(seed, 1).permutation(nodes)
        indptr, indices = kronecker.renamed(indptr, indices, order)
        named = np.empty_like(labels)
        named[order] = labels
        labels = named
    return Graph(indptr, indices, labels, width, lambda: planted.rows(labels, width, seed))


def make_physics(seed: int) -> Graph:
    """Coauthor Physics with its own rows of word counts, dense: 33.7 KB each."""
    del seed
    with np.load(data_folder("npz_graphs") / "ms_academic_phy.npz") as file:
        data = {name: file[name] for name in file.files if name != "class_names"}
    indptr, indices = kronecker.symmetric(data["adj_indptr"].astype(np.int64), data["adj_indices"])
    nodes, width = (int(n) for n in data["attr_shape"])
    starts = data["attr_indptr"].astype(np.int64)

    def rows() -> Iterator[Array]:
        step = max(1, planted.BLOCK_BYTES // (4 * width))
        for first in range(0, nodes, step):
            end = min(first + step, nodes)
            span = slice(starts[first], starts[end])
            dense = np.zeros((end - first, width), dtype=np.float32)
            owner = np.repeat(np.arange(end - first), np.diff(starts[first : end + 1]))
            dense[owner, data["attr_indices"][span]] = data["attr_data"][span]
            yield dense

    return Graph(indptr, indices, data["labels"].astype(np.int64), width, rows)


NAMED: dict[str, Callable[[int], Graph]] = {
    "planted_4m": partial(make_planted, 4_000_000, DEGREE, 256),
    "planted_1m": partial(make_planted, 1_000_000, DEGREE, 256),
    "planted_16m": partial(make_planted, 16_000_000, DEGREE, 128),
    "cnr_natural": lambda seed: make_cnr(256, seed, natural=True),
    "cnr_random": lambda seed: make_cnr(256, seed, natural=False),
    "cnr_kronecker": lambda seed: make_cnr(256, seed, natural=False, factor=8),
    "physics": make_physics,
}


def degrees(graph: Graph) -> dict[str, float]:
    """The quantiles by which graphs of this kind are told apart."""
    own = np.diff(graph.indptr)
    return {
        "mean": float(own.mean()),
        "median": float(np.median(own)),
        "p99": float(np.quantile(own, 0.99)),
        "max": float(own.max()),
    }


def split_ids(nodes: int, seed: int) -> dict[str, Array]:
    """Disjoint random train, val and test ids, ascending."""
    order = planted.generator(seed, 5).permutation(nodes)
    ids, first = {}, 0
    for name, share in SPLIT.items():
        count = int(nodes * share)
        ids[name] = np.sort(order[first : first + count]).astype(np.int64)
        first += count
    return ids


def write_rows(graph: Graph, path: Path) -> None:
    """The rows as one .npy file, streamed; its header fills a page, so that rows are aligned."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (graph.nodes, graph.width)}
    done = 0
    with path.open("wb") as file:
        file.write(np.lib.format.magic(1, 0) + (4096 - 10).to_bytes(2, "little"))
        file.write(repr(header).encode().ljust(4096 - 11) + b"\n")
        for chunk in graph.rows():
            file.write(memoryview(chunk).cast("B"))
            done += len(chunk)
            if done % (64 * len(chunk)) == 0 or done == graph.nodes:
                say(f"rows {done:,} of {graph.nodes:,}")


def write_store(
    graph: Graph,
    ids: dict[str, Array],
    rows: Rows,
    path: Path,
    x_dtype: Any = "f32",
    reverse: bool = False,
    timed: bool = False,
) -> dict[str, Any]:
    """The store of the same graph, as any import writes it; `x_dtype` may be "sparse". With
    `timed` edges have random times below `TIMES` and weights."""
    from neargraph.importers import (
        EdgeChunk,
        EdgePlan,
        GraphPlan,
        ImportOptions,
        NodePlan,
        TensorPlan,
        run_import,
    )

    nodes, entries = graph.nodes, len(graph.indices)
    codes = np.zeros(nodes, dtype=np.uint8)
    for code, name in enumerate(SPLIT, 1):
        codes[ids[name]] = code

    def edges() -> Iterator[Any]:
        step = max(1, nodes * (1 << 18) // max(1, entries))
        for row in range(0, nodes, step):
            end = min(row + step, nodes)
            span = slice(graph.indptr[row], graph.indptr[end])
            own = np.repeat(
                np.arange(row, end, dtype=np.int64), np.diff(graph.indptr[row : end + 1])
            )
            sources = graph.indices[span].astype(np.int64)
            if not timed:
                yield EdgeChunk(own, sources)
                continue
            random = planted.generator(row, 6)
            times = random.integers(0, TIMES, len(own))
            weights = random.random(len(own), dtype=np.float32)
            yield EdgeChunk(own, sources, times=times, weights=weights)

    tensors = [
        TensorPlan("x", "f32", (graph.width,), rows, nodes),
        TensorPlan("y", "i64", (), lambda: iter([graph.labels]), nodes),
        TensorPlan("split_0", "u8", (), lambda: iter([codes]), nodes),
    ]
    plan = GraphPlan(
        path.stem,
        "benchmark",
        [NodePlan(num_nodes=nodes, tensors=tensors)],
        [EdgePlan(chunks=edges, num_edges=entries, has_time=timed, has_weight=timed)],
    )
    dense = x_dtype != "sparse"
    narrow = None if x_dtype in ("f32", "sparse") else x_dtype
    options = ImportOptions(
        memory=1_000_000_000, overwrite=True, x_dtype=narrow, dense=dense, reverse=reverse
    )
    return run_import(plan, path, options)


def write_again(name: str, what: str, folder: Path, **how: Any) -> None:
    """A graph's store once more, written otherwise, as NAME_WHAT.ng; `how` is for `write_store`."""
    home = folder / name
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in home.glob("*.npy")}
    rows, width = npy_rows(home / "feat.npy"), arrays["feat"].shape[1]
    graph = Graph(arrays["indptr"], arrays["indices"], arrays["labels"], width, rows)
    say(f"importing {name}_{what}.ng")
    write_store(graph, arrays, rows, folder / f"{name}_{what}.ng", **how)
    say("done")


def write_reorganized(
    name: str, by: str, folder: Path, into: Path, batch_size: int, fanouts: list[int]
) -> dict[str, Any]:
    """A copy of a graph's store with its rows in another order, as NAME_BY.ng; the report."""
    import neargraph as ng

    path = into / f"{name}_{by}.ng"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / f"{name}.ng", path)
    say(f"reorganising {path.name}")
    with ng.open(path, memory="2GB") as store:
        report = store.reorganize(
            by, num_neighbors=fanouts, batch_size=batch_size, input_nodes="train"
        )
    say("done")
    return report


def npy_rows(path: Path) -> Rows:
    """The rows of a file that was written, read with plain reads."""

    def rows() -> Iterator[Array]:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            (count, width), _, dtype = np.lib.format.read_array_header_1_0(file)
            step = max(1, planted.BLOCK_BYTES // (4 * width))
            for first in range(0, count, step):
                size = min(step, count - first)
                yield np.fromfile(file, dtype, size * width).reshape(size, width)

    return rows


def write(name: str, graph: Graph, seed: int, keep: str, folder: Path) -> None:
    """Everything about a graph under `folder`."""
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    found = degrees(graph)
    print(f"{'degrees':>10}{'here':>10}{'standard':>10}")
    for key, wanted in STANDARD_DEGREES.items():
        print(f"{key:>10}{found[key]:10,.1f}{wanted:10,}")
    ids = split_ids(graph.nodes, seed)
    for key, array in {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "labels": graph.labels,
        **ids,
    }.items():
        np.save(home / f"{key}.npy", array)
    rows = graph.rows
    if keep != "store":
        write_rows(graph, home / "feat.npy")
        rows = npy_rows(home / "feat.npy")
    report = {}
    if keep != "arrays":
        say(f"importing {name}.ng")
        report = write_store(graph, ids, rows, folder / f"{name}.ng")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    about = {
        "name": name,
        "seed": seed,
        "nodes": graph.nodes,
        "entries": len(graph.indices),
        "width": graph.width,
        "classes": int(graph.labels.max()) + 1,
        "degrees": found,
        "peak_rss_bytes": peak,
        "import": report,
    }
    (home / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    say(
        f"{name}: {graph.nodes:,} nodes, {len(graph.indices):,} entries, {graph.width} columns, "
        f"seed {seed}; peak RSS {peak / 1e9:.2f} GB"
    )


def count(text: str) -> int:
    """4000000 of "4M"."""
    scale = {"K": 1_000, "M": 1_000_000}.get(text[-1:].upper())
    return int(text) if scale is None else int(float(text[:-1]) * scale)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "graph",
        choices=["planted", "narrow", "reorganized", "timed", "two_way", "typed", *NAMED],
    )
    parser.add_argument("--nodes", type=count, default=4_000_000, help="of `planted`")
    parser.add_argument("--degree", type=float, default=DEGREE, help="of `planted`, mean")
    parser.add_argument("--width", type=int, default=256, help="of `planted`, f32 columns")
    parser.add_argument("--name", help="of `planted`: what to call it; else: which graph")
    parser.add_argument("--by", choices=["heat", "locality"], default="heat")
    parser.add_argument("--batch-size", type=int, default=1024, help="of `reorganized`")
    parser.add_argument("--fanouts", default="15-10", help="of `reorganized`")
    parser.add_argument("--x-dtype", choices=["f16", "bf16", "i8", "sparse"], default="f16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", choices=["both", "store", "arrays"], default="both")
    parser.add_argument("--folder", type=Path, default=GRAPHS)
    args = parser.parse_args()
    say(f"seed {args.seed}")
    again: dict[str, dict[str, Any]] = {
        "narrow": {"what": args.x_dtype, "x_dtype": args.x_dtype},
        "timed": {"what": "timed", "timed": True},
        "two_way": {"what": "two_way", "reverse": True},
    }
    if args.graph in again:
        write_again(args.name or "planted_4m", folder=args.folder, **again[args.graph])
        return
    if args.graph == "typed":
        home = args.folder / (args.name or "planted_4m")
        say(f"importing {home.name}_typed.ng")
        typed.write(home, npy_rows(home / "feat.npy"))
        say("done")
        return
    if args.graph == "reorganized":
        fanouts = [int(fanout) for fanout in args.fanouts.split("-")]
        name = args.name or "planted_4m"
        write_reorganized(name, args.by, args.folder, args.folder, args.batch_size, fanouts)
        return
    if args.graph == "planted":
        name = args.name or f"planted_{args.nodes}_{args.width}"
        graph = make_planted(args.nodes, args.degree, args.width, args.seed)
    else:
        name, graph = args.graph, NAMED[args.graph](args.seed)
    needed = graph.nodes * graph.width * 4 * (2 if args.keep == "both" else 1)
    args.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(args.folder).free
    if free < 1.2 * needed:
        raise SystemExit(f"{args.folder} has {free:,} bytes free, {needed:,} are needed and more")
    write(name, graph, args.seed, args.keep, args.folder)


if __name__ == "__main__":
    main()
