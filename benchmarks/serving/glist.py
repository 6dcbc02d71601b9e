"""GLIST's Figures 8 to 10 (section 5.2): what order, schedule, groups and caches are worth.

    python -m benchmarks.serving.glist cache      # Figure 8: requests/s over the memory
    python -m benchmarks.serving.glist width      # Figure 9: over the width of a row
    python -m benchmarks.serving.glist locality   # Figures 10a and 10c: variants over equation 7
    python -m benchmarks.serving.glist group      # Figure 10b: over the size of a group
    python -m benchmarks.serving.glist locality --system server --server "neargraph serve ..."

A point is a new system, warmed with requests that are not counted, then asked the same requests as
all other variants of the point, which take turns. Beside requests/s stand counts: reads, groups,
duplicates and hits, which say whether a switch changed the work. Streams have locality by repeats
of targets and by neighbours that distinct targets share, apart; what equation 7 gives for them is
measured on the store and printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import machine
from ..graphs import DEGREE, make_planted, write, write_reorganized
from ..places import BENCH
from ..training_tables import table
from . import streams
from .glist_plots import PLOTS
from .systems import SYSTEMS, Setting, default_threads

HOME = BENCH / "serving" / "glist"
SHARES = [0.05, 0.1, 0.2, 0.35, 0.5]
WIDTHS = [64, 256, 1024, 4096]
LOCALITIES = [0.0, 0.3, 0.6, 0.9]
GROUPS = [1, 10, 20, 50, 100, 200]
VARIANTS = ["N", "R", "RS", "CG", "CRS", "CGRS", "G", "GS", "CGS"]
HIDDEN = 256
Point = dict[str, Any]


def graph_of(args: argparse.Namespace, width: int) -> Path:
    """The folder of a planted graph with its two stores, made once."""
    name = f"planted_{args.nodes}_{width}"
    folder = HOME / "graphs"
    if not (folder / f"{name}.ng").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(name, make_planted(args.nodes, DEGREE, width, 1), 1, "store", folder)
    if not (folder / f"{name}_locality.ng").exists():
        write_reorganized(name, "locality", folder, folder, 256, streams.FANOUTS)
    return folder / name


def model_of(graph: Path) -> Path:
    """The model for rows of a graph, made once for each width."""
    about = json.loads((graph / "about.json").read_text())
    path = HOME / f"sage_{about['width']}_{HIDDEN}_{about['classes']}"
    if not path.exists():
        import torch

        import neargraph as ng

        torch.manual_seed(0)
        net = ng.nn.GraphSAGE(about["width"], HIDDEN, about["classes"], len(streams.FANOUTS))
        with ng.open(f"{graph}.ng", memory="256MB") as store:
            ng.export(net.eval(), store, path, fanouts=streams.FANOUTS)
    return path


def setting(args: argparse.Namespace, graph: Path, variant: str, **other: Any) -> Setting:
    """A point: what is not given is what the command line says."""
    end = "_locality.ng" if "R" in variant else ".ng"
    data = sum(file.stat().st_size for file in Path(f"{graph}.ng").glob("*.dat"))
    known = {
        "variant": variant,
        "store": Path(f"{graph}{end}"),
        "model": model_of(graph),
        "memory": int(args.share * data) + args.process_bytes,
        "group": args.group,
        "answers": args.answers,
        "threads": args.threads,
    }
    return Setting(**{**known, **other})


def targets_of(
    graph: Path, kind: str, locality: float, args: argparse.Namespace
) -> tuple[Any, Point]:
    """(targets to warm with and to count, what was reached)."""
    import neargraph as ng

    count = args.warm + args.requests
    with ng.open(f"{graph}.ng", memory="512MB") as store:
        requests, about = streams.local(store, kind, locality, count, args.seed)
    return np.concatenate(requests), about


def once(args: argparse.Namespace, point: Setting, targets: Any) -> Point:
    """One system: warmed, asked, counted."""
    files = list(point.store.glob("*.dat"))
    machine.evict(files)
    system = SYSTEMS[args.system](point, args)
    try:
        system.run(targets[: args.warm])
        before, start = system.counts(), time.perf_counter()
        system.run(targets[args.warm :])
        seconds = time.perf_counter() - start
        after = system.counts()
    finally:
        system.close()
    found = {name: after[name] - before.get(name, 0.0) for name in after}
    return {"requests_per_s": args.requests / seconds, **found}


def compare(args: argparse.Namespace, points: dict[str, Setting], targets: Any) -> Point:
    """All variants of a point in turn: [median, least, most] of each figure."""
    runs: dict[str, list[Point]] = {name: [] for name in points}
    refused: dict[str, str] = {}
    for _ in range(args.runs):
        for name, point in points.items():
            if name in refused:
                continue
            try:
                runs[name].append(once(args, point, targets))
            except Exception as error:
                refused[name] = f"{type(error).__name__}: {error}"
    made: Point = {"refused": refused}
    for name, every in runs.items():
        if every and name not in refused:
            keys = every[0]
            values = {key: [run[key] for run in every] for key in keys}
            made[name] = {
                key: [statistics.median(own), min(own), max(own)] for key, own in values.items()
            }
    return made


def cache(args: argparse.Namespace) -> Iterator[Point]:
    """Figure 8."""
    graph = graph_of(args, args.width)
    targets, about = targets_of(graph, "repeats", args.locality, args)
    for share in SHARES:
        args.share = share
        points = {name: setting(args, graph, name) for name in ("N", "R", "RS")}
        yield {"share": share, **about, **compare(args, points, targets)}


def width(args: argparse.Namespace) -> Iterator[Point]:
    """Figure 9."""
    for columns in args.widths:
        graph = graph_of(args, columns)
        targets, about = targets_of(graph, "repeats", args.locality, args)
        points = {name: setting(args, graph, name) for name in ("N", "R", "RS")}
        yield {"row_bytes": 4 * columns, **about, **compare(args, points, targets)}


def locality(args: argparse.Namespace) -> Iterator[Point]:
    """Figures 10a and 10c."""
    graph = graph_of(args, args.width)
    for kind in ("repeats", "neighbours"):
        for asked in args.localities:
            targets, about = targets_of(graph, kind, asked, args)
            points = {name: setting(args, graph, name) for name in args.variants}
            yield {"kind": kind, **about, **compare(args, points, targets)}


def group(args: argparse.Namespace) -> Iterator[Point]:
    """Figure 10b."""
    graph = graph_of(args, args.width)
    targets, about = targets_of(graph, "repeats", args.locality, args)
    points = {str(size): setting(args, graph, "G", group=size) for size in GROUPS}
    yield {**about, **compare(args, points, targets)}


EXPERIMENTS: dict[str, Callable[[argparse.Namespace], Iterator[Point]]] = {
    "cache": cache,
    "width": width,
    "locality": locality,
    "group": group,
}
NOT_VARIANTS = {"refused"}


def variants(point: Point) -> list[str]:
    """What ran at a point."""
    return [
        name
        for name, own in point.items()
        if isinstance(own, dict) and own is not None and name not in NOT_VARIANTS
    ]


def markdown(points: list[Point]) -> str:
    """One table for each point."""
    lines: list[str] = []
    for point in points:
        known = {key: value for key, value in point.items() if not isinstance(value, dict)}
        words = [
            f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in known.items()
        ]
        lines += ["", ", ".join(words), ""]
        lines += [f"refused: {name}: {why}" for name, why in point["refused"].items()]
        ran = variants(point)
        if not ran:
            continue
        base = point[ran[0]]["requests_per_s"][0]
        head = ["", "requests/s (range)", f"times {ran[0]}"]
        counts = ["reads", "groups", "duplicates", "hits", "rows_served", "rows_cached"]
        rows = []
        for name in ran:
            own = point[name]
            rate = own["requests_per_s"]
            asked = own.get("asked", [1.0])[0]
            cells = [f"{own[key][0] / asked:.2f}" if key in own else "-" for key in counts]
            span = f"{rate[0]:.0f} ({rate[1]:.0f} to {rate[2]:.0f})"
            rows.append([name, span, f"{rate[0] / base:.2f}", *cells])
        lines += table([*head, *(f"{key} a request" for key in counts)], rows)
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--system", choices=SYSTEMS, default="engine")
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--width", type=int, default=256, help="columns of a row, f32")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="of `width`")
    parser.add_argument("--share", type=float, default=0.2, help="of the data that fits in memory")
    parser.add_argument("--locality", type=float, default=0.3, help="but of `locality`")
    parser.add_argument("--localities", type=float, nargs="+", default=LOCALITIES)
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=2_000, help="requests that are not counted")
    parser.add_argument("--group", type=int, default=20, help="requests of a group")
    parser.add_argument("--answers", type=int, default=20_000, help="answers that C keeps")
    parser.add_argument(
        "--process-bytes", type=int, default=24_000_000, help="memory beside the share"
    )
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", help="command that starts a server; see systems.py")
    parser.add_argument("--address", default="127.0.0.1:7400")
    parser.add_argument("--side", default="127.0.0.1:7401", help="metrics and health")
    parser.add_argument("--model-name", default="sage")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--out", type=Path, default=HOME)
    parser.add_argument("--plot-only", action="store_true", help="draw the saved figures again")
    return parser.parse_args()


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    file = args.out / f"{args.experiment}.json"
    if args.plot_only:
        report = json.loads(file.read_text())
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        HOME.mkdir(parents=True, exist_ok=True)
        report = {"benchmark": f"glist {args.experiment}", "about": machine.about(BENCH)}
        report["settings"] = {key: str(value) for key, value in vars(args).items()}
        report["points"] = []
        for point in EXPERIMENTS[args.experiment](args):
            report["points"].append(point)
            file.write_text(json.dumps(report, indent=1) + "\n")
            print(markdown([point]), flush=True)
    file.with_suffix(".md").write_text(markdown(report["points"]) + "\n")
    PLOTS[args.experiment](report["points"], file.with_suffix(".png"))
    print(file.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
