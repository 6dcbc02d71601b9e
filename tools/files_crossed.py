"""How many files one batch crosses: files whose functions run between a job and its batch.

    .venv/bin/python tools/files_crossed.py [--root CHECKOUT] [--json]

It builds the extension with `-C instrument-coverage` into `target/coverage`, puts it into a copy of
the Python package there, and runs one loader per way of making a batch over a generated graph that
is larger than the memory of its store. Each way runs twice, each time in a process of its own: over
an epoch of `BATCHES` batches and over one of twice as many. A function runs per batch if the second
run enters it at least `BATCHES / 2` times more: set-up and chance drop out, and reads that serve
two batches at once stay. Its file is the one that defines it; files below `crates/*/src` (without
ng-testing) and `python/neargraph` count.

Counts of Rust come from the counters of the instrumentation (LLVM's "Code Coverage Mapping Format",
versions 19 to 22 of LLVM), read from memory; those of Python from `sys.setprofile` in all threads.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

BATCHES, BATCH_SIZE, NODES, FANOUTS, SEED = 16, 32, 100_000, [5, 4], 3
# How a store is opened and a loader made, for each way.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "caches": ({"memory": "64MB"}, {"reading": "on_demand"}),
    "look-ahead, scan": ({"memory": "64MB"}, {"reading": "scan"}),
    "look-ahead, window": ({"memory": "64MB"}, {"reading": "window"}),
    "look-ahead, distribute": ({"memory": "64MB"}, {"reading": "distribute"}),
    "direct layout": ({"memory": "64MB"}, {"reading": "direct_layout"}),
    "compiled epoch": ({"memory": "96MB"}, {"reading": "compiled"}),
    "memory": ({"memory": "1GB", "backend": "memory"}, {"reading": "on_demand"}),
}


class Section(NamedTuple):
    """Where a section of a shared library lies in memory, and what the file has of it."""

    address: int
    data: bytes


def sections(library: bytes) -> dict[str, Section]:
    """The sections of an ELF file of 64 bits, little endian."""
    start, size, count, names_at = (
        *struct.unpack_from("<40xQ", library),
        *struct.unpack_from("<58xHHH", library),
    )
    heads = [struct.unpack_from("<IIQQQQ", library, start + i * size) for i in range(count)]
    names = heads[names_at][4]
    found = {}
    for name_at, _, _, address, offset, length in heads:
        name = library[names + name_at : library.index(b"\0", names + name_at)].decode()
        found[name] = Section(address, library[offset : offset + length])
    return found


def number(data: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128 and where the next one starts."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def file_names(covmap: bytes) -> dict[int, list[str]]:
    """Lists of file names, relative to where they were compiled, by the hash that functions use."""
    found, at = {}, 0
    while at + 16 <= len(covmap):
        _, length, _, _ = struct.unpack_from("<IIII", covmap, at)
        packed = covmap[at + 16 : at + 16 + length]
        count, here = number(packed, 0)
        _, here = number(packed, here)
        compressed, here = number(packed, here)
        text = zlib.decompress(packed[here:]) if compressed else packed[here:]
        names, here = [], 0
        for _ in range(count):
            size, here = number(text, here)
            names.append(text[here : here + size].decode())
            here += size
        key = int.from_bytes(hashlib.md5(packed, usedforsecurity=False).digest()[:8], "little")
        found[key] = [name.removeprefix(f"{names[0]}/") for name in names]
        at += (16 + length + 7) // 8 * 8
    return found


class Function(NamedTuple):
    """What the mapping says of a function: its file, and how to sum up how often it is entered."""

    file: str
    entry: int
    expressions: list[tuple[int, int]]


def functions(covfun: bytes, names: dict[int, list[str]]) -> dict[int, Function]:
    """The functions by the hash of their names."""
    found, at = {}, 0
    while at + 28 <= len(covfun):
        key, length, _, list_of = struct.unpack_from("<QIQQ", covfun, at)
        data, here = covfun[at + 28 : at + 28 + length], 0
        numbers = []
        while here < length:
            value, here = number(data, here)
            numbers.append(value)
        files, rest = numbers[1 : 1 + numbers[0]], numbers[1 + numbers[0] :]
        pairs = rest[1 : 1 + 2 * rest[0]]
        expressions = list(zip(pairs[::2], pairs[1::2], strict=True))
        # The regions of the first file follow: their count, then the counter of the first.
        entry = rest[2 + 2 * rest[0]]
        found[key] = Function(names[list_of][files[0]], entry, expressions)
        at += (28 + length + 7) // 8 * 8
    return found


def entries(function: Function, code: int, counters: tuple[int, ...]) -> int:
    """The value of an encoded counter: zero, a counter, a difference or a sum."""
    kind, index = code & 3, code >> 2
    if kind < 2:
        return counters[index] if kind else 0
    left, right = (entries(function, c, counters) for c in function.expressions[index])
    return left - right if kind == 2 else left + right


def rust_counts(library: Path) -> Counter[str]:
    """How often each function was entered in this process, as `file hash`."""
    parts = sections(library.read_bytes())
    known = functions(parts["__llvm_covfun"].data, file_names(parts["__llvm_covmap"].data))
    maps = Path("/proc/self/maps").read_text().splitlines()
    base = min(int(line.split("-")[0], 16) for line in maps if line.endswith(str(library)))
    counts, size = parts["__llvm_prf_cnts"], len(parts["__llvm_prf_cnts"].data)
    live = ctypes.string_at(base + counts.address, size)
    found: Counter[str] = Counter()
    records = parts["__llvm_prf_data"]
    for at in range(0, len(records.data), 64):
        key, _, relative = struct.unpack_from("<QQq", records.data, at)
        (length,) = struct.unpack_from("<48xI", records.data, at)
        start = records.address + at + relative - counts.address
        values = struct.unpack_from(f"<{length}Q", live, start)
        function = known.get(key)
        if function is not None and function.file.startswith("crates/"):
            found[f"{function.file} {key:x}"] += entries(function, function.entry, values)
    return found


def profiled(package: Path, work: Callable[[], None]) -> Counter[str]:
    """How often each function of a package is entered while `work` runs, as `file function`."""
    found: Counter[Any] = Counter()

    def enter(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found[frame.f_code] += 1

    threading.setprofile(enter)
    sys.setprofile(enter)
    work()
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    root = package.parent
    return Counter(
        {
            f"python/{Path(code.co_filename).relative_to(root)} {code.co_firstlineno}": count
            for code, count in found.items()
            if Path(code.co_filename).is_relative_to(package)
        }
    )


def make_store(path: Path) -> None:
    """A random graph whose rows are larger than the memory of most ways, compiled in both ways."""
    import numpy as np
    import torch
    from torch_geometric.data import Data

    import neargraph as ng
    from neargraph.loader.compiling import EpochCompiler
    from neargraph.loader.direct import compile_direct
    from neargraph.loader.seeds import SeedPlan, resolve_input_nodes

    rng = np.random.default_rng(SEED)
    edges = torch.from_numpy(rng.integers(0, NODES, (2, 600_000)))
    x = torch.from_numpy(rng.standard_normal((NODES, 256), dtype=np.float32))
    ng.from_pyg(Data(x=x, edge_index=edges, y=torch.arange(NODES) % 7), path)
    with ng.open(path, memory="96MB") as store:
        compile_direct(store.snapshot(), "graph")
        for batches in (BATCHES, 2 * BATCHES):
            sampler = ng.NumpySampler(store, FANOUTS, seed=SEED)
            inputs = resolve_input_nodes(sampler.snapshot, seeds(batches))
            size = batches * BATCH_SIZE
            plan = SeedPlan(num_seeds=size, batch_size=BATCH_SIZE, shuffle=True, seed=SEED)
            EpochCompiler(sampler, inputs, plan, 1).run(lambda *_: None)


def seeds(batches: int) -> Any:
    """The nodes of an epoch."""
    import numpy as np

    return np.arange(batches * BATCH_SIZE) * (NODES // (2 * BATCHES * BATCH_SIZE))


def run_way(path: Path, way: str, batches: int) -> dict[str, int]:
    """How often each function is entered while a loader makes one epoch."""
    import neargraph as ng

    opening, options = WAYS[way]
    options = {"batch_size": BATCH_SIZE, "shuffle": True, "seed": SEED, **options}
    made = 0

    def work() -> None:
        nonlocal made
        with ng.open(path, **opening) as store:
            for _ in ng.NeighborLoader(store, FANOUTS, seeds(batches), **options):
                made += 1

    package = Path(ng.__file__).resolve().parent
    counts = profiled(package, work)
    assert made == batches, f"{made} batches instead of {batches}"
    return dict(counts + rust_counts(package / "_core.abi3.so"))


def per_batch(once: dict[str, int], twice: dict[str, int]) -> list[str]:
    """The files of functions that two more batches enter at least once on average."""
    grown = {name for name, count in twice.items() if count - once.get(name, 0) >= BATCHES // 2}
    files = {name.split(" ")[0] for name in grown}
    return sorted(file for file in files if not file.startswith("crates/ng-testing/"))


def build(root: Path) -> Path:
    """A folder with the package and its instrumented extension."""
    target = root / "target" / "coverage"
    flags = {"RUSTFLAGS": "-C instrument-coverage", "LLVM_PROFILE_FILE": "/dev/null"}
    command = ["cargo", "build", "--release", "--locked", "-p", "ng-python"]
    command += ["--features", "pyo3/extension-module", "--target-dir", str(target)]
    for setting in ("opt-level=1", 'lto="off"', "codegen-units=16"):
        command += ["--config", f"profile.release.{setting}"]
    python = {"PYO3_PYTHON": sys.executable}
    subprocess.run(command, cwd=root, env=os.environ | flags | python, check=True)
    face = target / "face"
    shutil.rmtree(face, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(root / "python" / "neargraph", face / "neargraph", ignore=ignored)
    (library,) = (target / "release").glob("lib*.so")
    shutil.copy2(library, face / "neargraph" / "_core.abi3.so")
    return face


def measure(face: Path) -> Iterator[tuple[str, list[str]]]:
    """The files of each way."""
    environment = os.environ | {"PYTHONPATH": str(face), "LLVM_PROFILE_FILE": "/dev/null"}

    def child(*arguments: str) -> Any:
        command = [sys.executable, __file__, "--child", *arguments]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])

    with tempfile.TemporaryDirectory(dir=face) as folder:
        path = str(Path(folder) / "graph.ng")
        child(path)
        for way in WAYS:
            yield way, per_batch(*(child(path, way, str(n)) for n in (BATCHES, 2 * BATCHES)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the files that one batch crosses.")
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="A checkout. Default: this one.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        path, *way = options.child
        found: Any = run_way(Path(path), way[0], int(way[1])) if way else make_store(Path(path))
        print(json.dumps(found))
        return 0
    crossed = dict(measure(build(options.root.resolve())))
    if options.json:
        print(json.dumps(crossed, indent=1))
        return 0
    for way, files in crossed.items():
        rust = sum(file.endswith(".rs") for file in files)
        print(f"{len(files):4}  {way} ({rust} Rust, {len(files) - rust} Python)")
        print("\n".join(f"        {file}" for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
