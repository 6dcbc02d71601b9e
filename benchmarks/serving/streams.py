"""Streams of requests as files: arrival times that are fixed beforehand, and node ids.

    python -m benchmarks.serving.streams uniform --store G.ng --rate 500 --out uniform.csv
    python -m benchmarks.serving.streams zipf --store G.ng --size 64 --out zipf.csv
    python -m benchmarks.serving.streams repeats --store G.ng --locality 0.6 --out repeats.csv
    python -m benchmarks.serving.streams neighbours --store G.ng --locality 0.6 --out near.csv

A file is text. Its first line is `#` and a JSON object that says how it was made, with all seeds.
Each line after it is one request, of decimal numbers separated by commas: `arrival_us`, the
microseconds since the start of the load, which never descend; `count`; and `count` node ids.
Arrivals are a Poisson process.

`repeats` and `neighbours` have locality as GLIST's equation 7 (section 5.2) defines it: the nodes
that the sampled subgraphs of two adjacent requests have in common, over the nodes of the later one.
In `repeats` a request asks with probability p for the target before it. In `neighbours` all targets
differ: with probability p the next one is another node of low degree at the same hub, so that both
subgraphs hold the hub and what is drawn from it. As the paper does, the requests are then shuffled,
all together or in windows. What was reached is measured on subgraphs of the store, before and after
the shuffle, and stands in the first line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..latency import uniform, zipf

FANOUTS = [25, 10]
MEASURED_PAIRS = 200
# The more edges a node has, the less its neighbourhood shares with that of the others at its hub.
LEAST_LEAF_DEGREE = 2
Ids = Any
Draws = np.random.Generator


@dataclass
class Stream:
    """Requests in the order of their arrival."""

    arrivals_us: Ids
    requests: list[Ids]
    about: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write(f"#{json.dumps(self.about)}\n")
            for arrival, ids in zip(self.arrivals_us, self.requests, strict=True):
                file.write(",".join(map(str, [int(arrival), len(ids), *ids])) + "\n")


def poisson(rate: float, count: int, seed: int) -> Ids:
    """Arrival times in microseconds of `count` requests at `rate` a second on average."""
    gaps = np.random.default_rng([seed, 1]).exponential(1e6 / rate, count)
    return np.cumsum(gaps).astype(np.int64)


def repeats(nodes: int, locality: float, count: int, draws: Draws) -> Ids:
    """Targets of which each is, with probability `locality`, the one before it once more.

    Those that are not differ from all before them, as long as there are nodes.
    """
    first = np.flatnonzero(draws.random(count) >= locality)
    first = np.union1d(first, [0])
    fresh = np.resize(draws.permutation(nodes), len(first))
    return np.repeat(fresh, np.diff(np.append(first, count)))


class Leaves:
    """Nodes of the lowest degrees, twice as many as `wanted`, and the others at the same hub."""

    def __init__(self, store: Any, wanted: int) -> None:
        self._snapshot = store.snapshot()
        self._type = store.schema.edge_type(None).triple
        step = 1 << 20
        parts = [
            self._snapshot.degrees(self._type, np.arange(first, min(first + step, store.num_nodes)))
            for first in range(0, store.num_nodes, step)
        ]
        self._degrees = np.concatenate(parts)
        some = np.sort(self._degrees[self._degrees > 0])
        if len(some) < 2 * wanted:
            raise SystemExit(
                f"the store has {len(some)} nodes with edges: too few for {wanted} requests"
            )
        self.degree = max(LEAST_LEAF_DEGREE, int(some[2 * wanted - 1]))
        self.all = np.flatnonzero((self._degrees > 0) & (self._degrees <= self.degree))

    def beside(self, leaf: int) -> list[int]:
        """Other leaves at the largest neighbour of a leaf, those of the least degree first."""
        near = self._neighbours(leaf)
        hub = near[np.argmax(self._degrees[near])]
        others = self._neighbours(int(hub))
        others = others[(self._degrees[others] <= self.degree) & (others != leaf)]
        found: list[int] = others[np.argsort(self._degrees[others], kind="stable")].tolist()
        return found

    def _neighbours(self, node: int) -> Ids:
        return np.asarray(self._snapshot.neighbors(self._type, np.array([node]))[1])


def neighbours(leaves: Leaves, locality: float, count: int, draws: Draws) -> Ids:
    """Distinct targets of which each is, with probability `locality`, at the hub of the last."""
    used: set[int] = set()
    targets: list[int] = []
    queue: list[int] = []
    for start in draws.permutation(leaves.all).tolist():
        if start in used:
            continue
        used.add(start)
        targets.append(start)
        queue = [] if locality == 0.0 else leaves.beside(start)
        while queue and len(targets) < count and draws.random() < locality:
            near = queue.pop(0)
            if near not in used:
                used.add(near)
                targets.append(near)
        if len(targets) >= count:
            return np.array(targets[:count], dtype=np.int64)
    raise SystemExit(f"{count} distinct targets were not found, only {len(targets)}")


def equation_7(store: Any, targets: Sequence[Ids], seed: int, pairs: int) -> float | None:
    """The mean share of a request's sampled nodes that the request before it has, too.

    Draws depend on the node and the hop alone, so a node that is asked for again has the same
    subgraph. The pairs are those at the start.
    """
    import neargraph as ng

    sampler = ng.NumpySampler(store, FANOUTS, seed=seed, attrs=[])
    last, shares = None, []
    for ids in targets[: pairs + 1]:
        nodes = np.unique(np.asarray(sampler.sample(np.unique(ids), stream=0).nodes()))
        if last is not None:
            shares.append(len(np.intersect1d(last, nodes, assume_unique=True)) / len(nodes))
        last = nodes
    return float(np.mean(shares)) if shares else None


def shuffled(requests: Ids, window: int | None, draws: Draws) -> Ids:
    """Requests in another order: all of them, or those of each `window` among themselves."""
    width = len(requests) if window is None else max(window, 1)
    parts = [draws.permutation(requests[at : at + width]) for at in range(0, len(requests), width)]
    return np.concatenate(parts)


def local(
    store: Any,
    kind: str,
    locality: float,
    counts: Sequence[int],
    seed: int,
    window: int | None = None,
) -> tuple[list[Ids], dict[str, Any]]:
    """(targets of parts, what was reached in the last one) with locality by one of the definitions.

    Parts follow one another and are shuffled each for itself, so that no part repeats targets of
    another one.
    """
    draws = np.random.default_rng([seed, 2])
    about: dict[str, Any] = {"locality_asked": locality}
    if kind == "repeats":
        targets = repeats(store.num_nodes, locality, sum(counts), draws)
    else:
        leaves = Leaves(store, sum(counts))
        targets = neighbours(leaves, locality, sum(counts), draws)
        about["leaf_degree"] = leaves.degree
    parts = np.split(targets, np.cumsum(counts)[:-1])
    mixed = [shuffled(part, window, draws) for part in parts]
    about |= {
        "equation_7": equation_7(store, parts[-1][:, None], seed, MEASURED_PAIRS),
        "equation_7_shuffled": equation_7(store, mixed[-1][:, None], seed, MEASURED_PAIRS),
        "distinct_targets": len(np.unique(mixed[-1])) / counts[-1],
        "shuffle_window": window or counts[-1],
    }
    return mixed, about


KINDS: dict[str, Callable[..., list[list[int]]]] = {"uniform": uniform, "zipf": zipf}


def make(args: argparse.Namespace) -> Stream:
    """The stream that was asked for."""
    import neargraph as ng

    about = {
        "kind": args.kind,
        "store": args.store.name,
        "requests": args.count,
        "nodes_per_request": args.size,
        "rate": args.rate,
        "seed": args.seed,
        "arrival_seed": args.seed,
    }
    with ng.open(args.store, memory=args.memory) as store:
        if args.kind in KINDS:
            draws = np.random.default_rng([args.seed, 2])
            made = KINDS[args.kind](store.num_nodes, args.count, args.size, draws)
            requests = [np.array(ids, dtype=np.int64) for ids in made]
        else:
            if args.size != 1:
                raise SystemExit("equation 7 is about requests of one node: leave --size out")
            window = args.window
            (targets,), reached = local(
                store, args.kind, args.locality, [args.count], args.seed, window
            )
            requests = list(targets[:, None])
            about |= reached
    return Stream(poisson(args.rate, args.count, args.seed), requests, about)


def main() -> int:
    """Writes a file and prints how it was made."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=[*KINDS, "repeats", "neighbours"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10_000, help="requests")
    parser.add_argument("--size", type=int, default=1, help="nodes a request")
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second")
    parser.add_argument("--locality", type=float, default=0.0, help="0 to 1, of equation 7")
    parser.add_argument("--window", type=int, help="requests that are shuffled together, else all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="512MB", help="of the store, for equation 7")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    stream = make(args)
    stream.save(args.out)
    print(json.dumps(stream.about))
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
