"""Times the loading of a file by back end, from the disk and not from the page cache."""

import os
import tempfile
from pathlib import Path
from typing import TypedDict

from neargraph import _core

# A multiple of 4 KiB: 7,717 kB.
FILE_BYTES = 1884 * 4096


class LoadTimes(TypedDict):
    """Times in which one back end loaded a file."""

    backend: str
    note: str
    """Why this back end was chosen."""
    bytes: int
    opening_seconds: list[float]
    """By repeat. The back end ``memory`` reads the file here."""
    reading_seconds: list[float]
    """By repeat."""


def drop_from_cache(path: Path) -> None:
    """Drops a file from the page cache, so that the next read goes to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def load_times(folder: Path, backends: list[str], repeats: int) -> list[LoadTimes]:
    """Loads a file of random bytes in a temporary directory inside `folder`, `repeats` times."""
    found: list[LoadTimes] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".profile.") as directory:
        file = Path(directory, "file.dat")
        file.write_bytes(os.urandom(FILE_BYTES))
        for backend in backends:
            entry: LoadTimes = {
                "backend": backend,
                "note": "",
                "bytes": 0,
                "opening_seconds": [],
                "reading_seconds": [],
            }
            for _ in range(repeats):
                drop_from_cache(file)
                opening, reading, count, note = _core.load_file(directory, file.name, backend)
                entry["note"], entry["bytes"] = note, count
                entry["opening_seconds"].append(opening)
                entry["reading_seconds"].append(reading)
            found.append(entry)
    return found
