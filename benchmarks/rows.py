"""Whether every row of every batch is the right one, at full size and over whole stretches.

    python -m benchmarks.rows --store .bench/graphs/planted_4m.ng --memory 1740MB
    python -m benchmarks.rows --store .bench/graphs/planted_4m.ng --memory 1GB --option two_phase=0
    python -m benchmarks.rows --store .bench/graphs/planted_4m.ng --option method=labor

All rows of the store are read once from front to back, through a handle of their own, and held in
memory as f32; each batch of the loader is compared with them. The command fails if a row differs.
`check_rows=True` of the loaders does the same for stores of any size, reading each row once more.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng

ROWS_TOGETHER = 1 << 16


def all_rows(path: Path) -> np.ndarray[Any, Any]:
    """Every row of `x`, [nodes, columns], as f32."""
    with ng.open(path, memory="256MB") as store:
        snapshot = store.snapshot()
        count = store.num_nodes
        parts = range(0, count, ROWS_TOGETHER)
        first = snapshot.features(None, np.arange(1))
        rows = np.empty((count, first.shape[1]), np.float32)
        for at in parts:
            ids = np.arange(at, min(count, at + ROWS_TOGETHER))
            rows[at : at + len(ids)] = snapshot.features(None, ids)
    return rows


def value(text: str) -> Any:
    """A number where it is one."""
    return int(text) if text.isdigit() else text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--memory", default="1740MB")
    parser.add_argument("--batches", type=int, default=1100, help="compared at least")
    parser.add_argument("--fanouts", default="15,10")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--option", action="append", default=[], help="of the loader, NAME=VALUE")
    args = parser.parse_args()
    options = {name: value(text) for name, _, text in (o.partition("=") for o in args.option)}
    if "two_phase" in options:
        options["two_phase"] = bool(options["two_phase"])
    start = time.perf_counter()
    expected = all_rows(args.store)
    print(f"{len(expected):,} rows read in {time.perf_counter() - start:.0f} s", flush=True)
    with ng.open(args.store, memory=args.memory) as store:
        fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
        how = {"batch_size": args.batch_size, "shuffle": True, "seed": args.seed, **options}
        loader = ng.NeighborLoader(store, fanouts, "train", **how)
        batches = rows = wrong = epoch = 0
        while batches < args.batches:
            loader.set_epoch(epoch)
            for batch in loader:
                found, ids = batch.x.numpy(), batch.n_id.numpy()
                differ = np.flatnonzero((found != expected[ids]).any(axis=1))
                if len(differ):
                    print(f"batch {batches}: {len(differ)} of {len(ids)} rows, {ids[differ[:5]]}")
                batches, rows, wrong = batches + 1, rows + len(ids), wrong + len(differ)
            epoch += 1
        print(f"seed {args.seed}: {batches} batches, {rows:,} rows, {wrong} differ")
        print(loader.chosen())
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
