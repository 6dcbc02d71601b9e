"""Updates a second beside RocksDB (rocksdict) and SQLite: same trace, sync per batch of 100.

Each run of each system is a process of its own; all end checkpointed and compacted. Bytes are those
that the drive was given meanwhile, by a machine that does nothing else; seconds in syncs are the
engine's own count or, for the peers, that of a preloaded counter. `rocksdict` is installed into a
virtual environment under `.bench/`. Prints a table and, as the last line, JSON, also in
`.bench/update_rate.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench"
SYSTEMS = ["neargraph", "rocksdb", "sqlite"]
COLD_NODES = 20_000


def written_bytes() -> int:
    """What the drive under `.bench/` was given to write, all that is pending included.

    Counters of the process itself would count a whole folio of the page cache for any byte in it.
    """
    os.sync()
    device = os.stat(BENCH).st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
    return int(stat.split()[6]) * 512


def drop_caches() -> bool:
    """Whether the page cache could be emptied."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def initial_edges(nodes: int) -> Any:
    """A ring and as many random edges: every node has about four neighbours."""
    import numpy as np

    rng = np.random.default_rng(0)
    ring = np.arange(nodes, dtype=np.int64)
    edges = np.stack([ring, rng.permutation(nodes)], axis=1)
    edges = np.concatenate([edges, np.stack([ring, (ring + 1) % nodes], axis=1)])
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """One run of one system, in this process."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import numpy as np
    from update_peers import PEERS
    from update_traces import git_trace, random_edges

    folder = BENCH / "updates" / args.trace
    folder.mkdir(parents=True, exist_ok=True)
    peer = PEERS[args.system](folder)
    if args.trace == "git":
        peer.build(0, None)
        batches = list(git_trace())
    else:
        if args.run == 0:
            peer.build(args.nodes, initial_edges(args.nodes))
        batches = list(random_edges(args.nodes, args.edges, 1 + args.run))
    peer.edge_number = (1 + args.run) << 40
    drop_caches()
    peer.open()
    written, synced, start = written_bytes(), peer.sync_seconds(), time.perf_counter()
    for step, batch in enumerate(batches):
        peer.apply(batch, step)
    updated = time.perf_counter()
    peer.finish()
    checkpointed = time.perf_counter()
    plain_bytes, syncs = written_bytes() - written, peer.sync_seconds() - synced
    probe = [int(n) for n in np.random.default_rng(5).integers(0, 1000, 50)]
    lists = [sorted(peer.neighbors(node)) for node in probe] if args.trace == "git" else []
    before_bytes, before_sync = written_bytes(), peer.sync_seconds()
    before = time.perf_counter()
    peer.compact()
    compacted = time.perf_counter() - before
    # Compacting opens a store anew, so its counters may start again.
    syncs += max(peer.sync_seconds() - before_sync, 0.0)
    result = {
        "operations": sum(batch.operations() for batch in batches),
        "payload_bytes": sum(batch.payload_bytes() for batch in batches),
        "update_seconds": updated - start,
        "checkpoint_seconds": checkpointed - updated,
        "compact_seconds": compacted,
        "sync_seconds": syncs,
        "written_bytes": plain_bytes,
        "compact_bytes": written_bytes() - before_bytes,
        "lists": lists,
    }
    if args.trace != "git":
        nodes = np.random.default_rng(7 + args.run).integers(0, args.nodes, COLD_NODES).tolist()
        peer.close()
        result["cold"] = drop_caches()
        peer.open()
        start = time.perf_counter()
        result["neighbours"] = peer.read(nodes)
        result["cold_nodes_per_second"] = COLD_NODES / (time.perf_counter() - start)
    peer.close()
    return result


def shim() -> Path:
    """The counter of syncs, compiled."""
    library = BENCH / "sync_time.so"
    source = ROOT / "benchmarks" / "sync_time.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
    return library


def peers_python() -> str:
    """An interpreter with rocksdict."""
    python = BENCH / "peers" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(BENCH / "peers")], check=True)
        command = [str(python), "-m", "pip", "install", "-q", "rocksdict==0.3.29", "numpy>=1.26"]
        subprocess.run(command, check=True)
    return str(python)


def spawn(system: str, trace: str, run: int, args: argparse.Namespace) -> dict[str, Any]:
    """One run in a child."""
    interpreter = peers_python() if system == "rocksdb" else sys.executable
    command = [interpreter, __file__, "--system", system, "--trace", trace, "--run", str(run)]
    command += ["--nodes", str(args.nodes), "--edges", str(args.edges)]
    env = os.environ | ({} if system == "neargraph" else {"LD_PRELOAD": str(shim())})
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"{system} on {trace}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def total(run: dict[str, Any]) -> float:
    """Seconds of updates, checkpoint and compaction."""
    return run["update_seconds"] + run["checkpoint_seconds"] + run["compact_seconds"]


def ratios(runs: dict[str, list[dict[str, Any]]]) -> dict[str, list[float]]:
    """This project beside the faster peer of the same run, a minute apart at most: a machine that
    others share is not equally fast all the time."""

    def of(value: Any) -> list[float]:
        rows = [
            value(own) / max(value(peer) for peer in peers)
            for own, *peers in zip(*(runs[system] for system in SYSTEMS), strict=True)
        ]
        return [statistics.median(rows), min(rows), max(rows)]

    out = {
        "updates_per_second": of(lambda r: r["operations"] / total(r)),
        "without_syncs": of(lambda r: r["operations"] / (total(r) - r["sync_seconds"])),
    }
    if "cold_nodes_per_second" in runs["neargraph"][0]:
        out["cold_nodes_per_second"] = of(lambda r: r["cold_nodes_per_second"])
    return out


def summarize(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians and ranges."""

    def of(value: Any) -> list[float]:
        values = [value(run) for run in runs]
        return [statistics.median(values), min(values), max(values)]

    out = {
        "updates_per_second": of(lambda r: r["operations"] / total(r)),
        "without_syncs": of(lambda r: r["operations"] / (total(r) - r["sync_seconds"])),
        "before_compaction": of(
            lambda r: r["operations"] / (r["update_seconds"] + r["checkpoint_seconds"])
        ),
        "before_compaction_without_syncs": of(
            lambda r: (
                r["operations"]
                / (r["update_seconds"] + r["checkpoint_seconds"] - r["sync_seconds"])
            )
        ),
        "write_amplification": of(lambda r: r["written_bytes"] / r["payload_bytes"]),
        "with_compaction": of(
            lambda r: (r["written_bytes"] + r["compact_bytes"]) / r["payload_bytes"]
        ),
        "sync_seconds": of(lambda r: r["sync_seconds"]),
    }
    if "cold_nodes_per_second" in runs[0]:
        out["cold_nodes_per_second"] = of(lambda r: r["cold_nodes_per_second"])
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system")
    parser.add_argument("--trace")
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    args = parser.parse_args()
    if args.system:
        print(json.dumps(run_one(args)))
        return 0
    report: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "nodes": args.nodes,
        "edges": args.edges,
        "runs": args.runs,
    }
    for trace in [args.trace] if args.trace else ["git", "random"]:
        runs: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
        for run in range(args.runs):
            # Who comes first and whom it follows changes from run to run.
            for system in SYSTEMS[run % 3 :] + SYSTEMS[: run % 3]:
                runs[system].append(spawn(system, trace, run, args))
                print(
                    f"{trace} {run} {system} {runs[system][-1]['update_seconds']:.1f} s", flush=True
                )
        same = all(
            runs[system][run]["lists"] == runs["neargraph"][run]["lists"]
            for system in SYSTEMS
            for run in range(args.runs)
        )
        figures = {system: summarize(runs[system]) for system in SYSTEMS}
        figures["ratio"] = ratios(runs)
        for system, rows in figures.items():
            for name, (median, low, high) in rows.items():
                print(f"{trace:7} {system:10} {name:32} {median:12,.2f} [{low:,.2f}, {high:,.2f}]")
        report[trace] = {**figures, "same": same}
    (BENCH / f"update_rate_{args.trace or 'all'}.json").write_text(
        json.dumps(report, indent=1) + "\n"
    )
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
