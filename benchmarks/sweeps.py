"""How the gain depends on what one can turn: one sweep and one picture for each question.

    python -m benchmarks.sweeps window     # reads a batch as the look-ahead grows
    python -m benchmarks.sweeps cache      # reads a batch and hit rate as the memory grows
    python -m benchmarks.sweeps ratio      # gain over the baselines at data / memory 2 ... 16
    python -m benchmarks.sweeps nodes      # cost of a seed from 1 M to 16 M nodes
    python -m benchmarks.sweeps reorganize --graph cnr_random --batch-size 256    # and see below
    python -m benchmarks.sweeps workers    # seeds a second as threads are added, 1 to 12
    python -m benchmarks.sweeps rate       # time of a batch at 0.5, 1 and 2 times the fanouts
    python -m benchmarks.sweeps batch      # time of a batch of 32 to 1024 seeds
    python -m benchmarks.sweeps ratio --plot-only

Each point is a run of `training.py` with its own label, which also gets what is not known here,
such as --batch-size and --warmup; `workers`, `rate` and `batch` compare back ends on --store
instead, see `benchmarks.knobs`. The graphs of `nodes` are generated as stores alone and removed
again unless --keep is given, and so are the copies of `reorganize`, which go into --copies. Writes
`.bench/sweep_NAME.json` after each point, and sweep_NAME.png into --plots.

`reorganize` draws Figures 8 and 10c of GLIST (section 5.2) for training, and prints the table: N is
one read a missed row without a cache, C a SIEVE cache of rows, S a batch's requests sorted and
merged by page, G many batches planned together, R rows in the order of locality, H of heat (ours).
One read a row does not care who shares a page, so R and H come with S alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import knobs, training, training_tables
from .graphs import DEGREE, make_planted, say, write, write_reorganized
from .places import BENCH, GRAPHS

Point = dict[str, Any]

WINDOWS = [1, 2, 4, 8, 16, 32, 48, 64]
SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
RATIOS = [2, 4, 6, 8, 12, 16]
MILLIONS = [1, 2, 4, 8, 16]
NODES_WIDTH = 128
NODES_RATIO = 2
CACHES = [0.3, 0.5, 0.8]
STEPS = {"N": "naive-uring", "C": "naive-uring+sieve"}
SCHEDULED = {"S": "window:window=1", "CS": "on_demand", "CGS": "scan"}
ORDERS = {"R": "locality", "H": "heat"}
LINES = {"": "-", "R": "--", "H": ":"}


def store_bytes(folder: Path, graph: str) -> int:
    """What a graph takes on disk: rows and lists."""
    return sum(file.stat().st_size for file in (folder / f"{graph}.ng").glob("*.dat"))


def measure(args: argparse.Namespace, label: str, memory: int | None, *more: str) -> Point:
    """One comparison; the store gets `memory` and the process as much more as it always gets."""
    words = ["--folder", str(args.folder), "--label", label, "--runs", str(args.runs)]
    words += ["--batches", str(args.batches), "--seconds", str(args.seconds), *more, *args.rest]
    if memory is not None:
        cap = int((memory + training.PROCESS_BYTES) / (1 - training.MARGIN))
        words += ["--store-memory", str(memory), "--cap", str(cap)]
    bench = training.Bench(training.parse(words))
    bench.go()
    found: Point = training_tables.summary(bench.rounds, bench.args.systems)
    found["chosen"] = {
        name: result.get("chosen")
        for name, result in bench.rounds[-1].items()
        if isinstance(result, dict)
    }
    return found


def window(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """Reads a batch against the look-ahead."""
    for width in WINDOWS:
        names = f"scan:window={width},window:window={width}"
        more = ["--graph", args.graph, "--systems", names, "--cap", str(args.cap)]
        found = measure(args, f"window_{width}", None, *more)
        keep({"ahead": width, **{name.split(":")[0]: own for name, own in found.items()}})


def cache(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """Reads a batch and hit rate against the memory, as a share of the data."""
    data = store_bytes(args.folder, args.graph)
    names = "naive-uring+sieve,direct,auto"
    for share in SHARES:
        more = ["--graph", args.graph, "--systems", names]
        keep({"share": share, **measure(args, f"cache_{share}", int(data * share), *more)})


def ratio(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """The gain over both baselines against data / memory, and what the plan picked."""
    data = store_bytes(args.folder, args.graph)
    names = "naive-uring,naive-uring+sieve,auto"
    for times in RATIOS:
        more = ["--graph", args.graph, "--systems", names]
        keep({"ratio": times, **measure(args, f"ratio_{times}", data // times, *more)})


def nodes(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """The cost of a seed against the size, at equal data / memory, degree and width."""
    for millions in MILLIONS:
        name = f"planted_{millions}m_{NODES_WIDTH}"
        if not (args.folder / f"{name}.ng").exists():
            graph = make_planted(millions * 1_000_000, DEGREE, NODES_WIDTH, args.seed)
            write(name, graph, args.seed, "store", args.folder)
            del graph
        memory = store_bytes(args.folder, name) // NODES_RATIO
        more = ["--graph", name, "--systems", "auto"]
        keep({"nodes": millions * 1_000_000, **measure(args, f"nodes_{millions}m", memory, *more)})
        if not args.keep:
            say(f"removing {name}")
            shutil.rmtree(args.folder / f"{name}.ng")
            shutil.rmtree(args.folder / name)


def reorganize(args: argparse.Namespace, keep: Callable[[Point], None]) -> None:
    """Reads, hits and pages a batch by order of rows, way of reading and memory."""
    known = training.parse(args.rest)
    into = args.copies or args.folder
    into.mkdir(parents=True, exist_ok=True)
    names = {**STEPS, **SCHEDULED}
    pages: dict[str, Any] = {}
    for letter, by in ORDERS.items():
        report = write_reorganized(
            args.graph, by, args.folder, into, known.batch_size, known.fanouts
        )
        path = into / f"{args.graph}_{by}.ng"
        counts = max(report["pages"], key=lambda counts: counts["rows_per_batch"])
        for when, key in (("before", ""), ("after", letter)):
            pages[key] = [counts[f"{what}_{when}"] for what in ("pages", "pages_together")]
        for label, name in SCHEDULED.items():
            names[_with(label, letter)] = f"{name}{',' if ':' in name else ':'}store={path}"
    data = store_bytes(args.folder, args.graph)
    for share in args.shares:
        more = ["--graph", args.graph, "--systems", ",".join(names.values())]
        found = measure(args, f"reorganize_{share}", int(data * share), *more)
        chosen = found.pop("chosen")
        point = {"share": share, "pages": pages, "fio": found["fio"]}
        point["chosen"] = {label: chosen.get(name) for label, name in names.items()}
        keep({**point, **{label: found[name] for label, name in names.items()}})
    if not args.keep:
        for by in ORDERS.values():
            shutil.rmtree(into / f"{args.graph}_{by}.ng")


def _with(label: str, letter: str) -> str:
    """Letters in the order C, G, R or H, S, as the paper writes them."""
    return label.replace("S", f"{letter}S")


def table_reorganize(points: list[Point]) -> str:
    """What each combination reads, hits and takes, by memory; pages of the three orders."""
    lines = []
    for key, (alone, together) in points[0]["pages"].items():
        name = ORDERS.get(key, "as it was")
        lines.append(f"{name:>10}: {alone:9,.0f} pages a batch, {together:9,.0f} of 16 together")
    for point in points:
        lines += ["", f"memory / data {point['share']:g}"]
        lines += training_tables.table(
            ["", "ms/batch", "times N", "reads", "read MB", "hit rate", "plan"],
            [_combination(point, label) for label in point["chosen"]],
        )
    return "\n".join(lines)


def _combination(point: Point, label: str) -> list[str]:
    own, slowest = point[label], point["N"].get("ms_per_batch")
    if "failed" in own:
        # Nearly always memory that is too small.
        return [label, "-", "-", "-", "-", "-", own["failed"].partition("exceptions.")[2][:60]]
    plan = point["chosen"][label]
    return [
        label,
        f"{own['ms_per_batch'][0]:.1f}",
        f"{slowest[0] / own['ms_per_batch'][0]:.2f}" if slowest else "-",
        f"{own['reads'][0]:,.0f}",
        f"{own['read_bytes'][0] / 1e6:.1f}",
        f"{own['hit_rate'][0]:.3f}",
        f"{plan['reading']} {plan['window']}" if plan else "",
    ]


def figure(title: str, across: str, up: str) -> Any:
    """(figure, axes) with the names of both axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    made, axes = pyplot.subplots(figsize=(7, 4))
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    return made, axes


