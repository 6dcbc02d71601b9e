"""This host's loader where none can be run: a data set known by its counts, rows of a stated width.

What must not live here: anything measured of a loader (see `watched`). The invariant: the model has
what the loader has, in the best case: the topology in memory where it fits, and those rows that are
wanted most often in the memory that is left.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from neargraph.exceptions import UnsupportedArgument

from .trace import Trace
from .watched import RECORD, Watched

# Shares of a store's memory that its loaders may use for what they keep
# (docs/explanation/reading.md).
RESIDENT_SHARE = 0.85
TOPOLOGY_SHARE = 0.5
# Of a node in the index of lists, and of an entry of a list.
INDEX_BYTES = 8
ENTRY_BYTES = 4
_NORMAL = NormalDist()


def sizes_of(trace: Trace) -> tuple[int, int]:
    """(bytes of the topology, bytes of the rows) of the graph of a trace.

    Raises:
        UnsupportedArgument: The trace does not say how large its graph is.
    """
    about = trace.about
    if "num_nodes" not in about:
        raise UnsupportedArgument(
            "the trace does not say how large its graph is, so what memory would keep of it is not "
            "known; record it again with this version, or give the store"
        )
    nodes, edges = int(about["num_nodes"]), int(about["num_edges"])
    return ENTRY_BYTES * edges + INDEX_BYTES * nodes, about["feature_bytes"] * nodes


def modelled_loader(trace: Trace, host: dict[str, Any], memory_bytes: int) -> Watched:
    """What a loader with so much memory would ask of the disk for the batches of a trace.

    The topology is in memory if it fits into half of it. The rest keeps the rows that are wanted
    most often: in a graph with log-normal degrees, such as those of `DATASETS`, nodes with the
    highest degrees; in others any rows, as if all were wanted equally often. The processor takes
    the measured time of a read for every visited node.

    Args:
        trace: Of a graph whose size is known.
        host: Of `measure_host`.
        memory_bytes: As of `neargraph.open`.

    Raises:
        UnsupportedArgument: The size of the graph is not known.
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
    """The share of all visits that go to the `kept` share of nodes with the highest degrees, where
    degrees are log-normal with this deviation of the logarithm and visits go to nodes in proportion
    to their degree.

    >>> share_of_wanted(0.5, 0.0), round(share_of_wanted(0.5, 1.0), 4)
    (0.5, 0.8413)
    """
    if kept <= 0 or kept >= 1:
        return float(kept >= 1)
    return _NORMAL.cdf(sigma - _NORMAL.inv_cdf(1 - kept))


def _visits(trace: Trace) -> tuple[int, int]:
    """(visited nodes, lists that were drawn from) of all batches."""
    hop = trace.columns["hop"]
    last = len(trace.about["fanouts"])
    return len(hop), int((hop < last).sum())


def _at_random(
    generator: np.random.Generator, count: int, among: int, size: int, file: int
) -> np.ndarray:
    """Requests at random among `among` pieces of `size` bytes."""
    found = np.zeros(count, dtype=RECORD)
    found["offset"] = generator.integers(0, max(1, among), count, dtype=np.uint64) * np.uint64(size)
    found["bytes"] = size
    found["file"] = file
    return found
