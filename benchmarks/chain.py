"""From this host to sampling in the dies, on one store with memory for all of it, a quarter, a
twelfth: what `ng.sim.what_would_it_buy` says, with this host measured and modelled in each round.

    python -m benchmarks.graphs planted_4m
    python -m benchmarks.chain

Needs a machine that does nothing else: the loader runs at full speed. Medians (least-most) of
--runs rounds; each has five seeds.
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

STAGES = ["this host", "uncached reader", "CC-uring", "CC-pipe", "BG-DG", "BG-SP", "BG-2"]


def one_round(path: Path, memory: str, args: argparse.Namespace) -> dict[str, Any]:
    """An answer as plain data."""
    with ng.open(path, memory=memory) as store:
        answer = ng.sim.what_would_it_buy(
            store,
            path,
            fanouts=(15, 10),
            batch_size=args.batch_size,
            batches=2,
            input_nodes="train",
            seconds=args.seconds,
            warm_seconds=args.warm_seconds,
        )
    return answer.plain()


def step(of: dict[str, Any], name: str) -> dict[str, Any]:
    """A step of an answer."""
    return next(step for step in of["steps"] if step["name"] == name)


def cell(values: list[float], form: str) -> str:
    """The median, and the range."""
    middle, least, most = spread(values)
    return f"{middle:{form}} ({least:{form}}-{most:{form}})"


def hosts(found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """A row for each memory: this host as measured and as modelled."""
    rows = []
    for memory, rounds in found.items():
        here = [step(one, "this host") for one in rounds]
        measured = [one["targets_per_s"] for one in here]
        modelled = [one["modelled_targets_per_s"] for one in rounds]
        ratios = [one / other for one, other in zip(modelled, measured, strict=True)]
        rows.append(
            [
                memory,
                ", ".join(dict.fromkeys(one["reading"] for one in rounds)),
                ", ".join(dict.fromkeys(str(one["is_steady"]) for one in rounds)),
                cell(measured, ",.0f"),
                cell(modelled, ",.0f"),
                cell(ratios, ".2f"),
                ", ".join(dict.fromkeys(one["bound_by"] for one in here)),
            ]
        )
    return rows


def chains(found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """A row for each memory: times this host, with TLC behind the stroke."""

    def gains(rounds: list[dict[str, Any]], name: str) -> str:
        fast, slow = [], []
        for one in rounds:
            found, here = step(one, name), step(one, "this host")["targets_per_s"]
            fast.append(found["targets_per_s"] / here)
            slow.append((found["tlc_targets_per_s"] or found["targets_per_s"]) / here)
        return f"{cell(fast, '.2f')} / {cell(slow, '.2f')}"

    return [
        [
            memory,
            *(gains(rounds, name) for name in STAGES[1:]),
            ", ".join(dict.fromkeys(one["recommended"] for one in rounds)),
            ", ".join(dict.fromkeys(one["recommended_tlc"] for one in rounds)),
            rounds[0]["answer"][0],
        ]
        for memory, rounds in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, default=GRAPHS / "planted_4m.ng")
    parser.add_argument("--memory", nargs="+", default=["6GB", "1.1GB", "376MB"])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--warm-seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    found = {
        memory: [one_round(args.store, memory, args) for _ in range(args.runs)]
        for memory in args.memory
    }
    report = {"about": about(args.store), "arguments": str(args), "rounds": found}
    BENCH.mkdir(parents=True, exist_ok=True)
    (BENCH / "chain.json").write_text(json.dumps(report, indent=1))
    head = ["memory", "reading", "steady", "measured targets/s", "modelled", "modelled / measured"]
    print("\n".join(table([*head, "bound by"], hosts(found))), "\n")
    head = ["memory", *(f"{name} / TLC" for name in STAGES[1:]), "recommended", "with TLC"]
    print("\n".join(table([*head, "verdict"], chains(found))))


if __name__ == "__main__":
    main()
