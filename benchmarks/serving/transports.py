"""What each way to a server costs, idle, one small request at a time: latency by transport.

    cargo build --release -p ng-server -p ng-client      # once, as the next two
    cargo build --release -p ng-client --example transports
    python -m benchmarks.venvs peer
    python -m benchmarks.serving.transports              # a minute

A server of a tiny graph, all in memory, runs in a process of its own. In each round every way gets
its turn: TCP, a Unix socket, shared memory without and with 20 us of spinning on both sides, and
the project's blocking client, from Rust; `ng.Client` and grpcio, over the Unix socket and TCP, from
Python. `echo` asks for facts of the server, `run` for one node of a model; the server's share is a
run without the time of the engine, which the answer tells. Percentiles are those of a round; the
table has their median and range over rounds. Spinning needs a core for each side, so its bar holds
on 4 cores or more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..graphs import make_planted, write
from ..places import ROOT
from ..training_tables import table
from ..venvs import python_of
from .record import Record, shown, verdict
from .served import GRAPH, HOME, MODEL, PROGRAMS, Server, Setting
from .streams import FANOUTS

Report = dict[str, Any]
NODES, WIDTH, HIDDEN = 2_000, 16, 16
SPIN_US = 20
SPIN_CORES = 4
# Rounds that are not counted.
WARM_ROUNDS = 2


def tiny() -> tuple[Path, Path]:
    """A store and a model, made once."""
    home = HOME / "tiny"
    if not (home / "tiny" / "about.json").exists():
        home.mkdir(parents=True, exist_ok=True)
        write("tiny", make_planted(NODES, 8.0, WIDTH, 1), 1, "store", home)
    model = home / "sage"
    if not model.exists():
        import torch

        import neargraph as ng

        torch.manual_seed(0)
        net = ng.nn.GraphSAGE(WIDTH, HIDDEN, 4, len(FANOUTS))
        with ng.open(home / "tiny.ng", memory="64MB") as store:
            ng.export(net.eval(), store, model, fanouts=FANOUTS)
    return home / "tiny.ng", model


class Caller:
    """A process that makes a round of calls for each line it gets."""

    def __init__(self, command: list[str]) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def round(self) -> Report:
        """Microseconds of calls, by way and kind."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("round\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a caller ended: {self._process.wait()}")
        found: Report = json.loads(line)
        return found


def measured(args: argparse.Namespace, record: Record) -> Report:
    """By way and kind, [p50, p99] of each round."""
    store, model = tiny()
    setting = Setting(store, model, 64 << 20, scheduler="G", cache=0, prepare="all")
    example = PROGRAMS / "examples" / "transports"
    if not example.exists():
        raise SystemExit(
            f"{example} is missing; make it with: "
            "cargo build --release -p ng-client --example transports"
        )
    rounds: Report = {}
    with ExitStack() as stack:
        one = stack.enter_context(Server(replace(setting, shm_spin="0us"), "transports"))
        spins = stack.enter_context(Server(replace(setting, shm_spin=f"{SPIN_US}us"), "spin"))
        ways = [
            f"TCP={one.address}",
            f"Unix socket={one.unix}",
            f"shared memory={one.shm}",
            f"shared memory, spinning={spins.shm}:spin={SPIN_US}",
            f"client, Unix socket={one.unix}",
            f"client, TCP={one.address}",
            f"client, shared memory={one.shm}",
        ]
        words = [str(args.calls), GRAPH, MODEL, str(NODES)]
        rust = stack.enter_context(Caller([str(example), *words, *ways]))
        python = [str(python_of("peer")), "-m", "benchmarks.serving.transports_worker"]
        calls = [str(args.calls), str(NODES), one.unix, one.address]
        callers = [rust, stack.enter_context(Caller([*python, *calls]))]
        for number in range(args.rounds + WARM_ROUNDS):
            record.say(f"round {number}")
            for caller in callers:
                for way, kinds in caller.round().items():
                    for kind, times in kinds.items():
                        if number >= WARM_ROUNDS:
                            found = np.percentile(times, [50, 99]).tolist()
                            rounds.setdefault(way, {}).setdefault(kind, []).append(found)
    return rounds


def of(rounds: Report, way: str, kind: str, place: int) -> list[float]:
    """A percentile of each round."""
    return [one[place] for one in rounds[way][kind]]


