"""Kernels of the engine's device `cpu` beside torch, in turn, at 1 and 2 threads.

    python -m benchmarks.kernels [--rounds 7] [--only product] [--json FILE]

Builds the example `kernel_times` of `ng-infer`, which waits for orders to run a kernel. Each round
times torch, then ours; a figure is the median and the range of the ratios of the rounds, ours over
the other's: below 1 is faster. Some lines compare two kernels of ours: `int8` brings rows to steps
of 8 bits and multiplies them, and `steps` only multiplies, on one thread. Before a side is timed
nothing runs for a while, since the threads of torch stay busy for some milliseconds after its last
operation, and then that side runs once. It ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .machine import about
from .places import BENCH, ROOT

# A measurement repeats the kernel for at least this long.
LEAST_S = 0.01
RUNS_MAX = 200
# How long threads of either side go on waiting for work on a processor, at most.
SILENCE_S = 0.02

Work = Callable[[], Any]


class Ours:
    """The example, which runs one kernel at a time."""

    def __init__(self) -> None:
        command = ["cargo", "build", "--release", "--locked", "-p", "ng-infer"]
        subprocess.run([*command, "--example", "kernel_times"], cwd=ROOT, check=True)
        program = ROOT / "target" / "release" / "examples" / "kernel_times"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True)

    def seconds(self, case: str, threads: int, runs: int) -> float:
        """Seconds of one run, of `runs`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{threads} {runs} {case}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"no answer to {case!r}")
        return float(answer)

    def close(self) -> None:
        """Ends it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def product(m: int, k: int, n: int) -> Work:
    """A product of matrices to memory that is there."""
    a, b, out = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
    return lambda: torch.mm(a, b, out=out)


def linear(m: int, k: int, n: int) -> Work:
    """Product, bias and ReLU."""
    a, b, bias = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
    out = torch.empty(m, n)
    return lambda: torch.addmm(bias, a, b, out=out).relu_()


def linear_sum(m: int, k: int, n: int) -> Work:
    """Product, bias, sum with other rows, and ReLU: the end of a layer of SAGE."""
    a, b, bias = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
    out, rows = torch.empty(m, n), torch.randn(m, n)
    return lambda: torch.addmm(bias, a, b, out=out).add_(rows).relu_()


def scatter_mean(size: int, fanout: int, width: int, results: int | None = None) -> Work:
    """What PyTorch Geometric does: messages gathered, then added by destination."""
    rows = max(size * fanout * 4 // 5, size)
    results = results or size
    x, sources = torch.randn(rows, width), torch.randint(0, rows, (size * fanout,))
    index = torch.arange(size).repeat_interleave(fanout).view(-1, 1).expand(-1, width)

    def run() -> Any:
        messages = x.index_select(0, sources)
        return torch.zeros(results, width).scatter_add_(0, index, messages).div_(fanout)

    return run


def scatter_to_all(size: int, fanout: int, width: int) -> Work:
    """The same with a result for every row, as a layer on a whole batch has."""
    return scatter_mean(size, fanout, width, max(size * fanout * 4 // 5, size))


def edge_softmax(size: int, fanout: int, heads: int) -> Work:
    """PyTorch Geometric's softmax over the edges of each destination."""
    logits = torch.randn(size * fanout, heads)
    nodes = torch.arange(size).repeat_interleave(fanout)
    index = nodes.view(-1, 1).expand(-1, heads)

    def run() -> Any:
        top = torch.zeros(size, heads).scatter_reduce_(0, index, logits, "amax", include_self=False)
        powers = (logits - top.index_select(0, nodes)).exp()
        sums = torch.zeros(size, heads).scatter_add_(0, index, powers) + 1e-16
        return powers / sums.index_select(0, nodes)

    return run


def elementwise(of: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[int, int], Work]:
    """A function of a matrix and of a row."""

    def make(rows: int, width: int) -> Work:
        x, row = torch.randn(rows, width), torch.randn(width)
        return lambda: of(x, row)

    return make


PRODUCTS = [(11_000, 256, 256), (1_500, 512, 256), (26, 256, 256), (1_024, 256, 47)]
LISTS = [(11_000, 10, 256), (1_600, 10, 256), (26, 10, 256)]

