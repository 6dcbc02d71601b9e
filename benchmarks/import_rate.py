"""Import of a random-order edge list against polars + scipy.sparse in memory, in the same run.

`text` and `npy` are the importer alone, `command line` is what a user types, interpreter included.
Files go to `.bench/`. Every run starts and ends with a sync, which is part of its time. Prints a
table and, as the last line, JSON, which also goes to `.bench/import_rate.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "target" / "release" / "examples" / "import_text"

GENERATE = """
import sys, numpy as np, polars as pl
edges, text, npy = int(sys.argv[1]), sys.argv[2], sys.argv[3]
nodes = max(edges // 12, 10)
rng = np.random.default_rng(1)
names = rng.permutation(nodes)
ends = [names[(nodes * rng.random(edges) ** 2.2).astype(np.int64)] for _ in range(2)]
np.save(npy, np.stack(ends, axis=1))
pl.DataFrame({"s": ends[0], "d": ends[1]}).write_csv(text, include_header=False, separator=" ")
"""

IN_MEMORY = """
import sys, numpy as np, polars as pl, scipy.sparse as sp
frame = pl.read_csv(sys.argv[1], has_header=False, separator=" ")
source, destination = (frame[name].to_numpy() for name in frame.columns)
nodes = int(max(source.max(), destination.max())) + 1
row = np.concatenate([destination, source])
column = np.concatenate([source, destination])
ones = np.ones(len(row), dtype=np.int8)
matrix = sp.coo_matrix((ones, (row, column)), shape=(nodes, nodes)).tocsr()
print(matrix.nnz)
"""


def generate(edges: int, folder: Path) -> tuple[Path, Path]:
    """A graph with a power-law-like degree distribution, edges in random order."""
    text, npy = folder / f"edges_{edges}.txt", folder / f"edges_{edges}.npy"
    if text.exists() and npy.exists():
        return text, npy
    # A child, so that this process stays small: a fork inherits the peak RSS.
    command = [sys.executable, "-c", GENERATE, str(edges), str(text), str(npy)]
    subprocess.run(command, check=True)
    return text, npy


def measure(command: list[str]) -> dict[str, float]:
    """Wall time between two syncs, CPU time and peak RSS of a child process."""
    os.sync()
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    os.sync()
    seconds = time.perf_counter() - started
    if child.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {child.returncode}: {output}")
    result = {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_mb": usage.ru_maxrss * 1024 / 1e6,
    }
    if output.lstrip().startswith("{"):
        report = json.loads(output)
        report = report.get("report", report)
        for key in ("read_seconds", "topology_seconds", "publish_seconds"):
            if key in report:
                result[key] = report[key]
        result["temp_mb"] = report["temp_bytes"] / 1e6
        result["disk_mb"] = report["disk_bytes"] / 1e6
    return result


def summary(runs: list[dict[str, float]]) -> dict[str, float]:
    """Median of everything, and the range of the time."""
    median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    times = [run["seconds"] for run in runs]
    return {**median, "seconds_min": min(times), "seconds_max": max(times)}


def command_line(source: Path, store: Path, memory: int) -> list[str]:
    """The same import as a user types it."""
    program = str(Path(sys.executable).with_name("neargraph"))
    options = ["--undirected", "--overwrite", "--json", "--memory", str(memory)]
    return [program, "import", str(source), "--out", str(store), *options]


def main() -> None:
    build = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "ng-import"]
    subprocess.run([*build, "--example", "import_text"], cwd=ROOT, check=True)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=49_400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", type=int, default=256_000_000)
    parser.add_argument("--flat", action="store_true", help="also 10 M and 100 M edges")
    parser.add_argument("--no-baseline", action="store_true")
    arguments = parser.parse_args()
    folder = ROOT / ".bench"
    folder.mkdir(exist_ok=True)
    store = folder / "import.ng"
    memory = ["--memory", str(arguments.memory)]
    text, npy = generate(arguments.edges, folder)
    jobs = {
        "text": [str(EXAMPLE), str(text), str(store), *memory],
        "npy": [str(EXAMPLE), str(npy), str(store), *memory],
        "command line": command_line(text, store, arguments.memory),
    }
    if not arguments.no_baseline:
        jobs["polars+scipy"] = [sys.executable, "-c", IN_MEMORY, str(text)]
    if arguments.flat:
        for edges in (10_000_000, 100_000_000):
            source, _ = generate(edges, folder)
            jobs[f"text {edges // 1_000_000} M"] = [str(EXAMPLE), str(source), str(store), *memory]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for _ in range(arguments.runs):
        for name, command in jobs.items():
            runs[name].append(measure(command))
    shutil.rmtree(store, ignore_errors=True)
    results = {name: summary(all_runs) for name, all_runs in runs.items()}
    print(f"{'':16}{'s':>8}{'range':>16}{'CPU s':>8}{'RSS MB':>8}{'temp MB':>9}{'disk MB':>9}")
    for name, row in results.items():
        spread = f"{row['seconds_min']:.2f}-{row['seconds_max']:.2f}"
        print(
            f"{name:16}{row['seconds']:8.2f}{spread:>16}{row['cpu_seconds']:8.2f}"
            f"{row['peak_rss_mb']:8.0f}{row.get('temp_mb', 0):9.0f}{row.get('disk_mb', 0):9.0f}"
        )
    ratios = {"text / npy": results["text"]["seconds"] / results["npy"]["seconds"]}
    if "polars+scipy" in results:
        ratios["polars+scipy / text"] = (
            results["polars+scipy"]["seconds"] / results["text"]["seconds"]
        )
    if arguments.flat:
        small, large = results["text 10 M"], results["text 100 M"]
        ratios["seconds per edge, 100 M / 10 M"] = large["seconds"] / small["seconds"] / 10
        ratios["CPU per edge, 100 M / 10 M"] = large["cpu_seconds"] / small["cpu_seconds"] / 10
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    about |= {"commit": commit, "load_average": os.getloadavg(), "edges": arguments.edges}
    report = json.dumps({**about, "results": results, "ratios": ratios})
    (folder / "import_rate.json").write_text(report + "\n")
    print(report)


if __name__ == "__main__":
    main()