def ratio(rounds: Report, way: str, kind: str = "echo") -> list[float]:
    """The median of a way over that of TCP, round by round."""
    pairs = zip(of(rounds, way, kind, 0), of(rounds, "TCP", kind, 0), strict=True)
    return [a / b for a, b in pairs]


def bars(rounds: Report) -> list[list[str]]:
    """(what, found, wanted) of each bar."""
    rows = []
    for way in ("client, Unix socket", "ng.Client, Unix socket"):
        for place, name, wanted in ((0, "p50", 150.0), (1, "p99", 300.0)):
            found = of(rounds, way, "share", place)
            met = verdict(statistics.median(found), wanted, False)
            rows.append([f"{way}: server's share, {name}, us", shown(found), met])
    found = of(rounds, "grpcio, Unix socket", "share", 0)
    met = verdict(statistics.median(found), 400.0, False)
    rows.append(["grpcio, Unix socket: server's share, p50, us", shown(found), met])
    found = ratio(rounds, "shared memory")
    met = verdict(statistics.median(found), 0.5, False)
    rows.append(["shared memory without spinning, of TCP's p50", shown(found, 2), met])
    found = ratio(rounds, "shared memory, spinning")
    met = verdict(statistics.median(found), 0.1, False)
    if (os.cpu_count() or 1) < SPIN_CORES:
        met = f"needs {SPIN_CORES} cores; here are {os.cpu_count()}"
    rows.append(["shared memory with spinning, of TCP's p50", shown(found, 2), met])
    return rows


def markdown(report: Report) -> str:
    """The tables for people."""
    rounds, about = report["results"]["rounds"], report["about"]
    lines = [f"Commit {about['commit']}, {about['utc']} UTC, {about['cores']} cores.", ""]
    lines += [*table(["", "median (range) over rounds", "wanted"], bars(rounds)), ""]
    head = ["way", "echo, p50 us", "echo, p99", "run, p50 us", "run, p99", "share, p50", "of TCP"]
    rows = []
    for way in rounds:
        cells = [
            shown(of(rounds, way, kind, place))
            for kind, place in (("echo", 0), ("echo", 1), ("run", 0), ("run", 1), ("share", 0))
        ]
        rows.append([way, *cells, shown(ratio(rounds, way), 2)])
    return "\n".join([*lines, *table(head, rows)])


def draw_picture(report: Report, path: Path) -> None:
    """p50 and p99 of an echo by way, and the server's share of a run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rounds = report["results"]["rounds"]
    ways = list(rounds)
    made, both = pyplot.subplots(1, 2, figsize=(12, 0.4 * len(ways) + 1.5), sharey=True)
    titles = {"echo": "a call that does nothing", "share": "a request, without the engine"}
    for axes, (kind, title) in zip(both, titles.items(), strict=True):
        for place, way in enumerate(ways):
            for at, colour in ((1, "#c9d9e6"), (0, "#2b6a99")):
                values = of(rounds, way, kind, at)
                middle = statistics.median(values)
                error = [[middle - min(values)], [max(values) - middle]]
                label = ("p50", "p99")[at] if place == 0 else None
                axes.barh(place, middle, 0.7, xerr=error, color=colour, label=label)
        axes.set(title=title, xlabel="microseconds", xscale="log")
        axes.grid(axis="x", alpha=0.3)
        axes.legend(frameon=False)
    both[0].set_yticks(range(len(ways)), ways)
    both[0].invert_yaxis()
    made.tight_layout()
    made.savefig(path, dpi=120)


def main() -> int:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300, help="of each kind, way and round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 short rounds")
    parser.add_argument("--out", type=Path, default=HOME / "transports.json")
    args = parser.parse_args()
    if args.quick:
        args.calls, args.rounds, args.out = 50, 5, HOME / "quick" / "transports.json"
    settings = {key: str(value) for key, value in vars(args).items()}
    record = Record(args.out, "transports", settings, fresh=True)
    record.once("rounds", lambda: measured(args, record))
    text = markdown(record.report)
    args.out.with_suffix(".md").write_text(text + "\n")
    draw_picture(record.report, args.out.with_suffix(".png"))
    print(text, args.out.with_suffix(".png"), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
