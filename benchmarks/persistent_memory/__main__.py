"""Rows out of byte-addressed memory: bindings that copy beside bindings that map without a copy.

    python -m benchmarks.persistent_memory
    python -m benchmarks.persistent_memory --columns 602 --tmpfs /mnt/pm     # as wide as Reddit

"Scaling Graph Neural Networks with Persistent Memory" (Chen, Edinburgh 2022) keeps a graph's files
on emulated persistent memory and reads them in two ways: mapped, where ctypes copies the bytes and
makes text of them, and with direct I/O (sections 3.2 and 4.1). Here files on tmpfs are a STAND-IN
for persistent memory. They can be addressed by the byte and mapped, but they lie in DRAM, so what
is measured is an upper bound of what persistent memory gives. Not modelled in what is measured:

- latency: a random read of persistent memory takes about 3 times as long as one of DRAM;
- granularity: the medium is read in units of 256 bytes, whatever part of them is asked for;
- bandwidth, which is lower, above all for writes; and flushes, as everything here only reads.

Columns called "modelled" are computed: 200 ns more for each unit of 256 bytes that is touched, one
after the other. Real reads overlap, so these columns err on the slow side.

For each width a planted graph is imported. Its batches are what the sampler visits, 1,024 targets
with fanouts [15, 10] by default, and their rows are gathered from one raw matrix and from the store
on tmpfs and on a disk. All ways take turns, except those from a cold disk, which come first, take
turns among themselves, and read the first --cold-rows rows of each batch. All rows of the first
batch are compared. Batches are fresh memory unless a way says otherwise. Each figure is the median
(least-most) of --runs batches after one that is not counted. The whole takes less than 2 minutes
and 4 GB, with tmpfs included, and writes `.bench/persistent_memory.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import neargraph as ng

from ..machine import about
from ..places import BENCH
from ..training_tables import spread, table
from .gathering import Files, gather_figures, make_files, means_figures, sample
from .measuring import plain_malloc
from .room import check_places, ended_cleanly, scratch
from .whole import hand_over_figures, loads_of

# The file of the thesis's Table 4.1.
THESIS_FILE_BYTES = 7_717_000
NOTE = """**tmpfs stands in for persistent memory.** Its files can be addressed by the byte and
mapped, but lie in DRAM: each figure of tmpfs is an upper bound. What is measured has neither the
latency of persistent memory (about 3 times that of DRAM), nor its units of 256 bytes, nor its
bandwidth. "Modelled" is computed, not measured: 200 ns more for each unit of 256 bytes that is
touched, one after the other, so it errs on the slow side.

