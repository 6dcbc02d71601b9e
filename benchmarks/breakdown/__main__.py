"""HolisticGNN's Figures 3a and 19: stages of end-to-end inference, on the host and by this system.

    python -m benchmarks.sampler           # once
    python -m benchmarks.breakdown         # all sets; --sets cora cnr-2000 for some

Both get the same text and the same rows, whose pages are evicted before each run, answer the same
batches with the same GCN, and take turns. Prints tables, and writes JSON, Markdown and pictures.
Sets that were measured before keep their figures, each with its time, commit and load.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .. import machine
from ..places import BENCH, ROOT
from ..raw_sets import LEFT_OUT, WIDTH, RawSet, names, raw_set
from ..training_tables import table
from .model import gcn
from .plots import figure_3a, figure_19

HOME = BENCH / "breakdown"
FANOUTS = [10, 5]
Report = dict[str, Any]
PUBLISHED = (
    "Published (14 graphs, GTX 1060 host): pure inference takes 2 % of the time on average; of the "
    "graphs with fewer than 1 M edges BatchI/O takes 61 % and GraphPrep 28 %, of those with more "
    "than 3 M edges BatchI/O takes 94 %. The first batch's preparation is 1.7 (chmleon) and 114.5 "
    "times (youtube) faster than the host's, end to end 1.69 times below 1 M edges and 201.4 times "
    "above 3 M."
)


def ask(command: list[str]) -> Report:
    """What a process says in its last line."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: Report = json.loads(done.stdout.splitlines()[-1])
    return found


def exported(width: int) -> tuple[Path, Path]:
    """(weights, model file), made once for each width of rows."""
    weights, model = HOME / f"gcn_{width}.pt", HOME / f"gcn_{width}.ngm"
    if not model.exists():
        import torch

        import neargraph as ng

        net = gcn(width)
        torch.save(net.state_dict(), weights)
        ng.export(net, (torch.randn(30, width), torch.randint(0, 30, (2, 70))), model)
    return weights, model


def measure(raw: RawSet, args: argparse.Namespace) -> Report:
    """All runs of a set, host and this system in turn."""
    HOME.mkdir(parents=True, exist_ok=True)
    weights, model = exported(raw.width)
    store = HOME / f"{raw.name}.ng"
    draws = np.random.default_rng(args.seed)
    size = min(args.seeds, raw.nodes)
    batches = [draws.choice(raw.nodes, size, replace=False).tolist() for _ in range(args.batches)]
    asked = {
        "text": str(raw.text),
        "rows": str(raw.rows),
        "nodes": raw.nodes,
        "width": raw.width,
        "weights": str(weights),
        "model": str(model),
        "store": str(store),
        "fanouts": FANOUTS,
        "threads": args.threads,
        "memory": args.memory,
        "batches": batches,
    }
    text = json.dumps(asked)
    ours = [sys.executable, "-m", "benchmarks.breakdown.ours"]
    host = [sys.executable, "-m", "benchmarks.breakdown.host"]
    runs: Report = {"host": [], "import": [], "serve": []}
    for _ in range(args.runs):
        machine.evict(raw.files)
        runs["host"].append(ask([*host, text]))
        machine.evict(raw.files)
        runs["import"].append(ask([*ours, "import", text]))
        runs["serve"].append(ask([*ours, "serve", text]))
    shutil.rmtree(store)
    sizes: Report = {
        "threads": args.threads,
        "memory": args.memory,
        "seed": args.seed,
    }
    sizes |= {"nodes": raw.nodes, "edges": raw.edges, "width": raw.width, "own_rows": raw.own_rows}
    return {"set": raw.name, **sizes, "seeds": size, "runs": runs}


