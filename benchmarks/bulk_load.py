"""HolisticGNN's Figure 18: a graph is loaded, beside buffered writes of the same bytes.

    python -m benchmarks.bulk_load          # all real sets; --sets cora cnr-2000 for some

The host writes the edge array and the rows to two files through the page cache and ends with an
fsync of each, which is what the publication compares with (section 5.3): its data is then durable,
but no neighbour can be found. This system imports the same arrays: edges are sorted into lists in
both directions, pages get checksums, and the store is durable when it is there. Both read the
arrays out of the page cache and take turns. Rates are bytes of the input over all seconds; the
amplification is bytes written to the device over bytes of the input. `hidden` is the share of the
preparation of the graph that runs while rows are written. Sets that were measured before keep their
figures, each with its time, commit and load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import machine
from .places import BENCH, ROOT
from .raw_sets import LEFT_OUT, WIDTH, RawSet, names, raw_set
from .training_tables import table

HOME = BENCH / "bulk_load"
PART = 1 << 20
PUBLISHED = (
    "Published: GraphStore updates a graph with 1.3 times the bandwidth of the host's storage "
    "stack, hides all of the preparation of the graph behind the rows (cs: 100 ms of preparation, "
    "300 ms of writing rows at about 2 GB/s), and rows are 357.1 times as large as the graph on "
    "average."
)
Report = dict[str, Any]


def written_bytes() -> int:
    """Bytes that this process and its ended children have had written to block devices."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    return 0


def buffered(raw: RawSet, target: Path) -> Report:
    """Both arrays through the page cache, each with an fsync at its end."""
    start = time.perf_counter()
    for source in (raw.pairs, raw.rows):
        with source.open("rb", buffering=0) as read, (target / source.name).open("wb", 0) as write:
            while part := read.read(PART):
                write.write(part)
            os.fsync(write.fileno())
    folder = os.open(target, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return {"seconds": time.perf_counter() - start}


def imported(raw: RawSet, target: Path) -> Report:
    """The arrays as a store."""
    from neargraph.importers import import_graph

    arrays = target / "arrays"
    arrays.mkdir()
    for source in (raw.pairs, raw.rows):
        (arrays / source.name).symlink_to(source)
    start = time.perf_counter()
    found = import_graph(arrays, target / "g.ng", undirected=True, dense=True, memory=1 << 30)
    return {**found, "seconds": time.perf_counter() - start}


WAYS = {"buffered": buffered, "import": imported}


def once(way: str, name: str, width: int) -> Report:
    """One load in this process, and what it wrote."""
    raw = raw_set(name, width)
    target = HOME / "target"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for source in (raw.pairs, raw.rows):
        with source.open("rb", buffering=0) as file:
            while file.read(PART):
                pass
    os.sync()
    before = written_bytes()
    found = WAYS[way](raw, target)
    found["written_bytes"] = written_bytes() - before
    shutil.rmtree(target)
    return found


def measure(raw: RawSet, args: argparse.Namespace) -> Report:
    """All runs of a set, in turn."""
    runs: dict[str, list[Report]] = {way: [] for way in WAYS}
    for _ in range(args.runs):
        for way in WAYS:
            command = [sys.executable, "-m", "benchmarks.bulk_load", "--once", way, raw.name]
            command += ["--width", str(args.width)]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            runs[way].append(json.loads(done.stdout.splitlines()[-1]))
    sizes = {
        "edge_bytes": raw.pairs.stat().st_size,
        "row_bytes": raw.rows.stat().st_size,
        "own_rows": raw.own_rows,
    }
    return {"set": raw.name, **sizes, "runs": runs}


def middle(one: Report, way: str, key: str) -> float:
    """The median of a figure over the runs."""
    return statistics.median(run[key] for run in one["runs"][way])


def ratios(one: Report) -> list[float]:
    """Rate of the import over that of buffered writes: median, least, most of the pairs."""
    pairs = zip(one["runs"]["buffered"], one["runs"]["import"], strict=True)
    found = [plain["seconds"] / ours["seconds"] for plain, ours in pairs]
    return [statistics.median(found), min(found), max(found)]


def markdown(results: list[Report]) -> str:
    """The tables for people."""
    head = ["set", "edges MB", "rows MB", "rows / edges", "buffered MB/s", "import MB/s"]
    head += ["import / buffered (range)", "written / input: buffered", "import", "import, ms"]
    head += ["graph prepared, ms", "rows written, ms", "published, ms", "hidden"]
    rows = []
    for one in results:
        whole = one["edge_bytes"] + one["row_bytes"]
        rate = {way: whole / middle(one, way, "seconds") / 1e6 for way in WAYS}
        ratio = ratios(one)
        rows.append(
            [
                one["set"] + ("" if one["own_rows"] else " (rows drawn)"),
                f"{one['edge_bytes'] / 1e6:.1f}",
                f"{one['row_bytes'] / 1e6:.1f}",
                f"{one['row_bytes'] / one['edge_bytes']:.1f}",
                *(f"{rate[way]:.0f}" for way in WAYS),
                f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})",
                *(f"{middle(one, way, 'written_bytes') / whole:.2f}" for way in WAYS),
                f"{1e3 * middle(one, 'import', 'seconds'):.0f}",
                f"{1e3 * middle(one, 'import', 'topology_seconds'):.0f}",
                f"{1e3 * middle(one, 'import', 'tensor_seconds'):.0f}",
                f"{1e3 * middle(one, 'import', 'publish_seconds'):.0f}",
                f"{middle(one, 'import', 'hidden_share'):.0%}",
            ]
        )
    lines = [*table(head, rows), "", PUBLISHED, "", "Left out:"]
    lines += [f"- {name}: {why}." for name, why in LEFT_OUT.items()]
    return "\n".join(lines)