def series(points: list[Point], across: str, name: str, key: str) -> tuple[list[Any], list[Any]]:
    """(x, [median, low, high] by point) where the system ran."""
    have = [point for point in points if key in point.get(name, {})]
    return [point[across] for point in have], [point[name][key] for point in have]


def curve(axes: Any, points: list[Point], across: str, name: str, key: str, scale: float) -> None:
    """One system's median as a line, its range as a band."""
    xs, ys = series(points, across, name, key)
    if not xs:
        return
    (drawn,) = axes.plot(xs, [y[0] * scale for y in ys], marker="o", label=name)
    low, high = [y[1] * scale for y in ys], [y[2] * scale for y in ys]
    axes.fill_between(xs, low, high, color=drawn.get_color(), alpha=0.2)


def plot_window(points: list[Point]) -> Any:
    made, axes = figure("Reads a batch as the look-ahead grows", "batches ahead (W)", "reads")
    for name in ("scan", "window"):
        curve(axes, points, "ahead", name, "reads", 1.0)
    axes.set(xscale="log", yscale="log", xticks=[point["ahead"] for point in points])
    axes.set_xticklabels([str(point["ahead"]) for point in points])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return made


def plot_cache(points: list[Point]) -> Any:
    made, axes = figure("Reads a batch as the memory grows", "memory / data", "reads")
    beside = axes.twinx()
    beside.set(ylabel="hit rate (dotted)", ylim=(0, 1))
    for name in ("naive-uring+sieve", "on_demand", "auto"):
        curve(axes, points, "share", name, "reads", 1.0)
        xs, ys = series(points, "share", name, "hit_rate")
        color = axes.lines[-1].get_color() if axes.lines else None
        beside.plot(xs, [y[0] for y in ys], ls=":", color=color)
    axes.set(yscale="log")
    axes.legend(frameon=False, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return made


def plot_ratio(points: list[Point]) -> Any:
    made, axes = figure("Gain of the plan's choice", "data / memory", "times faster than")
    for base in ("naive-uring", "naive-uring+sieve"):
        have = [p for p in points if base in p.get("auto", {}).get("ratios", {})]
        xs = [p["ratio"] for p in have]
        ys = [p["auto"]["ratios"][base] for p in have]
        if not xs:
            continue
        (drawn,) = axes.plot(xs, [y[0] for y in ys], marker="o", label=base)
        band = [y[1] for y in ys], [y[2] for y in ys]
        axes.fill_between(xs, *band, color=drawn.get_color(), alpha=0.2)
    for point in points:
        chosen = (point["chosen"].get("auto") or {}).get("reading")
        ratios = point.get("auto", {}).get("ratios", {})
        if chosen and "naive-uring" in ratios:
            place = (point["ratio"], ratios["naive-uring"][0])
            axes.annotate(chosen, place, xytext=(0, 6), textcoords="offset points", fontsize=7)
    axes.axhline(1.0, color="gray", lw=0.8)
    axes.legend(frameon=False)
    return made


def plot_nodes(points: list[Point]) -> Any:
    made, axes = figure("Cost of a seed as the graph grows", "nodes", "us a seed")
    xs, ys = series(points, "nodes", "auto", "seeds_per_s")
    if xs:
        (drawn,) = axes.plot(xs, [1e6 / y[0] for y in ys], marker="o", label="auto")
        band = [1e6 / y[1] for y in ys], [1e6 / y[2] for y in ys]
        axes.fill_between(xs, *band, color=drawn.get_color(), alpha=0.2)
    axes.set(xscale="log", xticks=xs)
    axes.set_xticklabels([f"{nodes / 1e6:g} M" for nodes in xs])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    return made


def plot_reorganize(points: list[Point]) -> Any:
    """Reads a batch and speed over memory: a colour for each way of reading (N, C, those with S),
    a line for each order: as it was, by locality (R), by heat (H)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    print(table_reorganize(points))
    titles = {"reads": "reads a batch", "seeds_per_s": "seeds/s"}
    made, both = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for axes, (key, title) in zip(both, titles.items(), strict=True):
        axes.set(title=title, xlabel="memory / data", yscale="log")
        axes.grid(alpha=0.3)
        for colour, label in enumerate([*STEPS, *SCHEDULED]):
            for letter, line in LINES.items():
                name = _with(label, letter)
                if not letter or name != label:
                    xs, ys = series(points, "share", name, key)
                    line_of = {"ls": line, "color": f"C{colour}", "marker": "o", "label": name}
                    axes.plot(xs, [y[0] for y in ys], **line_of)
    made.legend(*both[0].get_legend_handles_labels(), frameon=False, ncol=11, loc="lower center")
    made.subplots_adjust(bottom=0.2)
    return made


SWEEPS = {
    "window": (window, plot_window),
    "cache": (cache, plot_cache),
    "ratio": (ratio, plot_ratio),
    "nodes": (nodes, plot_nodes),
    "reorganize": (reorganize, plot_reorganize),
}


def knob_arguments(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments of a sweep over the loader's knobs."""
    parser = argparse.ArgumentParser(prog=f"sweeps {args.sweep}")
    parser.add_argument("--store", type=Path, default=args.folder / f"{args.graph}.ng")
    parser.add_argument("--backends", default=",".join(knobs.BACKENDS))
    parser.add_argument("--memory", default="2GB", help="of the store")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--warmup", type=int, default=10, help="batches that are not counted")
    parser.add_argument("--reading", default="on_demand")
    found = parser.parse_args(args.rest, argparse.Namespace(**vars(args)))
    if not found.store.exists():
        raise SystemExit(f"{found.store} is missing; import one, or name another with --store")
    found.store = found.store.resolve()
    found.backends = found.backends.split(",")
    found.fanouts = [int(fanout) for fanout in found.fanouts.split(",")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", choices=[*SWEEPS, *knobs.KNOBS])
    parser.add_argument("--graph", default="planted_4m")
    parser.add_argument("--cap", type=training.size, default="2GB", help="of the sweep `window`")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1, help="of generated graphs")
    parser.add_argument("--keep", action="store_true", help="keep generated graphs and copies")
    parser.add_argument("--folder", type=Path, default=GRAPHS)
    parser.add_argument("--plots", type=Path, default=BENCH)
    parser.add_argument("--copies", type=Path, help="where `reorganize` puts stores, else --folder")
    parser.add_argument("--shares", type=float, nargs="+", default=CACHES, help="of `reorganize`")
    parser.add_argument("--plot-only", action="store_true", help="draw the saved figures again")
    args, args.rest = parser.parse_known_args()
    file = BENCH / f"sweep_{args.sweep}.json"
    points: list[Point] = []

    def keep(point: Point) -> None:
        points.append(point)
        file.write_text(json.dumps(points, indent=1) + "\n")

    if args.plot_only:
        points = json.loads(file.read_text())
    else:
        BENCH.mkdir(parents=True, exist_ok=True)
        if args.sweep in knobs.KNOBS:
            knobs.KNOBS[args.sweep][0](knob_arguments(args), keep)
        else:
            SWEEPS[args.sweep][0](args, keep)
    if args.sweep in knobs.KNOBS:
        made = knobs.KNOBS[args.sweep][1](points, figure)
    else:
        made = SWEEPS[args.sweep][1](points)
    made.savefig(args.plots / f"sweep_{args.sweep}.png", dpi=120, bbox_inches="tight")
    print(args.plots / f"sweep_{args.sweep}.png")


if __name__ == "__main__":
    main()
