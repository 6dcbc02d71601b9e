"""How well the model of this host foretells what a loader does on it, and what it would do on a
simulated SSD that computes nothing.

    python -m benchmarks.this_host                       # planted_4m in 6 GB, 1.1 GB and 376 MB

A round for each budget: the disk is measured, a `NeighborLoader` runs until it is steady and is
watched (`ng.sim.watch_loader`), and the model says what its requests take. Writes
`.bench/this_host.json`; prints the median (least-most) of --runs rounds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import neargraph as ng

from .machine import about
from .places import BENCH, GRAPHS
from .training_tables import spread, table


def one_round(path: Path, memory: str, args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a batch: measured, foretold, and on a simulated SSD."""
    host = ng.sim.measure_host(path)
    with ng.open(path, memory=memory) as store:
        watched = ng.sim.watch_loader(
            store,
            (15, 10),
            batch_size=args.batch_size,
            input_nodes="train",
            seconds=args.seconds,
            warm_seconds=args.warm_seconds,
            temporary_writes="never",
        )
    told = watched.on_host(host)
    ssd = watched.on_ssd()
    return {
        "reading": watched.reading,
        "is_steady": watched.is_steady,
        "requests": len(watched.requests) / watched.batches,
        "read_bytes": int(watched.requests["bytes"].sum()) / watched.batches,
        "targets_per_s": watched.targets_per_s,
        "measured_ms": watched.seconds * 1e3,
        "told_ms": told * 1e3,
        "told_over_measured": told / watched.seconds,
        "ssd_ms": ssd["seconds"] * 1e3,
        "ssd_bound_by": ssd["bound_by"],
        "reads_per_s": host["reads_per_s"][-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, default=GRAPHS / "planted_4m.ng")
    parser.add_argument("--memory", nargs="+", default=["6GB", "1.1GB", "376MB"])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--warm-seconds", type=float, default=36.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    found = {
        memory: [one_round(args.store, memory, args) for _ in range(args.runs)]
        for memory in args.memory
    }
    report = {"about": about(args.store), "arguments": str(args), "rounds": found}
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "this_host.json").write_text(json.dumps(report, indent=1))

    def cell(rounds: list[dict[str, Any]], key: str, form: str) -> str:
        middle, least, most = spread([one[key] for one in rounds])
        return f"{middle:{form}} ({least:{form}}-{most:{form}})"

    rows = [
        [
            memory,
            ", ".join(dict.fromkeys(one["reading"] for one in rounds)),
            cell(rounds, "requests", ",.0f"),
            cell(rounds, "measured_ms", ".1f"),
            cell(rounds, "told_ms", ".1f"),
            cell(rounds, "told_over_measured", ".2f"),
            cell(rounds, "ssd_ms", ".1f"),
            ", ".join(dict.fromkeys(one["ssd_bound_by"] for one in rounds)),
        ]
        for memory, rounds in found.items()
    ]
    head = ["memory", "reading", "requests", "measured ms", "foretold ms", "foretold / measured"]
    print("\n".join(table([*head, "on a simulated SSD ms", "bound by"], rows)))


if __name__ == "__main__":
    main()
