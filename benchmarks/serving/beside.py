"""The server beside the peer, in turn, in cgroups of equal size: requests/s within 50 ms.

    python -m benchmarks.serving.beside --workers 2 --server "neargraph serve ..." --side HOST:PORT

`--server` starts a server that is ready when /readyz of `--side` says so; {answers} in it is filled
in with the bytes of answers that it may keep. `--workers` is the peer's best number, from
`benchmarks.serving.peer`. Each case is a stream and what both sides keep: nothing; answers on our
side alone; answers here and a dictionary of equal bytes there. Ratios are of requests/s within the
limit, pair by pair. The floor is the disk's random rate over the reads of a request
in that loop; all reads of the disk count.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import machine
from ..cap import Cap
from ..latency import fio_rate
from ..places import BENCH, GRAPHS, ROOT
from ..training import size
from ..training_tables import table
from . import replay
from .loads import HOME, load, stream_file
from .peer.__main__ import Run, wide_indices
from .peer.__main__ import measure as measure_peer

Report = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A stream, whether answers are kept on each side, and the ratio that is wanted."""

    stream: str
    nodes: int
    ours: bool
    theirs: bool
    wanted: float

    @property
    def name(self) -> str:
        """For the table."""
        kept = {(False, False): "no answers kept", (True, False): "answers kept by us alone"}
        how = kept.get((self.ours, self.theirs), "answers kept by both, equal bytes")
        return f"{self.stream}, {self.nodes} node{'s' if self.nodes > 1 else ''}, {how}"


CASES = {
    "uniform": Case("uniform", 1, False, False, 1.5),
    "uniform64": Case("uniform", 64, False, False, 1.5),
    "zipf": Case("zipf", 1, False, False, 1.5),
    "zipf_ours": Case("zipf", 1, True, False, 4.0),
    "zipf_both": Case("zipf", 1, True, True, 1.5),
}


@contextmanager
def served(args: argparse.Namespace, answers: int) -> Iterator[Cap]:
    """A server in a cgroup, ready."""
    with Cap(args.cap, "-server") as cap:
        process = cap.popen(shlex.split(args.server.format(answers=answers)), cwd=ROOT)
        try:
            end = time.monotonic() + args.ready_seconds
            while not ready(args.side):
                if time.monotonic() > end or process.poll() is not None:
                    raise SystemExit("the server did not get ready")
                time.sleep(0.2)
            yield cap
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def ready(side: str) -> bool:
    """What the server says of itself."""
    try:
        with urllib.request.urlopen(f"http://{side}/readyz", timeout=1.0):
            return True
    except OSError:
        return False


def measure_ours(case: Case, args: argparse.Namespace) -> Report:
    """The server under the load of a case."""
    files = list(Path(f"{args.graph}.ng").glob("*.dat"))
    machine.evict(files)
    stream = stream_file(case.stream, case.nodes, args.graph, args.seed)
    with served(args, args.answers if case.ours else 0) as cap:
        found = load(stream, args.to, files[0], args)
        return {**found, "cap": cap.why_not or f"{cap.peak_bytes()} bytes"}


def both(case: Case, args: argparse.Namespace) -> Report:
    """All pairs of runs of a case."""
    kept = args.answers if case.theirs else 0
    run = Run(case.stream, case.nodes, args.workers, args.threads, args.handlers, kept)
    pairs = [
        {"peer": measure_peer(run, args), "ours": measure_ours(case, args)}
        for _ in range(args.runs)
    ]
    return {"case": case.name, "wanted": case.wanted, "pairs": pairs}


def within(report: Report) -> float:
    """Requests a second within the limit; 0 where no rate was."""
    return float(report.get("within_limit", {}).get("requests_per_s", 0.0))


def of_floor(report: Report, rate: float) -> float:
    """Requests a second within the limit over what the disk could serve at its random rate."""
    loop = report.get("within_limit")
    if not loop or not loop.get("device_reads"):
        return float("nan")
    return float(loop["requests_per_s"] * loop["device_reads"] / loop["requests"] / rate)


def markdown(report: Report) -> str:
    """The table for people."""
    rows = []
    rate = report["fio"]["reads_per_s"]
    for one in report["results"]:
        ours, peer = ([within(pair[side]) for pair in one["pairs"]] for side in ("ours", "peer"))
        ratios = [a / b for a, b in zip(ours, peer, strict=True) if b > 0]
        floors = [of_floor(pair["ours"], rate) for pair in one["pairs"]]
        cores = [pair["ours"]["closed"]["load_cores"] for pair in one["pairs"]]
        middle = statistics.median(ratios) if ratios else float("nan")
        rows.append(
            [
                one["case"],
                f"{statistics.median(ours):.0f} ({min(ours):.0f} to {max(ours):.0f})",
                f"{statistics.median(peer):.0f} ({min(peer):.0f} to {max(peer):.0f})",
                f"{middle:.2f}",
                f"{one['wanted']}: {'met' if middle >= one['wanted'] else 'missed'}",
                f"{statistics.median(floors):.2f}",
                f"{max(cores):.2f}",
            ]
        )
    head = ["", "server, requests/s (range)", "peer (range)", "ratio", "wanted"]
    head += ["server: of the disk's floor", "load, cores"]
    note = f"Random reads of 4 KiB: {rate:,.0f}/s by {report['fio']['by']}."
    return "\n".join([*table(head, rows), "", note])


def parse() -> argparse.Namespace:
    """The command line; what is not known here goes to the load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    weights = BENCH / "latency" / "sage_256_256_32.pt"
    parser.add_argument("--server", required=True, help="command that starts the server")
    parser.add_argument("--side", default="127.0.0.1:7401", help="where /readyz is")
    parser.add_argument("--to", default="neargraph:127.0.0.1:7400:sage", help="of the load")
    parser.add_argument("--load", help="a command with {stream}, {to} and {disk}; default: replay")
    parser.add_argument("--ready-seconds", type=float, default=120.0)
    parser.add_argument("--graph", type=Path, default=GRAPHS / "planted_4m")
    parser.add_argument("--weights", type=Path, default=weights)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--workers", type=int, required=True, help="of the peer: its best number")
    parser.add_argument("--threads", type=int, default=2, help="of torch in each worker")
    parser.add_argument("--handlers", type=int, default=4, help="of each worker")
    parser.add_argument("--answers", type=size, default=64_000_000, help="bytes, where kept")
    parser.add_argument("--cap", type=size, default=2 << 30, help="bytes of each cgroup")
    parser.add_argument("--port", type=int, default=50051, help="first one of the peer")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--fio-seconds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HOME / "beside.json")
    args, args.rest = parser.parse_known_args()
    if args.load is None:
        replay.parser().parse_args(args.rest)
    return args


def main() -> int:
    """Measures, prints and writes JSON and Markdown."""
    args = parse()
    store = Path(f"{args.graph}.ng")
    arrays = [args.graph / "indptr.npy", wide_indices(args.graph), args.graph / "feat.npy"]
    machine.read_once([*arrays, *store.glob("*.dat")])
    report: Report = {"benchmark": "serving beside the peer", "about": machine.about(args.graph)}
    report["fio"] = fio_rate(store, args.fio_seconds)
    report["results"] = []
    for name in args.cases:
        print(CASES[name].name, file=sys.stderr, flush=True)
        report["results"].append(both(CASES[name], args))
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    text = markdown(report)
    args.out.with_suffix(".md").write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
