"""Out-of-core training: this project's ways of reading beside PyG, GraphBolt and plain baselines.

    python -m benchmarks.training --graph planted_4m --cap 2GB
    python -m benchmarks.training --systems naive-uring,scan --cap 2GB --runs 1 --batches 50
    python -m benchmarks.training --mode train --systems pyg,pyg-mmap-random,auto --cap 2GB
    python -m benchmarks.training --mode accuracy --systems ours-memory,auto:store=f16.ng
    python -m benchmarks.training --list

Every run of every system is a process of its own, started with empty caches under a memory cgroup
(page cache included), timed in its steady state. Systems take turns; the disk's own rates are
measured by fio before each round, and right before and after `naive-uring`, whose share of them
decides whether ratios count. Training runs get what torch alone needs on top of the cap, measured
in the same run. `--disk` has the kernel hold the disk at given rates, so that runs on machines
with other disks, or at other hours, can be compared. Graphs come from `benchmarks.graphs`,
environments from `benchmarks.venvs`. A name may carry options, NAME:key=value,key=value. Writes
`.bench/training.json` (after each run) and `.bench/training.md`; prints the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import machine, training_tables
from .cap import Cap
from .places import BENCH, GRAPHS, ROOT
from .systems.drive import Spec
from .venvs import python_of

# What an interpreter with NumPy takes, and the margin that a peak has to keep from the cap.
PROCESS_BYTES = 60_000_000
MARGIN = 0.10
UNCAPPED_STORE_BYTES = 3_000_000_000
CHILD_SECONDS = 1800


@dataclass(frozen=True)
class Entry:
    """A system by name: where it runs, with which options, whether under the cap."""

    module: str
    text: str
    options: dict[str, Any] = field(default_factory=dict)
    venv: str | None = None
    capped: bool = True


# `neargraph.tune_process()`, for each system that trains faster with it; GraphBolt does not.
TUNED = {"tuned": 1}


def _reading(text: str, **options: Any) -> Entry:
    return Entry("ours", text, {**TUNED, **options})


SYSTEMS = {
    "pyg": Entry("pyg", "PyG, everything in memory", TUNED, "pyg", capped=False),
    "pyg-mmap": Entry("pyg", "PyG on np.memmap", {"rows": "mmap", **TUNED}, "pyg"),
    "pyg-mmap-random": Entry(
        "pyg", "PyG on np.memmap, random advice", {"rows": "mmap-random", **TUNED}, "pyg"
    ),
    "pyg-mmap-random-4": Entry(
        "pyg",
        "the same with 4 workers",
        {"rows": "mmap-random", "workers": 4, **TUNED},
        "pyg",
    ),
    "graphbolt": Entry("graphbolt", "GraphBolt, everything in memory", {}, "graphbolt", False),
    "graphbolt-mmap": Entry("graphbolt", "GraphBolt, rows mapped", {"rows": "mmap"}, "graphbolt"),
    "graphbolt-mmap-random": Entry(
        "graphbolt", "GraphBolt, rows mapped, random advice", {"rows": "mmap-random"}, "graphbolt"
    ),
    "ours-memory": Entry(
        "ours",
        "our sampler, rows in memory, NumPy gather",
        {"gather": "numpy", **TUNED},
        capped=False,
    ),
    "ours-memory-torch": Entry(
        "ours",
        "our sampler, rows in memory, torch gather",
        {"gather": "torch", **TUNED},
        capped=False,
    ),
    "ours-sampling": Entry("ours", "our sampler alone", {"gather": "none"}, capped=False),
    "naive-uring": _reading("ours, one read a missed row, in groups", reading="naive-uring"),
    "naive-uring+sieve": _reading(
        "ours, the same behind a SIEVE cache", reading="naive-uring+sieve"
    ),
    "plain": _reading("ours, what `batches` does by itself"),
    "auto": _reading("ours, the way that the plan picks", reading="auto"),
    "scan": _reading("ours, rotating scan", reading="scan"),
    "window": _reading("ours, window of batches", reading="window"),
    "direct": _reading("ours, one batch at a time", reading="on_demand"),
}


# Each sampler as users call it, and PyG's where it has one that torch-sparse serves.
SAMPLERS = [
    "neighbor",
    "labor",
    "weighted",
    "disjoint",
    "induced",
    "bidirectional",
    "temporal-uniform",
    "temporal-last",
    "link-binary",
    "link-triplet",
    "shadow",
    "saint-node",
    "saint-edge",
    "saint-walk",
    "cluster",
    "random-node",
    "pinsage",
    "hgt",
]
PEERS = [
    "neighbor",
    "induced",
    "link-binary",
    "link-triplet",
    "shadow",
    "saint-node",
    "saint-edge",
    "saint-walk",
    "random-node",
    "hgt",
]
for _name in SAMPLERS:
    SYSTEMS[_name] = Entry("loaders", f"ours, {_name}", {"loader": _name, **TUNED})
for _name in PEERS:
    _options = {"loader": _name, **TUNED}
    SYSTEMS[f"pyg-{_name}"] = Entry("pyg_loaders", f"PyG, {_name}", _options, "pyg", capped=False)


def size(text: str) -> int | None:
    """Bytes of "2GB" or "256MB"; None of "none"."""
    if text == "none":
        return None
    for unit, scale in {"GIB": 1 << 30, "MIB": 1 << 20, "GB": 10**9, "MB": 10**6}.items():
        if text.upper().endswith(unit):
            return int(float(text[: -len(unit)]) * scale)
    return int(text)


def rates(text: str) -> tuple[int, int]:
    """(requests, bytes) a second of "113000,1.17GB"."""
    requests, _, speed = text.partition(",")
    found = size(speed) if speed else None
    # To the kernel 0 is no limit.
    if not requests.isdigit() or int(requests) == 0 or not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 113000,1.17GB")
    return int(requests), found


def entry(name: str) -> Entry:
    """The system that a name with options stands for."""
    base, _, tail = name.partition(":")
    if base not in SYSTEMS:
        raise SystemExit(f"no system {base!r}; --list shows them")
    options = dict(pair.split("=", 1) for pair in tail.split(",") if pair)
    typed = {key: int(value) if value.isdigit() else value for key, value in options.items()}
    found = SYSTEMS[base]
    # The back end memory has to hold the whole store.
    capped = found.capped and typed.get("backend") != "memory"
    return dataclasses.replace(found, options={**found.options, **typed}, capped=capped)


def needs_torch(mode: str, of: Entry) -> bool:
    """Whether a run holds torch beside the store."""
    return mode != "gather" or of.module == "loaders"


def systems_of(text: str) -> list[str]:
    """Names separated by commas; options of a name are separated by commas as well."""
    names: list[str] = []
    for part in text.split(","):
        if "=" in part and ":" not in part:
            names[-1] += f",{part}"
        else:
            names.append(part)
    for name in names:
        entry(name)
    return names


class Bench:
    """One comparison: its arguments, its files, what torch needs, all results so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.home = args.folder / args.graph
        self.store = args.folder / f"{args.graph}.ng"
        if not (self.home / "about.json").exists():
            raise SystemExit(
                f"{self.home} is missing; make it with: python -m benchmarks.graphs {args.graph}"
            )
        self.alone: dict[str, Any] = {}
        self.rounds: list[dict[str, Any]] = []

    def probe_file(self) -> Path:
        """What fio reads: the rows of the store. Blocks that are not read for minutes come slowly
        from some disks, so it has to be what the systems read, too."""
        return max(self.store.glob("*.dat"), key=lambda file: file.stat().st_size)

    def spec(self, of: Entry) -> Spec:
        """What a child is told."""
        args = self.args
        store = str(of.options.get("store", self.store))
        if "/" not in store:
            store = str(args.folder / store)
        memory = UNCAPPED_STORE_BYTES
        if of.capped and args.cap is not None:
            memory = int(args.cap * (1 - MARGIN)) - PROCESS_BYTES
        if of.options.get("backend") == "memory":
            memory += sum(file.stat().st_size for file in Path(store).iterdir())
        return Spec(
            module=of.module,
            graph=str(self.home),
            store=store,
            mode=args.mode,
            fanouts=args.fanouts,
            batch_size=args.batch_size,
            warmup=args.warmup,
            warmup_seconds=args.warmup_seconds,
            batches=args.batches,
            seconds=args.seconds,
            epochs=args.epochs,
            seed=args.seed,
            memory_bytes=args.store_memory or memory,
            options={**of.options, "store": store},
        )

    def run(self, name: str, seed: int) -> dict[str, Any]:
        """One run of one system."""
        of = entry(name)
        limit = self.args.cap if of.capped else None
        if limit is not None and needs_torch(self.args.mode, of):
            limit += self.alone.get("peak_anon_bytes", 0)
        spec = self.spec(of)
        spec.seed += seed
        longest = self.args.baseline_seconds
        if longest is not None and name.startswith(training_tables.NAIVE):
            spec.seconds = min(spec.seconds, longest)
            if of.options["reading"] == training_tables.NAIVE:
                # It has no cache to warm.
                spec.warmup_seconds = min(spec.warmup_seconds, longest)
        return self.child(spec, of.venv, limit)

    def run_beside_fio(self, name: str, seed: int) -> dict[str, Any]:
        """One run; of `naive-uring` between two runs of fio, since the disk's rate may drift."""
        if name != training_tables.NAIVE:
            return self.run(name, seed)
        rates = [machine.fio_random(self.probe_file(), self.args.fio_seconds)]
        result = self.run(name, seed)
        rates.append(machine.fio_random(self.probe_file(), self.args.fio_seconds))
        return {**result, "fio_random_reads_per_s": sum(rates) / len(rates)}

    def child(self, spec: Spec, venv: str | None, limit: int | None) -> dict[str, Any]:
        """Runs a spec in a process under a limit; a failure is a result as well."""
        python = str(python_of(venv)) if venv else sys.executable
        command = [python, "-m", "benchmarks.systems.drive", json.dumps(dataclasses.asdict(spec))]
        cold = machine.drop_caches()
        log = BENCH / "training.log"
        with Cap(limit) as cap, log.open("w") as errors:
            child = cap.popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT)
            try:
                output, _ = child.communicate(timeout=CHILD_SECONDS)
            except BaseException:
                child.kill()
                raise
            peaks = {
                "peak_anon_bytes": cap.peak_anon_bytes,
                "peak_charged_bytes": cap.peak_bytes() if cap.why_not is None else None,
                "cap_bytes": limit,
                "cap_missing": cap.why_not if limit is not None else None,
                "cold": cold,
            }
            kills = cap.kills() if cap.why_not is None else 0
        if child.returncode != 0 or not output.strip():
            tail = log.read_text().strip().splitlines()[-1:] or ["no message"]
            reason = "killed at the cap" if kills else tail[0][:120]
            return {"failed": f"exit {child.returncode}: {reason}", **peaks}
        return {**json.loads(output.splitlines()[-1]), **peaks}

    def measure_alone(self) -> None:
        """What torch needs for this training without any store, and its time."""
        import neargraph as ng

        with ng.open(self.store, memory=UNCAPPED_STORE_BYTES) as store:
            sampler = ng.NumpySampler(store, self.args.fanouts, seed=1, attrs=[])
            for batch in sampler.batches("train", self.args.batch_size, shuffle=True):
                shape = {"nodes": batch.num_sampled_nodes(), "edges": batch.num_sampled_edges()}
                break
            del batch
        of = Entry("alone", "torch alone", {**TUNED, **shape}, capped=False)
        spec = self.spec(of)
        spec = dataclasses.replace(spec, mode="train", warmup=5, batches=30, options=of.options)
        self.alone = self.child(spec, None, None)
        self.alone["shape"] = shape
        if "failed" in self.alone:
            raise SystemExit(f"torch alone: {self.alone['failed']}")
        if not self.alone["peak_anon_bytes"]:
            self.alone["peak_anon_bytes"] = self.alone["vm_hwm_bytes"]
        print(
            f"torch alone: {self.alone['peak_anon_bytes'] / 1e6:,.0f} MB anonymous, "
            f"{self.alone['ms_per_batch']:.1f} ms a batch",
            flush=True,
        )

    def measure_disk(self) -> None:
        """Has the rates measured anew that our plans start from: kept ones may be of busy hours.

        On a slowed disk they are known; the kernel lets bursts through that fool a measurement.
        """
        if any(entry(name).module == "ours" for name in self.args.systems):
            import neargraph as ng

            with ng.open(self.store, memory=UNCAPPED_STORE_BYTES) as store:
                if self.args.disk:
                    store.set_disk_rates(*self.args.disk)
                else:
                    store.measure_disk()

    def read_once(self) -> None:
        """Reads everything that will be read, once for each boot."""
        files = [self.home / "feat.npy", *self.store.glob("*.dat")]
        for name in self.args.systems:
            other = Path(self.spec(entry(name)).store)
            files += other.glob("*.dat")
        total = machine.read_once(sorted({file for file in files if file.exists()}))
        if total:
            print(f"read {total / 1e9:.1f} GB once, so that no block is read for the first time")

    def go(self) -> None:
        """All rounds."""
        self.read_once()
        with machine.slowed_disk(self.probe_file(), self.args.disk):
            self.run_rounds()

    def run_rounds(self) -> None:
        """All rounds, on the disk as it is now."""
        if any(needs_torch(self.args.mode, entry(name)) for name in self.args.systems):
            self.measure_alone()
        names = self.args.systems
        for number in range(self.args.runs):
            round_: dict[str, Any] = {"load_average": os.getloadavg()[0]}
            round_["fio"] = machine.fio(self.probe_file(), self.args.fio_seconds)
            self.measure_disk()
            rates = round_["fio"]
            print(
                f"round {number + 1}: fio {rates['random_reads_per_s']:,.0f} random reads/s, "
                f"{rates['sequential_bytes_per_s'] / 1e9:.2f} GB/s",
                flush=True,
            )
            self.rounds.append(round_)
            turn = number % len(names)
            # Who comes first and whom it follows changes from round to round.
            for name in names[turn:] + names[:turn]:
                result = round_[name] = self.run_beside_fio(name, number)
                print(f"  {name:28} {training_tables.line(result)}", flush=True)
                self.save()

    def save(self) -> None:
        """The files as far as it has gone."""
        args = {key: str(value) for key, value in vars(self.args).items()}
        report = {
            "benchmark": "training",
            "about": machine.about(self.probe_file()),
            "graph": json.loads((self.home / "about.json").read_text()),
            "arguments": args,
            "torch_alone": self.alone,
            "rounds": self.rounds,
            "summary": training_tables.summary(self.rounds, self.args.systems),
        }
        BENCH.mkdir(parents=True, exist_ok=True)
        stem = BENCH / f"training{'_' + self.args.label if self.args.label else ''}"
        stem.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        stem.with_suffix(".md").write_text(training_tables.markdown(report))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default="planted_4m")
    parser.add_argument("--systems", type=systems_of, default=None, help="default: all")
    parser.add_argument("--mode", choices=["gather", "train", "accuracy"], default="gather")
    parser.add_argument("--cap", type=size, default="2GB", help='like 2GB, or "none"')
    parser.add_argument("--store-memory", type=size, help="budget of the store, default from cap")
    parser.add_argument("--batches", type=int, default=200, help="counted batches at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="counted seconds at most")
    parser.add_argument("--warmup", type=int, default=100, help="batches before, at most")
    parser.add_argument("--warmup-seconds", type=float, default=30.0)
    parser.add_argument(
        "--baseline-seconds", type=float, help="counted at most, of naive-uring[+sieve]"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1, help="of the mode `accuracy`")
    parser.add_argument(
        "--fanouts", type=lambda t: [int(n) for n in t.split("-")], default=[15, 10]
    )
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--fio-seconds", type=float, default=5.0)
    parser.add_argument(
        "--disk", type=rates, help="slow the disk to requests,bytes a second, like 113000,1.17GB"
    )
    parser.add_argument("--read-ahead-kb", type=int, help="set the device's for the run")
    parser.add_argument("--folder", type=Path, default=GRAPHS)
    parser.add_argument("--label", help="part of the names of the result files")
    parser.add_argument("--list", action="store_true", help="print the systems and stop")
    args = parser.parse_args(arguments)
    if args.systems is None:
        args.systems = [name for name in SYSTEMS if "loader" not in SYSTEMS[name].options]
    return args


def main() -> None:
    args = parse()
    if args.list:
        for name, of in SYSTEMS.items():
            print(f"{name:24}{of.text}{'' if of.capped else ' (no cap)'}")
        return
    os.chdir(ROOT)
    started = time.perf_counter()
    bench = Bench(args)
    with machine.read_ahead(bench.probe_file(), args.read_ahead_kb):
        bench.go()
    stem = f"training{'_' + args.label if args.label else ''}"
    print((BENCH / f"{stem}.md").read_text())
    print(f"{time.perf_counter() - started:.0f} s; {BENCH / stem}.json")


if __name__ == "__main__":
    main()
