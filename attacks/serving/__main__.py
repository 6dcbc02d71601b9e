"""S3: each script beside a victim, in turns with the victim alone.

    python -m attacks.serving                       # all scripts, 3 turns of 4 seconds
    python -m attacks.serving --only garbage reset_floods --turns 1

Of each script: whether the server lives, the victim's errors (wanted: 0), its 99th percentile with
the script over that without (wanted: at most 2, the median of the turns), whether a client that
comes in the middle is served, and what the server holds afterwards. A victim asks the Unix socket
in an open loop at a modest rate; a hostile client has a token with a quota and runs at the lowest
priority of the machine, so that what it costs is what the server does for it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.places import ROOT

from ..process import (
    ADMIN,
    HOSTILE,
    READER,
    Load,
    Report,
    Server,
    Usage,
    load_command,
    registered,
    report,
    served_folder,
    small_graph,
    table,
    tokens,
    wait_until,
)
from . import calls, connections, side
from .scripts import NEED_TLS, SCRIPTS

LOADED = (calls, connections, side)
RATIO_MAX = 2.0
# How long the server may take to give back what a script held.
PATIENCE = 30.0
# What an allocator may keep of what a script had it take.
RSS_SLACK = 96 << 20
LEAD = 0.3


@contextmanager
def served(args: argparse.Namespace, tls: bool) -> Iterator[Server]:
    """A server with a graph "g", its model "m", and one that nobody can afford, "huge"."""
    store = args.store or small_graph("planted")
    folder = served_folder("hostile", {"g": store})
    options = ["--memory", args.memory, "--scheduler", "G", "--token-file", str(tokens(folder))]
    options += ["--shm", str(folder / "ring"), "--log", "error"]
    if tls:
        cert, key = certificates(folder)
        options += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with Server(folder, options) as server:
        register_huge(server, registered(server, args.model, token=ADMIN).model)
        use_all_lanes(server)
        yield server


def use_all_lanes(server: Server) -> None:
    """What a lane opens for its first request stays open, and is nothing that a script held."""
    import neargraph as ng

    def ask(seed: int) -> None:
        with ng.Client(f"unix:{server.unix}", token=ADMIN, timeout=60.0) as client:
            client.run("m", range(2_000), graph="g", seed=seed)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(32)))


def register_huge(server: Server, model: Path) -> None:
    import neargraph as ng

    with ng.Client(f"unix:{server.unix}", token=ADMIN) as client:
        client.register_model("huge", model, graph="g", fanouts=[1_000_000, 1_000_000])


def certificates(folder: Path) -> tuple[Path, Path]:
    """A certificate of its own for the server."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key


