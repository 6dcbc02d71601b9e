"""The server beside the peer: requests/s with p99 within 50 ms, in turns, from one load generator.

    cargo build --release -p ng-server -p ng-client      # once, as the next two
    python -m benchmarks.venvs peer
    python -m benchmarks.sampler
    python -m benchmarks.serving.beside                  # half an hour; goes on where it stopped
    python -m benchmarks.serving.beside --quick          # a small graph, to see that it works

The peer's workers are swept first, and its best number is kept for each size of request. The
systems of a session then run at the same time, each in a cgroup of its own, warmed until its rate
is steady; while one is asked the others wait. In each round every system gets the same arrivals and
nodes, and the highest rate is searched at which 99 % of all requests are answered within the limit.
One that is refused or fails is missed, and a rate with missed ones is not within the limit.

The floor is fio's random reads/s over the reads of a request, which the server's metrics count in
that search. Accuracy is that of 2,000 test nodes, asked of the servers themselves.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import machine
from ..graphs import DEGREE, make_planted, write
from ..latency import fio_rate
from ..places import GRAPHS
from ..training import size
from .beside_tables import draw_picture, markdown
from .peer import process
from .peer.process import Peer
from .prepared import Prepared
from .record import Record
from .served import HOME, MODEL, Server, Setting, between, load

Report = dict[str, Any]


@dataclass(frozen=True)
class Session:
    """A stream, and the systems that are asked for it in turns."""

    draw: str
    nodes: int
    systems: tuple[str, ...]

    @property
    def title(self) -> str:
        """For tables."""
        return f"{self.draw}, {self.nodes} node{'s' if self.nodes > 1 else ''}"


SESSIONS = {
    "uniform": Session("uniform", 1, ("peer", "server", "int8", "first_layer")),
    "uniform64": Session("uniform", 64, ("peer", "server")),
    "zipf": Session("zipf", 1, ("peer", "peer_kept", "server", "server_kept")),
}
QUICK: dict[str, Any] = {
    "cap": 768 << 20,
    "memory": 60_000_000,
    "answers": 4_000_000,
    "workers": [1, 2],
    "steps": 20,
    "warm_seconds": 4.0,
    "window": 1.0,
    "seconds": 1.0,
    "fio_seconds": 1,
}


def setting(system: str, prepared: Prepared, args: argparse.Namespace) -> Setting:
    """How one of the servers is set up."""
    kept = args.answers if system == "server_kept" else 0
    store, model, prepare = prepared.store, prepared.model, "hot"
    if system == "int8":
        store, prepare = prepared.int8, "all"
    if system == "first_layer":
        store, model = prepared.first_layer
    scheduler = "CG" if kept else "G"
    return Setting(store, model, args.memory - kept, scheduler, kept, prepare)


def peer(prepared: Prepared, args: argparse.Namespace, workers: int, kept: bool, name: str) -> Peer:
    """The peer with a number of workers."""
    return Peer(
        prepared.graph,
        prepared.weights,
        workers=workers,
        threads=args.threads,
        handlers=args.handlers,
        dictionary_bytes=args.answers if kept else 0,
        cap=args.cap,
        name=name,
    )


def asked(session: Session, prepared: Prepared, args: argparse.Namespace) -> Report:
    """Options of the load that all of a session have."""
    return {
        "draw": session.draw,
        "ids": prepared.about["nodes"],
        "nodes": session.nodes,
        "in_flight": args.in_flight,
        "limit_ms": args.limit_ms,
    }


def warm(to: str, common: Report, args: argparse.Namespace) -> list[float]:
    """Asks until the rate is steady: the rate of each window."""
    found = load(
        to,
        **common,
        warm_seconds=args.warm_seconds,
        window=args.window,
        seconds=args.window,
        shares=[],
        seed=args.seed,
    )
    rates: list[float] = found["warm_rates"] + [found["closed"]["requests_per_s"]]
    return rates


def sweep(session: Session, prepared: Prepared, args: argparse.Namespace) -> Report:
    """The peer by workers: the rate of each at saturation, once it is steady."""
    rates: Report = {}
    for workers in args.workers:
        machine.evict(process.files(prepared.graph))
        with peer(prepared, args, workers, False, f"sweep{workers}") as one:
            rates[str(workers)] = warm(one.to, asked(session, prepared, args), args)
    best = max(rates, key=lambda workers: rates[workers][-1])
    return {"rates": rates, "best": int(best)}


def search(system: Server | Peer, common: Report, seed: int, args: argparse.Namespace) -> Report:
    """The highest rate within the limit, and what it took."""
    before = system.counts() if isinstance(system, Server) else {}
    found = load(
        system.to, **common, warm_seconds=0, seconds=args.seconds, find_rate=True, seed=seed
    )
    counts = between(before, system.counts()) if isinstance(system, Server) else {}
    return {**found, "counts": counts}


def accuracy(server: Server, prepared: Prepared, count: int) -> float:
    """The share of test nodes that get their label."""
    import neargraph as ng

    ids = np.load(prepared.graph / "test.npy")[:count]
    labels = np.load(prepared.graph / "labels.npy", mmap_mode="r")[ids]
    right = 0
    with ng.Client(server.address) as client:
        for first in range(0, len(ids), 64):
            rows = client.run(MODEL, ids[first : first + 64])
            right += int((rows.argmax(axis=1) == labels[first : first + 64]).sum())
    return right / len(ids)


def measure(
    name: str, prepared: Prepared, best: int, args: argparse.Namespace, record: Record
) -> None:
    """All rounds of a session that are not known yet."""
    session = SESSIONS[name]
    wanted = [f"{name}/{number}/{one}" for number in range(args.runs) for one in session.systems]
    wanted += [f"{name}/memory/{one}" for one in session.systems]
    if all(key in record.results for key in wanted):
        return
    common = asked(session, prepared, args)
    machine.evict(process.files(prepared.graph))
    with ExitStack() as stack:
        systems: dict[str, Server | Peer] = {}
        for one in session.systems:
            record.say(f"{name}: starting {one}")
            if one.startswith("peer"):
                made: Server | Peer = peer(prepared, args, best, one == "peer_kept", one)
            else:
                made = Server(setting(one, prepared, args), one, args.cap)
            stack.enter_context(made)
            systems[one] = made
        for one, system in systems.items():
            record.say(f"{name}: warming {one}")
            record.results[f"{name}/warm/{one}"] = warm(system.to, common, args)
        for number in range(args.runs):
            for one, system in systems.items():
                run = partial(search, system, common, args.seed + 1 + number, args)
                record.once(f"{name}/{number}/{one}", run)
        for one, system in systems.items():
            record.results[f"{name}/memory/{one}"] = {
                "cap": system.cap.why_not or args.cap,
                "peak_bytes": None if system.cap.why_not else system.cap.peak_bytes(),
                "kills": 0 if system.cap.why_not else system.cap.kills(),
            }
            if isinstance(system, Server) and name == "uniform":
                found = accuracy(system, prepared, args.test_nodes)
                record.results[f"{name}/accuracy/{one}"] = found
        record.save()


def quick_graph(args: argparse.Namespace) -> Path:
    """A small graph with its arrays, made once."""
    folder = HOME / "quick"
    if not (folder / "planted_100k" / "about.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write("planted_100k", make_planted(100_000, DEGREE, 256, 1), 1, "both", folder)
    return folder / "planted_100k"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small graph and short loops")
    parser.add_argument("--graph", type=Path, default=GRAPHS / "planted_4m")
    parser.add_argument("--sessions", nargs="+", choices=SESSIONS, default=list(SESSIONS))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], help="of the peer")
    parser.add_argument("--threads", type=int, default=2, help="of torch in each worker")
    parser.add_argument("--handlers", type=int, default=4, help="of each worker")
    parser.add_argument("--cap", type=size, default=2 << 30, help="bytes of each cgroup")
    parser.add_argument("--memory", type=size, default=1_800_000_000, help="of a server's graph")
    parser.add_argument("--answers", type=size, default=64_000_000, help="bytes, where kept")
    parser.add_argument("--steps", type=int, default=100, help="of training, for accuracy")
    parser.add_argument("--test-nodes", type=int, default=2_000)
    parser.add_argument("--in-flight", type=int, default=32, help="of closed loops")
    parser.add_argument("--warm-seconds", type=float, default=30.0, help="at most")
    parser.add_argument("--window", type=float, default=3.0, help="seconds of a rate in warming")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each loop")
    parser.add_argument("--limit-ms", type=float, default=50.0)
    parser.add_argument("--fio-seconds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="measure again what is known")
    parser.add_argument("--out", type=Path, default=HOME / "beside.json")
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK, graph=quick_graph(args), out=HOME / "quick" / "beside.json")
    return args


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    prepared = Prepared(args.graph, args.steps)
    known = {key: str(value) for key, value in vars(args).items()}
    settings = {key: value for key, value in known.items() if key not in ("sessions", "fresh")}
    record = Record(args.out, "serving beside the peer", settings, args.fresh)
    # Whatever is missing is made before anything is measured.
    stores = [prepared.store, prepared.int8, prepared.first_layer[0]]
    arrays = process.files(args.graph)
    machine.read_once([*arrays, *(file for store in stores for file in store.glob("*.dat"))])
    record.once("fio", lambda: fio_rate(prepared.store, args.fio_seconds))
    for name in args.sessions:
        session = SESSIONS[name]
        key = f"workers, {session.nodes} nodes"
        best = record.once(key, partial(sweep, session, prepared, args))["best"]
        measure(name, prepared, best, args, record)
    text = markdown(record.report)
    args.out.with_suffix(".md").write_text(text + "\n")
    draw_picture(record.report, args.out.with_suffix(".png"))
    print(text, args.out.with_suffix(".png"), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
