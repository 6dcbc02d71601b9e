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
import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import neargraph as ng

from .graphs import DEGREE, Graph, write_store
from .machine import about, evict
from .places import BENCH
from .planted import planted
from .planted import rows as planted_rows
from .training_tables import spread, table

Array = Any
PREFIX = "neargraph-persistent-memory-"
# The model of what tmpfs does not have.
UNIT_BYTES = 256
UNIT_SECONDS = 200e-9
# The file of the thesis's Table 4.1.
THESIS_FILE_BYTES = 7_717_000
# A store takes up to 1.4 times the bytes of the matrix beside it; then a copy of either in memory.
PLACE_SHARE = 2.6
MEMORY_SHARE = 5.5
MEMORY_ALONE = 800_000_000
NOTE = """**tmpfs stands in for persistent memory.** Its files can be addressed by the byte and
mapped, but lie in DRAM: each figure of tmpfs is an upper bound. What is measured has neither the
latency of persistent memory (about 3 times that of DRAM), nor its units of 256 bytes, nor its
bandwidth. "Modelled" is computed, not measured: 200 ns more for each unit of 256 bytes that is
touched, one after the other, so it errs on the slow side.

"Copied" is what the processor copies for a batch, "from disk" what the kernel reads for it, "held"
the private memory that a way keeps beside batches. Peak RSS is its growth during a batch; it counts
mapped pages, which on tmpfs are the file itself."""


# Where files may lie


def file_system(path: Path) -> str:
    """The kind of file system that holds a path."""
    whole, found = path.resolve(), (-1, "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), left.split()[4]))
        # A later mount at the same point hides an earlier one.
        if whole.is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), right.split()[0])
    return found[1]


def check_places(tmpfs: Path, disk: Path, matrix_bytes: int) -> None:
    """Raises `SystemExit`, which says what to do, if a place is wrong or has too little room."""
    if not tmpfs.is_dir() or file_system(tmpfs) != "tmpfs":
        raise SystemExit(
            f"{tmpfs} is not a folder on tmpfs, which stands in for persistent memory; mount one "
            "(mount -t tmpfs -o size=2G tmpfs /mnt/pm) and give --tmpfs /mnt/pm"
        )
    if file_system(disk) in ("tmpfs", "ramfs"):
        raise SystemExit(f"{disk} is not on a disk; give a folder that is, with --disk")
    need = int(PLACE_SHARE * matrix_bytes)
    for place, option in ((tmpfs, "--tmpfs"), (disk, "--disk")):
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        if free < need:
            raise SystemExit(
                f"{place} has {free / 1e6:,.0f} MB free and {need / 1e6:,.0f} MB are needed; make "
                f"--matrix smaller, or give another folder with {option}"
            )
    memory = int(MEMORY_SHARE * matrix_bytes) + MEMORY_ALONE
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    if found is not None and int(found[1]) * 1024 < memory:
        raise SystemExit(
            f"{int(found[1]) * 1024 / 1e6:,.0f} MB of memory are available and "
            f"{memory / 1e6:,.0f} MB are needed, tmpfs included; make --matrix smaller"
        )


@contextmanager
def scratch(home: Path) -> Iterator[Path]:
    """A folder under `home` that goes with the block, interrupted or not.

    A lock on the folder says that its process lives. What a killed one has left goes first.
    """
    home.mkdir(parents=True, exist_ok=True)
    for left in home.glob(f"{PREFIX}*"):
        remove_unlocked(left)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in endings}
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        for number, handler in before.items():
            signal.signal(number, handler)


