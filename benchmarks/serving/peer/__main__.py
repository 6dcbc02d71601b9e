"""The peer by number of workers: tuned, warmed, and asked by a load of its own.

    python -m benchmarks.venvs peer        # once, and: python -m benchmarks.sampler
    python -m benchmarks.serving.peer      # uniform, 1 and 64 nodes a request
    python -m benchmarks.serving.peer --streams zipf:1 --dictionary 16MB 64MB

Each run has a memory cgroup that holds its workers and their page cache. Its files are read once
for each boot and evicted before each run, so a run inherits neither pages nor a slow first touch.
The table says the rate of each window until it was steady. The best number of workers is what
another server may be compared with; a cold or single peer never is. Where a dictionary of answers
is given, its bytes are split among the workers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import machine
from ...cap import Cap
from ...places import BENCH, GRAPHS, ROOT
from ...training import size
from ...training_tables import table
from ...venvs import python_of
from .. import replay
from ..loads import HOME, load, stream_file

Report = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of the peer."""

    stream: str
    nodes: int
    workers: int
    threads: int
    handlers: int
    dictionary_bytes: int


def wide_indices(graph: Path) -> Path:
    """The neighbour lists as int64, which the compiled sampler takes; made once."""
    path = HOME / f"{graph.name}_indices64.npy"
    narrow = np.load(graph / "indices.npy", mmap_mode="r")
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    wide = np.lib.format.open_memmap(part, "w+", np.int64, narrow.shape)
    step = 1 << 22
    for first in range(0, len(narrow), step):
        wide[first : first + step] = narrow[first : first + step]
    wide.flush()
    part.rename(path)
    return path


def measure(run: Run, args: argparse.Namespace) -> Report:
    """Starts the peer, loads it, and says what was found."""
    files = [args.graph / "indptr.npy", wide_indices(args.graph), args.graph / "feat.npy"]
    machine.evict(files)
    settings = {
        "graph": str(args.graph),
        "indices": str(files[1]),
        "weights": str(args.weights),
        "workers": run.workers,
        "port": args.port,
        "threads": run.threads,
        "handlers": run.handlers,
        "dictionary_bytes": run.dictionary_bytes,
    }
    python = str(python_of("peer"))
    environment = {**os.environ, "OMP_NUM_THREADS": str(run.threads)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    with Cap(args.cap, "-peer") as cap:
        command = [python, "-m", "benchmarks.serving.peer.server", json.dumps(settings)]
        started = cap.popen(command, env=environment, **pipes)
        assert started.stdout is not None
        assert started.stdin is not None
        try:
            if not started.stdout.readline():
                raise SystemExit(f"the peer did not start: {started.wait()}")
            stream = stream_file(run.stream, run.nodes, args.graph, args.seed)
            last = args.port + run.workers - 1
            found = load(stream, f"peer:127.0.0.1:{args.port}-{last}", files[2], args)
        finally:
            started.stdin.close()
            started.wait()
        notes = {"cap": cap.why_not or f"{cap.peak_bytes()} bytes", "kills": cap.kills()}
    return {"run": asdict(run), **found, **notes}


def hits(stats: Report) -> str:
    """The share of nodes that a dictionary had."""
    asked = stats.get("hits", 0) + stats.get("misses", 0)
    return f"{stats['hits'] / asked:.0%}" if asked else "-"


def markdown(results: list[Report]) -> str:
    """The table for people."""
    head = ["stream", "nodes", "workers", "threads", "handlers", "dictionary, bytes (hits)"]
    head += ["warming: requests/s", "saturated, requests/s", "p50 ms", "p99 ms"]
    head += ["within the limit, requests/s", "p99 ms", "reads a request", "missed", "load, cores"]
    rows = []
    for one in results:
        run, closed, within = one["run"], one["closed"], one.get("within_limit")
        rates = one["warm_rates"]
        rows.append(
            [
                run["stream"],
                *(str(run[key]) for key in ("nodes", "workers", "threads", "handlers")),
                f"{run['dictionary_bytes']:,} ({hits(one['stats'])})",
                f"{rates[0]:.0f} ... {rates[-1]:.0f} ({len(rates)} windows)",
                f"{closed['requests_per_s']:.0f}",
                f"{closed['p50_ms']:.1f}",
                f"{closed['p99_ms']:.1f}",
                f"{within['requests_per_s']:.0f}" if within else "none",
                f"{within['p99_ms']:.1f}" if within else "",
                f"{closed['device_reads'] / closed['requests']:.0f}",
                str(closed["missed"]),
                f"{closed['load_cores']:.2f}",
            ]
        )
    return "\n".join(table(head, rows))


def parse() -> argparse.Namespace:
    """The command line; what is not known here goes to `replay`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    model = BENCH / "latency" / "sage_256_256_32.pt"
    parser.add_argument("--graph", type=Path, default=GRAPHS / "planted_4m")
    parser.add_argument("--weights", type=Path, default=model, help="made by benchmarks.latency")
    parser.add_argument("--streams", nargs="+", default=["uniform:1", "uniform:64"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of torch")
    parser.add_argument("--handlers", type=int, nargs="+", default=[4], help="of each worker")
    parser.add_argument("--dictionary", type=size, nargs="+", default=[0], help="bytes of answers")
    parser.add_argument("--cap", type=size, default=2 << 30, help="bytes of the cgroup")
    parser.add_argument("--load", help="a command with {stream}, {to} and {disk}; default: replay")
    parser.add_argument("--port", type=int, default=50051)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HOME / "peer.json")
    args, args.rest = parser.parse_known_args()
    if args.load is None:
        replay.parser().parse_args(args.rest)
    return args


def main() -> int:
    """Measures, prints and writes JSON and Markdown."""
    args = parse()
    files = [args.graph / "indptr.npy", wide_indices(args.graph), args.graph / "feat.npy"]
    machine.read_once(files)
    report: Report = {"benchmark": "serving peer", "about": machine.about(args.graph)}
    report["results"] = results = []
    for stream in args.streams:
        kind, _, nodes = stream.partition(":")
        runs = [
            Run(kind, int(nodes or 1), workers, threads, handlers, dictionary)
            for dictionary in args.dictionary
            for workers in args.workers
            for threads in args.threads
            for handlers in args.handlers
        ]
        for run in runs:
            print(run, file=sys.stderr, flush=True)
            results.append(measure(run, args))
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(report, indent=1) + "\n")
    text = markdown(results)
    args.out.with_suffix(".md").write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
