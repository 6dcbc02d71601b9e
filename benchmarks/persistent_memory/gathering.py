"""Rows of batches: the files that hold them, the ways to gather them, and means of neighbours."""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import neargraph as ng

from ..graphs import DEGREE, Graph, write_store
from ..machine import evict
from ..planted import planted
from ..planted import rows as planted_rows
from .measuring import Run, measured, status

Array = Any
# The model of what tmpfs does not have.
UNIT_BYTES = 256
UNIT_SECONDS = 200e-9


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
        sampler = ng.NumpySampler(store, args.fanouts, seed=args.seed, attrs=[])
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
