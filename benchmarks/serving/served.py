"""Servers and loads of the benchmarks: the two programs without Python, each in a process.

    cargo build --release -p ng-server -p ng-client      # once

`Server` serves one store in a folder of its own, under the name "graph", with one model, "sage", or
with several; `counts` reads its metrics. `load` runs the load generator, which is one thread whose
share of a core stands in its report. `NEARGRAPH_PROGRAMS` names another folder of programs.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from ..cap import Cap
from ..places import BENCH, ROOT

HOME = BENCH / "serving"
PROGRAMS = Path(os.environ.get("NEARGRAPH_PROGRAMS", ROOT / "target" / "release"))
GRAPH, MODEL = "graph", "sage"
READY_SECONDS = 180.0
Report = dict[str, Any]
Counts = dict[str, float]


def program(name: str) -> str:
    """The path of a program of this project."""
    path = PROGRAMS / name
    if not path.exists():
        raise SystemExit(
            f"{path} is missing; make it with: cargo build --release -p ng-server -p ng-client"
        )
    return str(path)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@dataclass(frozen=True)
class Setting:
    """How a server is set up. Bytes are numbers, times are text as in its file of settings."""

    store: Path
    model: Path
    memory: int
    scheduler: str = "CG"
    cache: int = 256 << 20
    prepare: str = "hot"
    # One more than there are cores.
    lanes: int = (os.cpu_count() or 1) + 1
    group: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    # Models beside the one that is asked.
    models: dict[str, Path] = field(default_factory=dict)
    shm_spin: str | None = None

    def file(self, folder: Path, port: int, side: int) -> str:
        """The file of settings."""
        listen = [f"127.0.0.1:{port}", f"unix:{folder / 'socket'}", f"shm:{folder / 'shm'}"]
        known: dict[str, Any] = {
            "folder": str(folder / "graphs"),
            "listen": listen,
            "side": f"127.0.0.1:{side}",
            "memory": self.memory,
            "cache": self.cache,
            "lanes": self.lanes,
            "scheduler": self.scheduler,
            "shm_spin": self.shm_spin,
            "log": "error",
        }
        # Text, numbers and lists look alike in JSON and TOML.
        pairs = [(name, value) for name, value in known.items() if value is not None]
        lines = [f"{name} = {json.dumps(value)}" for name, value in pairs]
        for name, table in (("group", self.group), ("limits", self.limits)):
            if table:
                lines += [f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in table.items())]
        return "\n".join(lines) + "\n"


class Server:
    """A server that is ready; use it in a ``with`` block. `cap` bounds its memory in a cgroup."""

    def __init__(self, setting: Setting, name: str, cap: int | None = None) -> None:
        self.setting = setting
        self.folder = HOME / "served" / f"{os.getpid()}-{name}"
        port, side = free_ports(2)
        self.address, self.side = f"127.0.0.1:{port}", f"127.0.0.1:{side}"
        self.unix, self.shm = f"unix:{self.folder / 'socket'}", f"shm:{self.folder / 'shm'}"
        # Looking costs the kernel a walk over all counters, beside what is measured.
        self.cap = Cap(cap, f"-{name}", every=1.0)
        self._uncapped = cap is None
        self._ports = port, side
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Server:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "graphs").mkdir(parents=True)
        (self.folder / "graphs" / f"{GRAPH}.ng").symlink_to(self.setting.store.resolve())
        file = self.folder / "server.toml"
        file.write_text(self.setting.file(self.folder, *self._ports))
        command = [program("neargraph-server"), "--config", str(file)]
        if self._uncapped:
            self._process = subprocess.Popen(command, cwd=ROOT, text=True)
        else:
            self.cap.__enter__()
            self._process = self.cap.popen(command, cwd=ROOT)
        try:
            self._wait("healthz")
            self._register()
            self._wait("readyz?prepared")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if not self._uncapped:
            self.cap.__exit__(kind, error, trace)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self, path: str) -> None:
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and self._process and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://{self.side}/{path}", timeout=2.0):
                    return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"the server did not get ready: {self.setting}")

    def _register(self) -> None:
        import neargraph as ng

        with ng.Client(self.address, timeout=READY_SECONDS) as client:
            for name, path in {MODEL: self.setting.model, **self.setting.models}.items():
                client.register_model(name, path, prepare=self.setting.prepare)

    @property
    def to(self) -> str:
        """What the load is told."""
        return f"neargraph:{self.address}:{MODEL}"

    def samples(self) -> Counts:
        """The samples of its metrics, by name and labels as they are written there."""
        found: Counts = {}
        with urllib.request.urlopen(f"http://{self.side}/metrics", timeout=10.0) as page:
            for line in page.read().decode().splitlines():
                if line and not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    found[name] = float(value)
        return found

    def counts(self) -> Counts:
        """What it did since it started, by the names that tables use."""
        samples = self.samples()
        return {name: samples.get(sample, 0.0) for name, sample in COUNTS.items()}


def _answers(source: str) -> str:
    return f'neargraph_answers_total{{source="{source}"}}'


def _rows(source: str) -> str:
    return f'neargraph_rows_total{{graph="{GRAPH}",source="{source}"}}'


def _ended(kind: str) -> str:
    return f'neargraph_cache_invalidations_total{{kind="{kind}"}}'


COUNTS = {
    "requests": 'neargraph_requests_total{method="Run",code="OK"}',
    "reads": f'neargraph_reads_total{{graph="{GRAPH}"}}',
    "read_bytes": f'neargraph_read_bytes_total{{graph="{GRAPH}"}}',
    "rows_in_memory": _rows("memory"),
    "rows_read": _rows("device"),
    "groups": "neargraph_groups_total",
    "computed": _answers("computed"),
    "duplicates": _answers("duplicate"),
    "kept": _answers("cache"),
    "answers_ended": _ended("nodes"),
    "all_ended": _ended("all"),
    "commits": f'neargraph_commits_total{{graph="{GRAPH}"}}',
}


def between(before: Counts, after: Counts) -> Counts:
    """What was counted between two readings."""
    return {name: after[name] - before[name] for name in after}


def load(to: str, stream: Path | None = None, **options: Any) -> Report:
    """What the load generator says; options are its own, with `_` for `-`."""
    words: Iterable[Any] = [] if stream is None else [stream]
    command = [program("neargraph-bench-server"), *map(str, words), "--to", to]
    for name, value in options.items():
        given = value if isinstance(value, list) else [] if value is True else [value]
        command += [f"--{name.replace('_', '-')}", *map(str, given)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: Report = json.loads(done.stdout.splitlines()[-1])
    return found
