"""Results of requests, as arrays and small records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import NeargraphError

JobStatus = Literal["unknown", "queued", "running", "done", "failed", "cancelled"]
"""The states of a job."""

# Indexed by the interface's Dtype. NumPy does not have bf16, so it becomes f32.
DTYPES = {1: "<f4", 2: "<f2", 3: "<u2", 4: "|i1", 5: "<i2", 6: "<i4", 7: "<i8", 8: "|u1", 9: "|b1"}
DTYPES |= {10: "<f8"}
BF16 = 3
CODES = {np.dtype(name): code for code, name in DTYPES.items() if code != BF16}
STATES: tuple[JobStatus, ...] = ("unknown", "queued", "running", "done", "failed", "cancelled")


class Snapshot(NamedTuple):
    """The version of a graph from which an answer was computed.

    Attributes:
        commit: Number of the last commit in it.
        fingerprint: Digest of its content. Graphs with equal content have equal fingerprints.
    """

    commit: int
    fingerprint: int


class Timing(NamedTuple):
    """Times of a request in the server, in microseconds.

    Attributes:
        queued_us: Time in the queue.
        engine_us: Time in the engine.
        total_us: Time from arrival to answer.
        group_requests: Number of requests that were computed together, with this one.
    """

    queued_us: int
    engine_us: int
    total_us: int
    group_requests: int


@dataclass(frozen=True)
class Answer:
    """Rows of a model, with their origin and times.

    Attributes:
        rows: One row for each target, [n, ...].
        snapshot: The version of the graph.
        model: The version of the model, such as "sage@3".
        rows_cached: Number of rows that came from the server's cache.
        timing: Times of the request in the server.
    """

    rows: NDArray[Any]
    snapshot: Snapshot
    model: str
    rows_cached: int
    timing: Timing


@dataclass(frozen=True)
class NeighborLists:
    """Neighbours of n nodes, one list after the other.

    Attributes:
        degrees: Length of each list, [n].
        counts: Number of entries of each list that are present, [n]. With ``limit=``, it can be
            smaller than the degree.
        neighbors: Ids of the neighbours, [sum of counts].
        edge_ids: Ids of the edges; empty if the edge type has none.
        times: Times of the edges; empty if the edge type has none.
        weights: Weights of the edges; empty if the edge type has none.
        snapshot: The version of the graph.
    """

    degrees: NDArray[np.int64]
    counts: NDArray[np.int64]
    neighbors: NDArray[np.int64]
    edge_ids: NDArray[np.int64]
    times: NDArray[np.int64]
    weights: NDArray[np.float32]
    snapshot: Snapshot

    def lists(self) -> list[NDArray[np.int64]]:
        """Returns an array of neighbours for each node."""
        return np.split(self.neighbors, np.cumsum(self.counts)[:-1]) if len(self.counts) else []


@dataclass(frozen=True)
class JobState:
    """The state of a job.

    Attributes:
        job: Id of the job.
        state: The state.
        targets: Number of targets.
        targets_done: Number of targets that are computed.
        problem: Why the job failed; empty if it did not.
        graph: Name of the graph.
        model: The version of the model, such as "sage@3".
    """

    job: str
    state: JobStatus
    targets: int
    targets_done: int
    problem: str
    graph: str
    model: str

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state in ("done", "failed", "cancelled")


@dataclass(frozen=True)
class BackupState:
    """The progress of a backup.

    Attributes:
        pages_done: Pages that were examined.
        pages: Pages of the graph.
        pages_copied: Pages that were copied.
        bytes_copied: Bytes that were copied.
        done: Whether the backup is complete.
        commit: Number of the last commit in the backup, if it is `done`.
    """

    pages_done: int
    pages: int
    pages_copied: int
    bytes_copied: int
    done: bool
    commit: int


def tensor(given: tuple[int, Sequence[int], NDArray[np.uint8]]) -> NDArray[Any]:
    """Returns a tensor of a message as an array."""
    code, shape, data = given
    if code not in DTYPES:
        raise NeargraphError(
            f"the server sent a tensor of dtype number {code}, which this version does not "
            "support; update neargraph"
        )
    array = data.view(DTYPES[code])
    if code == BF16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.reshape(tuple(shape))


def answer(given: Any) -> Answer:
    """Returns the rows of a model with their origin."""
    rows, snapshot, model, cached, timing = given
    return Answer(tensor(rows), Snapshot(*snapshot), model, cached, Timing(*timing))


def rows_alone(given: Any) -> NDArray[Any]:
    """Returns the rows of an answer alone."""
    return tensor(given[0])


def neighbor_lists(given: Any) -> NeighborLists:
    """Returns the lists of neighbours of an answer."""
    degrees, counts, neighbors, edge_ids, times, weights, snapshot = given
    of = Snapshot(*snapshot)
    return NeighborLists(degrees, counts, neighbors, edge_ids, times, weights, of)


def job_state(facts: dict[str, Any]) -> JobState:
    """Returns the state of a job from its message."""
    return JobState(**{**facts, "state": STATES[facts["state"]]})
