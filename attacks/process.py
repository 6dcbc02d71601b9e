"""A server of its own process, and the load that is put on it.

The invariant: what was started here has ended when the `with` is over, whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.places import BENCH, ROOT

HOME = BENCH / "attacks"
Report = dict[str, Any]
READER = "a-token-of-the-victim-0"
HOSTILE = "a-token-of-mallory-0000"
ADMIN = "a-token-of-the-admin-00"


def binary(name: str) -> str:
    """A program of the release build; `NEARGRAPH_BIN` names another folder."""
    path = Path(os.environ.get("NEARGRAPH_BIN", ROOT / "target" / "release")) / name
    if not path.exists():
        raise SystemExit(f"{path} is not there: cargo build --release -p ng-server -p ng-client")
    return str(path)


def free_ports() -> int:
    """A port that is free, and so is the next one."""
    draws = random.Random()
    while True:
        port = draws.randrange(20_000, 32_000)
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        return port


def wait_until(holds: Callable[[], bool], seconds: float, pause: float = 0.02) -> bool:
    """Whether something comes to hold in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
    return True


def on_cores(cores: Sequence[int]) -> list[str]:
    """What stands before a command that may use these cores alone; nothing if there are none."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


@dataclass(frozen=True)
class Usage:
    """What a process holds."""

    rss: int
    descriptors: int
    threads: int


class Server:
    """A server on ports of its own and on a Unix socket; its log goes to a file."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = (),
        port: int | None = None,
        cores: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        self.port = port or free_ports()
        self.address = f"127.0.0.1:{self.port}"
        self.side = f"127.0.0.1:{self.port + 1}"
        self.unix = folder / "socket"
        self.log = folder / "server.log"
        self._command = [*on_cores(cores), binary("neargraph-server"), str(folder)]
        self._command += ["--log-format", "json"]
        self._command += ["--listen", self.address, "--listen", f"unix:{self.unix}", *options]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """Starts it; `wait_ready` waits for it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stderr=log, stdout=log)
        return self

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def get(self, path: str, seconds: float = 5.0) -> tuple[int, str]:
        """Status and text of a page of the side port; status 0 if nothing answers."""
        try:
            with urllib.request.urlopen(f"http://{self.side}{path}", timeout=seconds) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def wait_ready(self, seconds: float = 120.0, *, prepared: bool = False) -> float:
        """Waits until it answers, or all models are prepared; how long that took."""
        start, page = time.monotonic(), "/readyz?prepared" if prepared else "/readyz"

        def ready() -> bool:
            if not self.lives():
                raise RuntimeError(f"the server ended; see {self.log}")
            return self.get(page)[0] == 200

        if not wait_until(ready, seconds):
            raise RuntimeError(f"the server is not ready: {self.get(page)}")
        return time.monotonic() - start

    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self.process is not None and self.process.poll() is None

    def usage(self) -> Usage:
        """What it holds now."""
        assert self.process is not None
        of = Path(f"/proc/{self.process.pid}")
        fields = dict(
            line.split(":", 1) for line in (of / "status").read_text().splitlines() if ":" in line
        )
        return Usage(
            int(fields["VmRSS"].split()[0]) * 1024,
            len(os.listdir(of / "fd")),
            int(fields["Threads"]),
        )

    def metrics(self) -> dict[str, float]:
        """The samples of the metrics page; those of one name are added up."""
        found: dict[str, float] = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                name = name.partition("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def cpu_seconds(self) -> float:
        """Processor time that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def requests(self) -> dict[str, float]:
        """How many requests of each code have ended, as the server counts them."""
        found: dict[str, float] = {}
        for line in self.get("/metrics")[1].splitlines():
            code = re.search(r'^neargraph_requests_total\{.*code="(\w+)".*\} (\S+)', line)
            if code:
                found[code[1]] = found.get(code[1], 0.0) + float(code[2])
        return found

    def panics(self) -> int:
        """Lines of the log that tell of a panic."""
        with self.log.open(errors="replace") as log:
            return sum("panicked at" in line for line in log)

    def signal(self, number: int) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Ends it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self, seconds: float = 60.0) -> int:
        """Ends it as its operator would; the exit code."""
        assert self.process is not None
        if self.lives():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def load_command(server: Server, model: str, graph: str, rate: float, seconds: float) -> list[str]:
    """An open loop of the native load generator over the Unix socket."""
    return [
        *(binary("neargraph-bench-server"), "--address", f"unix:{server.unix}"),
        *("--model", model, "--graph", graph, "--rate", str(rate), "--seconds", str(seconds)),
        *("--warm-seconds", "0"),
    ]


