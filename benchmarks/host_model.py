"""How well the model of this host foretells what its disk does: the same reads, modelled and made.

    python -m benchmarks.host_model --path .bench/graphs/planted_4m.ng

Measures the disk at depths 1, 2, 4, ... 64, gives the model every second of them, and lets it
foretell the time of a trace's reads at each depth; then makes these reads on the disk, one as soon
as the one that leads to it has come. Writes `.bench/host_model.json`; prints the table: median
(least-most) of --runs rounds, each with its own measurement.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import neargraph as ng

from .machine import about
from .places import BENCH
from .training_tables import spread, table


def one_round(args: argparse.Namespace, trace: ng.sim.Trace) -> list[dict[str, Any]]:
    """Foretold and made, by depth."""
    host = ng.sim.measure_host(args.path)
    known = {**host, "depths": host["depths"][::2], "reads_per_s": host["reads_per_s"][::2]}
    found = []
    for depth, measured in zip(host["depths"], host["reads_per_s"], strict=True):
        run = ng.sim.simulate_host(trace, {**known, "depth": depth})
        told = [batch["outcome"]["makespan"] * 1e-12 for batch in run["batches"]]
        made = ng.sim.replay_on_host(trace, args.path, depth).tolist()
        found.append(
            {
                "depth": depth,
                "given": depth in known["depths"],
                "reads_per_s": measured,
                "reads": sum(batch["outcome"]["reads"] for batch in run["batches"]),
                "told_s": sum(told),
                "made_s": sum(made),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--path", type=Path, default=BENCH)
    parser.add_argument("--dataset", default="amazon")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    trace = ng.sim.Trace.of_dataset(
        args.dataset, batches=args.batches, batch_size=args.batch_size, seed=1
    )
    args.path.mkdir(parents=True, exist_ok=True)
    rounds = [one_round(args, trace) for _ in range(args.runs)]
    report = {"about": about(args.path), "arguments": str(args), "rounds": rounds}
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "host_model.json").write_text(json.dumps(report, indent=1))
    rows = []
    for points in zip(*rounds, strict=True):
        first = points[0]
        ratio = spread([point["told_s"] / point["made_s"] for point in points])
        rows.append(
            [
                f"{first['depth']}",
                "given" if first["given"] else "not given",
                f"{spread([point['reads_per_s'] for point in points])[0]:,.0f}",
                f"{first['reads']:,}",
                f"{spread([point['told_s'] for point in points])[0]:.3f}",
                f"{spread([point['made_s'] for point in points])[0]:.3f}",
                f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})",
            ]
        )
    head = ["depth", "to the model", "reads/s", "reads", "foretold s", "made s", "ratio"]
    print("\n".join(table(head, rows)))


if __name__ == "__main__":
    main()
