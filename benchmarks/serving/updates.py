"""Updates while serving: what 1,000 updates/s cost, and whether every answer is right.

    cargo build --release -p ng-server -p ng-client      # once
    python -m benchmarks.serving.updates                 # 8 minutes, always anew
    python -m benchmarks.serving.updates --quick

A store with its reverse index is imported anew, and a copy of it is kept aside. A server of it is
under a closed load at saturation, in turns without updates, with batches of 100 at 10/s as an
application sends them, and with 1,000 batches/s of a single change. Updates add and remove edges,
change rows, and add nodes. The cost is the share of requests/s that is lost. Beside it stand hits
of kept answers and how many of them the commits ended.

Before that, under the same load and updates that all fall on a pool of nodes, answers for that pool
are recorded with the commit that each names. At the end the batches are applied to the copy in the
order of their commits, and each answer is compared, bit for bit, with what an engine of its own
gives for that node at that commit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..places import GRAPHS, ROOT
from ..training import size
from ..training_tables import table
from .beside import quick_graph
from .prepared import Prepared
from .record import Record, shown, verdict
from .served import HOME, Server, Setting, between, load
from .updates_worker import SEED, Work, apply, batch

Report = dict[str, Any]
WANTED = 0.2
# By name: (changes of a batch, batches a second, threads that send them).
MODES: dict[str, tuple[int, float, int] | None] = {
    "without": None,
    "batches": (100, 10.0, 2),
    "single": (1, 1000.0, 16),
}
# Numbers of batches of one phase are below those of the next.
PHASE = 1_000_000
QUICK: dict[str, Any] = {
    "memory": 60_000_000,
    "cache": 4_000_000,
    "steps": 20,
    "seconds": 3.0,
    "warm_seconds": 4.0,
    "pool": 500,
    "answers": 1_000,
    "answers_per_s": 250.0,
}


@contextmanager
def working(work: Work) -> Iterator[Report]:
    """A process that works meanwhile; its summary is there when the block has ended."""
    command = [sys.executable, "-m", "benchmarks.serving.updates_worker", json.dumps(asdict(work))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    found: Report = {}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "started\n":
            raise SystemExit("a process beside the load did not start")
        try:
            yield found
        finally:
            if work.do == "update":
                process.stdin.close()
            lines = process.stdout.readlines()
            if lines:
                found.update(json.loads(lines[-1]))


class Run:
    """A server, its updates, and the numbers of batches."""

    def __init__(self, server: Server, prepared: Prepared, args: argparse.Namespace) -> None:
        self.server, self.prepared, self.args = server, prepared, args
        self.home = args.out.parent / "updates"
        self.phases = 0

    def work(self, **what: Any) -> Work:
        """What a process beside the load does."""
        about = self.prepared.about
        known = {"address": self.server.address, "nodes": about["nodes"], "width": about["width"]}
        number = self.phases
        self.phases += 1
        out = str(self.home / f"{number}.{'json' if what['do'] == 'update' else 'npz'}")
        first, seed = number * PHASE, self.args.seed
        return Work(**{"pool": about["nodes"], **known, **what}, out=out, first=first, seed=seed)

    def updates(self, mode: str, seconds: float, **more: Any) -> Work | None:
        """The updates of a mode for so long; None where there are none."""
        given = MODES[mode]
        if given is None:
            return None
        changes, rate, threads = given
        numbers = {
            "changes": changes,
            "batches_per_s": rate,
            "threads": threads,
        }
        return self.work(do="update", **numbers, made_before=int(seconds * rate), **more)

    def load(self, draw: str, seed: int, seconds: float) -> Report:
        """A closed loop at saturation."""
        return load(
            self.server.to,
            draw=draw,
            ids=self.prepared.about["nodes"],
            in_flight=self.args.in_flight,
            warm_seconds=0,
            seconds=seconds,
            shares=[],
            seed=seed,
        )

    def phase(self, draw: str, mode: str, seed: int) -> Report:
        """Requests/s of a draw beside updates of a mode, and what was counted."""
        before = self.server.counts()
        work = self.updates(mode, seconds=self.args.seconds)
        if work is None:
            found, beside = self.load(draw, seed, self.args.seconds), {}
        else:
            with working(work) as beside:
                found = self.load(draw, seed, self.args.seconds)
        counts = between(before, self.server.counts())
        return {**found["closed"], "counts": counts, "updates": beside}

    def recorded(self, mode: str) -> Report:
        """Answers under load and updates that meet on a pool of nodes."""
        args = self.args
        pool = {"pool": args.pool}
        seconds = args.answers / 2 / args.answers_per_s
        updates = self.updates(mode, seconds, **pool)
        assert updates is not None
        numbers = {
            "answers": args.answers // 2,
            "answers_per_s": args.answers_per_s,
            "threads": 4,
        }
        with working(updates) as beside, working(self.work(do="record", **numbers, **pool)) as kept:
            found = self.load("zipf", args.seed, seconds)
        return {"load": found["closed"], "updates": beside, "recorder": kept}


def logs(home: Path) -> tuple[list[tuple[int, Work, int]], list[Path]]:
    """(commit, work, number) of all batches in the order of commits; files of answers."""
    batches = []
    for file in home.glob("*.json"):
        log = json.loads(file.read_text())
        work = Work(**log["work"])
        batches += [(commit, work, number) for number, commit in log["commits"]]
    return sorted(batches, key=lambda one: one[0]), sorted(home.glob("*.npz"))


def replayed(copy: Path, model: Path, home: Path, record: Record) -> Report:
    """Compares recorded answers with those of the copy at their commits."""
    import neargraph as ng

    batches, files = logs(home)
    parts = [dict(np.load(file)) for file in files]
    answers = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    order = np.argsort(answers["commits"], kind="stable")
    wrong = changed = at = applied = 0
    last: int | None = None
    # Not a commit of any batch: the store as it was.
    works = {id(work): work for _, work, _ in batches}
    members = {key: work.members() for key, work in works.items()}
    with ng.open(copy, memory="1GB") as store, ng.Engine(store, model) as engine:
        base = {int(node): engine.run([int(node)], SEED)[0] for node in set(answers["nodes"])}
        for commit, work, number in [*batches, (None, None, 0)]:
            if at == len(order):
                break
            while at < len(order) and (commit is None or answers["commits"][order[at]] < commit):
                place = order[at]
                engine.refresh()
                node, row = int(answers["nodes"][place]), answers["rows"][place]
                wrong += engine.run([node], SEED)[0].tobytes() != row.tobytes()
                changed += base[node].tobytes() != row.tobytes()
                at += 1
            if work is not None:
                apply(store, batch(work, members[id(work)], number))
                applied += 1
                # A commit that is not of these batches would shift all answers after it.
                if last is not None and commit != last + 1:
                    raise SystemExit(f"commit {commit} follows {last}: a batch is not known")
                last = commit
            if number % 2_000 == 1_999:
                record.say(f"replayed up to commit {commit}")
    return {
        "answers": len(order),
        "wrong": int(wrong),
        "changed": int(changed),
        "kept": int((answers["cached"] > 0).sum()),
        "commits_named": len(np.unique(answers["commits"])),
        "batches": applied,
        "nodes": len(base),
    }


def markdown(report: Report) -> str:
    """The tables for people."""
    results = report["results"]
    about = report["about"]
    lines = [f"Commit {about['commit']}, {about['utc']} UTC, {about['cores']} cores.", ""]
    head = ["load", "updates", "requests/s (range)", "cost (range)", "wanted", "p99 ms"]
    head += ["updates/s", "updater, cores", "kept answers, share of rows", "answers ended/s"]
    head += ["commits that ended all"]
    rows = []
    for draw in ("uniform", "zipf"):
        for mode in MODES:
            runs = [results[f"{draw}/{n}/{mode}"] for n in range(int(report["settings"]["runs"]))]
            bases = [results[f"{draw}/{n}/without"] for n in range(len(runs))]
            pairs = zip(runs, bases, strict=True)
            cost = [1.0 - run["requests_per_s"] / base["requests_per_s"] for run, base in pairs]
            counts = [run["counts"] for run in runs]
            seconds = [run["requests"] / run["requests_per_s"] for run in runs]
            hits = [one["kept"] / max(one["requests"], 1.0) for one in counts]
            ended = [one["answers_ended"] / took for one, took in zip(counts, seconds, strict=True)]
            beside = [run["updates"] for run in runs if run["updates"]]
            rows.append(
                [
                    draw,
                    mode,
                    shown([run["requests_per_s"] for run in runs]),
                    shown(cost, 2) if beside else "-",
                    verdict(statistics.median(cost), WANTED, False) if beside else "-",
                    shown([run["p99_ms"] for run in runs], 1),
                    shown([one["updates_per_s"] for one in beside]),
                    shown([one["cores"] for one in beside], 2),
                    shown(hits, 3),
                    shown(ended),
                    str(int(sum(one["all_ended"] for one in counts))),
                ]
            )
    lines += table(head, rows)
    check = results["replay"]
    failed = sum(int(r["updates"].get("failed", 0)) for r in results.values() if "updates" in r)
    lines += [
        "",
        f"{check['answers']:,} answers for {check['nodes']:,} nodes at {check['commits_named']:,} "
        f"commits, replayed over {check['batches']:,} batches: **{check['wrong']} wrong**. "
        f"{check['changed']:,} differ from those before all updates; {check['kept']:,} were kept "
        f"answers. Updates that failed: {failed}.",
    ]
    return "\n".join(lines)


def draw_picture(report: Report, path: Path) -> None:
    """Requests/s by draw and mode, with ranges."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    results, count = report["results"], int(report["settings"]["runs"])
    made, axes = pyplot.subplots(figsize=(8, 4))
    colours = {"without": "#b0b0b0", "batches": "#2b6a99", "single": "#e6a04b"}
    for place, draw in enumerate(("uniform", "zipf")):
        for number, mode in enumerate(MODES):
            rates = [results[f"{draw}/{n}/{mode}"]["requests_per_s"] for n in range(count)]
            middle, x = statistics.median(rates), place + 0.27 * (number - 1)
            bars = [[middle - min(rates)], [max(rates) - middle]]
            label = mode if place == 0 else None
            axes.bar(x, middle, 0.25, yerr=bars, color=colours[mode], label=label)
            axes.text(x, max(rates), f"{middle:,.0f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks([0, 1], ["uniform", "Zipf 1.0"])
    axes.set(ylabel="requests/s at saturation", title="1,000 updates/s beside the load")
    axes.legend(frameon=False)
    axes.grid(axis="y", alpha=0.3)
    made.tight_layout()
    made.savefig(path, dpi=120)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small graph and short phases")
    parser.add_argument("--graph", type=Path, default=GRAPHS / "planted_4m")
    parser.add_argument("--memory", type=size, default=2_000_000_000, help="of the server's graph")
    parser.add_argument("--cache", type=size, default=64_000_000, help="of kept answers")
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--warm-seconds", type=float, default=20.0, help="at most")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a phase")
    parser.add_argument("--pool", type=int, default=5_000, help="nodes, while answers are recorded")
    parser.add_argument("--answers", type=int, default=10_000, help="that are recorded")
    parser.add_argument("--answers-per-s", type=float, default=200.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=HOME / "updates.json")
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK, graph=quick_graph(args), out=HOME / "quick" / "updates.json")
    return args


