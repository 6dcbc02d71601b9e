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
after the other. Real reads overlap, so they err on the slow side.

For each width a planted graph is imported. Its batches are what the sampler visits, 1,024 targets
with fanouts [15, 10] by default, and their rows are gathered from one raw matrix and from the store
on tmpfs and on a disk. All ways take turns, except those from a cold disk, which come first and
read the first --cold-rows rows of each batch one by one. All rows of the first batch are compared.
Batches are fresh memory unless a way says otherwise. Each figure is the median (least-most) of
--runs batches after one that is not counted. The whole takes less than 2 minutes and 4 GB with
tmpfs included, and writes `.bench/persistent_memory.json`.
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
from .machine import BLOCK_READ, about, evict
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
NOTE = """**tmpfs stands in for persistent memory.** Its files can be addressed by the byte and mapped,
but lie in DRAM: each figure of tmpfs is an upper bound. What is measured has neither the latency of
persistent memory (about 3 times that of DRAM), nor its units of 256 bytes, nor its bandwidth.
"Modelled" is computed, not measured: 200 ns more for each unit of 256 bytes that is touched, one
after the other."""


# Where files may lie


def mounts() -> list[tuple[Path, str]]:
    """(mount point, file system) in the order of mounting."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), left.split()[4])
        found.append((Path(point), right.split()[0]))
    return found


def file_system(path: Path) -> str:
    """The kind of file system that holds a path."""
    whole = path.resolve()
    held = [(len(point.parts), at) for at, (point, _) in enumerate(mounts()) if under(whole, point)]
    return mounts()[max(held)[1]][1]


def under(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def find_tmpfs(asked: Path | None, need: int) -> Path:
    """A folder on tmpfs with `need` bytes free: the one that was asked for, or any.

    Raises:
        SystemExit: There is none; says what to do.
    """
    if asked is not None:
        if not asked.is_dir() or file_system(asked) != "tmpfs":
            raise SystemExit(f"--tmpfs {asked} is not a folder on tmpfs; name one, or leave it out")
        places = [asked]
    else:
        points = [point for point, kind in mounts() if kind == "tmpfs"]
        places = [p for p in dict.fromkeys([Path("/dev/shm"), *points]) if p in points]
        places = [p for p in places if os.access(p, os.W_OK)]
    wanted = f"{need / 1e9:.1f} GB"
    if not places:
        raise SystemExit(
            "no tmpfs to stand in for persistent memory; mount one "
            f"(mount -t tmpfs -o size={need} tmpfs /mnt/pm) and give --tmpfs /mnt/pm"
        )
    roomiest = max(places, key=free_bytes)
    first = next((place for place in places if free_bytes(place) >= need), None)
    if first is None:
        raise SystemExit(
            f"{roomiest} has {free_bytes(roomiest) / 1e9:.1f} GB free and {wanted} are needed; "
            "make --matrix smaller, or give a larger tmpfs with --tmpfs"
        )
    return first


def check_room(disk: Path, matrix_bytes: int) -> None:
    """Refuses a disk that is none or has no room, and a machine with too little memory."""
    if file_system(disk) in ("tmpfs", "ramfs"):
        raise SystemExit(f"{disk} is on tmpfs; give a folder on a disk with --disk")
    need = int(PLACE_SHARE * matrix_bytes)
    if free_bytes(disk) < need:
        raise SystemExit(
            f"{disk} has {free_bytes(disk) / 1e9:.1f} GB free and {need / 1e9:.1f} GB are needed; "
            "make --matrix smaller, or give another folder with --disk"
        )
    available = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    memory = int(MEMORY_SHARE * matrix_bytes) + MEMORY_ALONE
    if available is not None and int(available[1]) * 1024 < memory:
        raise SystemExit(
            f"{int(available[1]) * 1024 / 1e9:.1f} GB of memory are available and "
            f"{memory / 1e9:.1f} GB are needed, tmpfs included; make --matrix smaller"
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


@contextmanager
def ended_cleanly() -> Iterator[None]:
    """SIGTERM and SIGHUP leave the block as Ctrl-C does, so that files are removed."""

    def end(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
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
        return self.folder / f"rows_{self.columns}.f32"

    @property
    def store(self) -> Path:
        return self.folder / f"graph_{self.columns}.ng"

    @property
    def row_bytes(self) -> int:
        return 4 * self.columns

    def remove(self) -> None:
        self.matrix.unlink()
        shutil.rmtree(self.store)


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


def view_of(files: Files) -> Array:
    """The matrix mapped, as a plain array."""
    return np.asarray(np.memmap(files.matrix, np.float32, "r", 0, (files.nodes, files.columns)))


@contextmanager
def mapped(files: Files) -> Iterator[Source]:
    """Zero-copy: rows are taken from the mapping."""
    yield taken(view_of(files))


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


@contextmanager
def from_file(files: Files) -> Iterator[Source]:
    """Zero-copy: rows are selected from a tensor over the mapping."""
    tensor = tensor_of(files)
    yield Source(lambda ids: torch.index_select(tensor, 0, torch.from_numpy(ids)).numpy())


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
    return [
        Way("read() of each row", disk, place, partial(row_reads, disk), is_opened_anew=True),
        Way("np.memmap, np.take", disk, place, partial(mapped, disk), is_opened_anew=True),
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
        sources.clear()
        kept = None
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
    """Every way; ratios to rows in DRAM, of the same round, beside those that took turns with it."""
    ids = [batch.ids for batch in batches]
    with row_reads(tmpfs) as source:
        expected = source.gather(ids[0])
    found = in_turns(cold_ways(disk), [one[:cold_rows] for one in ids], expected[:cold_rows])
    read_through(disk.matrix)
    warm = in_turns(warm_ways(tmpfs, disk, max(map(len, ids)) * disk.row_bytes), ids, expected)
    base = next(one for one in warm if one["way"] == DRAM)["rows_per_s"]
    for one in warm:
        one["over_dram"] = [a / b for a, b in zip(one["rows_per_s"], base, strict=True)]
    return warm + found


def read_through(path: Path) -> None:
    """Brings a file into the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(BLOCK_READ):
            pass


