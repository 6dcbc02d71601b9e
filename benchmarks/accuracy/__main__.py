"""Accuracy from disk beside PyG in memory, on the same splits, settings and seeds.

    NEARGRAPH_DATA=... python -m benchmarks.accuracy                    # all rows, a few hours
    NEARGRAPH_DATA=... python -m benchmarks.accuracy --rows cora mutag --seeds 2
    python -m benchmarks.accuracy --table                               # what is there, no runs
    python -m benchmarks.accuracy --page                                # the same, into the page

Each seed of each row and side is a process of its own. After each of them its result goes to
`.bench/accuracy/results.jsonl`, and what is there is not run again, so a run that was stopped goes
on. A failure is a result as well; it is tried again by the next call. Ends with 1 unless every row
agrees.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from ..places import ROOT
from ..venvs import python_of
from .ledger import Ledger, Run, estimate, runs_of
from .rows import ROWS, chosen
from .sets import HOME, prepared
from .tables import compared, fill, markdown

PAGE = ROOT / "docs/benchmarks/accuracy.md"
_LIMIT_SECONDS = 3 * 3600


def main() -> int:
    """The command."""
    args = _parse()
    rows = chosen(args.rows)
    ledger = Ledger(HOME / "results.jsonl")
    if ledger.damaged:
        print(f"{ledger.path}: {ledger.damaged} damaged lines are left out", file=sys.stderr)
    if not (args.table or args.page):
        _run_all(ledger, ledger.missing(runs_of(rows, args.seeds)), args.threads)
    found = [compared(ledger, row) for row in rows]
    table = markdown(found)
    print(table)
    if args.page:
        fill(PAGE, table)
    good = sum(one.verdict == "equal" for one in found)
    print(f"{good} of {len(found)} rows are equal to PyG within one deviation")
    return 0 if good == len(found) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(row.name for row in ROWS)
    parser.add_argument("--rows", nargs="*", default=[], help=f"rows, or how they begin: {names}")
    parser.add_argument("--seeds", type=_count, help="seeds at most; default: those of each row")
    parser.add_argument("--threads", type=_count, default=2, help="threads of torch in a run")
    parser.add_argument("--table", action="store_true", help="print the results that are there")
    parser.add_argument("--page", action="store_true", help=f"put all results into {PAGE.name}")
    args = parser.parse_args()
    if args.page and args.rows:
        parser.error("--page has all rows; leave --rows out")
    return args


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count from 1 on")
    return int(text)


def _run_all(ledger: Ledger, missing: list[Run], threads: int) -> None:
    total = len(missing)
    for place, run in enumerate(missing):
        left = estimate(ledger, missing[place:])
        what = f"{run.row.name}, seed {run.seed}, {run.side}"
        print(f"[{place + 1}/{total}] about {left / 60:.0f} min left: {what}", flush=True)
        result = _result(run, threads)
        ledger.add(run, result)
        shown = result.get("failed") or f"{run.row.metric} {result['value']:.4f}"
        print(f"    {shown}", flush=True)


def _result(run: Run, threads: int) -> dict[str, object]:
    """What the process of a run gave; a failure of any kind under ``failed``."""
    try:
        prepared(run.row.graph)
    except Exception as error:
        return {"failed": f"{run.row.graph} cannot be made: {type(error).__name__}: {error}"}
    needs_sampler = run.side == "pyg" and run.row.in_memory == "sampled"
    python = str(python_of("pyg")) if needs_sampler else sys.executable
    command = [python, "-W", "ignore", "-m", "benchmarks.accuracy.worker"]
    command += [run.row.name, str(run.seed), run.side]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {_LIMIT_SECONDS} s"}
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no message"]
        # The page shows it, and has no paths of one machine.
        what = last[0].replace(f"{HOME}/", "")[:300]
        return {"failed": f"exit {ended.returncode}: {what}"}
    try:
        found: dict[str, object] = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"failed": "exit 0 without a result on its last line"}
    return found | {"threads": threads}


if __name__ == "__main__":
    sys.exit(main())
