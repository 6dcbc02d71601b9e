"""How long one file takes to load, by back end, from the disk and not from the page cache."""

import os
import tempfile
from pathlib import Path
from typing import Any

from neargraph import _core

# Whole blocks of 4 KiB, 7,717 kB in all.
FILE_BYTES = 1884 * 4096


def drop_from_cache(path: Path) -> None:
    """Makes the next read of a file come from the disk; other files stay in the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def load_times(folder: Path, backends: list[str], repeats: int) -> list[dict[str, Any]]:
    """Loads a file of random bytes in a temporary directory inside `folder`, `repeats` times.

    Returns:
        For each back end: ``backend``, ``note``, ``bytes`` and by repeat ``opening_seconds``
        (``memory`` reads the file then) and ``reading_seconds``.
    """
    found = []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".profile.") as directory:
        file = Path(directory, "file.dat")
        file.write_bytes(os.urandom(FILE_BYTES))
        for backend in backends:
            entry: dict[str, Any] = {"backend": backend}
            for _ in range(repeats):
                drop_from_cache(file)
                opening, reading, count, note = _core.load_file(directory, file.name, backend)
                entry |= {"note": note, "bytes": count}
                entry.setdefault("opening_seconds", []).append(opening)
                entry.setdefault("reading_seconds", []).append(reading)
            found.append(entry)
    return found
