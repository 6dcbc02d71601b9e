"""Bundles of devices on GCN, GIN and NGCF: HolisticGNN's Figures 16 and 17 with this engine.

Each model has two layers and is exported; a batch of each graph is sampled. Every round runs the
served graph on all bundles in turn, swapped by `Devices.program`, so a column is comparable with
its neighbours. Beside the measured time stands what the simulator says of the same batch on the
accelerator that a bundle stands for: products and sums alone, with all rows there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import neargraph as ng
from neargraph.importers import import_graph
from neargraph.plugins import Devices, Served, Step

from .places import BENCH, data_folder

FOLDER = BENCH / "bundles"
BUNDLES = ["lsap", "octa", "hetero"]
LAYERS = ["gcn", "gin", "ngcf"]
# The publication's graphs that are among the data, in its order.
SETS = {
    "chameleon": ("musae", "chameleon_edges.csv.gz"),
    "citeseer": ("npz_graphs", "citeseer.npz"),
    "coraml": ("npz_graphs", "cora_ml.npz"),
    "cs": ("npz_graphs", "ms_academic_cs.npz"),
    "physics": ("npz_graphs", "ms_academic_phy.npz"),
}
FANOUTS, HIDDEN, OUTPUTS = [10, 5], 128, 16
PRODUCTS = {"GEMM", "Linear", "MatMul", "SegmentMatmul"}

# Section 5.2 of the publication: times over that of the other, on average over all its graphs.
PUBLISHED = {
    "all": {("octa", "lsap"): 1 / 2.17, ("hetero", "lsap"): 1 / 14.2, ("octa", "hetero"): 6.52},
    "ngcf": {("octa", "lsap"): 1 / 4.35},
}
# Of products in the time of Octa-HGNN, on average.
PUBLISHED_SHARE = 0.348
REASONS = """\
Why the measured order differs from the published one. The publication's bundles are three circuits
in one FPGA at 730 MHz: eight RISC-V cores, large systolic arrays beside one slow core, and 64
elements beside four vector units. Here all three are programs on one processor:
- The array of lsap and hetero is this processor's own product of matrices with AVX-512 or AVX2.
  octa's products are the loops of the reference device on all threads: one multiplication at a
  time, down the columns of the weights, which the caches do not like. A tuned library would be
  several times faster than they are. These models take rows of 2,000 to 8,000 columns, so products
  are most of octa's time.
- In the publication one slow core feeds lsap's array and does all sums. Here lsap does them on the
  reference device, with one thread of a fast processor.
- So lsap beats octa here. The published order needs sums that cost more than octa's products; the
  share of products on lsap and octa (Figure 17) says how far that is.