class Attacker:
    """A script in a process of its own."""

    def __init__(self, name: str, server: Server, nodes: int) -> None:
        place = {"address": server.address, "side": server.side, "nodes": nodes}
        place |= {"ring": str(server.folder / "ring"), "token": HOSTILE}
        command = [sys.executable, "-m", "attacks.serving.attacker", name, json.dumps(place)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def go(self, seconds: float) -> None:
        """Lets it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def found(self, seconds: float) -> dict[str, int]:
        """What it did; nothing if it had to be killed."""
        try:
            said, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return {"killed": 1}
        lines = said.splitlines()
        counts: dict[str, int] = json.loads(lines[-1]) if lines else {"failed": 1}
        return counts


def newcomer(server: Server) -> bool:
    """Whether a client that comes now is served."""
    import neargraph as ng

    try:
        with ng.Client(f"unix:{server.unix}", token=READER, timeout=3.0, retry=0.0) as client:
            client.run("m", [1], graph="g")
    except ng.RequestFailed as error:
        print(f"  a newcomer was not served: {error}", flush=True)
        return False
    return True


def victim(server: Server, args: argparse.Namespace, attacker: Attacker | None) -> Report:
    """What the victim finds, alone or beside a script that begins once it is connected."""
    command = load_command(server, "m", "g", args.rate, args.seconds)
    command += ["--nodes", str(args.nodes), "--timeout-ms", "5000", "--seed", str(args.seed)]
    load = Load(command, READER)
    served_now = True
    if attacker is not None:
        time.sleep(LEAD)
        attacker.go(args.seconds + 0.5)
        time.sleep(args.seconds / 2)
        served_now = newcomer(server)
    found = load.found()
    kept = {key: found.get(key) for key in ("p50_ms", "p99_ms", "max_ms", "requests", "missed")}
    more = {"missed_by_code": found["missed_by_code"], "load_cores": found["load_cores"]}
    return {**kept, **more, "newcomer": served_now}


def given_back(server: Server, before: Usage, patience: float = PATIENCE) -> tuple[float, Usage]:
    """Waits until the server holds what it held before; how long that took, and what it holds."""
    import neargraph as ng

    with ng.Client(f"unix:{server.unix}", token=ADMIN) as client:
        for job in client.jobs():
            if not job.has_ended:
                client.job(job.job).cancel()
    start = time.monotonic()

    def is_back() -> bool:
        now = server.usage()
        return now.descriptors <= before.descriptors and now.threads <= before.threads

    wait_until(is_back, patience, 0.1)
    return time.monotonic() - start, server.usage()


def attacked(name: str, server: Server, args: argparse.Namespace, nodes: int) -> Report:
    """One script, in turns with none."""
    before = server.usage()
    turns: list[dict[str, Any]] = []
    for number in range(args.turns):
        alone = victim(server, args, None)
        attacker = Attacker(name, server, nodes)
        beside = victim(server, args, attacker)
        counts = attacker.found(args.seconds + 20.0)
        turns.append({"alone": alone, "beside": beside, "counts": counts})
        if not server.lives():
            break
        if number == 0 and args.turns > 1:
            # What is opened once, when it is first needed, is no loss: that would come each turn.
            given_back(server, before, PATIENCE / 3)
            before = replace(server.usage(), rss=before.rss)
    lives = server.lives()
    seconds, after = given_back(server, before) if lives else (0.0, before)
    never = float("inf")
    ratios = [
        (turn["beside"]["p99_ms"] or never) / (turn["alone"]["p99_ms"] or never) for turn in turns
    ]
    found: Report = {
        "script": name,
        "does": (SCRIPTS[name].__doc__ or "").strip(),
        "lives": lives,
        "panics": server.panics(),
        "errors": sum(turn["beside"]["missed"] for turn in turns),
        "errors_alone": sum(turn["alone"]["missed"] for turn in turns),
        "p99_ratio": round(statistics.median(ratios), 2),
        "p99_ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
        "newcomers_served": sum(turn["beside"]["newcomer"] for turn in turns),
        "before": vars(before),
        "after": vars(after),
        "given_back_s": round(seconds, 1),
        "turns": turns,
    }
    found["passed"] = (
        lives
        and found["panics"] == 0
        and found["errors"] == 0
        and found["p99_ratio"] <= RATIO_MAX
        and after.descriptors <= before.descriptors
        and after.threads <= before.threads
        and after.rss <= before.rss + RSS_SLACK
    )
    return found


def row(found: Report) -> list[object]:
    low, high = found["p99_ratio_range"]
    turn = found["turns"][-1]
    mb = [found[when]["rss"] >> 20 for when in ("before", "after")]
    did = ", ".join(f"{count:,} {what}" for what, count in turn["counts"].items())
    return [
        *(found["script"], "yes" if found["lives"] else "**no**", found["errors"]),
        f"{found['p99_ratio']} ({low} to {high})",
        " / ".join(f"{turn[which]['p99_ms'] or 0:.2f}" for which in ("alone", "beside")),
        f"{found['newcomers_served']} of {len(found['turns'])}",
        f"{mb[0]} / {mb[1]}",
        f"{found['before']['descriptors']} / {found['after']['descriptors']}",
        f"{found['before']['threads']} / {found['after']['threads']}",
        f"{found['given_back_s']}",
        *(did, "met" if found["passed"] else "**missed**"),
    ]


HEAD = ["script", "lives", "victim's errors", "p99 with / without", "last p99, ms", "newcomers"]
HEAD += ["RSS, MB", "descriptors", "threads", "given back, s", "done in a turn", "bar"]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=sorted(SCRIPTS), help="some scripts")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a turn")
    parser.add_argument("--rate", type=float, default=200.0, help="requests/s of the victim")
    parser.add_argument("--nodes", type=int, default=8, help="of a request of the victim")
    parser.add_argument("--memory", default="256MB", help="of the graph")
    parser.add_argument("--store", type=Path, help="a store, which is copied; default: a small one")
    parser.add_argument("--model", type=Path, help="its model; default: a small one")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    args = options()
    print(f"seed {args.seed}", flush=True)
    names = args.only or list(SCRIPTS)
    results: list[Report] = []
    for tls in (False, True):
        chosen = [name for name in names if (name in NEED_TLS) == tls]
        if not chosen or (tls and shutil.which("openssl") is None):
            continue
        with served(args, tls) as server:
            nodes = node_count(server)
            victim(server, args, None)
            for name in chosen:
                results.append(attacked(name, server, args, nodes))
                print("  ".join(map(str, row(results[-1]))), flush=True)
                if not server.lives():
                    break
    failed = [found["script"] for found in results if not found["passed"]]
    head = f"{len(results)} scripts, {len(failed)} past a bar, seed {args.seed}, "
    head += f"{args.rate:g} requests/s of {args.nodes} nodes\n\n"
    found = {"id": "S3", "tried": len(results), "failed": len(failed), "seed": args.seed}
    report(
        "hostile_clients",
        {**found, "past_a_bar": failed, "rate": args.rate, "scripts": results},
        "# Hostile clients beside a victim\n\n" + head + table(HEAD, [row(r) for r in results]),
    )
    print(f"figure: {json.dumps(found)}")
    return 1 if failed else 0


def node_count(server: Server) -> int:
    import neargraph as ng

    with ng.Client(f"unix:{server.unix}", token=READER) as client:
        return int(client.graphs()[0]["node_types"][0]["num_nodes"])


if __name__ == "__main__":
    sys.exit(main())
