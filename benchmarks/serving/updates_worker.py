"""Beside a load: a process that updates the graph at a rate, or one that records answers.

    python -m benchmarks.serving.updates_worker '{"do": "update", ...}'

It goes on until its input ends, writes what it did to a file, and prints a summary as one line of
JSON. A batch of updates follows from its number, so the file of an updater names numbers and the
commits that the server answered with, and whoever has them can apply the same batches elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .served import MODEL

Change = tuple[Any, ...]
# Of 100 changes: edges, rows, new nodes with an edge, and edges of an earlier batch that go.
KINDS = ("edge", "row", "node", "unlink")
SHARES = (0.60, 0.25, 0.05, 0.10)
BATCHES_AN_EDGE_LIVES = 50
SEED = 0


@dataclass(frozen=True)
class Work:
    """What a process does; one of "update" and "record"."""

    do: str
    address: str
    out: str
    nodes: int
    width: int
    seed: int
    # Nodes that are changed and asked for are the first so many of a random order.
    pool: int
    # Of an updater: changes of a batch, batches a second, and the number of the first.
    changes: int = 1
    batches_per_s: float = 1.0
    first: int = 0
    threads: int = 1
    # How many of them are made before the first is due: what it takes to make them is not measured.
    made_before: int = 0
    # Of a recorder: answers, and how many a second.
    answers: int = 0
    answers_per_s: float = 1.0

    def members(self) -> Any:
        """Ids of the nodes of the pool."""
        return np.random.default_rng([self.seed, 7]).permutation(self.nodes)[: self.pool]


def batch(work: Work, members: Any, number: int) -> list[Change]:
    """The changes of a batch."""
    kinds, ends = _drawn(work, members, number)
    older_kinds, older_ends = _drawn(work, members, number - BATCHES_AN_EDGE_LIVES)
    made: list[Change] = []
    for at, kind in enumerate(kinds):
        u, v = ends[at]
        if kind == "row":
            made.append(("row", u, _row(work, number, at)))
        elif kind == "node":
            made.append(("node", _row(work, number, at), v))
        elif kind == "unlink" and older_kinds[at] == "edge" and _is_there(work, number):
            made.append(("unlink", *older_ends[at]))
        else:
            made.append(("edge", u, v))
    return made


def _is_there(work: Work, number: int) -> bool:
    return number - BATCHES_AN_EDGE_LIVES >= work.first


def _drawn(work: Work, members: Any, number: int) -> tuple[list[str], list[tuple[int, int]]]:
    """(kinds, pairs of nodes) of a batch."""
    draws = np.random.default_rng([work.seed, 11, max(number, 0)])
    kinds = draws.choice(KINDS, work.changes, p=SHARES).tolist()
    return kinds, [(int(u), int(v)) for u, v in draws.choice(members, (work.changes, 2))]


def _row(work: Work, number: int, at: int) -> Any:
    draws = np.random.default_rng([work.seed, 13, number, at])
    return draws.standard_normal(work.width, dtype=np.float32)


def as_updates(changes: list[Change]) -> Any:
    """Changes for a server."""
    import neargraph as ng

    updates = ng.Updates()
    for kind, *what in changes:
        if kind == "edge":
            updates.add_edge(*what)
        elif kind == "unlink":
            updates.delete_edge(*what)
        elif kind == "row":
            updates.update_rows([what[0]], what[1][None], tensor="x")
        else:
            updates.add_edge(updates.add_node({"x": what[0]}), what[1])
    return updates


def apply(store: Any, changes: list[Change]) -> None:
    """The same changes for a store."""
    with store.write() as made:
        for kind, *what in changes:
            if kind == "edge":
                made.add_edge(None, *what)
            elif kind == "unlink":
                made.delete_edge(None, *what)
            elif kind == "row":
                made.update_features(None, what[0], "x", what[1])
            else:
                made.add_edge(None, made.add_node(None, {"x": what[0]}), what[1])


def on_threads(count: int, work: Callable[[int], bool], per_s: float) -> dict[str, float]:
    """Calls with 0, 1, 2 ... when each is due, until one gives false or the input ends."""
    ended, lock = threading.Event(), threading.Lock()
    taken = done = 0
    late = 0.0
    failed: list[str] = []
    start = time.perf_counter()

    def loop() -> None:
        nonlocal taken, done, late
        while not ended.is_set():
            with lock:
                number, taken = taken, taken + 1
            due = start + number / per_s
            if ended.wait(max(0.0, due - time.perf_counter())):
                return
            late = max(late, time.perf_counter() - due)
            try:
                if not work(number):
                    return
            except Exception as error:
                failed.append(f"{type(error).__name__}: {error}")
            with lock:
                done += 1

    def until_input_ends() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    threads = [threading.Thread(target=loop) for _ in range(count)]
    for thread in threads:
        thread.start()
    print("started", flush=True)
    for thread in threads:
        thread.join()
    used, seconds = os.times(), time.perf_counter() - start
    return {
        "done": done - len(failed),
        "failed": len(failed),
        "first_failure": failed[0] if failed else "",  # type: ignore[dict-item]
        "per_s": (done - len(failed)) / seconds,
        "late_ms": 1e3 * late,
        "cores": (used.user + used.system) / seconds,
    }


def update(work: Work, client: Any) -> dict[str, float]:
    """Applies batches at their rate."""
    members, lock = work.members(), threading.Lock()
    commits: list[tuple[int, int]] = []

    def made(number: int) -> Any:
        return as_updates(batch(work, members, number))

    ready = [made(work.first + at) for at in range(work.made_before)]

    def one(at: int) -> bool:
        number = work.first + at
        applied = client.apply(ready[at] if at < len(ready) else made(number))
        with lock:
            commits.append((number, int(applied["snapshot"]["commit"])))
        return True

    found = on_threads(work.threads, one, work.batches_per_s)
    Path(work.out).write_text(json.dumps({"work": asdict(work), "commits": commits}))
    return {**found, "updates_per_s": found["per_s"] * work.changes}


def record(work: Work, client: Any) -> dict[str, float]:
    """Keeps answers with the commits that they name."""
    order = np.random.default_rng([work.seed, 17]).choice(work.members(), work.answers)
    lock = threading.Lock()
    kept: list[tuple[int, int, int, Any]] = []

    def one(at: int) -> bool:
        if at >= work.answers:
            return False
        node = int(order[at])
        found = client.answer(MODEL, [node], seed=SEED)
        row = found.rows[0]
        with lock:
            kept.append((node, int(found.snapshot.commit), int(found.rows_cached), row))
        return True

    found = on_threads(work.threads, one, work.answers_per_s)
    nodes, commits, cached, rows = zip(*kept, strict=True)
    np.savez(work.out, nodes=nodes, commits=commits, cached=cached, rows=np.stack(rows))
    return found


def main() -> None:
    import neargraph as ng

    work = Work(**json.loads(sys.argv[1]))
    with ng.Client(work.address) as client:
        found = update(work, client) if work.do == "update" else record(work, client)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