def measure(args: argparse.Namespace, prepared: Prepared, record: Record) -> None:
    """All phases on a new store, and the replay on its copy."""
    home = args.out.parent / "updates"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    store, copy = prepared.reverse(home / "served.ng"), home / "copy.ng"
    shutil.copytree(store, copy)
    setting = Setting(store, prepared.model, args.memory - args.cache, "CG", args.cache, "hot")
    with Server(setting, "updates") as server:
        run = Run(server, prepared, args)
        run.load("zipf", args.seed, args.warm_seconds)
        # First, so that no more is replayed than was recorded.
        for mode in ("batches", "single"):
            record.say(f"recording answers beside {mode}")
            record.results[f"recorded/{mode}"] = run.recorded(mode)
        for draw in ("uniform", "zipf"):
            record.say(f"warming with {draw} requests")
            run.load(draw, args.seed, args.warm_seconds)
            for number in range(args.runs):
                for mode in MODES:
                    key = f"{draw}/{number}/{mode}"
                    seed = args.seed + 1 + number * len(MODES) + list(MODES).index(mode)
                    record.say(key)
                    record.results[key] = run.phase(draw, mode, seed)
    record.say("replaying")
    record.results["replay"] = replayed(copy, prepared.model, home, record)
    record.save()
    shutil.rmtree(home)


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    prepared = Prepared(args.graph, args.steps)
    settings = {key: str(value) for key, value in vars(args).items()}
    record = Record(args.out, "updates while serving", settings, fresh=True)
    measure(args, prepared, record)
    text = markdown(record.report)
    args.out.with_suffix(".md").write_text(text + "\n")
    draw_picture(record.report, args.out.with_suffix(".png"))
    print(text, args.out.with_suffix(".png"), sep="\n")
    return int(record.results["replay"]["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
