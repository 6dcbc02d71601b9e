"""The pipeline that HolisticGNN takes as the host's (section 2.2), in one process, once.

Stages as in its Figure 3a: GraphI/O reads the text; GraphPrep parses it, adds the other direction
and loops, sorts, merges; BatchI/O loads all rows; BatchPrep samples, numbers anew and looks rows
up; PureInfer runs the model. The fastest usual library does each: polars parses, NumPy sorts, PyG's
compiled sampler samples. Imports, the model and its first call come before the clock starts.
"""

from __future__ import annotations

import io
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .. import sampler
from .model import gcn

Report = dict[str, Any]


class Clock:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Looks."""
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return passed


def prepared(text: bytes, nodes: int) -> tuple[Any, Any]:
    """(pointers, sources) of the sorted, undirected graph with a loop at each node."""
    import polars

    frame = polars.read_csv(io.BytesIO(text), has_header=False, separator=" ")
    source, destination = (frame[name].to_numpy() for name in frame.columns)
    loops = np.arange(nodes)
    left = np.concatenate([source, destination, loops])
    right = np.concatenate([destination, source, loops])
    keys = np.sort(right * nodes + left)
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    owners, sources = keys // nodes, keys % nodes
    pointers = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=nodes), out=pointers[1:])
    return pointers, sources


def main() -> None:
    import polars  # noqa: F401 (its import is not part of the stages)
    import torch

    warnings.filterwarnings("ignore")
    sampler.load()
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    net = gcn(asked["width"])
    net.load_state_dict(torch.load(asked["weights"]))
    with torch.inference_mode():
        net(torch.zeros(4, asked["width"]), torch.zeros(2, 8, dtype=torch.int64))
        print(json.dumps(measured(asked, net)))


def measured(asked: Report, net: Any) -> Report:
    """The seconds of each stage, of the first batch and of later ones."""
    import torch

    clock = Clock()
    text = Path(asked["text"]).read_bytes()
    found: Report = {"graph_io": clock.lap()}
    pointers, sources = map(torch.from_numpy, prepared(text, asked["nodes"]))
    found["graph_prep"] = clock.lap()
    rows = torch.from_numpy(np.load(asked["rows"]))
    found["batch_io"] = clock.lap()
    found["batches"] = []
    for seeds in asked["batches"]:
        clock.lap()
        nodes, source, target, _ = torch.ops.torch_sparse.neighbor_sample(
            pointers, sources, torch.tensor(seeds), asked["fanouts"], False, True
        )
        edges, x = torch.stack([source, target]), rows.index_select(0, nodes)
        prep = clock.lap()
        out = net(x, edges)[: len(seeds)]
        found["batches"].append({"prep": prep, "io": 0.0, "infer": clock.lap()})
        assert len(out) == len(seeds)
    return found


if __name__ == "__main__":
    main()
