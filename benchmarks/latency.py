"""One request of 1 and of 64 nodes, [25, 10]: the engine beside PyG eager over memory-mapped rows.

Both answer the same nodes with the same model, 2 layers of SAGE with 256 hidden columns: sample,
gather, forward. Each has a process and a memory cgroup of its own, and they take turns, so that
both see the same machine. PyG maps rows and topology with random advice; before a cold request the
page cache of its files is emptied. The engine opens the store anew for it, prepared with metadata
alone, or has the hot set in memory that its budget holds.

Every figure is a ratio of two medians of the same run, or a count of reads.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .cap import Cap
from .machine import fio_random
from .places import BENCH, ROOT

FANOUTS = [25, 10]
HIDDEN = 256
SIZES = (1, 64)
# Times of requests of 1 and of 64 nodes through GraphBolt's disk feature over those of PyG.
GRAPHBOLT = {1: 0.51, 64: 0.20}
GRAPHBOLT_NOTE = (
    "GraphBolt was not run: its disk feature came with dgl 2.4, and the package index ends at 2.1. "
    "What stands for it are its times over those of PyG in an earlier study: "
    + ", ".join(f"{share:.2f} for {size}" for size, share in GRAPHBOLT.items())
    + "."
)


class Worker:
    """A process that answers requests, one line of JSON each way."""

    def __init__(self, kind: str, args: argparse.Namespace, cap: Cap) -> None:
        command = [sys.executable, "-m", "benchmarks.latency_worker", kind]
        settings = {
            "graph": str(args.graph),
            "model": str(args.model),
            "threads": args.threads,
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
        self._process = cap.popen([*command, json.dumps(settings)], **pipes)

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """What the worker says to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended: {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def model_file(args: argparse.Namespace) -> Path:
    """The model, exported once, and its weights beside it for PyG."""
    about = json.loads((args.graph / "about.json").read_text())
    path = BENCH / "latency" / f"sage_{about['width']}_{HIDDEN}_{about['classes']}"
    if not path.exists():
        import torch

        import neargraph as ng

        path.parent.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        model = ng.nn.GraphSAGE(about["width"], HIDDEN, about["classes"], len(FANOUTS)).eval()
        torch.save(model.state_dict(), path.with_suffix(".pt"))
        with ng.open(f"{args.graph}.ng", memory="256MB") as store:
            ng.export(model, store, path, fanouts=FANOUTS)
    return path


def zipf(nodes: int, count: int, size: int, draws: np.random.Generator) -> list[list[int]]:
    """Requests of nodes with probabilities 1 / rank; which node has which rank is random."""
    order = np.random.default_rng(11).permutation(nodes)
    ranks = np.exp(draws.random((count, size)) * np.log(nodes)).astype(np.int64) - 1
    found: list[list[int]] = order[np.clip(ranks, 0, nodes - 1)].tolist()
    return found


def uniform(nodes: int, count: int, size: int, draws: np.random.Generator) -> list[list[int]]:
    """Requests of any nodes."""
    found: list[list[int]] = draws.integers(0, nodes, (count, size)).tolist()
    return found


def cold(args: argparse.Namespace, size: int, draws: np.random.Generator) -> dict[str, Any]:
    """Requests that find nothing, and the same with the hot set prepared; turn by turn."""
    count = args.reps if size == 1 else max(args.reps // 3, 5)
    with Cap(args.cap, "-pyg") as a, Cap(args.cap, "-ours") as b, Cap(args.cap, "-hot") as c:
        pyg = Worker("pyg", args, a)
        ours, hot = Worker("ours", args, b), Worker("ours", args, c)
        ready = hot.ask("open", prepare="hot", memory=args.memory)
        seconds: dict[str, list[float]] = {"pyg": [], "metadata": [], "hot": []}
        reads: dict[str, list[float]] = {"metadata": [], "blocks": [], "hot": [], "wanted": []}
        # The first call of each pays for what is made once.
        for worker in (pyg, hot):
            worker.ask("run", ids=[0] * size, seed=0)
        for seed, ids in enumerate(uniform(args.nodes, count, size, draws)):
            pyg.ask("evict")
            seconds["pyg"].append(pyg.ask("run", ids=ids, seed=seed)["seconds"])
            ours.ask("open", prepare="metadata", memory=args.memory)
            found = ours.ask("run", ids=ids, seed=seed)
            seconds["metadata"].append(found["seconds"])
            reads["metadata"].append(found["reads"])
            reads["blocks"].append(found["read_bytes"] / 4096)
            reads["wanted"].append(found["rows"] + found["lists"])
            found = hot.ask("run", ids=ids, seed=seed)
            seconds["hot"].append(found["seconds"])
            reads["hot"].append(found["reads"])
        kinds = {"pyg": a, "metadata": b, "hot": c}
        notes = {name: cap.why_not or f"{cap.peak_bytes()} bytes" for name, cap in kinds.items()}
        for worker in (pyg, ours, hot):
            worker.close()
    return {"seconds": seconds, "reads": reads, "memory": notes, "hot_ready": ready}


def steady(
    args: argparse.Namespace, size: int, how: str, draws: np.random.Generator
) -> dict[str, Any]:
    """Requests after many like them, with caches as they are then; turn by turn."""
    count = args.reps * 2 if size == 1 else max(args.reps // 2, 8)
    warm = args.warm if size == 1 else max(args.warm // 16, 8)
    make = zipf if how == "zipf" else uniform
    with Cap(args.cap, "-pyg") as a, Cap(args.cap, "-ours") as b:
        pyg, ours = Worker("pyg", args, a), Worker("ours", args, b)
        ours.ask("open", prepare="hot", memory=args.memory)
        seconds: dict[str, list[float]] = {"pyg": [], "hot": []}
        reads: list[float] = []
        for step, ids in enumerate(make(args.nodes, warm + count, size, draws)):
            first, second = pyg.ask("run", ids=ids, seed=step), ours.ask("run", ids=ids, seed=step)
            if step >= warm:
                seconds["pyg"].append(first["seconds"])
                seconds["hot"].append(second["seconds"])
                reads.append(second["reads"])
        pyg.close()
        ours.close()
    return {"seconds": seconds, "reads": {"hot": reads}}


def in_memory(args: argparse.Namespace, size: int, draws: np.random.Generator) -> dict[str, Any]:
    """Requests with everything in memory, without a limit; turn by turn."""
    count = args.reps * 2
    with Cap(None, "-pyg") as a, Cap(None, "-ours") as b:
        pyg, ours = Worker("pyg", args, a), Worker("ours", args, b)
        pyg.ask("load")
        ours.ask("open", prepare="all", memory=args.whole)
        seconds: dict[str, list[float]] = {"pyg": [], "all": []}
        before: dict[str, Any] = {}
        for step, ids in enumerate(uniform(args.nodes, args.warm_in_memory + count, size, draws)):
            if step == args.warm_in_memory:
                before = ours.ask("stats")
            first, second = pyg.ask("run", ids=ids, seed=step), ours.ask("run", ids=ids, seed=step)
            if step >= args.warm_in_memory:
                seconds["pyg"].append(first["seconds"])
                seconds["all"].append(second["seconds"])
        after = ours.ask("stats")
        pyg.close()
        ours.close()
    stages = {key: after[key] - before[key] for key in after}
    return {"seconds": seconds, "stages": stages}


def warm_rows(args: argparse.Namespace) -> dict[str, Any]:
    """A row out of memory: copied out of the hot set, and by `torch.index_select`."""
    with Cap(None, "-pyg") as a, Cap(None, "-ours") as b:
        pyg, ours = Worker("pyg", args, a), Worker("ours", args, b)
        pyg.ask("load")
        # All nodes are as hot as each other without hops, so the first ones are what is prepared.
        ids = np.random.default_rng(1).integers(0, args.nodes // 4, args.warm_rows).tolist()
        ids = list(dict.fromkeys(ids))
        found = ours.ask("copy_rows", ids=ids, times=2, memory=args.half)
        rounds: dict[str, list[float]] = {"engine": [], "torch": []}
        for _ in range(3):
            rounds["torch"] += pyg.ask("copy_rows", ids=ids, times=20)["seconds"][5:]
            found = ours.ask("copy_rows", ids=ids, times=20, memory=args.half)
            rounds["engine"] += found["seconds"][5:]
        pyg.close()
        ours.close()
    per_row = {name: 1e6 * centile(seconds, 0.5) / len(ids) for name, seconds in rounds.items()}
    return {"microseconds": per_row, "prepared_share": found["prepared_share"]}


def fio_rate(path: Path, seconds: int) -> dict[str, Any]:
    """Random reads of 4 KiB a second, by fio; by the store's own gauge if fio is not installed."""
    if shutil.which("fio") is None:
        import neargraph as ng

        with ng.open(path, memory="64MB") as store:
            found = store.measure_disk()
        if found is None:
            raise SystemExit("the store is too small to measure the disk with; install fio")
        return {"by": "the store's own gauge (no fio here)", "reads_per_s": found["reads_per_s"]}
    file = max(path.glob("*.dat"), key=lambda one: one.stat().st_size)
    return {"by": "fio", "reads_per_s": fio_random(file, seconds)}


def centile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    return float(np.percentile(values, 100 * share))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th centile and range of times."""
    return {
        "p50": centile(values, 0.5),
        "p99": centile(values, 0.99),
        "min": min(values),
        "max": max(values),
        "count": len(values),
    }


Bar = tuple[str, str, float, bool]


def bar(name: str, wanted: float, found: float) -> Bar:
    """What is wanted and what was measured, and whether it is met."""
    return name, f"<= {wanted:.2f}", found, found <= wanted


def p50(part: dict[str, Any], kind: str) -> float:
    """The median time of the requests of a kind."""
    return centile(part["seconds"][kind], 0.5)


def cold_bars(part: dict[str, Any], size: int, rate: float) -> list[Bar]:
    """Of requests that find nothing in memory."""
    pyg, ours, hot = (p50(part, kind) for kind in ("pyg", "metadata", "hot"))
    reads = part["reads"]
    pairs = zip(reads["metadata"], reads["wanted"], strict=True)
    wanted = statistics.median(a / max(b, 1) for a, b in pairs)
    name = f"{size} node{'s' if size > 1 else ''} cold"
    if size == 1:
        rows = [bar(f"{name}, metadata: of PyG", 0.35, ours / pyg)]
    else:
        floor = statistics.median(reads["blocks"]) / rate
        rows = [
            bar(f"{name}, metadata: of distinct blocks / random rate", 1.2, ours / floor),
            bar(f"{name}, hot set: of PyG", 0.15, hot / pyg),
        ]
    beside = ours / pyg / GRAPHBOLT[size]
    return [
        *rows,
        bar(f"{name}: reads of rows + lists", 1.2, wanted),
        bar(f"{name}, metadata: of GraphBolt's disk feature, by its known share", 1.0, beside),
    ]


def bars(report: dict[str, Any], rate: float) -> list[Bar]:
    """All bars of what was measured."""
    rows: list[Bar] = []
    for size in SIZES:
        if part := report.get(f"cold_{size}"):
            rows += cold_bars(part, size, rate)
        for how in ("zipf", "uniform"):
            if part := report.get(f"steady_{how}_{size}"):
                ratio = p50(part, "hot") / p50(part, "pyg")
                rows.append(bar(f"{size} steady, {how}: of PyG", {1: 0.35, 64: 0.2}[size], ratio))
        if part := report.get(f"memory_{size}"):
            ratio = p50(part, "all") / p50(part, "pyg")
            rows.append(bar(f"{size} in memory: of PyG", {1: 0.4, 64: 0.7}[size], ratio))
    if warm := report.get("warm_rows"):
        engine, torch = (warm["microseconds"][name] for name in ("engine", "torch"))
        rows.append(bar(f"a warm row, us, {report['threads']} threads", 0.25, engine))
        rows.append(bar("a warm row: of torch.index_select", 1.2, engine / torch))
    return rows


def markdown(report: dict[str, Any], table: Sequence[Bar]) -> str:
    """The report for people."""
    lines = ["| bar | wanted | measured | met |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {wanted} | {found:.3g} | {'yes' if met else 'no'} |"
        for name, wanted, found, met in table
    ]
    lines += ["", GRAPHBOLT_NOTE] if any("GraphBolt" in name for name, *_ in table) else []
    lines += ["", "| ms | p50 | p99 | requests |", "|---|---|---|---|"]
    for part, found in report.items():
        if isinstance(found, dict) and "seconds" in found:
            for kind, values in found["seconds"].items():
                one = spread(values)
                lines.append(
                    f"| {part}, {kind} | {1e3 * one['p50']:.2f} | {1e3 * one['p99']:.2f} | "
                    f"{one['count']} |"
                )
    lines += ["", "| reads per request, median | |", "|---|---|"]
    for part, found in report.items():
        if isinstance(found, dict) and "reads" in found:
            for kind, values in found["reads"].items():
                lines.append(f"| {part}, {kind} | {statistics.median(values):.0f} |")
    rate = report["rate"]
    lines += ["", f"Random reads of 4 KiB: {rate['reads_per_s']:,.0f}/s by {rate['by']}."]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    graph = BENCH / "graphs" / "planted_4m"
    parser.add_argument(
        "--graph", type=Path, default=graph, help="NumPy files; NAME.ng beside them"
    )
    parser.add_argument("--reps", type=int, default=60, help="cold requests of 1 node")
    parser.add_argument(
        "--warm", type=int, default=2000, help="requests of 1 node before steady ones"
    )
    parser.add_argument("--warm-in-memory", type=int, default=20)
    parser.add_argument("--cap", type=int, default=2 << 30, help="bytes of each cgroup")
    parser.add_argument("--memory", default="1600MB", help="budget of the engine inside of it")
    parser.add_argument("--whole", default="7GB", help="budget of the engine with all in memory")
    parser.add_argument("--half", default="3GB", help="budget of a hot set with some of the rows")
    parser.add_argument("--warm-rows", type=int, default=9300, help="rows that are copied at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fio-seconds", type=int, default=5)
    parser.add_argument("--only", default="", help="cold, steady or memory")
    parser.add_argument("--out", type=Path, default=BENCH / "latency.json")
    return parser.parse_args()


def main() -> int:
    """Measures, prints and writes JSON and Markdown."""
    args = parse()
    args.nodes = json.loads((args.graph / "about.json").read_text())["nodes"]
    args.model = model_file(args)
    draws = np.random.default_rng(5)
    started = time.time()
    report: dict[str, Any] = {
        "benchmark": "latency",
        "threads": args.threads,
        "memory": args.memory,
    }
    report["rate"] = fio_rate(Path(f"{args.graph}.ng"), args.fio_seconds)
    for size in SIZES:
        if args.only in ("", "cold"):
            report[f"cold_{size}"] = cold(args, size, draws)
        for how in ("zipf", "uniform"):
            if args.only in ("", "steady"):
                report[f"steady_{how}_{size}"] = steady(args, size, how, draws)
        if args.only in ("", "memory"):
            report[f"memory_{size}"] = in_memory(args, size, draws)
    if args.only in ("", "memory"):
        report["warm_rows"] = warm_rows(args)
    report["seconds_in_all"] = time.time() - started
    table = bars(report, report["rate"]["reads_per_s"])
    text = markdown(report, table)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({**report, "bars": table}, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(text + "\n")
    print(text)
    return 0 if all(met for *_, met in table) else 1


if __name__ == "__main__":
    sys.exit(main())
