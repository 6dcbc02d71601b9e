"""Training on a GPU from a store on disk: does the loop wait, and what does the copy stage bring?

    python -m benchmarks.gpu --graph planted_4m --memory 2GB

GraphSAGE on the standard work, through `NeighborLoader`. Ways: everything in memory, reading ahead
with the loader's own copies, with pinned batches that the loop sends, with plain batches that the
loop sends, and one aligned read for each missing row. Each run is a process of its own. Counted are
`--batches` batches after as many that are not, for at most `--seconds` each, but whole stretches
where a plan has two phases. Memory is the store's budget; nothing else of the process is limited.
Writes `.bench/gpu.json`; prints the table. Needs torch with CUDA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .machine import about, drop_caches
from .places import BENCH, GRAPHS
from .training_tables import spread, table

# Arguments of the loader; "to" is how the loop sends a batch itself.
WAYS: dict[str, dict[str, Any]] = {
    "everything in memory": {"backend": "memory", "device": "cuda"},
    "read ahead, copied by the loader": {"device": "cuda"},
    "read ahead, pinned, sent by the loop": {"pin_memory": True, "to": True},
    "read ahead, sent by the loop": {"to": False},
    "naive-uring": {"reading": "naive-uring", "device": "cuda"},
}
SHOWN = [
    ("ms/batch", "ms_per_batch", "{:.1f}"),
    ("loop waits ms", "wait_ms", "{:.1f}"),
    ("sample ms", "sample_ms", "{:.1f}"),
    ("read ms", "read_ms", "{:.1f}"),
    ("gather ms", "gather_ms", "{:.1f}"),
    ("copy ms", "copy_ms", "{:.1f}"),
    ("GPU %", "gpu_percent", "{:.0f}"),
    ("GPU MB", "gpu_mb", "{:,.0f}"),
    ("read MB", "read_mb", "{:.1f}"),
    ("reads", "reads", "{:,.0f}"),
]


class Loop:
    """A model, its loader, and the training that both share."""

    def __init__(self, arguments: argparse.Namespace, way: dict[str, Any]) -> None:
        import torch

        import neargraph as ng
        from neargraph.nn import GraphSAGE

        folder = arguments.folder / arguments.graph
        graph = json.loads((folder / "about.json").read_text())
        options = {**way}
        reading = ng.Reading(options.pop("reading", "auto"), two_phase=arguments.two_phase)
        self.send = options.pop("to", None)
        in_memory = options.get("backend") == "memory"
        self.store = ng.open(
            f"{folder}.ng",
            memory=None if in_memory else arguments.memory,
            backend=options.pop("backend", "auto"),
        )
        self.loader = ng.NeighborLoader(
            self.store,
            [15, 10],
            "train",
            batch_size=1024,
            shuffle=True,
            seed=7,
            reading=reading,
            **options,
        )
        torch.manual_seed(7)
        self.model = GraphSAGE(graph["width"], 256, graph["classes"], 2).to("cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.waited = 0.0
        self.losses: list[Any] = []

    def stretch(self) -> int:
        """Batches that are sampled before the first of them is read."""
        return int((self.loader.chosen() or {}).get("sampled_first") or 1)

    def batches(self) -> Iterator[Any]:
        """Batches on the device, epoch after epoch; notes how long each was waited for."""
        epoch = 0
        while True:
            self.loader.set_epoch(epoch)
            stream = iter(self.loader)
            while True:
                asked = time.perf_counter()
                batch = next(stream, None)
                if batch is None:
                    break
                if self.send is not None:
                    batch = batch.to("cuda", non_blocking=self.send)
                self.waited += time.perf_counter() - asked
                yield batch
                del batch
            epoch += 1

    def step(self, batch: Any) -> None:
        """Trains on a batch. Losses stay on the device, so that the loop does not wait for it."""
        from torch.nn import functional

        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(
            batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges
        )
        loss = functional.cross_entropy(out[: batch.batch_size], batch.y[: batch.batch_size])
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.losses.append(loss.detach())

    def run(self, stream: Iterator[Any], batches: int, seconds: float) -> tuple[int, float]:
        """Trains on some batches, whole stretches; their number, and the time that took."""
        import torch

        start, count = time.perf_counter(), 0
        while (count < batches and time.perf_counter() - start < seconds) or (
            count % self.stretch()
        ):
            self.step(next(stream))
            count += 1
        torch.cuda.synchronize()
        return count, time.perf_counter() - start


def measure(arguments: argparse.Namespace, way: dict[str, Any]) -> dict[str, Any]:
    """One run in this process."""
    import torch

    from neargraph.profile.monitor import Gpu, Monitor

    loop = Loop(arguments, way)
    stream = loop.batches()
    warm, _ = loop.run(stream, arguments.batches, arguments.seconds)
    loop.store.reset_stats()
    loop.waited, before = 0.0, loop.loader.stages()
    with Monitor(0.1, Gpu(torch.device("cuda"))) as monitor:
        count, seconds = loop.run(stream, arguments.batches, arguments.seconds)
    stages, found, machine = loop.loader.stages(), loop.store.stats(), monitor.result()
    each = 1e3 / count
    return {
        "batches": count,
        "warmup_batches": warm,
        "ms_per_batch": seconds * each,
        "seeds_per_s": count * 1024 / seconds,
        "wait_ms": loop.waited * each,
        **{
            f"{name}_ms": (stages[name] - before[name]) * each
            for name in ("sample", "read", "gather", "copy")
        },
        "gpu_percent": machine["gpu_percent"],
        "gpu_mb": (machine["gpu_memory_bytes"] or 0) / 1e6,
        "read_mb": found["read_bytes"] / count / 1e6,
        "reads": found["reads"] / count,
        "loss": float(loop.losses[-1]),
        "chosen": loop.loader.chosen(),
    }


def rows_of(rounds: list[dict[str, Any]]) -> list[list[str]]:
    """The table's rows: medians, with the range of the time."""
    rows = []
    for name in rounds[0]:
        runs = [found[name] for found in rounds]
        if any("failed" in run for run in runs):
            rows.append([name, *[str(run.get("failed", ""))[-120:] for run in runs]])
            continue
        middle, low, high = spread([run["seeds_per_s"] for run in runs])
        cells = [f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"]
        for _, key, form in SHOWN:
            known = [run[key] for run in runs if run[key] is not None]
            cells.append(form.format(spread(known)[0]) if known else "-")
        rows.append([name, *cells])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default="planted_4m")
    parser.add_argument("--folder", type=Path, default=GRAPHS)
    parser.add_argument("--memory", default="2GB", help="budget of the store")
    parser.add_argument("--ways", default=",".join(str(at) for at in range(len(WAYS))))
    parser.add_argument("--batches", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--two-phase", action=argparse.BooleanOptionalAction, help="default: where it pays"
    )
    parser.add_argument("--one", help="run this way in this process and print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments, WAYS[arguments.one])))
        return
    names = [list(WAYS)[int(at)] for at in arguments.ways.split(",")]
    report: dict[str, Any] = {"about": about(BENCH), "arguments": str(arguments), "rounds": []}
    BENCH.mkdir(parents=True, exist_ok=True)
    for _ in range(arguments.runs):
        round_: dict[str, Any] = {}
        report["rounds"].append(round_)
        for name in names:
            drop_caches()
            command = [sys.executable, "-m", "benchmarks.gpu", *sys.argv[1:], "--one", name]
            done = subprocess.run(command, capture_output=True, text=True)
            last = (done.stdout.strip() or "{}").splitlines()[-1]
            failed = {"failed": done.stderr.strip()[-400:]}
            round_[name] = json.loads(last) if done.returncode == 0 else failed
            print(name, json.dumps(round_[name]), flush=True)
            (BENCH / "gpu.json").write_text(json.dumps(report, indent=1))
    head = ["", "seeds/s", *(title for title, _, _ in SHOWN)]
    print("\n".join(table(head, rows_of(report["rounds"]))))


if __name__ == "__main__":
    main()