class Load:
    """A load that runs beside what else is done."""

    def __init__(self, command: list[str], token: str | None = None) -> None:
        env = {**os.environ, **({"NEARGRAPH_TOKEN": token} if token else {})}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        # A load that waits for a processor would count its own lateness as the server's.
        with contextlib.suppress(PermissionError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, max(own - 10, -20))

    def found(self) -> Report:
        """Waits for its end; what it says: the last loop, or the whole report if there is none."""
        said, _ = self._process.communicate()
        if self._process.returncode != 0:
            raise RuntimeError(f"the load failed: {said}")
        report: Report = json.loads(said.splitlines()[-1])
        loops: list[Report] = report["open"]
        return loops[-1] if loops else report

    def stop(self) -> None:
        """Ends it without a report."""
        self._process.kill()
        self._process.communicate()


def small_graph(name: str, nodes: int = 100_000, degree: float = 12.0, width: int = 64) -> Path:
    """A planted graph under `.bench/attacks`, made once; the seed is 1."""
    path = HOME / f"{name}_{nodes}_{width}.ng"
    if not path.exists():
        from benchmarks import graphs

        HOME.mkdir(parents=True, exist_ok=True)
        graph = graphs.make_planted(nodes, degree, width, 1)
        graphs.write_store(graph, graphs.split_ids(nodes, 1), graph.rows, path)
    return path


def small_model(path: Path, width: int, fanouts: Sequence[int] = (25, 10)) -> Path:
    """Two layers of means of neighbours and products, as a model file; no torch is needed."""
    import numpy as np

    import neargraph as ng

    dfg = ng.Dfg()
    h = dfg.create_in("x", "f32", ["nodes", width])
    edge_index = dfg.create_in("edge_index", np.int64, [2, "edges"])
    draws = np.random.default_rng(2)
    for layer, shape in enumerate([(width, 64), (64, 16)]):
        weight = dfg.create_weight(f"w{layer}", draws.standard_normal(shape, dtype=np.float32))
        h = dfg.create_op("MatMul", [dfg.create_op("SpMM_Mean", [edge_index, h]), weight])
    dfg.create_out("out", h)
    dfg.save(path, fanouts=list(fanouts))
    return path


@dataclass(frozen=True)
class Registered:
    """A model that answers, and the shape of its graph."""

    model: Path
    nodes: int
    width: int


def registered(
    server: Server,
    model: Path | None,
    graphs: Sequence[str] = ("g",),
    prepare: str = "hot",
    token: str | None = None,
) -> Registered:
    """Registers `model`, or a small one, as "m" on graphs that are alike; waits until it is
    prepared."""
    import neargraph as ng

    server.wait_ready()
    with ng.Client(f"unix:{server.unix}", token=token) as client:
        node_type = client.graphs()[0]["node_types"][0]
        width = next(int(t["shape"][0]) for t in node_type["tensors"] if t["name"] == "x")
        model = model or small_model(server.folder / "m.ngm", width)
        for graph in graphs:
            client.register_model("m", model, graph=graph, prepare=prepare)
    server.wait_ready(300.0, prepared=True)
    return Registered(model, int(node_type["num_nodes"]), width)


def served_folder(name: str, graphs: dict[str, Path]) -> Path:
    """A new folder under `.bench/attacks` with a copy of each store under its name."""
    folder = HOME / "served" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for graph, store in graphs.items():
        shutil.copytree(store, folder / f"{graph}.ng")
    return folder


def tokens(folder: Path) -> Path:
    """A token file with one who reads, one who is hostile and has a quota, and an admin."""
    path = folder / "tokens"
    path.write_text(
        f"read victim {READER}\n"
        f"read mallory {HOSTILE} requests=20000 seeds=200000\n"
        f"admin ops {ADMIN}\n"
    )
    path.chmod(0o600)
    return path


def report(name: str, found: Report, markdown: str) -> None:
    """Writes NAME.json and NAME.md under `.bench/attacks`, and prints the table."""
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (HOME / f"{name}.md").write_text(markdown)
    print(markdown)
    print(f"{HOME / name}.json, .md", flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown."""
    lines = [list(map(str, head)), ["---"] * len(head), *([str(c) for c in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