def remove_unlocked(folder: Path) -> None:
    """Removes a folder of `scratch` whose process is gone."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(lock)


class Ended(KeyboardInterrupt):
    """A signal ends the run. Python's compiler drops other exceptions where it folds constants."""


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """SIGTERM and SIGHUP leave the block as Ctrl-C does, so that files are removed."""

    def end(number: int, _frame: Any) -> None:
        raise Ended(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except Ended as ended:
        raise SystemExit(128 + ended.args[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# What is measured of a run


def status() -> dict[str, int]:
    """Bytes of this process by the names of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":") for line in lines if line.endswith("kB"))
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}


@dataclass
class Run:
    """One batch, or one hand-over."""

    seconds: float
    peak_bytes: int
    private_bytes: int
    disk_bytes: int
    read_bytes: int = 0
    all_seconds: float = 0.0


def measured(make: Callable[[], Any]) -> tuple[Any, Run]:
    """What `make` gives; its time, the growth of resident memory, and the bytes read from a disk.

    `private_bytes` is anonymous memory that the result keeps. `peak_bytes` counts mapped pages as
    well, which on tmpfs are the file itself.
    """
    before = status()
    # Sets VmHWM back to what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    start = time.perf_counter()
    made = make()
    seconds = time.perf_counter() - start
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock - blocks
    after = status()
    peak = max(0, after["VmHWM"] - before["VmRSS"])
    private = max(0, after["RssAnon"] - before["RssAnon"])
    return made, Run(seconds, peak, private, 512 * blocks)


def plain_malloc() -> None:
    """Allocations of 1 MiB and more come from the kernel and go back to it, in every width.

    Otherwise glibc keeps blocks below a threshold that grows, and counts of memory mean nothing.
    """
    threshold_parameter = -3
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(threshold_parameter, 1 << 20)


# Files and batches


@dataclass(frozen=True)
class Files:
    """A raw matrix of f32 and the store of the same rows, in one place."""

    folder: Path
    nodes: int
    columns: int

    @property
    def matrix(self) -> Path:
        return self.folder / "rows.f32"

    @property
    def store(self) -> Path:
        return self.folder / "graph.ng"

    @property
    def row_bytes(self) -> int:
        return 4 * self.columns


@dataclass(frozen=True)
class Batch:
    """Ids of a batch, and for each node with sampled neighbours where they are among the ids."""

    ids: Array
    neighbours: Array
    offsets: Array


def make_files(disk: Files, tmpfs: Files, seed: int) -> None:
    """The same graph in both places."""
    indptr, indices, labels = planted(disk.nodes, DEGREE, seed, lambda _text: None)
    rows = partial(planted_rows, labels, disk.columns, seed)
    graph = Graph(indptr, indices, labels, disk.columns, rows)
    with disk.matrix.open("wb") as file:
        for part in graph.rows():
            file.write(memoryview(part).cast("B"))
    no_split = {name: np.empty(0, np.int64) for name in ("train", "val", "test")}
    write_store(graph, no_split, rows, disk.store)
    shutil.copyfile(disk.matrix, tmpfs.matrix)
    shutil.copytree(disk.store, tmpfs.store)
    evict([disk.matrix, *(path for path in disk.store.rglob("*") if path.is_file())])


def sample(files: Files, args: argparse.Namespace) -> list[Batch]:
    """--runs batches and one more, as a sampler on the store visits them."""
    size = min(args.targets, files.nodes // (args.runs + 1))
    seeds = np.random.default_rng(args.seed).permutation(files.nodes)[: (args.runs + 1) * size]
    batches = []
    with ng.open(files.store, memory="256MB") as store:
        sampler = ng.NeighborSampler(store, args.fanouts, seed=args.seed, attrs=[])
        for batch in sampler.batches(seeds, size):
            source, target = batch.edge_index()
            starts = np.flatnonzero(np.diff(target, prepend=-1))
            batches.append(Batch(np.array(batch.nodes()), np.array(source), starts))
    return batches


# Ways to gather rows


@dataclass
class Source:
    """How to gather rows, and the bytes that a reader has copied out of files so far."""

    gather: Callable[[Array], Array]
    read_bytes: Callable[[], int] = field(default=lambda: 0)


@contextmanager
def row_reads(files: Files) -> Iterator[Source]:
    """Copying: a read() for each row, into the batch."""
    handle = os.open(files.matrix, os.O_RDONLY)
    size = files.row_bytes

    def gather(ids: Array) -> Array:
        rows = np.empty((len(ids), files.columns), np.float32)
        parts = memoryview(rows).cast("B")
        for at, node in enumerate(ids.tolist()):
            os.preadv(handle, [parts[at * size : (at + 1) * size]], node * size)
        return rows

    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    try:
        yield Source(gather)
    finally:
        os.close(handle)


def taken(matrix: Array) -> Source:
    return Source(lambda ids: np.take(matrix, ids, axis=0, mode="clip"))


@contextmanager
def copied(files: Files) -> Iterator[Source]:
    """Copying: the whole matrix is read() into memory once, and rows are taken from there."""
    yield taken(np.fromfile(files.matrix, np.float32).reshape(files.nodes, files.columns))


def view_of(files: Files, advice: int = mmap.MADV_NORMAL) -> Array:
    """The matrix mapped, as a plain array."""
    view = np.memmap(files.matrix, np.float32, "r", 0, (files.nodes, files.columns))
    assert isinstance(view.base, mmap.mmap)
    view.base.madvise(advice)
    return np.asarray(view)


@contextmanager
def mapped(files: Files, advice: int = mmap.MADV_NORMAL) -> Iterator[Source]:
    """Zero-copy: rows are taken from the mapping."""
    yield taken(view_of(files, advice))


@contextmanager
def mapped_into(files: Files) -> Iterator[Source]:
    """The same into memory that earlier batches have used."""
    view, memory = view_of(files), np.empty((0, files.columns), np.float32)

    def gather(ids: Array) -> Array:
        nonlocal memory
        if len(memory) < len(ids):
            memory = np.zeros((len(ids) * 5 // 4, files.columns), np.float32)
        return np.take(view, ids, axis=0, out=memory[: len(ids)], mode="clip")

    yield Source(gather)


def tensor_of(files: Files) -> torch.Tensor:
    """The matrix mapped, as a tensor; the mapping is private, so writes stay here."""
    count = files.nodes * files.columns
    flat = torch.from_file(str(files.matrix), shared=False, size=count, dtype=torch.float32)
    return flat.view(files.nodes, files.columns)


def selected(tensor: torch.Tensor, ids: Array) -> torch.Tensor:
    """Rows in fresh memory of NumPy, which asks for huge pages; torch's own does not by default."""
    rows = torch.from_numpy(np.empty((len(ids), tensor.shape[1]), np.float32))
    return torch.index_select(tensor, 0, torch.from_numpy(ids), out=rows)


@contextmanager
def from_file(files: Files) -> Iterator[Source]:
    """Zero-copy: rows are selected from a tensor over the mapping."""
    tensor = tensor_of(files)
    yield Source(lambda ids: selected(tensor, ids).numpy())


@contextmanager
def stored(files: Files, memory: int, backend: str = "auto") -> Iterator[Source]:
    """The store's own reader: blocks are checked, copied out of the mapping, and gathered."""
    with ng.open(files.store, memory=memory, backend=backend) as store:
        snapshot = store.snapshot()
        yield Source(
            lambda ids: snapshot.features(None, ids), lambda: int(store.stats()["read_bytes"])
        )


@dataclass(frozen=True)
class Way:
    """A binding in one place."""

    name: str
    files: Files
    place: str
    open: Callable[[], AbstractContextManager[Source]]
    # What of it touches persistent memory: "rows", the "blocks" that the store reads, or nothing.
    touches: str = ""
    is_opened_anew: bool = False

    @property
    def is_cold(self) -> bool:
        return self.place == "disk, cold"


def cold_ways(disk: Files) -> list[Way]:
    place = "disk, cold"
    at_random = partial(mapped, disk, mmap.MADV_RANDOM)
    return [
        Way("read() of each row", disk, place, partial(row_reads, disk), is_opened_anew=True),
        Way("np.memmap, np.take", disk, place, partial(mapped, disk), is_opened_anew=True),
        Way("np.memmap, MADV_RANDOM", disk, place, at_random, is_opened_anew=True),
        Way("neargraph, 64 MB", disk, place, partial(stored, disk, 64_000_000)),
    ]


DRAM = "all read() into memory, np.take"


def warm_ways(tmpfs: Files, disk: Files, batch_bytes: int) -> list[Way]:
    small = 64_000_000 + batch_bytes * 5 // 4
    store_bytes = sum(path.stat().st_size for path in tmpfs.store.rglob("*") if path.is_file())
    whole = small + batch_bytes + store_bytes * 3 // 2
    here, there = "tmpfs", "disk, in page cache"
    again, anew = "np.memmap, np.take into used memory", "np.memmap mapped anew, np.take"
    budget, held = f"neargraph, {small / 1e6:.0f} MB", 'neargraph, backend="memory"'
    return [
        Way(DRAM, tmpfs, "tmpfs, then DRAM", partial(copied, tmpfs)),
        Way("read() of each row", tmpfs, here, partial(row_reads, tmpfs), "rows"),
        Way("np.memmap, np.take", tmpfs, here, partial(mapped, tmpfs), "rows"),
        Way(again, tmpfs, here, partial(mapped_into, tmpfs), "rows"),
        Way(anew, tmpfs, here, partial(mapped, tmpfs), "rows", is_opened_anew=True),
        Way("torch.from_file, index_select", tmpfs, here, partial(from_file, tmpfs), "rows"),
        Way(budget, tmpfs, here, partial(stored, tmpfs, small), "blocks"),
        Way(held, tmpfs, "tmpfs, then DRAM", partial(stored, tmpfs, whole, "memory")),
        Way("read() of each row", disk, there, partial(row_reads, disk)),
        Way("np.memmap, np.take", disk, there, partial(mapped, disk)),
    ]


def units(ids: Array, row_bytes: int) -> int:
    """How many units of persistent memory the rows of `ids` touch, each row by itself."""
    first = ids * row_bytes
    return int(((first + row_bytes - 1) // UNIT_BYTES - first // UNIT_BYTES + 1).sum())


# Gathering, in turns


def gathered(source: Source, ids: Array, expected: Array | None) -> Run:
    """One batch; compared with what is expected, if that is known."""
    before = source.read_bytes()
    rows, run = measured(lambda: source.gather(ids))
    run.read_bytes = source.read_bytes() - before
    if expected is not None and not np.array_equal(rows[: len(expected)], expected):
        raise SystemExit("rows differ from those of the matrix")
    return run


def one_run(way: Way, kept: Source | None, ids: Array, expected: Array | None) -> Run:
    """One batch, from a source that is opened for it if none is kept."""
    if kept is not None:
        return gathered(kept, ids, expected)
    if way.is_cold:
        # Mapped pages stay in the page cache: nothing else may map the file now.
        evict([way.files.matrix])
        with way.open() as source:
            return gathered(source, ids, expected)

    def opened() -> Array:
        with way.open() as source:
            return source.gather(ids)

    return gathered(Source(lambda _ids: opened()), ids, expected)


def in_turns(ways: list[Way], batches: list[Array], expected: Array) -> list[dict[str, Any]]:
    """All ways over all batches, the first of which is compared and not counted."""
    runs: list[list[Run]] = [[] for _ in ways]
    held, sources = [], []
    with ExitStack() as stack:
        for way in ways:
            before = status()["RssAnon"]
            kept = None if way.is_opened_anew else stack.enter_context(way.open())
            one_run(way, kept, batches[0], expected)
            held.append(max(0, status()["RssAnon"] - before))
            sources.append(kept)
        for ids in batches[1:]:
            for at, way in enumerate(ways):
                runs[at].append(one_run(way, sources[at], ids, None))
    return [
        of_way(way, own, batches[1:], held_bytes)
        for way, own, held_bytes in zip(ways, runs, held, strict=True)
    ]


def of_way(way: Way, runs: list[Run], batches: list[Array], held_bytes: int) -> dict[str, Any]:
    """The figures of a way, one of each batch."""
    row_bytes = way.files.row_bytes
    rows = [len(ids) for ids in batches]
    added = [0.0] * len(runs)
    if way.touches == "rows":
        added = [UNIT_SECONDS * units(ids, row_bytes) for ids in batches]
    elif way.touches == "blocks":
        added = [UNIT_SECONDS * run.read_bytes / UNIT_BYTES for run in runs]
    pairs = list(zip(runs, rows, added, strict=True))
    return {
        "way": way.name,
        "place": way.place,
        "rows_per_s": [count / run.seconds for run, count, _ in pairs],
        "bytes_per_s": [count * row_bytes / run.seconds for run, count, _ in pairs],
        "copied_bytes": [count * row_bytes + run.read_bytes for run, count, _ in pairs],
        "disk_bytes": [run.disk_bytes for run in runs],
        "held_bytes": [held_bytes],
        "peak_bytes": [run.peak_bytes for run in runs],
        "modelled_rows_per_s": [count / (run.seconds + more) for run, count, more in pairs]
        if way.touches
        else [],
    }


def gather_figures(
    tmpfs: Files, disk: Files, batches: list[Batch], cold_rows: int
) -> list[dict[str, Any]]:
    """Every way; beside those that take turns, their ratio to rows in DRAM of the same round."""
    ids = [batch.ids for batch in batches]
    with row_reads(tmpfs) as source:
        expected = source.gather(ids[0])
    found = in_turns(cold_ways(disk), [one[:cold_rows] for one in ids], expected[:cold_rows])
    # Brings the file into the page cache.
    np.fromfile(disk.matrix, np.uint8)
    warm = in_turns(warm_ways(tmpfs, disk, max(map(len, ids)) * disk.row_bytes), ids, expected)
    base = next(one for one in warm if one["way"] == DRAM)["rows_per_s"]
    for one in warm:
        one["over_dram"] = [a / b for a, b in zip(one["rows_per_s"], base, strict=True)]
    return warm + found


# The mean of neighbours, with and without a batch


def means_figures(files: Files, batches: list[Batch]) -> list[dict[str, Any]]:
    """Means of sampled neighbours' rows: of a gathered batch, and straight out of the mapping."""
    view = tensor_of(files)

    def mean(rows: torch.Tensor, which: Array, batch: Batch) -> torch.Tensor:
        ids, offsets = torch.from_numpy(which), torch.from_numpy(batch.offsets)
        return torch.nn.functional.embedding_bag(ids, rows, offsets, mode="mean")

    def of_batch(batch: Batch) -> torch.Tensor:
        return mean(selected(view, batch.ids), batch.neighbours, batch)

    def in_place(batch: Batch) -> torch.Tensor:
        return mean(view, batch.ids[batch.neighbours], batch)

    if not torch.allclose(of_batch(batches[0]), in_place(batches[0]), rtol=1e-5, atol=1e-5):
        raise SystemExit("means in place differ from those of a batch")
    counted = batches[1:]
    pairs = [
        (measured(partial(of_batch, b))[1], measured(partial(in_place, b))[1]) for b in counted
    ]
    read = [(batch.ids, batch.ids[batch.neighbours]) for batch in counted]
    found = []
    for at, (name, copies) in enumerate((("gather, then mean", 1), ("mean in place", 0))):
        added = [UNIT_SECONDS * units(ids[at], files.row_bytes) for ids in read]
        seconds = [pair[at].seconds for pair in pairs]
        found.append(
            {
                "way": name,
                "seconds": seconds,
                "over_gather": [pair[0].seconds / pair[at].seconds for pair in pairs],
                "rows_read": [len(ids[at]) for ids in read],
                "copied_bytes": [copies * len(ids[at]) * files.row_bytes for ids in read],
                "peak_bytes": [pair[at].peak_bytes for pair in pairs],
                "modelled_seconds": [a + b for a, b in zip(seconds, added, strict=True)],
            }
        )
    return found


# Whole files


def whole_ctypes(path: Path, size: int) -> str:
    """As the thesis's mapped loader: ctypes copies the bytes, and decode() copies them to text."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    handle = os.open(path, os.O_RDONLY)
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
    os.close(handle)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    text = ctypes.string_at(address, size).decode()
    libc.munmap(address, size)
    return text


def read_whole(handle: int, memory: memoryview, size: int) -> None:
    done = 0
    while done < size:
        got = os.preadv(handle, [memory[done:]], done)
        if got == 0:
            raise EOFError(f"{size - done} bytes are missing")
        done += got


def whole_read(path: Path, size: int) -> torch.Tensor:
    """Copying: read() into a fresh tensor."""
    tensor = torch.empty(size, dtype=torch.uint8)
    handle = os.open(path, os.O_RDONLY)
    try:
        read_whole(handle, memoryview(tensor.numpy()), size)
    finally:
        os.close(handle)
    return tensor


def whole_direct(path: Path, size: int) -> torch.Tensor:
    """Copying: direct I/O into aligned memory, without the page cache."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        read_whole(handle, memoryview(memory), size)
    finally:
        os.close(handle)
    return torch.frombuffer(memory, dtype=torch.uint8, count=size)


def whole_memmap(path: Path, size: int) -> torch.Tensor:
    """Zero-copy: mapped by NumPy; mode "c", as torch warns of arrays that cannot be written."""
    return torch.from_numpy(np.asarray(np.memmap(path, np.uint8, "c", 0, (size,))))


def whole_from_file(path: Path, size: int) -> torch.Tensor:
    """Zero-copy: mapped by torch."""
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def whole_store(path: Path, size: int) -> torch.Tensor:
    """The store's own reader over all rows."""
    with ng.open(path, memory=64_000_000 + size * 5 // 4) as store:
        rows = store.snapshot().features(None, np.arange(store.num_nodes))
        return torch.from_numpy(rows).view(torch.uint8).view(-1)


@dataclass(frozen=True)
class Load:
    """A way to a whole file, and how many copies the processor makes of its bytes."""

    name: str
    make: Callable[[Path, int], Any]
    path: Path
    copies: int
    is_on_disk: bool = False


def loads_of(tmpfs: Path, disk: Path, is_text: bool, store: Path | None) -> list[Load]:
    """The ways to one file that lies in both places."""
    found = []
    for path, is_on_disk in ((tmpfs, False), (disk, True)):
        ways = [
            ("ctypes: bytes, then text", whole_ctypes, 2),
            ("read() into a tensor", whole_read, 1),
            # A disk writes into memory by itself; tmpfs has to copy.
            ("O_DIRECT into a tensor", whole_direct, 0 if is_on_disk else 1),
            ("np.memmap view", whole_memmap, 0),
            ("torch.from_file view", whole_from_file, 0),
        ]
        found += [Load(*way[:2], path, way[2], is_on_disk) for way in ways[0 if is_text else 1 :]]
    if store is not None:
        # Blocks are copied out of the mapping, then rows out of blocks.
        found.append(Load("neargraph, all rows", whole_store, store, 2))
    return found


def handed_over(load: Load, size: int) -> Run | None:
    """One hand-over, then a pass over all bytes; None if the file system refuses the way."""
    if load.is_on_disk:
        evict([load.path])
    try:
        made, run = measured(lambda: load.make(load.path, size))
    except OSError as error:
        if error.errno != errno.EINVAL or load.make is not whole_direct:
            raise
        return None
    if isinstance(made, torch.Tensor):
        _, passed = measured(lambda: made.view(torch.int64).sum())
        run.all_seconds = run.seconds + passed.seconds
        run.peak_bytes = max(run.peak_bytes, run.private_bytes + passed.peak_bytes)
        run.disk_bytes += passed.disk_bytes
    return run


def hand_over_figures(loads: list[Load], size: int, runs: int) -> list[dict[str, Any]]:
    """All ways in turn; the first round is not counted."""
    found: list[list[Run]] = [[] for _ in loads]
    for at in range(runs + 1):
        for own, load in zip(found, loads, strict=True):
            run = handed_over(load, size)
            if at > 0 and run is not None:
                own.append(run)
    return [
        {
            "way": load.name if own else f"{load.name}: refused by the file system",
            "place": "disk, cold" if load.is_on_disk else "tmpfs",
            "seconds": [run.seconds for run in own],
            "all_seconds": [run.all_seconds for run in own if run.all_seconds],
            "bytes_per_s": [size / run.all_seconds for run in own if run.all_seconds],
            "copied_bytes": [load.copies * size],
            "disk_bytes": [run.disk_bytes for run in own],
            "private_bytes": [run.private_bytes for run in own],
            "peak_bytes": [run.peak_bytes for run in own],
        }
        for load, own in zip(loads, found, strict=True)
    ]


# The report


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
