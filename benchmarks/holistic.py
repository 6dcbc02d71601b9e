"""The accelerators of HolisticGNN's prototypes and words of other sizes, simulated.

    python -m benchmarks.holistic > figures.md
    python -m benchmarks.holistic --hidden 16 --platform BG-1

Inference in mode `detailed`, one data set a row; cells are the median (least-most) of seeds 0 to 4.
The publication does not give the width between layers, on which the order of `octa` and `lsap`
hangs: products grow with it, sums of features do not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from itertools import product
from typing import Any

from neargraph import sim
from neargraph.sim.config import Config
from neargraph.sim.runs import in_parallel

from .training_tables import table

SEEDS = range(5)
SETS = list(sim.DATASETS)
LAYERS = ["gcn", "gin", "ngcf"]
ACCELERATORS = ["octa", "lsap", "hetero"]
WORD_BITS = [8, 16, 32]
# Platforms whose accelerator is inside the SSD.
INSIDE = ["BG-1", "BG-2"]

Row = dict[str, Any]
# A set, a layer, an accelerator and a seed.
Point = tuple[str, str, str, int]
Found = dict[Point, Row]


def run(device: Config, platform: str, how: dict[str, Any]) -> Row:
    """The columns of one run."""
    runs = sim.simulate(platforms=[platform], mode="detailed", device=device, backward=False, **how)
    return runs.rows[0]


def accelerators(args: argparse.Namespace) -> Found:
    """All sets, layers, accelerators and seeds."""
    points = list(product(SETS, LAYERS, ACCELERATORS, SEEDS))

    def one(point: Point) -> Row:
        name, layer, accelerator, seed = point
        how = {"dataset": name, "layer": layer, "seed": seed, **shape(args)}
        return run(sim.preset(accelerator), args.platform, how)

    return dict(zip(points, in_parallel(one, points), strict=True))


def shape(args: argparse.Namespace) -> dict[str, Any]:
    """What all runs have in common."""
    fanouts = [int(fanout) for fanout in args.fanouts.split(",")]
    return {"hidden": args.hidden, "fanouts": fanouts, "batch_size": args.batch_size}


def spread(values: list[float], form: str) -> str:
    """Median (least-most); the median alone where all are alike."""
    ends = (statistics.median(values), min(values), max(values))
    middle, least, most = (form.format(value) for value in ends)
    return middle if least == most else f"{middle} ({least}-{most})"


def cells(
    found: Found, name: str, layer: str, value: Callable[[Row], float], form: str
) -> list[str]:
    """One cell an accelerator."""
    return [
        spread([value(found[name, layer, accelerator, seed]) for seed in SEEDS], form)
        for accelerator in ACCELERATORS
    ]


def over_hetero(found: Found, name: str, layer: str, accelerator: str) -> str:
    """An accelerator's time over that of `hetero`, of the same batch."""
    ratios = []
    for seed in SEEDS:
        one, hetero = (found[name, layer, a, seed]["compute_s"] for a in (accelerator, "hetero"))
        ratios.append(one / hetero)
    return spread(ratios, "{:.2f}")


def times(found: Found) -> None:
    """The accelerator's time of a batch, and times `hetero`."""
    ratios = [name for name in ACCELERATORS if name != "hetero"]
    heads = [f"{name}, us" for name in ACCELERATORS] + [f"{name} / hetero" for name in ratios]
    for layer in LAYERS:
        rows = []
        for name in SETS:
            shown = cells(found, name, layer, lambda row: row["compute_s"] * 1e6, "{:,.0f}")
            rows.append([name, *shown, *(over_hetero(found, name, layer, one) for one in ratios)])
        print("\n".join(table([f"{layer}: accelerator", *heads], rows)), "\n")


def by_accelerator(found: Found, title: str, value: Callable[[Row], float], form: str) -> None:
    """One table a layer, one column an accelerator."""
    for layer in LAYERS:
        rows = [[name, *cells(found, name, layer, value, form)] for name in SETS]
        print("\n".join(table([f"{layer}: {title}", *ACCELERATORS], rows)), "\n")


def words(args: argparse.Namespace) -> None:
    """GCN on BG-1 with GLIST's flash, rows and arithmetic of 8, 16 and 32 bits. Its accelerator is
    inside the SSD, as GLIST's is."""
    points = list(product(SETS, WORD_BITS, SEEDS))

    def one(point: tuple[str, int, int]) -> Row:
        name, bits, seed = point
        sizes: dict[str, Any] = {"accelerator.word_bits": bits}
        how = {"dataset": name, "layer": "gcn", "seed": seed, "word_bits": bits, **shape(args)}
        return run(sim.preset("glist", **sizes), "BG-1", how)

    found = dict(zip(points, in_parallel(one, points), strict=True))
    columns: list[tuple[str, Callable[[Row], float], str]] = [
        ("us a batch", lambda row: row["interval_s"] * 1e6, "{:,.0f}"),
        ("compute, us", lambda row: row["compute_s"] * 1e6, "{:,.1f}"),
        ("targets/J", lambda row: row["targets_per_joule"], "{:,.0f}"),
    ]
    for title, value, form in columns:
        rows = []
        for name in SETS:
            each = [[value(found[name, bits, seed]) for seed in SEEDS] for bits in WORD_BITS]
            rows.append([name, *(spread(values, form) for values in each)])
        heads = [f"{bits} bits" for bits in WORD_BITS]
        print("\n".join(table([f"gcn: {title}", *heads], rows)), "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--platform", choices=INSIDE, default="BG-2")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--fanouts", default="3,3,3")
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    print(
        f"Inference, mode detailed, hidden {args.hidden}, fanouts {args.fanouts}, batches of "
        f"{args.batch_size}; the accelerator is inside the SSD of {args.platform}, for words "
        "of BG-1. Median (least-most) of seeds 0 to 4.\n"
    )
    found = accelerators(args)
    times(found)
    by_accelerator(found, "share of products, %", lambda row: 100 * row["gemm_share"], "{:.1f}")
    by_accelerator(found, "targets/s", lambda row: row["targets_per_s"], "{:,.0f}")
    words(args)


if __name__ == "__main__":
    main()
