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
import time
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
from .. import replay, streams

HOME = BENCH / "serving"
LENGTHS = {1: 300_000, 64: 20_000}
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


def stream_file(kind: str, nodes: int, graph: Path, seed: int) -> Path:
    """Requests that are long enough for warming and all loops; made once."""
    path = HOME / f"{graph.name}_{kind}_{nodes}_{seed}.csv"
    if not path.exists():
        about = {"kind": kind, "nodes_per_request": nodes, "seed": seed, "arrival_seed": seed}
        count = json.loads((graph / "about.json").read_text())["nodes"]
        length = LENGTHS.get(nodes, 300_000 // nodes)
        draws = np.random.default_rng([seed, 2])
        made = streams.KINDS[kind](count, length, nodes, draws)
        arrivals = streams.poisson(500.0, length, seed)
        requests = [np.array(ids, dtype=np.int64) for ids in made]
        streams.Stream(arrivals, requests, {**about, "rate": 500.0}).save(path)
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
            time.sleep(3.0)
            before = machine.device_reads(files[2])
            found = load(run, args, python)
            reads = machine.device_reads(files[2])[0] - before[0]
        finally:
            started.stdin.close()
            started.wait()
        notes = {"cap": cap.why_not or f"{cap.peak_bytes()} bytes", "kills": cap.kills()}
    return {**asdict(run), **found, **notes, "device_reads": reads}


def load(run: Run, args: argparse.Namespace, python: str) -> Report:
    """What the load says, from a process outside of the cgroup."""
    stream = stream_file(run.stream, run.nodes, args.graph, args.seed)
    last = args.port + run.workers - 1
    command = [python, "-m", "benchmarks.serving.replay", str(stream)]
    command += ["--to", f"peer:127.0.0.1:{args.port}-{last}", *args.rest]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: Report = json.loads(done.stdout.splitlines()[-1])
    return found


def markdown(results: list[Report]) -> str:
    """The table for people."""
    head = [
        "stream",
        "nodes",
        "workers",
        "threads",
        "handlers",
        "dictionary",
        "warming: requests/s",
    ]
    head += ["saturated, requests/s", "p50 ms", "p99 ms", "within the limit, requests/s", "p99 ms"]
    head += ["missed", "load, cores"]
    rows = []
    for one in results:
        closed, within = one["closed"], one.get("within_limit")
        rates = one["warm_rates"]
        rows.append(
            [
                one["stream"]["kind"],
                *(str(one[key]) for key in ("nodes", "workers", "threads", "handlers")),
                f"{one['dictionary_bytes']:,}",
                f"{rates[0]:.0f} ... {rates[-1]:.0f} ({len(rates)} windows)",
                f"{closed['requests_per_s']:.0f}",
                f"{closed['p50_ms']:.1f}",
                f"{closed['p99_ms']:.1f}",
                f"{within['requests_per_s']:.0f}" if within else "none",
                f"{within['p99_ms']:.1f}" if within else "",
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
    parser.add_argument("--port", type=int, default=50051)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HOME / "peer.json")
    args, args.rest = parser.parse_known_args()
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
