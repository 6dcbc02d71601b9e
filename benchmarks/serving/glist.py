"""GLIST's Figures 8 to 10 (section 5.2): what order, schedule, groups and kept answers are worth.

    python -m benchmarks.serving.glist              # 45 minutes
    python -m benchmarks.serving.glist --quick      # the same in small, to see that it works
    python -m benchmarks.serving.glist --only locality

A variant is a word of letters, as in the publication: R rows in another order on disk, S requests
reordered by what they share, G requests grouped into one batch, C answers kept. All variants of a
point are servers that run at the same time, each warmed with requests that are not counted; then
they take turns to answer the same requests, with 64 under way. `N` has none of the letters, and as
many lanes as the others, so that reads of its requests overlap. `N1` has one lane: it handles one
request after the other, as the publication's N does. Ratios to both stand side by side.

`group` is measured on the standard graph, where a group may have hundreds of requests, and `depth`
asks how many requests have to wait for their order to matter. Both keep more under way.

Streams have locality by equation 7, by repeats of targets and by neighbours that distinct targets
share, apart. No run repeats targets of an earlier one. Memory is a share of the store's data, of
which variants with C give a part to answers. Counts are the server's own: reads, groups,
duplicates, kept answers, and rows that were in memory. The first run makes the graphs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..graphs import DEGREE, make_planted, write, write_reorganized
from ..places import BENCH, GRAPHS
from . import streams
from .glist_plots import PLOTS
from .glist_tables import markdown
from .record import Record
from .served import Server, Setting, between, load

HOME = BENCH / "serving" / "glist"
VARIANTS = ["N1", "N", "R", "RS", "G", "GS", "CG", "CRS", "CGS", "CGRS"]
HIDDEN = 256
# Requests that may wait in a server, so that the load alone bounds how many do.
LIMITS = {
    "queue": 8192,
    "calls": 8192,
    "streams_per_connection": 8192,
    "bytes_in_flight": 16 << 30,
}
Point = dict[str, Any]

# What `--quick` has in place of the settings of the command line.
QUICK: dict[str, Any] = {
    "nodes": 60_000,
    "width_nodes": 20_000,
    "widths": [64, 1024],
    "shares": [0.1, 0.5],
    "localities": [0.0, 0.6],
    "groups": [1, 20],
    "depths": [64, 256],
    "requests": 300,
    "warm": 100,
}


def graph_of(args: argparse.Namespace, nodes: int, width: int) -> Path:
    """The folder of a planted graph with its two stores, made once."""
    folder, name = HOME / "graphs", f"planted_{nodes}_{width}"
    if not (folder / name / "about.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(name, make_planted(nodes, DEGREE, width, args.seed), args.seed, "store", folder)
    if not (folder / f"{name}_locality.ng").exists():
        # A copy gets its name when it is complete.
        (folder / "new").mkdir(exist_ok=True)
        write_reorganized(name, "locality", folder, folder / "new", 256, streams.FANOUTS)
        (folder / "new" / f"{name}_locality.ng").rename(folder / f"{name}_locality.ng")
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


def setting(args: argparse.Namespace, graph: Path, variant: str, point: Point) -> Setting:
    """The server of a variant at a point."""
    ordered = "R" in variant
    data = sum(file.stat().st_size for file in Path(f"{graph}.ng").glob("*.dat"))
    memory = int(point.get("share", args.share) * data)
    kept = int(args.kept * memory) if "C" in variant else 0
    letters = "".join(letter for letter in variant if letter in "CGS")
    group = {"requests": point["group"], "time": "1s"} if "group" in point else {}
    return Setting(
        store=Path(f"{graph}{'_locality' if ordered else ''}.ng"),
        model=model_of(graph),
        memory=memory - kept + args.process_bytes,
        scheduler=letters or "N",
        cache=kept,
        prepare="metadata",
        lanes=1 if variant == "N1" else args.lanes,
        group=group,
        limits=LIMITS,
    )


def stream_files(
    args: argparse.Namespace, graph: Path, kind: str, locality: float, requests: int
) -> tuple[list[Path], Point]:
    """(files of requests: to warm with, and one for each run; what equation 7 gives)."""
    import neargraph as ng

    counts = [args.warm] + args.runs * [requests]
    with ng.open(f"{graph}.ng", memory="512MB") as store:
        parts, about = streams.local(store, kind, locality, counts, args.seed, args.window)
    folder = HOME / "streams"
    files = [folder / f"{number}.csv" for number in range(len(parts))]
    for file, part in zip(files, parts, strict=True):
        streams.Stream(np.zeros(len(part), np.int64), list(part[:, None]), about).save(file)
    return files, about


def measured(
    args: argparse.Namespace,
    settings: dict[str, Setting],
    files: list[Path],
    requests: int,
    in_flight: int,
) -> dict[str, list[Point]]:
    """By variant, a figure for each run; variants take turns."""
    runs: dict[str, list[Point]] = {name: [] for name in settings}
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(Server(one, f"glist-{name}"))
            for name, one in settings.items()
        }
        for number, file in enumerate(files):
            count = requests if number else args.warm
            for name, server in servers.items():
                before = server.counts()
                found = load(
                    server.to,
                    file,
                    requests=count,
                    in_flight=in_flight,
                    warm_seconds=0,
                    shares=[],
                    timeout_ms=600_000,
                )["closed"]
                if found["missed"]:
                    raise SystemExit(f"{name}: {found['missed_by_code']}")
                counts = between(before, server.counts())
                rate, load_cores = found["requests_per_s"], found["load_cores"]
                kept = {"requests_per_s": rate, "load_cores": load_cores, **counts}
                if number:
                    runs[name].append(kept)
    return runs


def point(
    args: argparse.Namespace,
    graph: Path,
    variants: dict[str, tuple[str, Point]],
    known: Point,
    requests: int,
) -> Point:
    """What was found at a point: variants by name, each with its letters and its own settings."""
    kind = known.get("kind", "repeats")
    locality = known.get("locality", args.locality)
    files, about = stream_files(args, graph, kind, locality, requests)
    settings = {
        name: setting(args, graph, letters, {**known, **own})
        for name, (letters, own) in variants.items()
    }
    in_flight = known.get("in_flight", args.in_flight)
    return {**known, **about, "variants": measured(args, settings, files, requests, in_flight)}


Points = Iterator[tuple[str, Callable[[], Point]]]


def alike(names: list[str]) -> dict[str, tuple[str, Point]]:
    """Variants that differ in their letters alone."""
    return {name: (name, {}) for name in names}


def cache(args: argparse.Namespace) -> Points:
    """Figure 8."""
    graph = graph_of(args, args.nodes, args.width)
    for share in args.shares:
        some = alike(["N1", "N", "R", "RS"])
        requests = min(args.requests, args.requests_of_others)
        known = {"share": share}
        yield f"memory {share}", partial(point, args, graph, some, known, requests)


def width(args: argparse.Namespace) -> Points:
    """Figure 9."""
    for columns in args.widths:
        graph = graph_of(args, args.width_nodes, columns)
        some = alike(["N1", "N", "R", "RS"])
        requests = min(args.requests, args.requests_of_others)
        known = {"row_bytes": 4 * columns}
        yield (
            f"rows of {4 * columns} bytes",
            partial(point, args, graph, some, known, requests),
        )


def locality(args: argparse.Namespace) -> Points:
    """Figures 10a and 10c."""
    graph = graph_of(args, args.nodes, args.width)
    for kind in ("repeats", "neighbours"):
        for asked in args.localities:
            known = {"kind": kind, "locality": asked}
            some = alike(args.variants)
            yield (
                f"{kind}, locality {asked}",
                partial(point, args, graph, some, known, args.requests),
            )


def group(args: argparse.Namespace) -> Points:
    """Figure 10b: groups that end at a number of requests, or at a part of the memory."""
    sizes = {str(size): ("G", {"group": size}) for size in args.groups}
    some = {"N1": ("N1", {}), **sizes}
    requests = min(args.requests, args.requests_of_others)
    known = {"share": args.group_share, "in_flight": 2 * max(args.groups)}
    yield "sizes of groups", partial(point, args, args.group_graph, some, known, requests)


def depth(args: argparse.Namespace) -> Points:
    """What the order of requests is worth where few and where many of them wait."""
    graph = graph_of(args, args.nodes, args.width)
    for in_flight in args.depths:
        known = {"locality": max(args.localities), "in_flight": in_flight}
        some = alike(["N", "S", "R", "RS", "G", "GS"])
        yield f"{in_flight} under way", partial(point, args, graph, some, known, args.requests)


EXPERIMENTS: dict[str, Callable[[argparse.Namespace], Points]] = {
    "locality": locality,
    "group": group,
    "depth": depth,
    "cache": cache,
    "width": width,
}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS))
    parser.add_argument("--quick", action="store_true", help="small graphs and few requests")
    parser.add_argument("--nodes", type=int, default=400_000)
    parser.add_argument("--width", type=int, default=256, help="columns of a row, f32")
    parser.add_argument("--width-nodes", type=int, default=100_000, help="of Figure 9")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--share", type=float, default=0.2, help="of the data that fits in memory")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.35, 0.5])
    parser.add_argument("--locality", type=float, default=0.3, help="but of Figures 10a and 10c")
    parser.add_argument("--localities", type=float, nargs="+", default=[0.0, 0.3, 0.6, 0.9])
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 5, 20, 50, 100, 200, 400])
    parser.add_argument("--group-graph", type=Path, default=GRAPHS / "planted_4m")
    parser.add_argument("--group-share", type=float, default=0.35, help="as --share, of its data")
    parser.add_argument("--depths", type=int, nargs="+", default=[64, 512, 4096], help="under way")
    parser.add_argument("--variants", nargs="+", default=VARIANTS)
    parser.add_argument("--requests", type=int, default=10_000, help="of a run")
    parser.add_argument("--requests-of-others", type=int, default=4_000, help="but of locality")
    parser.add_argument("--warm", type=int, default=2_000, help="requests that are not counted")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--window", type=int, help="requests that are shuffled together, else all")
    parser.add_argument("--lanes", type=int, default=3, help="of all variants but N1")
    parser.add_argument("--kept", type=float, default=0.1, help="share of memory for answers")
    parser.add_argument("--process-bytes", type=int, default=24_000_000, help="beside the share")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="measure again what is known")
    parser.add_argument("--out", type=Path, default=HOME)
    args = parser.parse_args()
    if args.quick:
        vars(args).update(QUICK, out=args.out / "quick")
        args.group_graph = graph_of(args, args.nodes, args.width)
    return args


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    settings = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(args).items()
        if key not in ("only", "fresh", "out")
    }
    for name in args.only:
        file = args.out / f"{name}.json"
        record = Record(file, f"glist {name}", settings, args.fresh)
        points = [record.once(key, measure) for key, measure in EXPERIMENTS[name](args)]
        text = markdown(name, points)
        file.with_suffix(".md").write_text(text + "\n")
        PLOTS[name](points, file.with_suffix(".png"))
        print(text, file.with_suffix(".png"), sep="\n", flush=True)
    shutil.rmtree(HOME / "streams", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