# The kernel, its sizes, what it is compared with (torch, or another kernel of ours), and the bar.
CASES: list[tuple[str, list[tuple[int, ...]], Callable[..., Work] | str, float | None]] = [
    ("product", list(PRODUCTS), product, 1.15),
    ("linear", list(PRODUCTS), linear, None),
    ("sum", list(PRODUCTS), linear_sum, None),
    ("int8", list(PRODUCTS), "product", 0.35),
    ("steps", list(PRODUCTS), "product", None),
    ("aggregate", list(LISTS), scatter_mean, 0.3),
    ("spmm", list(LISTS), scatter_to_all, None),
    ("fused", list(LISTS[:2]), "gathered", 0.6),
    ("fused8", list(LISTS[:2]), "gathered", None),
    ("attention", [(11_000, 10, 4)], edge_softmax, None),
    ("add", [(11_000, 256)], elementwise(torch.add), None),
    ("elu", [(11_000, 256)], elementwise(lambda x, _: torch.nn.functional.elu(x)), None),
    ("log_softmax", [(1_024, 47)], elementwise(lambda x, _: torch.log_softmax(x, -1)), None),
]


def silently(seconds: Callable[[int], float], runs: int) -> float:
    """Seconds of one run, of `runs`, while the other side does nothing."""
    time.sleep(SILENCE_S)
    seconds(1)
    return seconds(runs)


def seconds(work: Work, runs: int) -> float:
    """Seconds of one run, of `runs`."""
    start = time.perf_counter()
    for _ in range(runs):
        work()
    return (time.perf_counter() - start) / runs


def measure(
    ours: Ours,
    case: tuple[str, tuple[int, ...], Callable[..., Work] | str],
    threads: int,
    rounds: int,
) -> dict[str, Any]:
    """Times of both, round by round."""
    kind, sizes, other = case
    torch.set_num_threads(threads)
    words = " ".join(map(str, sizes))
    if isinstance(other, str):
        name = f"{other} {words}"

        def of_other(runs: int) -> float:
            return ours.seconds(name, threads, runs)
    else:
        work = other(*sizes)

        def of_other(runs: int) -> float:
            return seconds(work, runs)

    def of_ours(runs: int) -> float:
        return ours.seconds(f"{kind} {words}", threads, runs)

    of_other(2)
    of_ours(2)
    runs = max(1, min(RUNS_MAX, int(LEAST_S / max(of_ours(1), 1e-7)) + 1))
    pairs = [(silently(of_other, runs), silently(of_ours, runs)) for _ in range(rounds)]
    ratios = [own / theirs for theirs, own in pairs]
    return {
        "kernel": kind,
        "sizes": sizes,
        "threads": threads,
        "beside": other if isinstance(other, str) else "torch",
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "ours_s": statistics.median(own for _, own in pairs),
        "other_s": statistics.median(theirs for theirs, _ in pairs),
    }


def row(found: dict[str, Any], bar: float | None) -> str:
    """A line of the table."""
    sizes = " x ".join(f"{size:,}" for size in found["sizes"])
    ratio = f"{found['ratio']:.2f} ({found['least']:.2f} to {found['most']:.2f})"
    wanted = "" if bar is None else f"<= {bar}: {'met' if found['ratio'] <= bar else 'missed'}"
    times = f"{found['ours_s'] * 1e3:.3f} | {found['other_s'] * 1e3:.3f}"
    cells = [found["kernel"], sizes, found["threads"], found["beside"], ratio, wanted, times]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    shape = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--rounds", type=int, default=7, help="Rounds of each pair. Default: 7.")
    parser.add_argument("--only", help="Kernels whose name contains this. Default: all.")
    parser.add_argument("--json", type=Path, default=BENCH / "kernels.json", help="Where to write.")
    args = parser.parse_args()
    ours = Ours()
    found = []
    print("| kernel | sizes | threads | beside | ratio | bar | ours, ms | other, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, all_sizes, other, bar in CASES:
        for sizes in all_sizes if args.only is None or args.only in kind else []:
            for threads in (1, 2):
                one = measure(ours, (kind, sizes, other), threads, args.rounds)
                found.append({**one, "bar": bar})
                print(row(one, bar), flush=True)
    ours.close()
    machine = {**about(ROOT), "torch": torch.__version__, "rounds": args.rounds}
    print(f"\n{json.dumps(machine)}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"machine": machine, "kernels": found}, indent=1) + "\n")
    barred = [one for one in found if one["bar"] is not None]
    missed = sum(one["ratio"] > one["bar"] for one in barred)
    print(f"bars: {len(barred) - missed} of {len(barred)} met", file=sys.stderr)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
