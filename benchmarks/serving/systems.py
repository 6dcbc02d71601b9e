"""What answers in the benchmarks of scheduling: the engine in this process, or a server.

A variant is a word of letters, as GLIST writes them (section 5.2): R rows in another order on disk,
S requests reordered by what they share, G requests grouped into one batch, C answers kept; N is
none of them. In this process a plain schedule in Python stands for the server's: it knows the next
`WINDOW` requests, as if they all waited. A server gets its letters as options.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
import urllib.request
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

WINDOW = 1000
SEED = 0
Ids = Any
Counts = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """One point of a figure."""

    variant: str
    store: Path
    model: Path
    memory: int
    group: int
    answers: int
    threads: int = 2

    def has(self, letter: str) -> bool:
        """Whether an optimisation is on."""
        return self.variant != "N" and letter in self.variant


class System(Protocol):
    """Answers requests of one node each, all of which are known when `run` is called."""

    def __init__(self, setting: Setting, how: Any) -> None: ...

    def run(self, targets: Ids) -> None:
        """Answers all."""

    def counts(self) -> Counts:
        """Reads, groups, duplicates, hits and the like, since the start."""

    def close(self) -> None:
        """Ends what was started."""


@dataclass
class _Tally:
    asked: int = 0
    groups: int = 0
    duplicates: int = 0
    hits: int = 0
    computed: int = 0
    kept: OrderedDict[int, Any] = field(default_factory=OrderedDict)


class InProcess:
    """`ng.Engine` on the thread that asks."""

    def __init__(self, setting: Setting, how: Any) -> None:
        import neargraph as ng

        del how
        self._setting = setting
        self._store = ng.open(setting.store, memory=setting.memory)
        self._engine = ng.Engine(self._store, setting.model, threads=setting.threads)
        self._lists = self._store.snapshot()
        self._kind = self._store.schema.edge_type(None).triple
        self._tally = _Tally()

    def run(self, targets: Ids) -> None:
        """Window by window, group by group."""
        size = self._setting.group if self._setting.has("G") else 1
        for at in range(0, len(targets), WINDOW):
            waiting = targets[at : at + WINDOW]
            if self._setting.has("S"):
                waiting = self._reordered(waiting)
            for first in range(0, len(waiting), size):
                self._group(waiting[first : first + size].tolist())

    def _group(self, asked: list[int]) -> None:
        tally, wanted = self._tally, list(dict.fromkeys(asked))
        tally.asked += len(asked)
        tally.duplicates += len(asked) - len(wanted)
        if self._setting.has("C"):
            missing = [node for node in wanted if node not in tally.kept]
            tally.hits += len(wanted) - len(missing)
            for node in wanted:
                if node in tally.kept:
                    tally.kept.move_to_end(node)
            wanted = missing
        if not wanted:
            return
        tally.groups += 1
        tally.computed += len(wanted)
        rows = self._engine.run(wanted, SEED)
        if self._setting.has("C"):
            tally.kept.update(zip(wanted, rows, strict=True))
            while len(tally.kept) > self._setting.answers:
                tally.kept.popitem(last=False)

    def _reordered(self, targets: Ids) -> Ids:
        """By the least of a hash of the neighbours: those that share one often have it alike."""
        nodes, places = np.unique(targets, return_inverse=True)
        lists = self._lists.neighbors(self._kind, nodes)
        hashed = (lists.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(16)
        owners = np.repeat(np.arange(len(nodes)), np.diff(lists.indptr))
        least = np.full(len(nodes), np.iinfo(np.uint64).max)
        np.minimum.at(least, owners, hashed)
        return targets[np.lexsort((targets, least[places]))]

    def counts(self) -> Counts:
        """Of the store and of the schedule."""
        disk, tally = self._store.stats(), self._tally
        names = ("reads", "read_bytes", "rows_served", "rows_cached", "device_busy_seconds")
        found = {name: float(disk[name]) for name in names}
        for name in ("asked", "groups", "duplicates", "hits", "computed"):
            found[name] = float(getattr(tally, name))
        return found

    def close(self) -> None:
        """Closes engine and store."""
        self._engine.close()
        self._store.close()


class Served:
    """A server of its own process, asked by its client on threads; `how` says how to start it.

    `how.server` is a command in which {folder}, {address}, {memory}, {scheduler}, {group} and
    {answers} are filled in; counters are all samples of its metrics page.
    """

    def __init__(self, setting: Setting, how: Any) -> None:
        import neargraph as ng

        make = vars(ng).get("Client")
        if make is None:
            raise SystemExit("this build of neargraph has no client")
        self._how = how
        command = how.server.format(
            folder=setting.store.parent,
            address=how.address,
            memory=setting.memory,
            scheduler="".join(c for c in setting.variant if c in "SGC") or "N",
            group=setting.group,
            answers=setting.answers,
        )
        self._process = subprocess.Popen(shlex.split(command))
        self._wait()
        self._client = make(how.address)
        self._model = how.model_name

    def _wait(self, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{self._how.side}/readyz", timeout=1.0):
                    return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the server did not get ready")

    def run(self, targets: Ids) -> None:
        """`how.in_flight` requests at any time."""
        with ThreadPoolExecutor(self._how.in_flight) as pool:
            for _ in pool.map(lambda node: self._client.run(self._model, [node]), targets.tolist()):
                pass

    def counts(self) -> Counts:
        """The samples of the metrics page; those of one name are added up."""
        found: Counts = {}
        with urllib.request.urlopen(f"http://{self._how.side}/metrics", timeout=5.0) as page:
            for line in page.read().decode().splitlines():
                if line and not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    name = name.partition("{")[0]
                    found[name] = found.get(name, 0.0) + float(value)
        return found

    def close(self) -> None:
        """Ends the server as its operator would."""
        self._client.close()
        self._process.terminate()
        self._process.wait()


SYSTEMS: dict[str, type[System]] = {"engine": InProcess, "server": Served}


def default_threads() -> int:
    """Of the engine in this process."""
    return min(os.cpu_count() or 1, 4)
