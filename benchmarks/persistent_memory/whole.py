"""Whole files: the ways to get all bytes of one."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import neargraph as ng

from ..machine import evict
from .measuring import Run, measured


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
