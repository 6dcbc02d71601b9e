"""What a page fault costs over a read of the same page with O_DIRECT (`host.fault_ns`).

    python -m benchmarks.page_faults [DIRECTORY] [ROUNDS]

Reads pages of a file of 1 GiB at random, one at a time: with O_DIRECT, and through a mapping of
which nothing is in memory, without reading ahead. The disk's share is the same on both sides, so
the difference is that of the two ways: of a core, and until the page is there. What a call costs
the interpreter more than an index is measured and taken off.
"""

from __future__ import annotations

import mmap
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
FILE_BYTES = 1 << 30
PAGES = 20_000
ROUNDS = 9

# Microseconds a page: until it is there, and of a core.
Cost = tuple[float, float]


def timed(read: Callable[[int], object], pages: list[int]) -> Cost:
    """The cost of a page, on average."""
    core, start = time.thread_time(), time.perf_counter()
    for page in pages:
        read(page * PAGE)
    passed, core = time.perf_counter() - start, time.thread_time() - core
    return passed / len(pages) * 1e6, core / len(pages) * 1e6


def direct(path: Path, pages: list[int]) -> Cost:
    """Reads past the page cache."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, PAGE) as page:
        page[0] = 1
        found = timed(lambda at: os.preadv(file, [page], at), pages)
    os.close(file)
    return found


def mapped(path: Path, pages: list[int]) -> Cost:
    """Faults; each page is on the disk alone before."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    with mmap.mmap(file, FILE_BYTES, prot=mmap.PROT_READ) as whole:
        whole.madvise(mmap.MADV_RANDOM)
        found = timed(lambda at: whole[at], pages)
    os.close(file)
    return found


def interpreter(pages: list[int]) -> float:
    """Microseconds that a call costs the interpreter more than an index."""
    file = os.open(os.devnull, os.O_RDONLY)
    with mmap.mmap(-1, PAGE) as page:
        page[0] = 1
        call = timed(lambda at: os.preadv(file, [page], at), pages)[0]
        index = timed(lambda at: page[at % PAGE], pages)[0]
    os.close(file)
    return call - index


def main(folder: str = ".", rounds: str = str(ROUNDS)) -> None:
    """Prints medians with the least and the most of all rounds."""
    draws = random.Random(1)
    differences: list[Cost] = []
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        path = Path(inside) / "pages"
        with path.open("wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        for _ in range(int(rounds)):
            pages = draws.sample(range(FILE_BYTES // PAGE), PAGES)
            before, fault, after = direct(path, pages), mapped(path, pages), direct(path, pages)
            own = interpreter(pages)
            late, core = (fault[part] - (before[part] + after[part]) / 2 + own for part in range(2))
            differences.append((late, core))
    for name, part in (("later", 0), ("more of a core", 1)):
        values = [difference[part] for difference in differences]
        middle = statistics.median(values)
        print(f"us {name}: {middle:.1f} ({min(values):.1f}-{max(values):.1f})")


if __name__ == "__main__":
    main(*sys.argv[1:])
