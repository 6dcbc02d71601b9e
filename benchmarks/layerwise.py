"""All nodes of a graph: layer by layer beside batches, on the disk and in memory, with each bar.

Layer-wise inference computes a SAGE model of 2 layers with all neighbours. Batches are those of
[25, 10] neighbours: `batches` only makes them with the loader, which reads ahead, and computes
nothing, so it is the least that batch-wise inference takes; `engine` also computes them. Both are
measured from the disk and, with `--roomy` memory, with everything in memory. A share of the batches
is measured, and the rest is extrapolated. The ways take turns, each in a process of its own, after
the page cache was emptied where that is allowed. Results are compared with PyG on the whole of a
graph of 20,000 nodes that is made for it.

    python -m benchmarks.layerwise                                  # the standard graph, all bars
    python -m benchmarks.layerwise --graph .bench/graphs/small.ng --memory 300MB --runs 1
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from .machine import drop_caches
from .places import BENCH, ROOT

FANOUTS = [25, 10]
HIDDEN = 256
BATCH = 1024
WARM_BATCHES = 5
# Where rows are, and how batches are made there.
PLACES = ("disk", "memory")
WAYS = ("layerwise", "batches", "engine")
# What is wanted.
BYTES, SPEED, EQUAL = 1.15, {"disk": 5.0, "memory": 8.0}, 1e-4
EQUAL_NODES, EQUAL_EDGES, EQUAL_WIDTH = 20_000, 400_000, 64


def model_file(graph: Path, classes: int, folder: Path) -> Path:
    """The model, exported once."""
    import neargraph as ng

    with ng.open(graph, memory="256MB") as store:
        tensors = store.schema.node_types[0].tensors
        width = next(one.shape[0] for one in tensors if one.name == "x")
        path = folder / f"sage_{width}_{HIDDEN}_{classes}.ngm"
        if not path.exists():
            import torch

            folder.mkdir(parents=True, exist_ok=True)
            torch.manual_seed(0)
            model = ng.nn.GraphSAGE(width, HIDDEN, classes, len(FANOUTS)).eval()
            ng.export(model, store, path, fanouts=FANOUTS)
    return path


def layerwise(settings: dict[str, Any]) -> dict[str, Any]:
    """One run to a file, with the plan and what was read."""
    import neargraph as ng

    out, work = Path(settings["out"]), Path(settings["work"])
    begun = time.perf_counter()
    with ng.Inference(settings["graph"], settings["model"], memory=settings["memory"]) as run:
        plan, before = run.plan, run.store.stats()["read_bytes"]
        times: dict[int, float] = {}
        result = run.run(
            out,
            folder=work,
            fresh=True,
            progress=lambda at, *_: times.__setitem__(at, time.perf_counter() - begun),
        )
        store_bytes = run.store.stats()["read_bytes"] - before
    seconds = time.perf_counter() - begun
    out.unlink()
    return {
        "seconds": seconds,
        "pass_seconds": list(np.diff([0.0, *times.values()])),
        "plan": plan,
        "read_bytes": store_bytes + result.table_read_bytes,
    }


def batches(settings: dict[str, Any]) -> dict[str, Any]:
    """Making a share of the batches of all nodes, in order."""
    import neargraph as ng

    with ng.open(settings["graph"], memory=settings["memory"]) as store:
        count = store.num_nodes
        if settings["place"] == "memory":
            snapshot = store.snapshot()
            for first in range(0, count, 1 << 16):
                snapshot.features(None, np.arange(first, min(first + (1 << 16), count)))
        loader = ng.NumpySampler(store, FANOUTS, seed=0, attrs=["x"])
        made = iter(loader.batches(np.arange(count), batch_size=BATCH))
        seconds = _timed(lambda: next(made), settings["batches"])
    return {"seconds": seconds * -(-count // BATCH), "batch_seconds": seconds}


def engine(settings: dict[str, Any]) -> dict[str, Any]:
    """Batch-wise inference over some of the nodes; all is in memory, or what requests bring."""
    import neargraph as ng

    prepare = "all" if settings["place"] == "memory" else "metadata"
    options = {"memory": settings["memory"], "prepare": prepare}
    with ng.Engine(settings["graph"], settings["model"], **options) as served:
        served.wait_until_ready(600)
        with ng.open(settings["graph"], memory="64MB") as store:
            count = store.num_nodes
        firsts = iter(range(0, count, BATCH))

        def one() -> None:
            first = next(firsts)
            served.run(np.arange(first, min(first + BATCH, count)))

        seconds = _timed(one, settings["batches"])
    return {"seconds": seconds * -(-count // BATCH), "batch_seconds": seconds}


def _timed(one: Any, count: int) -> float:
    """Seconds of each batch, after a warm-up."""
    for _ in range(WARM_BATCHES):
        one()
    begun = time.perf_counter()
    for _ in range(count):
        one()
    return (time.perf_counter() - begun) / count


def run_way(way: str, settings: dict[str, Any]) -> dict[str, Any]:
    """One way in a process of its own."""
    drop_caches()
    command = [sys.executable, "-m", "benchmarks.layerwise", "--way", way, json.dumps(settings)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def difference(work: Path) -> float:
    """The largest difference from PyG on a whole graph, of the largest value, in small blocks."""
    import torch
    from torch_geometric.data import Data

    import neargraph as ng

    folder = work / "equal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    x = torch.from_numpy(random.standard_normal((EQUAL_NODES, EQUAL_WIDTH), np.float32))
    ends = (EQUAL_NODES * random.random((2, EQUAL_EDGES)) ** 2).astype(np.int64)
    data = Data(x=x, edge_index=torch.from_numpy(ends))
    ng.from_pyg(data, folder / "g.ng")
    torch.manual_seed(0)
    model = ng.nn.GraphSAGE(EQUAL_WIDTH, EQUAL_WIDTH, 16, 2).eval()
    with torch.no_grad():
        wanted = model(x, data.edge_index).numpy()
    with ng.open(folder / "g.ng", memory="256MB") as store:
        ng.export(model, store, folder / "m.ngm", fanouts=FANOUTS)
    options: dict[str, Any] = {"memory": "128MB", "block_nodes": 4096}
    with ng.Inference(folder / "g.ng", folder / "m.ngm", **options) as run:
        found = run.run().arrays["out"]
    shutil.rmtree(folder)
    return float(np.abs(found - wanted).max() / max(1.0, float(np.abs(wanted).max())))


def times(name: str, runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The table of the ways in one place."""
    lines = [
        f"{name}; seconds for all nodes",
        "",
        "| way | median | range | / layer-wise | peak memory |",
        "|---|---|---|---|---|",
    ]
    base = statistics.median(one["seconds"] for one in runs["layerwise"])
    for way, found in runs.items():
        seconds = sorted(one["seconds"] for one in found)
        middle = statistics.median(seconds)
        peak = max(one["peak_bytes"] for one in found) / 1e9
        spread = f"{seconds[0]:.1f} to {seconds[-1]:.1f}"
        lines.append(f"| {way} | {middle:.1f} | {spread} | {middle / base:.2f} | {peak:.2f} GB |")
    lines += ["", "| pass | tables | blocks P | P x scanned | own rows | seconds |"]
    lines.append("|---|---|---|---|---|---|")
    plan = runs["layerwise"][0]["plan"]
    passes = zip(plan["passes"], runs["layerwise"][0]["pass_seconds"], strict=False)
    for at, (one, seconds) in enumerate(passes):
        tables = ", ".join(f"{name} ({width})" for name, width in one["tables"])
        scanned, own = one["blocks"] * one["scanned_bytes"] / 1e9, one["own_bytes"] / 1e9
        cells = f"{at + 1} | {tables} | {one['blocks']} | {scanned:.2f} GB | {own:.2f} GB"
        lines.append(f"| {cells} | {seconds:.1f} |")
    return [*lines, ""]


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def bars(runs: dict[str, dict[str, list[dict[str, Any]]]], limit: int, differs: float) -> list[str]:
    """Each bar with what was measured."""
    lines = ["| bar | wanted | measured | |", "|---|---|---|---|"]
    if "disk" in runs:
        own = runs["disk"]["layerwise"]
        scanned = sum(one["blocks"] * one["scanned_bytes"] for one in own[0]["plan"]["passes"])
        share = max(one["read_bytes"] for one in own) / scanned
        peak = max(one["peak_bytes"] for one in own)
        lines += [
            f"| bytes read, with lists, of P x table | {BYTES} | {share:.2f} "
            f"| {verdict(share <= BYTES)} |",
            f"| peak memory | {limit / 1e9:.2f} GB | {peak / 1e9:.2f} GB "
            f"| {verdict(peak <= limit)} |",
        ]
    for place, found in runs.items():
        base = statistics.median(one["seconds"] for one in found["layerwise"])
        for way in WAYS[1:]:
            if way in found:
                faster = statistics.median(one["seconds"] for one in found[way]) / base
                lines.append(
                    f"| times as fast as {way}, {place} | {SPEED[place]:.0f} | {faster:.1f} "
                    f"| {verdict(faster >= SPEED[place])} |"
                )
    lines.append(
        f"| difference from PyG on {EQUAL_NODES:,} nodes, of the largest value | {EQUAL:.0e} "
        f"| {differs:.1e} | {verdict(differs <= EQUAL)} |"
    )
    return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--graph", type=Path, default=BENCH / "graphs" / "planted_4m.ng")
    parser.add_argument("--memory", default="2GB", help="Where rows are on the disk.")
    parser.add_argument("--roomy", default="12GB", help="Where they are in memory.")
    parser.add_argument("--classes", type=int, default=47)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=100, help="How many are measured.")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--work", type=Path, default=BENCH / "layerwise")
    parser.add_argument("--way", nargs=2, metavar=("WAY", "SETTINGS"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.way:
        run = {"layerwise": layerwise, "batches": batches, "engine": engine}[args.way[0]]
        one = run(json.loads(args.way[1]))
        one["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(one))
        return
    from neargraph.units import parse_bytes

    model = model_file(args.graph, args.classes, args.work)
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        place: {way: [] for way in args.ways.split(",")} for place in args.places.split(",")
    }
    for _ in range(args.runs):
        for place, ways in runs.items():
            settings = {
                "graph": str(args.graph),
                "model": str(model),
                "memory": args.memory if place == "disk" else args.roomy,
                "place": place,
                "batches": args.batches,
                "out": str(args.work / "out.npy"),
                "work": str(args.work / "tables"),
            }
            for way, found in ways.items():
                found.append(run_way(way, settings))
    shutil.rmtree(args.work / "tables", ignore_errors=True)
    lines = []
    for place, ways in runs.items():
        memory = args.memory if place == "disk" else args.roomy
        lines += times(f"{args.graph.name}, {place}, {memory}, {args.runs} runs in turn", ways)
    lines += bars(runs, parse_bytes(args.memory), difference(args.work))
    text = "\n".join(lines)
    print(text)
    (args.work / "result.json").write_text(json.dumps(runs, indent=2))
    (args.work / "result.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
