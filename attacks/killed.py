"""kill -9 under load: what was acknowledged is there, once, and clients go on by themselves.

    python -m attacks.killed [--store G.ng --model sage.ngm --memory 2GB --prepare hot]

A server answers an open loop of requests and 1,000 updates/s in batches with keys. It is killed at
random moments and started again at the same address by the same command. Timed: from the start of
the process until `/readyz` says so, until the first answer of a client, and until the rows are
there that are prepared. Clients are made once, before the first kill: one of Python, whose calls
are tried again, and the native load generator, whose calls are not. In the end the lists of all
nodes that were changed are compared with those from before and every edge that was acknowledged. A
store that is given is copied, as it is changed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .process import (
    Load,
    Report,
    Server,
    load_command,
    registered,
    report,
    served_folder,
    small_graph,
    table,
    wait_until,
)
from .updating import Writer, compare, lists

RESTART_MAX = 5.0
WRITERS = 2


class Reader:
    """One client that asks again and again, over all restarts; its calls are tried again."""

    def __init__(self, address: str, nodes: int) -> None:
        self.answers = 0
        self.errors: Counter[str] = Counter()
        self.answered_at: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address, nodes))
        self._thread.start()

    def _run(self, address: str, nodes: int) -> None:
        import neargraph as ng

        draws = random.Random(5)
        with ng.Client(address, timeout=60.0, retry=60.0) as client:
            while not self._stop.wait(0.01):
                try:
                    client.run("m", [draws.randrange(nodes)], graph="g")
                except ng.RequestFailed as error:
                    self.errors[error.code] += 1
                else:
                    self.answers += 1
                    self.answered_at.append(time.monotonic())

    def stop(self) -> None:
        """Ends it."""
        self._stop.set()
        self._thread.join()


def restart(server: Server, reader: Reader, seconds: float) -> Report:
    """Kills the server and starts it again; how long what took, from the start of the process."""
    server.kill()
    start = time.monotonic()
    server.start()
    wait_until(lambda: server.get("/readyz", 1.0)[0] == 200, seconds, 0.005)
    ready = time.monotonic() - start
    wait_until(
        lambda: bool(reader.answered_at) and reader.answered_at[-1] > start + ready / 2,
        seconds,
        0.005,
    )
    first = next((at - start for at in reader.answered_at if at > start), -1.0)
    server.wait_ready(seconds, prepared=True)
    prepared = time.monotonic() - start
    return {"ready_s": ready, "first_answer_s": first, "prepared_s": prepared}


def killed(args: argparse.Namespace) -> Report:
    import neargraph as ng

    draws = random.Random(args.seed)
    folder = served_folder("killed", {"g": args.store or small_graph("planted")})
    options = ["--memory", args.memory, "--log", "error"]
    with Server(folder, options) as server:
        nodes = registered(server, args.model, prepare=args.prepare).nodes
        with ng.Client(server.address) as client:
            before = lists(client)
            first_commit = int(client.graphs()[0]["snapshot"]["commit"])
        total = args.kills * args.between + 20.0
        command = load_command(server, "m", "g", args.rate, total)
        load = Load([*command, "--timeout-ms", "1000"])
        writers = [
            Writer(server.address, nodes, args.updates / WRITERS, args.batch, number)
            for number in range(WRITERS)
        ]
        reader = Reader(server.address, nodes)
        restarts = []
        start = time.monotonic()
        for number in range(args.kills):
            time.sleep(args.between * (0.5 + draws.random() / 2))
            restarts.append(restart(server, reader, 120.0))
            print(f"kill {number + 1}: {restarts[-1]}", flush=True)
        time.sleep(3.0)
        done = [writer.stop() for writer in writers]
        seconds = time.monotonic() - start
        found = load.found()
        reader.stop()
        with ng.Client(server.address) as client:
            after = lists(client)
            last_commit = int(client.graphs()[0]["snapshot"]["commit"])
        panics = server.panics()
    edges = sum(len(one.acknowledged) for one in done)
    return {
        **compare(before, after, done),
        "restarts": restarts,
        "batches": sum(one.batches for one in done),
        "batches_repeated": sum(one.repeated for one in done),
        "commits": last_commit - first_commit,
        "edges_acknowledged": edges,
        "updates_per_s": round(edges / seconds, 1),
        "batches_given_up": sum(sum(one.errors.values()) for one in done),
        "reader": {"answers": reader.answers, "errors": dict(reader.errors)},
        "load": found,
        "panics": panics,
    }


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, help="a store, which is copied")
    parser.add_argument("--model", type=Path, help="its model")
    parser.add_argument("--memory", default="256MB", help="of the graph")
    parser.add_argument("--prepare", default="hot", choices=["metadata", "hot", "all"])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--between", type=float, default=8.0, help="seconds between kills at most")
    parser.add_argument("--rate", type=float, default=200.0, help="requests/s")
    parser.add_argument("--updates", type=float, default=1000.0, help="updates/s")
    parser.add_argument("--batch", type=int, default=10, help="updates in a batch")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    args = options()
    print(f"seed {args.seed}", flush=True)
    found = killed(args)
    restarts = found["restarts"]
    worst: dict[str, Any] = {
        key: max(one[key] for one in restarts)
        for key in ("ready_s", "first_answer_s", "prepared_s")
    }
    bars = {
        "ready and answers within 5 s": 0 <= worst["first_answer_s"] < RESTART_MAX
        and worst["ready_s"] < RESTART_MAX,
        "acknowledged and lost = 0": found["missing"] == 0,
        "applied twice = 0": found["applied_twice"] == 0,
        "clients go on": not found["reader"]["errors"] and found["batches_given_up"] == 0,
        "panics = 0": found["panics"] == 0,
    }
    rows: list[Sequence[object]] = [
        ["kills", len(restarts)],
        *(
            [
                f"{key}, median (most)",
                f"{statistics.median(o[key] for o in restarts):.2f} ({most:.2f})",
            ]
            for key, most in worst.items()
        ),
        [
            "updates/s, acknowledged edges",
            f"{found['updates_per_s']}, {found['edges_acknowledged']:,}",
        ],
        ["batches; answered as repeated", f"{found['batches']:,}; {found['batches_repeated']}"],
        ["acknowledged and missing", found["missing"]],
        ["applied twice", found["applied_twice"]],
        ["batches given up by the client", found["batches_given_up"]],
        ["answers of the client that is tried again; errors", f"{found['reader']}"],
        [
            "native load: answered of asked; missed",
            f"{found['load']['requests'] - found['load']['missed']:,} of "
            f"{found['load']['requests']:,}; {found['load']['missed_by_code']}",
        ],
        *([bar, "met" if met else "**missed**"] for bar, met in bars.items()),
    ]
    failed = sum(not met for met in bars.values())
    figure = {"id": "killed", "tried": len(bars), "failed": failed, "seed": args.seed}
    text = "# kill -9 under load\n\n" + table(["what", "found"], rows)
    report("killed", {**figure, "bars": bars, "worst": worst, **found}, text)
    print(f"figure: {json.dumps(figure)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