# The mean of neighbours, with and without a batch


def means_figures(files: Files, batches: list[Batch]) -> list[dict[str, Any]]:
    """Means of sampled neighbours' rows: of a gathered batch, and straight out of the mapping."""
    view = tensor_of(files)

    def of_batch(batch: Batch) -> torch.Tensor:
        rows = torch.index_select(view, 0, torch.from_numpy(batch.ids))
        return mean(torch.from_numpy(batch.neighbours), rows, batch)

    def in_place(batch: Batch) -> torch.Tensor:
        return mean(torch.from_numpy(batch.ids[batch.neighbours]), view, batch)

    def mean(which: torch.Tensor, rows: torch.Tensor, batch: Batch) -> torch.Tensor:
        offsets = torch.from_numpy(batch.offsets)
        return torch.nn.functional.embedding_bag(which, rows, offsets, mode="mean")

    ways = {"gather, then mean": of_batch, "mean in place": in_place}
    first = [way(batches[0]) for way in ways.values()]
    if not torch.allclose(*first, rtol=1e-5, atol=1e-5):
        raise SystemExit("means in place differ from those of a batch")
    del first
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for batch in batches[1:]:
        for name, way in ways.items():
            runs[name].append(measured(partial(way, batch))[1])
    rows = {
        "gather, then mean": [batch.ids for batch in batches[1:]],
        "mean in place": [batch.ids[batch.neighbours] for batch in batches[1:]],
    }
    base = [run.seconds for run in runs["gather, then mean"]]
    return [
        {
            "way": name,
            "seconds": [run.seconds for run in own],
            "over_gather": [b / run.seconds for run, b in zip(own, base, strict=True)],
            "rows_read": [len(ids) for ids in rows[name]],
            "copied_bytes": [len(i) * files.row_bytes * (name != "mean in place") for i in rows[name]],
            "peak_bytes": [run.peak_bytes for run in own],
            "modelled_seconds": [
                run.seconds + UNIT_SECONDS * units(ids, files.row_bytes)
                for run, ids in zip(own, rows[name], strict=True)
            ],
        }
        for name, own in runs.items()
    ]


# Whole files


def whole_ctypes(path: Path, size: int) -> torch.Tensor:
    """As the thesis's mapped loader does: ctypes copies the bytes, decode() copies them to text."""
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
    # Keeps the text, which is what that loader gives; its characters are not numbers yet.
    return torch.frombuffer(memoryview(bytearray(text, "ascii")), dtype=torch.uint8)


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
    memory = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
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
