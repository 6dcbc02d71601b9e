"""One seed of one row on one side, in a process of its own; prints the result as a line of JSON.

    python -m benchmarks.accuracy.worker ROW SEED ours|pyg

The invariant: the process does nothing else, so the peak of its resident memory is that of the run.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .rows import ROWS
from .sets import folder_of

# The modules of both sides by the kind of a row; each has `train(row, seed, folder)`.
SIDES = {
    "node": {"ours": "ours", "pyg": "peer"},
    "graph": {"ours": "ours", "pyg": "peer"},
    "recommend": {"ours": "recommend", "pyg": "recommend_peer"},
    "temporal": {"ours": "temporal", "pyg": "temporal_peer"},
}


def rss_peak() -> int:
    """The most bytes that this process had resident at once."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def main() -> None:
    """Runs what the command line names."""
    name, seed, side = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    row = next(row for row in ROWS if row.name == name)
    module = importlib.import_module(f".{SIDES[row.kind][side]}", __package__)
    begin = time.perf_counter()
    found: dict[str, Any] = module.train(row, seed, folder_of(row.graph))
    found |= {"seconds": time.perf_counter() - begin, "rss_peak": rss_peak()}
    found |= {"torch": version("torch").partition("+")[0], "cores": os.cpu_count()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
