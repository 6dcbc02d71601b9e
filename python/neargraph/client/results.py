"""What a server answers, as arrays and small records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import NeargraphError

# By number of the interface's Dtype. bf16, which NumPy does not have, becomes f32.
DTYPES = {1: "<f4", 2: "<f2", 3: "<u2", 4: "|i1", 5: "<i2", 6: "<i4", 7: "<i8", 8: "|u1", 9: "|b1"}
DTYPES |= {10: "<f8"}
BF16 = 3
CODES = {np.dtype(name): code for code, name in DTYPES.items() if code != BF16}
STATES = ("unknown", "queued", "running", "done", "failed", "cancelled")


class Snapshot(NamedTuple):
    """The version of a graph that an answer is of."""

    commit: int
    fingerprint: int


class Timing(NamedTuple):
    """Microseconds of a request in the server, and how many requests were computed with it."""

    queued_us: int
    engine_us: int
    total_us: int
    group_requests: int


@dataclass(frozen=True)
class Answer:
    """Rows of a model, and what the server says of them."""

    rows: NDArray[Any]
    snapshot: Snapshot
    # The version that answered, "sage@3".
    model: str
    # How many rows the server knew already.
    rows_cached: int
    timing: Timing


@dataclass(frozen=True)
class NeighborLists:
    """Neighbours of nodes: one list after the other.

    ``edge_ids``, ``times`` and ``weights`` are empty where the edge type has none. ``counts`` are
    below ``degrees`` where a limit was given.
    """

    degrees: NDArray[np.int64]
    counts: NDArray[np.int64]
    neighbors: NDArray[np.int64]
    edge_ids: NDArray[np.int64]
    times: NDArray[np.int64]
    weights: NDArray[np.float32]
    snapshot: Snapshot

    def lists(self) -> list[NDArray[np.int64]]:
        """An array of neighbours for each node."""
        return np.split(self.neighbors, np.cumsum(self.counts)[:-1]) if len(self.counts) else []


@dataclass(frozen=True)
class JobState:
    """How far a job is. ``state`` is "queued", "running", "done", "failed" or "cancelled"."""

    job: str
    state: str
    targets: int
    targets_done: int
    problem: str
    graph: str
    model: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True)
class BackupState:
    """How far a backup is. `commit` is that of the copy, once it is `done`."""

    pages_done: int
    pages: int
    pages_copied: int
    bytes_copied: int
    done: bool
    commit: int


def tensor(given: tuple[int, Sequence[int], NDArray[np.uint8]]) -> NDArray[Any]:
    """An array of its own."""
    code, shape, data = given
    if code not in DTYPES:
        raise NeargraphError(f"the server sends numbers of kind {code}, which this version lacks")
    array = data.view(DTYPES[code])
    if code == BF16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.reshape(tuple(shape))


def answer(given: Any) -> Answer:
    """Rows of a model."""
    rows, snapshot, model, cached, timing = given
    return Answer(tensor(rows), Snapshot(*snapshot), model, cached, Timing(*timing))


def rows_alone(given: Any) -> NDArray[Any]:
    """The rows of an answer that has other things, too."""
    return tensor(given[0])


def neighbor_lists(given: Any) -> NeighborLists:
    """Lists of neighbours."""
    degrees, counts, neighbors, edge_ids, times, weights, snapshot = given
    of = Snapshot(*snapshot)
    return NeighborLists(degrees, counts, neighbors, edge_ids, times, weights, of)


def job_state(facts: dict[str, Any]) -> JobState:
    """How far a job is."""
    return JobState(**{**facts, "state": STATES[facts["state"]]})