- hetero is lsap with vector units for sums and element-wise work, as published.
The simulator counts the arithmetic of whole layers: no softmax, activation, degree or
normalisation, and no movement of rows. Lsap's array of 16 x 16 and its vector unit of one lane are
assumptions; the publication says only that they are larger, and that the shell has one core. The
simulator's whole device, with reading and sampling, runs GCN and GIN whose rows fit into a page;
rows of these graphs do not, and NGCF has no run there."""
Result = dict[str, Any]


def main() -> int:
    given = _arguments()
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = []
    for name in given.sets:
        batch = _batch(name, given.seeds)
        for layer in given.models:
            result = _measure(layer, batch, given.rounds, given.threads)
            results.append({"set": name, "model": layer} | result)
            print(f"{name}, {layer}: done", file=sys.stderr)
    _print(results, given)
    path = FOLDER / "results.json"
    path.write_text(json.dumps(results, indent=1))
    print(f"\nwritten: {path}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="*", default=LAYERS, choices=LAYERS, metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=7, help="Runs of each bundle. Default: 7.")
    parser.add_argument("--seeds", type=int, default=64, help="Targets of a batch. Default: 64.")
    cores = min(8, os.cpu_count() or 1)
    parser.add_argument("--threads", type=int, default=cores, help="Default: one a core, up to 8.")
    return parser.parse_args()


@dataclass
class Batch:
    """Rows and edges of a batch, and how many nodes each hop has."""

    x: np.ndarray[Any, Any]
    edge_index: np.ndarray[Any, Any]
    visits: list[int]


def _batch(name: str, seeds: int) -> Batch:
    folder, file = SETS[name]
    path = FOLDER / f"{name}.ng"
    if not path.exists():
        import_graph(data_folder(folder) / file, path, memory="1GB")
    with ng.open(path, memory="2GB") as store:
        nodes = np.arange(seeds) * (store.num_nodes // seeds)
        sampler = ng.NumpySampler(store, FANOUTS, seed=5, attrs=["x"])
        batch = next(iter(sampler.batches(nodes, seeds)))
        x = np.array(batch.features("x"), np.float32)
        return Batch(x, np.array(batch.edge_index()), batch.num_sampled_nodes())


def _model(layer: str, columns: int) -> Any:
    """A model of two layers with a last product, as the simulator counts them."""
    import torch
    from torch import nn
    from torch_geometric import nn as gnn

    from .ngcf import Ngcf

    def perceptron(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN))

    def of(width: int) -> nn.Module:
        if layer == "gcn":
            return gnn.GCNConv(width, HIDDEN)
        return gnn.GINConv(perceptron(width)) if layer == "gin" else Ngcf(width, HIDDEN)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = of(columns), of(HIDDEN)
            self.last = nn.Linear(HIDDEN, OUTPUTS)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            x = self.one(x, edge_index).relu()
            return self.last(self.two(x, edge_index).relu())

    torch.manual_seed(7)
    return Model().eval()


def _exported(layer: str, columns: int) -> Path:
    path = FOLDER / f"{layer}_{columns}.ngm"
    if not path.exists():
        import torch

        x, edges = torch.randn(30, columns), torch.randint(0, 30, (2, 70))
        ng.export(_model(layer, columns), (x, edges), path)
    return path


def _measure(layer: str, batch: Batch, rounds: int, threads: int) -> Result:
    dfg = ng.Dfg.open(_exported(layer, batch.x.shape[1]))
    inputs = dict(zip(dfg.inputs, [batch.x, batch.edge_index], strict=True))
    devices = Devices("lsap")
    served = devices.serve(dfg)
    times: dict[str, list[float]] = {bundle: [] for bundle in BUNDLES}
    shares: dict[str, list[float]] = {bundle: [] for bundle in BUNDLES}
    outputs = {}
    for turn in range(rounds + 1):
        for bundle in BUNDLES:
            devices.program(bundle)
            found, steps = _run(served, inputs, threads)
            outputs[bundle] = found
            total = sum(step.seconds for step in steps)
            # The first turn brings memory and code in.
            if turn > 0:
                times[bundle].append(total)
                products = sum(step.seconds for step in steps if step.op in PRODUCTS)
                shares[bundle].append(products / total)
    _check(outputs)
    return {
        "nodes": len(batch.x),
        "edges": int(batch.edge_index.shape[1]),
        "columns": int(batch.x.shape[1]),
        "times": times,
        "shares": shares,
        "simulated": {bundle: _simulated(devices, bundle, layer, batch) for bundle in BUNDLES},
    }


def _run(served: Served, inputs: Result, threads: int) -> tuple[np.ndarray[Any, Any], list[Step]]:
    found, steps = served.profile(inputs, threads)
    (values,) = found.values()
    return values, steps


def _check(outputs: dict[str, np.ndarray[Any, Any]]) -> None:
    wanted = outputs[BUNDLES[0]]
    bound = 1e-4 * max(1.0, float(np.abs(wanted).max()))
    for bundle, found in outputs.items():
        if not np.abs(found - wanted).max() <= bound:
            raise SystemExit(f"{bundle} gives other values than {BUNDLES[0]}")


def _simulated(devices: Devices, bundle: str, layer: str, batch: Batch) -> tuple[float, float]:
    devices.program(bundle)
    columns = batch.x.shape[1]
    return devices.simulated(layer, columns, HIDDEN, OUTPUTS, batch.visits)


def _print(results: list[Result], given: argparse.Namespace) -> None:
    print(
        f"{given.threads} threads, {given.seeds} targets, fanouts {FANOUTS}, hidden {HIDDEN}, "
        f"{given.rounds} rounds, bundles interleaved. Ratios are to lsap.\n"
    )
    print("Figure 16: time, median (range) in ms; ratio to lsap, measured and simulated\n")
    columns = [f"{b} ms" for b in BUNDLES] + ["octa / lsap", "hetero / lsap"]
    columns += ["simulated octa / lsap", "simulated hetero / lsap"]
    _row(["model", "graph", "nodes, edges, columns", *columns])
    _row(["---"] * (3 + len(columns)))
    for one in results:
        size = f"{one['nodes']}, {one['edges']}, {one['columns']}"
        times = [_spread(one["times"][bundle], 1000) for bundle in BUNDLES]
        measured = [f"{_ratio(one['times'], b):.2f}" for b in BUNDLES[1:]]
        totals = {bundle: [sum(one["simulated"][bundle])] for bundle in BUNDLES}
        simulated = [f"{_ratio(totals, b):.2f}" for b in BUNDLES[1:]]
        _row([one["model"], one["set"], size, *times, *measured, *simulated])
    _print_means(results, given.models)
    print("\nFigure 17: share of products of matrices in the time, measured (simulated)\n")
    _row(["model", "graph", *BUNDLES])
    _row(["---"] * (2 + len(BUNDLES)))
    for one in results:
        _row([one["model"], one["set"], *(_share(one, bundle) for bundle in BUNDLES)])
    print(
        f"\nPublished: {PUBLISHED_SHARE:.1%} of octa's time, on average; on lsap, aggregation and "
        f"other vector work dominate.\n\n{REASONS}"
    )


def _print_means(results: list[Result], models: list[str]) -> None:
    """Geometric means over the graphs, beside those of the publication."""
    print("\nMeans over the graphs, measured, simulated, published\n")
    _row(["model", "octa / lsap", "hetero / lsap", "octa / hetero"])
    _row(["---"] * 4)
    for model in [*models, "all"]:
        of = [one for one in results if model in (one["model"], "all")]
        measured = {b: _mean([_ratio(one["times"], b) for one in of]) for b in BUNDLES}
        totals = [{b: [sum(one["simulated"][b])] for b in BUNDLES} for one in of]
        simulated = {b: _mean([_ratio(total, b) for total in totals]) for b in BUNDLES}
        known = PUBLISHED.get(model, {})
        cells = []
        for over, under in [("octa", "lsap"), ("hetero", "lsap"), ("octa", "hetero")]:
            published = known.get((over, under))
            found = [one[over] / one[under] for one in (measured, simulated)]
            text = "not given" if published is None else f"{published:.2f}"
            cells.append(f"{found[0]:.2f}, {found[1]:.2f}, {text}")
        _row([model, *cells])


def _mean(values: list[float]) -> float:
    return statistics.geometric_mean(values)


def _share(one: Result, bundle: str) -> str:
    products, sums = one["simulated"][bundle]
    measured = statistics.median(one["shares"][bundle])
    return f"{measured:.0%} ({products / (products + sums):.0%})"


def _row(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |")


def _ratio(times: dict[str, list[float]], bundle: str) -> float:
    return statistics.median(times[bundle]) / statistics.median(times[BUNDLES[0]])


def _spread(values: list[float], scale: float) -> str:
    low, high = min(values) * scale, max(values) * scale
    return f"{statistics.median(values) * scale:.2f} ({low:.2f} - {high:.2f})"


if __name__ == "__main__":
    sys.exit(main())
