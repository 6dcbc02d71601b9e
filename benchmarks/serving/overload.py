"""S1: overload degrades, and does not collapse.

    python -m benchmarks.serving.overload [--store G.ng --model sage.ngm --memory 2GB]

A server is asked in a closed loop until its rate is known, then in open loops at 0.5 to 10 times of
it, each with a deadline. Goodput is what is answered before the deadline of its caller, counted
from the arrival that was planned. Server and load have half of the cores each, as on two machines.
Wanted: at 4 times the load at least 90 % of the most that any loop had, and the 99th percentile of
what was answered within the deadline. Without a store a small planted graph is made; a store that
is given is copied.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

from attacks.process import (
    HOME,
    Load,
    Report,
    Server,
    binary,
    on_cores,
    registered,
    report,
    served_folder,
    small_graph,
    table,
)

SHARES = (0.5, 0.8, 1.0, 2.0, 4.0, 10.0)
GOODPUT_MIN = 0.9
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORES, LOAD_CORES = CORES[: len(CORES) // 2], CORES[len(CORES) // 2 :]


def load(server: Server, args: argparse.Namespace, *more: object) -> Report:
    """One run of the load generator."""
    command = [*on_cores(LOAD_CORES), binary("neargraph-bench-server"), "--address", server.address]
    command += ["--model", args.model_name, "--graph", args.graph, "--draw", args.draw]
    command += ["--nodes", str(args.nodes), "--seconds", str(args.seconds)]
    # As many clients: a connection holds its requests back when it has 128 under way.
    command += ["--connections", "32"]
    command += ["--timeout-ms", str(args.deadline_ms), *map(str, more)]
    return Load(command).found()


def saturation(server: Server, args: argparse.Namespace) -> float:
    """Answers/s of a closed loop, whose requests have time."""
    command = [*on_cores(LOAD_CORES), binary("neargraph-bench-server")]
    command += ["--address", server.address, "--window", "2"]
    command += ["--model", args.model_name, "--graph", args.graph, "--draw", args.draw]
    command += ["--nodes", str(args.nodes), "--seconds", str(args.seconds), "--shares"]
    command += ["--warm-seconds", str(args.warm)]
    found = Load(command).found()
    return float(found["closed"]["requests_per_s"])


def one_round(server: Server, args: argparse.Namespace, number: int) -> Report:
    saturated = saturation(server, args)
    print(f"saturated at {saturated:,.0f} requests/s", flush=True)
    loops = []
    for share in args.shares:
        rate = share * saturated
        before, cpu = server.requests(), server.cpu_seconds()
        found = load(
            server, args, "--rate", rate, "--warm-seconds", 0, "--seed", args.seed + number
        )
        ended = {code: n - before.get(code, 0.0) for code, n in server.requests().items()}
        cores = (server.cpu_seconds() - cpu) / args.seconds
        found = {"share": share, **found, "server": ended, "server_cores": cores}
        loops.append(found)
        print(
            f"  {share:>4} x: {found['requests_per_s']:8,.0f} of {rate:8,.0f}/s in time, "
            f"p99 {found.get('p99_ms', 0):6.1f} ms, {found['missed_by_code']}; the server's "
            f"codes {ended}, cores {cores:.2f}, sent late {found['sent_late_ms']:.0f} ms",
            flush=True,
        )
    return {"saturated": saturated, "loops": loops}


def shown(rounds: list[Report], args: argparse.Namespace) -> tuple[list[list[object]], Report]:
    """A row for each share, and whether the bars are met by the medians."""
    rows: list[list[object]] = []
    goodput: dict[float, list[float]] = {}
    late: dict[float, list[float]] = {}
    for place, share in enumerate(args.shares):
        loops = [one["loops"][place] for one in rounds]
        peaks = [max(other["requests_per_s"] for other in one["loops"]) for one in rounds]
        goodput[share] = [
            loop["requests_per_s"] / peak for loop, peak in zip(loops, peaks, strict=True)
        ]
        late[share] = [loop.get("p99_ms") or 0.0 for loop in loops]
        shed = [loop["missed"] / loop["requests"] for loop in loops]
        codes: dict[str, int] = {}
        for loop in loops:
            for code, count in loop["missed_by_code"].items():
                codes[code] = codes.get(code, 0) + count
        rows.append(
            [
                f"{share} x",
                f"{statistics.median(loop['asked_per_s'] for loop in loops):,.0f}",
                f"{statistics.median(loop['requests_per_s'] for loop in loops):,.0f}",
                spread(goodput[share]),
                f"{statistics.median(late[share]):.1f}",
                f"{100 * statistics.median(shed):.0f} %",
                ", ".join(f"{count:,} {code}" for code, count in sorted(codes.items())),
                f"{statistics.median(per_core(loop) for loop in loops):,.0f}",
                f"{statistics.median(loop['load_cores'] for loop in loops):.2f}",
            ]
        )
    over = 4.0 if 4.0 in goodput else max(goodput)
    kept = statistics.median(goodput[over])
    in_time = all(statistics.median(found) <= args.deadline_ms for found in late.values())
    place = list(args.shares).index(over)
    by_core = statistics.median(
        per_core(one["loops"][place]) / max(map(per_core, one["loops"])) for one in rounds
    )
    bars: Report = {"goodput_at": over, "goodput": round(kept, 3), "p99_in_time": in_time}
    bars["goodput_by_core"] = round(by_core, 3)
    return rows, {**bars, "passed": kept >= GOODPUT_MIN and in_time}


def per_core(loop: Report) -> float:
    """Answers in a second of the server's processor time: what others take does not change it."""
    return float(loop["requests_per_s"]) / max(float(loop["server_cores"]), 0.01)