"Copied" is what the processor copies for a batch, "from disk" what the kernel reads for it, "held"
the private memory that a way keeps beside batches. Peak RSS is its growth during a batch; it counts
mapped pages, which on tmpfs are the file itself."""


Column = tuple[str, str, float, str]
GATHER_COLUMNS: list[Column] = [
    ("1,000 rows/s", "rows_per_s", 1e-3, ",.0f"),
    ("GB/s", "bytes_per_s", 1e-9, ".2f"),
    ("/ DRAM", "over_dram", 1.0, ".2f"),
    ("copied MB", "copied_bytes", 1e-6, ",.1f"),
    ("from disk MB", "disk_bytes", 1e-6, ",.1f"),
    ("held MB", "held_bytes", 1e-6, ",.0f"),
    ("peak RSS +MB", "peak_bytes", 1e-6, ",.0f"),
    ("modelled 1,000 rows/s", "modelled_rows_per_s", 1e-3, ",.0f"),
]
MEANS_COLUMNS: list[Column] = [
    ("ms", "seconds", 1e3, ",.1f"),
    ("times as fast", "over_gather", 1.0, ".2f"),
    ("rows read", "rows_read", 1.0, ",.0f"),
    ("copied MB", "copied_bytes", 1e-6, ",.1f"),
    ("peak RSS +MB", "peak_bytes", 1e-6, ",.0f"),
    ("modelled ms", "modelled_seconds", 1e3, ",.1f"),
]
HAND_OVER_COLUMNS: list[Column] = [
    ("ms until it is there", "seconds", 1e3, ",.3f"),
    ("and read once", "all_seconds", 1e3, ",.1f"),
    ("GB/s", "bytes_per_s", 1e-9, ".2f"),
    ("copied MB", "copied_bytes", 1e-6, ",.1f"),
    ("from disk MB", "disk_bytes", 1e-6, ",.1f"),
    ("private MB", "private_bytes", 1e-6, ",.1f"),
    ("peak RSS +MB", "peak_bytes", 1e-6, ",.1f"),
]


def cell(values: list[float], scale: float, form: str) -> str:
    """The median, and the range where it shows."""
    if not values:
        return ""
    middle, least, most = (f"{value * scale:{form}}" for value in spread(values))
    return middle if least == most else f"{middle} ({least}-{most})"


def markdown(title: str, figures: list[dict[str, Any]], columns: list[Column]) -> str:
    places = ["where"] if "place" in figures[0] else []
    rows = [
        [
            one["way"],
            *(one[name] for name in ("place",) if places),
            *(cell(one.get(key, []), scale, form) for _, key, scale, form in columns),
        ]
        for one in figures
    ]
    head = ["", *places, *(name for name, *_ in columns)]
    return "\n".join([f"### {title}", "", *table(head, rows), ""])


def of_width(columns: int, args: argparse.Namespace, folders: list[Path]) -> dict[str, Any]:
    """Makes the files of a width, prints its tables, and removes the files."""
    nodes = args.matrix // (4 * columns)
    tmpfs, disk = (Files(folder / str(columns), nodes, columns) for folder in folders)
    for files in (tmpfs, disk):
        files.folder.mkdir()
    make_files(disk, tmpfs, args.seed)
    batches = sample(tmpfs, args)
    found: dict[str, Any] = {"columns": columns, "nodes": nodes}
    found["rows_of_batches"] = [len(batch.ids) for batch in batches]
    found["gather"] = gather_figures(tmpfs, disk, batches, args.cold_rows)
    found["means"] = means_figures(tmpfs, batches)
    share = np.mean(found["rows_of_batches"]) / nodes
    title = f"Rows of {columns} f32: {nodes:,} nodes, a batch has {share:.0%} of them"
    print(markdown(title, found["gather"], GATHER_COLUMNS), flush=True)
    title = f"The mean of sampled neighbours' rows of {columns} f32, on tmpfs"
    print(markdown(title, found["means"], MEANS_COLUMNS), flush=True)
    for one in found["gather"]:
        wanted = args.cold_rows * tmpfs.row_bytes // 2
        if one["place"] == "disk, cold" and spread(one["disk_bytes"])[0] < wanted:
            print(f"{one['way']!r} found most rows in a cache: its figures are not cold.\n")
    if columns == args.columns[0]:
        size = nodes * tmpfs.row_bytes
        loads = loads_of(tmpfs.matrix, disk.matrix, False, tmpfs.store)
        found["hand_over"] = hand_over_figures(loads, size, args.runs)
        title = f"The whole matrix of {size / 1e6:,.0f} MB"
        print(markdown(title, found["hand_over"], HAND_OVER_COLUMNS), flush=True)
    for files in (tmpfs, disk):
        shutil.rmtree(files.folder)
    return found


def thesis_file(folders: list[Path], runs: int) -> list[dict[str, Any]]:
    """The loaders of the thesis's Table 4.1 over a text of its size, and views beside them."""
    paths = [folder / "content.txt" for folder in folders]
    for path in paths:
        path.write_bytes(b"0\t" * (THESIS_FILE_BYTES // 2))
    loads = loads_of(*paths, True, None)
    found = hand_over_figures(loads, THESIS_FILE_BYTES, runs)
    title = f"A text of {THESIS_FILE_BYTES / 1e3:,.0f} kB, as in Table 4.1 of the thesis"
    print(markdown(title, found, HAND_OVER_COLUMNS), flush=True)
    return found


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", type=int, nargs="+", default=[100, 256, 1024], help="f32")
    parser.add_argument(
        "--matrix", type=ng.units.parse_bytes, default="512MiB", help="size. Default: 512MiB"
    )
    parser.add_argument("--targets", type=int, default=1024, help="of a batch. Default: 1024")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10])
    parser.add_argument("--cold-rows", type=int, default=4096, help="of a batch. Default: 4096")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of torch. Default: 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="folder on tmpfs")
    parser.add_argument("--disk", type=Path, default=BENCH, help=f"folder. Default: {BENCH}")
    parser.add_argument("--out", type=Path, default=BENCH / "persistent_memory.json")
    return parser.parse_args(arguments)


def machine(disk: Path) -> dict[str, Any]:
    """The machine, and where its memory comes in huge pages."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    found = {"cpu": model[1] if model else "unknown", **about(disk)}
    found["load_average"] = " ".join(f"{load:.1f}" for load in found["load_average"])
    for name in ("enabled", "shmem_enabled"):
        file = Path("/sys/kernel/mm/transparent_hugepage") / name
        chosen = re.search(r"\[(.*)\]", file.read_text() if file.exists() else "")
        found[f"huge_pages_{name}"] = chosen[1] if chosen else "unknown"
    return {**found, "numpy": np.__version__, "torch": torch.__version__}


def main(arguments: list[str] | None = None) -> None:
    args = parse(arguments)
    torch.set_num_threads(args.threads)
    plain_malloc()
    args.disk.mkdir(parents=True, exist_ok=True)
    check_places(args.tmpfs, args.disk, args.matrix)
    start = time.perf_counter()
    with ended_cleanly(), scratch(args.tmpfs) as fast, scratch(args.disk) as slow:
        report: dict[str, Any] = {"about": machine(args.disk), "arguments": vars(args)}
        words = sys.argv[1:] if arguments is None else arguments
        print("\n".join(["## Rows out of persistent memory, by a stand-in", "", NOTE, ""]))
        print("`python -m benchmarks.persistent_memory", *words, end="`\n\n")
        print("; ".join(f"{name} {value}" for name, value in report["about"].items()), end="\n\n")
        report["widths"] = [of_width(columns, args, [fast, slow]) for columns in args.columns]
        report["table_4_1"] = thesis_file([fast, slow], args.runs)
    report["seconds"] = time.perf_counter() - start
    print(f"{report['seconds']:.0f} s in all, tmpfs at {args.tmpfs}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
