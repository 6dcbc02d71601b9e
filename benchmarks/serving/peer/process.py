"""The peer as a process: settings, cgroup, start and end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ...cap import Cap
from ...places import ROOT
from ...venvs import python_of
from ..served import HOME, free_ports


def wide_indices(graph: Path) -> Path:
    """The neighbour lists as int64, which the compiled sampler takes; made once."""
    path = HOME / f"{graph.name}_indices64.npy"
    if path.exists():
        return path
    narrow = np.load(graph / "indices.npy", mmap_mode="r")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    wide = np.lib.format.open_memmap(part, "w+", np.int64, narrow.shape)
    step = 1 << 22
    for first in range(0, len(narrow), step):
        wide[first : first + step] = narrow[first : first + step]
    wide.flush()
    part.rename(path)
    return path


def files(graph: Path) -> list[Path]:
    """What it maps."""
    return [graph / "indptr.npy", wide_indices(graph), graph / "feat.npy"]


class Peer:
    """A peer that answers; use it in a ``with`` block. A memory cgroup holds its workers and their
    page cache. A dictionary's bytes are split among the workers.
    """

    def __init__(
        self,
        graph: Path,
        weights: Path,
        *,
        workers: int,
        threads: int,
        handlers: int,
        dictionary_bytes: int = 0,
        cap: int | None = None,
        name: str = "peer",
    ) -> None:
        # Workers have ports that follow one another.
        (first,) = free_ports(1)
        self._settings = {
            "graph": str(graph),
            "indices": str(wide_indices(graph)),
            "weights": str(weights),
            "workers": workers,
            "port": first,
            "threads": threads,
            "handlers": handlers,
            "dictionary_bytes": dictionary_bytes,
        }
        self.to = f"peer:127.0.0.1:{first}-{first + workers - 1}"
        # Looking costs the kernel a walk over all counters, beside what is measured.
        self.cap = Cap(cap, f"-{name}", every=1.0)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Peer:
        environment = {**os.environ, "OMP_NUM_THREADS": str(self._settings["threads"])}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
        words = ["-m", "benchmarks.serving.peer.server", json.dumps(self._settings)]
        command = [str(python_of("peer")), *words]
        self.cap.__enter__()
        self._process = self.cap.popen(command, env=environment, **pipes)
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self.__exit__(None, None, None)
            raise SystemExit("the peer did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        self.cap.__exit__(kind, error, trace)