def draw(results: list[Report], path: Path) -> None:
    """Figure 18a: rates; Figure 18b: times, the preparation beside what hides it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    made, (rates, times) = pyplot.subplots(2, 1, figsize=(10, 7), sharex=True)
    names_of = [one["set"] for one in results]
    places = range(len(results))
    for shift, way in zip((-0.2, 0.2), WAYS, strict=True):
        heights, least, most = [], [], []
        for one in results:
            whole = (one["edge_bytes"] + one["row_bytes"]) / 1e6
            values = [whole / run["seconds"] for run in one["runs"][way]]
            heights.append(statistics.median(values))
            least.append(heights[-1] - min(values))
            most.append(max(values) - heights[-1])
        at = [place + shift for place in places]
        label = {"buffered": "buffered writes and fsync", "import": "import"}[way]
        rates.bar(at, heights, 0.4, yerr=[least, most], label=label, error_kw={"lw": 0.8})
    above = {"transform": rates.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    for place, one in zip(places, results, strict=True):
        rates.text(place, 1.0, f"{ratios(one)[0]:.2f}", fontsize=8, **above)
    rates.set_title("Rate of loading (above: import / buffered; published 1.3)", pad=16)
    rates.set_ylabel("MB/s")
    parts = {"graph prepared": "topology_seconds", "rows written": "tensor_seconds"}
    for shift, (label, key) in zip((-0.2, 0.2), parts.items(), strict=True):
        values = [1e3 * middle(one, "import", key) for one in results]
        times.bar([place + shift for place in places], values, 0.4, label=label)
    whole_ms = [1e3 * middle(one, "import", "seconds") for one in results]
    times.plot(list(places), whole_ms, "k_", ms=18, label="whole import")
    times.set(title="Parts of an import: they overlap", ylabel="ms", yscale="log")
    times.set_xticks(list(places), names_of, rotation=45, fontsize=8)
    for axes in (rates, times):
        axes.grid(alpha=0.3, axis="y")
        axes.legend(frameon=False)
    made.tight_layout()
    made.savefig(path, dpi=120)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", metavar="SET", help="Default: all.")
    parser.add_argument("--width", type=int, default=WIDTH, help="of rows that a set lacks")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--once", nargs=2, metavar=("WAY", "SET"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=HOME / "bulk_load.json")
    parser.add_argument("--plot-only", action="store_true", help="draw the saved figures again")
    return parser.parse_args()


def main() -> int:
    """Measures, prints, draws."""
    args = parse()
    if args.once:
        way, name = args.once
        print(json.dumps(once(way, name, args.width)))
        return 0
    known = json.loads(args.out.read_text())["results"] if args.out.exists() else []
    results = {one["set"]: one for one in known}
    for name in [] if args.plot_only else args.sets or names():
        print(name, file=sys.stderr, flush=True)
        found = measure(raw_set(name, args.width), args)
        results[name] = {**found, "about": machine.about(BENCH)}
        report = {"benchmark": "bulk_load", "results": list(results.values())}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    every = sorted(results.values(), key=lambda one: one["edge_bytes"])
    text = markdown(every)
    args.out.with_suffix(".md").write_text(text + "\n")
    draw(every, args.out.parent / "figure_18.png")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
