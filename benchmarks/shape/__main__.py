"""A graph of papers100M's shape on this machine: made, checked, trained on and changed.

    python -m benchmarks.shape papers100m                     # 111 M nodes, 1.6 B edges: 38 GB
    python -m benchmarks.shape papers100m --scale 0.5         # half of it, in half of the memory
    python -m benchmarks.shape papers100m --scale 0.01 --steps import,epoch
    python -m benchmarks.shape papers100m --plan              # what it takes, and nothing else

The graph goes from a generator straight into the import (`crates/ng-import/examples/citations.rs`,
which this command builds). What the disk has to hold at most is printed and checked first; the
rows are written when the runs of the sort are gone. Steps: `import`; `verify`; `epoch`, over all
training seeds from cold; `accuracy`, of a GraphSAGE after some hundred batches, its first losses
beside those of a run with three times the memory, to the last bit; `naive`, the same store read row
by row; `update`, one batch of 10,000 operations and `verify` once more; `compiled`, where the disk
has room. Each step is a process of its own; its peak of memory and of disk is measured. Writes
`.bench/shape.json`; `--result NAME` also writes `results/NAME.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from neargraph.units import parse_bytes

from .. import machine
from ..places import BENCH, ROOT
from . import table
from .plan import SHAPES, Plan, lack_of_room
from .steps import Spec
from .watch import Watch, folder_bytes

ALL = ["import", "verify", "epoch", "accuracy", "naive", "update", "compiled"]
EXAMPLE = ROOT / "target" / "release" / "examples" / "citations"
# Losses are compared with those of a store with so many times the memory.
MORE_MEMORY = 3


class Run:
    """One run of some steps: its plan, its store, what was found so far."""

    def __init__(self, args: argparse.Namespace, plan: Plan) -> None:
        self.args, self.plan = args, plan
        self.folder: Path = args.out
        self.store = self.folder / f"{plan.shape.name}-{plan.scale:g}.ng"
        self.others = folder_bytes(self.folder) - folder_bytes(self.store)
        self.found: dict[str, Any] = {}
        # torch runs with as many threads wherever it runs, since sums of floats depend on that.
        self.environment = {**os.environ, "OMP_NUM_THREADS": "2"}

    def take(self, step: str) -> None:
        """One step, and what belongs to it."""
        if step == "import":
            self.found[step] = self._import()
        elif step == "accuracy":
            self.found[step] = self._step("accuracy")
            memory = MORE_MEMORY * self.plan.memory
            more = self._step("losses", memory=memory)
            compared = len(more["losses"])
            same = self.found[step]["losses"][:compared] == more["losses"]
            self.found[step] |= {"compared": compared, "same_losses": same}
        elif step == "update":
            self.found[step] = self._step("update")
            self.found["verify again"] = self._step("verify")
        else:
            self.found[step] = self._step(step)
        names = ["update", "verify again"] if step == "update" else [step]
        for name in names:
            print(table.line(name, self.found[name]), flush=True)

    def _import(self) -> dict[str, Any]:
        plan, args = self.plan, self.args
        numbers = {
            "nodes": plan.nodes,
            "edges": plan.drawn,
            "classes": plan.shape.classes,
            "width": plan.shape.width,
            "memory": plan.import_memory,
            "seed": args.seed,
        }
        options = [text for name, n in numbers.items() for text in (f"--{name}", str(n))]
        together = ["--together"] if args.together else []
        os.sync()
        return self._watched([str(EXAMPLE), str(self.store), *options, *together])

    def _step(self, step: str, **changes: Any) -> dict[str, Any]:
        args, plan = self.args, self.plan
        spec = Spec(step, str(self.store), plan.memory, plan.train, plan.shape.classes, args.seed)
        sizes = {"batches": args.batches, "train_batches": args.train_batches}
        sizes["compared"] = min(Spec.compared, args.train_batches)
        spec = replace(spec, batch_size=args.batch_size, **sizes, **changes)
        command = [sys.executable, "-m", "benchmarks.shape.steps", spec.text()]
        return {"memory": spec.memory, **self._watched(command)}

    def _watched(self, command: list[str]) -> dict[str, Any]:
        return Watch(self.folder, self.others).run(command, self.environment)


def arguments() -> argparse.Namespace:
    """What the user asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=list(SHAPES))
    parser.add_argument("--scale", type=float, default=1.0, help="share of its nodes and edges")
    parser.add_argument("--out", type=Path, default=BENCH / "shape", help="folder of the store")
    parser.add_argument("--steps", default=",".join(ALL), help="which, separated by commas")
    parser.add_argument("--plan", action="store_true", help="print what it takes, and stop")
    parser.add_argument("--memory", type=parse_bytes, default="512MB", help="of the import")
    parser.add_argument("--store-memory", type=parse_bytes, help="of stores; by the scale")
    parser.add_argument("--batch-size", type=int, default=Spec.batch_size)
    parser.add_argument("--batches", type=int, help="of the epoch; all unless given")
    parser.add_argument("--train-batches", type=int, default=400, help="of `accuracy`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="write rows beside the sort")
    parser.add_argument("--keep", action="store_true", help="leave the store there at the end")
    parser.add_argument("--result", help="name of the files in benchmarks/results")
    args = parser.parse_args()
    args.steps = args.steps.split(",")
    unknown = set(args.steps) - set(ALL)
    if unknown or not 0 < args.scale <= 1:
        parser.error(f"steps are {', '.join(ALL)}; the scale is more than 0 and at most 1")
    return args


def build() -> None:
    """The program that makes the graph."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "ng-import"]
    subprocess.run([*command, "--example", EXAMPLE.name], cwd=ROOT, check=True)


def main() -> None:
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(SHAPES[args.shape], args.scale, args.memory, args.store_memory)
    run = Run(args, plan)
    imports = "import" in args.steps
    if not imports and not run.store.exists() and not args.plan:
        raise SystemExit(f"{run.store} is missing; --steps import,... makes it")
    if imports and not args.plan:
        shutil.rmtree(run.store, ignore_errors=True)
    free = shutil.disk_usage(args.out).free
    there = 0 if imports else plan.store
    free += there
    peak = plan.peak(args.steps, Spec.operations)
    peak += plan.runs if args.together and imports else 0
    loads = {"epoch", "accuracy", "compiled"} & set(args.steps)
    temporary = plan.temporary(free, args.batch_size) if loads else 0
    print(plan.text(peak, temporary, free), flush=True)
    lack = lack_of_room(plan, peak, free, args.out)
    if lack:
        raise SystemExit(lack)
    if args.plan:
        return
    if imports:
        build()
    for step in args.steps:
        run.take(step)
        saved = table.record(plan, args.seed, peak + temporary, machine.about(args.out), run.found)
        (BENCH / "shape.json").write_text(json.dumps(saved, indent=1) + "\n")
        if args.result:
            table.write(ROOT / "benchmarks" / "results" / args.result, saved)
    print(table.text(saved))
    if imports and not args.keep:
        shutil.rmtree(run.store)


if __name__ == "__main__":
    main()