def stages(one: Report) -> Report:
    """Medians over runs in seconds: stages of the first batch, later batches as a whole."""

    def middle(kind: str, *keys: str) -> float:
        values = []
        for run in one["runs"][kind]:
            first = run["batches"][0] if "batches" in run else {}
            values.append(sum(run[key] if key in run else first.get(key, 0.0) for key in keys))
        return statistics.median(values)

    def later(kind: str, *keys: str) -> float:
        runs = one["runs"][kind]
        return statistics.median(
            sum(batch[key] for key in keys) for run in runs for batch in run["batches"][1:]
        )

    whole = ("prep", "io", "infer")
    return {
        "host": {
            "GraphI/O": middle("host", "graph_io"),
            "GraphPrep": middle("host", "graph_prep"),
            "BatchI/O": middle("host", "batch_io"),
            "BatchPrep": middle("host", "prep"),
            "PureInfer": middle("host", "infer"),
        },
        "ours": {
            "open": middle("serve", "open"),
            "BatchI/O": middle("serve", "io"),
            "BatchPrep": middle("serve", "prep"),
            "PureInfer": middle("serve", "infer"),
        },
        "import": middle("import", "wall_seconds"),
        "later": {"host": later("host", *whole), "ours": later("serve", *whole)},
        "later_prep": {"host": later("host", "prep"), "ours": later("serve", "prep", "io")},
        "total": {
            "host": ranged(one, "host", ("graph_io", "graph_prep", "batch_io")),
            "ours": ranged(one, "serve", ("open",)),
        },
    }


def ranged(one: Report, kind: str, before: tuple[str, ...]) -> list[float]:
    """(median, least, most) seconds until the first answer."""
    totals = [
        sum(run[key] for key in before)
        + sum(run["batches"][0][key] for key in ("prep", "io", "infer"))
        for run in one["runs"][kind]
    ]
    return [statistics.median(totals), min(totals), max(totals)]


def shares(parts: Report) -> list[str]:
    """Cells with milliseconds and the share of the whole."""
    whole = sum(parts.values())
    return [f"{1e3 * value:.1f} ({value / whole:.0%})" for value in parts.values()]


def markdown(results: list[Report]) -> str:
    """The tables for people."""
    first = [(one, stages(one)) for one in results]
    head = ["set", "nodes", "edges", "columns", "GraphI/O", "GraphPrep", "BatchI/O", "BatchPrep"]
    rows = [
        [
            one["set"] + ("" if one["own_rows"] else " (rows drawn)"),
            *(f"{one[key]:,}" for key in ("nodes", "edges", "width")),
            *shares(found["host"]),
        ]
        for one, found in first
    ]
    lines = ["The host's first batch, ms (share):", ""]
    lines += table([*head, "PureInfer"], rows)
    head = ["set", "open", "BatchI/O", "BatchPrep", "PureInfer", "first: host / ours (range)"]
    head += ["later: host, ours, ms", "import, once, ms", "host / (import + first)"]
    rows = []
    for one, found in first:
        host, ours = found["total"]["host"], found["total"]["ours"]
        rows.append(
            [
                one["set"],
                *shares(found["ours"]),
                f"{host[0] / ours[0]:.1f} ({host[1] / ours[2]:.1f} to {host[2] / ours[1]:.1f})",
                f"{1e3 * found['later']['host']:.2f}, {1e3 * found['later']['ours']:.2f}",
                f"{1e3 * found['import']:.0f}",
                f"{host[0] / (found['import'] + ours[0]):.2f}",
            ]
        )
    lines += ["", "This system's first batch from a store that was imported before, ms (share):"]
    lines += ["", *table(head, rows), "", PUBLISHED, "", "Left out:"]
    lines += [f"- {name}: {why}." for name, why in LEFT_OUT.items()]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=names(), choices=names(), metavar="SET")
    parser.add_argument("--width", type=int, default=WIDTH, help="of rows that a set lacks")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=64, help="targets of a batch")
    parser.add_argument("--seed", type=int, default=1, help="of the targets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="1GB", help="of this system; the host has no limit")
    parser.add_argument("--out", type=Path, default=HOME / "breakdown.json")
    parser.add_argument("--plot-only", action="store_true", help="draw the saved figures again")
    return parser.parse_args()


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    known = json.loads(args.out.read_text())["results"] if args.out.exists() else []
    results = {one["set"]: one for one in known}
    for name in [] if args.plot_only else args.sets:
        print(name, file=sys.stderr, flush=True)
        found = measure(raw_set(name, args.width), args)
        results[name] = {**found, "about": machine.about(BENCH)}
        report = {"benchmark": "breakdown", "results": list(results.values())}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    every = sorted(results.values(), key=lambda one: one["edges"])
    text = markdown(every)
    args.out.with_suffix(".md").write_text(text + "\n")
    found = {one["set"]: stages(one) for one in every}
    figure_3a(found, args.out.parent / "figure_3a.png")
    figure_19(every, args.out.parent / "figure_19.png")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