def spread(found: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def plot(rounds: list[Report], args: argparse.Namespace, path: Path) -> None:
    """Goodput and the 99th percentile over the load."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for one in rounds:
        shares = [loop["share"] for loop in one["loops"]]
        left.plot(shares, [loop["requests_per_s"] for loop in one["loops"]], "o-")
        right.plot(shares, [loop.get("p99_ms") for loop in one["loops"]], "o-")
    right.axhline(args.deadline_ms, linestyle="--", color="grey")
    for axes, name in ((left, "answers/s in time"), (right, "p99 of answers, ms")):
        axes.set_xscale("log")
        axes.set_xlabel("load over saturation")
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, help="a store, which is copied")
    parser.add_argument("--model", type=Path, help="its model")
    parser.add_argument("--memory", default="256MB", help="of the graph")
    parser.add_argument("--scheduler", default="G", help="parts that are on")
    parser.add_argument("--draw", choices=["uniform", "zipf"], default="uniform")
    parser.add_argument("--nodes", type=int, default=256, help="of a request")
    parser.add_argument("--deadline-ms", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a loop")
    parser.add_argument("--warm", type=float, default=20.0, help="seconds of warming at most")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shares", type=float, nargs="+", default=list(SHARES))
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> int:
    args = options()
    args.graph, args.model_name = "g", "m"
    print(f"seed {args.seed}", flush=True)
    folder = served_folder("overload", {"g": args.store or small_graph("planted")})
    given = ["--memory", args.memory, "--scheduler", args.scheduler, "--log", "error"]
    with Server(folder, given, cores=SERVER_CORES) as server:
        registered(server, args.model)
        rounds = [one_round(server, args, number) for number in range(args.rounds)]
        panics = server.panics()
    rows, bars = shown(rounds, args)
    head = ["load", "asked/s", "in time/s", "of the most", "p99, ms", "missed", "codes"]
    text = (
        f"# Overload\n\nDeadline {args.deadline_ms} ms, {args.nodes} {args.draw} nodes a request, "
        f"saturated at {statistics.median(one['saturated'] for one in rounds):,.0f} requests/s, "
        f"{args.rounds} rounds, seed {args.seed}; goodput at {bars['goodput_at']:g} times the load "
        f"{bars['goodput']:.0%} of the most (wanted 90 %), by processor time of the server "
        f"{bars['goodput_by_core']:.0%}: "
        f"{'met' if bars['passed'] else '**missed**'}\n\n"
        + table([*head, "in time per core of the server", "load, cores"], rows)
    )
    failed = int(not bars["passed"] or panics > 0)
    found = {"id": "S1", "tried": 1, "failed": failed, "seed": args.seed, **bars}
    report("overload", {**found, "deadline_ms": args.deadline_ms, "rounds": rounds}, text)
    plot(rounds, args, HOME / "overload.png")
    return failed


if __name__ == "__main__":
    sys.exit(main())
