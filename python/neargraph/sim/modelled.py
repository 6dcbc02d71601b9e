"""Models this host's loader if none can run: for data sets known by counts, or given row sizes.

What must not live here: measurements of a loader (see `watched`). The invariant: the model has the
memory of the loader, used in the best way: for the topology if it fits, then for the rows that are
read most often.
"""

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from neargraph.exceptions import UnsupportedArgument

from .trace import Trace
from .watched import RECORD, Watched

# Shares of a store's memory that loaders use for caches (docs/explanation/reading.md).
RESIDENT_SHARE = 0.85
TOPOLOGY_SHARE = 0.5
# Bytes of a node in the index of lists, and of an entry of a list.
INDEX_BYTES = 8
ENTRY_BYTES = 4
_NORMAL = NormalDist()


def sizes_of(trace: Trace) -> tuple[int, int]:
    """Returns (bytes of the topology, bytes of the rows) of the graph of a trace.

    Raises:
        UnsupportedArgument: The trace does not have the size of its graph.
    """
    about = trace.about
    if "num_nodes" not in about:
        raise UnsupportedArgument(
            "the trace does not contain the size of its graph, which the model of the loader "
            "needs; record the trace again with this version of neargraph, or give the store "
            "instead of the trace"
        )
    nodes, edges = int(about["num_nodes"]), int(about["num_edges"])
    return ENTRY_BYTES * edges + INDEX_BYTES * nodes, about["feature_bytes"] * nodes


def modelled_loader(trace: Trace, host: Mapping[str, Any], memory_bytes: int) -> Watched:
    """Models the read requests of a loader with a memory budget, for the batches of a trace.

    The topology is in memory if it fits into half of the budget. The rest caches the rows that are
    read most often. In a graph with log-normal degrees, such as those of `DATASETS`, these belong
    to the nodes with the highest degrees. In other graphs, all rows are assumed to be read equally
    often. The processor needs the measured time of a read for each visited node.

    Args:
        trace: A trace with the size of its graph.
        host: The result of `measure_host`.
        memory_bytes: The budget, as in `neargraph.open`.

    Raises:
        UnsupportedArgument: The trace does not have the size of its graph.
    """
    topology, rows = sizes_of(trace)
    has_topology = topology <= TOPOLOGY_SHARE * memory_bytes
    left = RESIDENT_SHARE * memory_bytes - (topology if has_topology else 0)
    kept = min(1.0, max(0.0, left / rows)) if rows else 1.0
    sigma = trace.about.get("log_degree_deviation", 0.0)
    visits, lists = _visits(trace)
    width = int(trace.about["feature_bytes"])
    generator = np.random.default_rng(int(trace.about["seed"]))
    parts = []
    if width:
        wanted = round(visits * (1 - share_of_wanted(kept, sigma)))
        parts.append(_at_random(generator, wanted, rows // width, width, file=1))
    if not has_topology:
        entries = topology // ENTRY_BYTES
        parts.append(_at_random(generator, lists, entries, ENTRY_BYTES, file=0))
    requests = np.concatenate(parts) if parts else np.zeros(0, dtype=RECORD)
    batches = int(trace.core.num_batches)
    made = Watched(
        reading="modelled",
        batches=batches,
        targets=int((trace.columns["hop"] == 0).sum()),
        seconds=math.nan,
        cpu_seconds=visits * host["cpu_ns_per_read"] * 1e-9 / batches,
        cores=host["cores"],
        is_steady=True,
        requests=requests,
    )
    made.seconds = made.on_host(host)
    return made


def share_of_wanted(kept: float, sigma: float) -> float:
    """Returns the share of visits to the `kept` share of nodes with the highest degrees.

    Degrees are log-normal, with `sigma` as standard deviation of the logarithm. The visits of a
    node are proportional to its degree.

    >>> share_of_wanted(0.5, 0.0), round(share_of_wanted(0.5, 1.0), 4)
    (0.5, 0.8413)
    """
    if kept <= 0 or kept >= 1:
        return float(kept >= 1)
    return _NORMAL.cdf(sigma - _NORMAL.inv_cdf(1 - kept))


def _visits(trace: Trace) -> tuple[int, int]:
    """Returns (visited nodes, sampled lists) of all batches."""
    hop = trace.columns["hop"]
    last = len(trace.about["fanouts"])
    return len(hop), int((hop < last).sum())


def _at_random(
    generator: np.random.Generator, count: int, among: int, size: int, file: int
) -> np.ndarray:
    """Returns random requests for some of `among` pieces of `size` bytes."""
    found = np.zeros(count, dtype=RECORD)
    found["offset"] = generator.integers(0, max(1, among), count, dtype=np.uint64) * np.uint64(size)
    found["bytes"] = size
    found["file"] = file
    return found
