"""Puts a load on a server from a process of its own, outside of the server's cgroup.

The load is `replay`, or any command that takes a stream file and an address and ends with a line of
JSON with the same keys: `warm_rates`, `closed`, `open` and, if an open loop was within the limit,
`within_limit`. Loops have `requests`, `requests_per_s`, `p50_ms`, `p99_ms`, `missed`, `load_cores`,
and `device_reads`, the reads of the disk under {disk} meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from ..places import BENCH, ROOT
from ..venvs import python_of
from . import streams

HOME = BENCH / "serving"
# Enough for warming and for all loops: no request is asked twice.
LENGTHS = {1: 300_000, 64: 20_000}
Report = dict[str, Any]


def stream_file(kind: str, nodes: int, graph: Path, seed: int) -> Path:
    """A long stream of requests; made once."""
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


def load(stream: Path, to: str, disk: Path, args: argparse.Namespace) -> Report:
    """What the load says of a server that reads `disk`; `args.rest` are options of the load."""
    if args.load is None:
        command = [str(python_of("peer")), "-m", "benchmarks.serving.replay", str(stream)]
        command += ["--to", to, "--disk", str(disk)]
    else:
        command = shlex.split(args.load.format(stream=stream, to=to, disk=disk))
    done = subprocess.run(
        [*command, *args.rest], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    found: Report = json.loads(done.stdout.splitlines()[-1])
    return found
