"""Updates at a steady rate, each batch with a key, and what must be in the graph afterwards.

Every batch adds edges that no other batch adds, between nodes that there are, so that an edge that
is missing was lost and one that is there twice was applied twice. The client tries a batch again
until it is answered; what it gives up is noted, and may be there or not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Nodes whose lists are changed.
CHANGED = 1000


@dataclass
class Done:
    """What one writer has had acknowledged."""

    batches: int = 0
    repeated: int = 0
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    uncertain: list[tuple[int, int]] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    late_s: float = 0.0


class Writer:
    """Adds `rate` edges/s on a thread, `size` in a batch, until it is stopped."""

    def __init__(
        self, address: str, nodes: int, rate: float, size: int, number: int = 0, retry: float = 30.0
    ) -> None:
        self.done = Done()
        self._address, self._nodes, self._retry = address, nodes, retry
        self._pause, self._size, self._number = size / rate, size, number
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _edges(self, batch: int) -> list[tuple[int, int]]:
        """Edges as (destination, source) that no other batch of any writer has."""
        first = batch * self._size
        pairs = []
        for at in range(first, first + self._size):
            destination, step = at % CHANGED, at // CHANGED
            source = (destination + 7919 * (step * 4 + self._number) + 13) % self._nodes
            pairs.append((destination, source))
        return pairs

    def _run(self) -> None:
        import neargraph as ng

        start = time.monotonic()
        timeout = self._retry + 10.0
        with ng.Client(self._address, timeout=timeout, retry=self._retry) as client:
            batch = 0
            while not self._stop.is_set():
                due = start + batch * self._pause
                ahead = due - time.monotonic()
                if ahead > 0 and self._stop.wait(ahead):
                    return
                self.done.late_s = max(self.done.late_s, -ahead)
                edges = self._edges(batch)
                updates = ng.Updates()
                for destination, source in edges:
                    updates.add_edge(source, destination)
                key = f"{self._number}-{batch}-{start}".encode()
                try:
                    applied = client.apply(updates, graph="g", key=key)
                except ng.RequestFailed as error:
                    self.done.errors[error.code] += 1
                    self.done.uncertain += edges
                else:
                    self.done.batches += 1
                    self.done.repeated += bool(applied["repeated"])
                    self.done.acknowledged += edges
                    self.done.commits.append(int(applied["snapshot"]["commit"]))
                batch += 1

    def stop(self) -> Done:
        """Waits for the batch under way."""
        self._stop.set()
        self._thread.join()
        return self.done


def lists(client: Any, nodes: int = CHANGED) -> list[Counter[int]]:
    """The lists of the nodes that writers change: a list is that of a destination."""
    found = client.neighbors(np.arange(nodes), graph="g").lists()
    return [Counter(np.asarray(one).tolist()) for one in found]


def compare(
    before: list[Counter[int]], after: list[Counter[int]], writers: list[Done]
) -> dict[str, int]:
    """How many acknowledged edges are missing, how many are there more often than they should be,
    and how many of those that were given up are there."""
    wanted: list[Counter[int]] = [Counter(one) for one in before]
    allowed: list[Counter[int]] = [Counter() for _ in before]
    for done in writers:
        for destination, source in done.acknowledged:
            wanted[destination][source] += 1
        for destination, source in done.uncertain:
            allowed[destination][source] += 1
    missing = extra = uncertain = 0
    for found, one, may in zip(after, wanted, allowed, strict=True):
        missing += sum((one - found).values())
        more = found - one
        uncertain += sum((more & may).values())
        extra += sum((more - may).values())
    return {"missing": missing, "applied_twice": extra, "uncertain_applied": uncertain}
