"""What the user names as input: paths, glob patterns and streams, as files that parsers open.

What must not live here: formats. Invariant: inputs stand in the order in which they were given, the
files of a pattern in the order of their names; none is missing, none is there twice.
"""

import glob
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .check import fail, need_file
from .spool import Spool, spool_stream

STREAM = "standard input"
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Input:
    """A file that can be read more than once, and what messages call it.

    ``name`` tells the format by its ending and is empty for a stream; ``encoding`` is that of its
    text where it is not UTF-8.
    """

    path: Path
    shown: str
    name: str
    encoding: str | None = None
    spool: Spool | None = None

    @staticmethod
    def of(path: Path | str, encoding: str | None = None) -> "Input":
        """A regular file; `ImportFailed` where there is none."""
        file = need_file(path)
        return Input(file, str(file), file.name, encoding)


Source = Path | str | IO[bytes]
"""A path, a pattern such as "part-*.csv", or a stream of bytes."""


def is_stream(source: Any) -> bool:
    """Whether a source is read from its beginning to its end, once."""
    return hasattr(source, "read")


def expanded(sources: Iterable[Source]) -> list[Path | IO[bytes]]:
    """Paths and streams, with the files of each pattern instead of it."""
    found: list[Path | IO[bytes]] = []
    for source in sources:
        if isinstance(source, Path | str):
            found += _matches(source)
        else:
            found.append(source)
    seen = dict[Any, str]()
    for one in found:
        key, shown = _identity(one)
        if key is not None and key in seen:
            also = f" (also as {seen[key]})" if seen[key] != shown else ""
            fail(shown, f"is given twice{also}", "give each input once")
        seen[key] = shown
    return found


def _matches(source: Path | str) -> list[Path]:
    text = str(source)
    if os.path.lexists(text) or not _PATTERN.intersection(text):
        return [Path(source)]
    # As a shell orders them.
    names = sorted(glob.glob(text, recursive=True))
    if not names:
        fail(text, "no file matches this pattern", "check the pattern and the folder")
    return [Path(name) for name in names]


def _identity(source: Path | IO[bytes]) -> tuple[Any, str]:
    if not isinstance(source, Path):
        return id(source), stream_name(source)
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None, str(source)
    return (status.st_dev, status.st_ino), str(source)


def stream_name(stream: Any) -> str:
    """What messages call a stream."""
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) and not name.startswith("<") else STREAM


def standard_input() -> IO[bytes]:
    """Standard input as bytes; `ImportFailed` where nobody pipes anything in."""
    if sys.stdin is None or sys.stdin.isatty():
        fail(STREAM, "is a terminal", "pipe data into the command")
    return sys.stdin.buffer


def opened(
    sources: Sequence[Path | IO[bytes]], folder: Path | None, encoding: str | None = None
) -> list[Input]:
    """The files of sources; a stream is copied to an unlinked temporary file in ``folder``."""
    found = []
    for source in sources:
        if isinstance(source, Path):
            found.append(Input.of(source, encoding))
            continue
        shown, beside = stream_name(source), folder or Path.cwd()
        if not beside.is_dir():
            what = "standard input cannot be copied to this folder, which does not exist"
            fail(beside, what, "create the folder first")
        spool = spool_stream(source, beside, shown, encoding)
        found.append(Input(spool.path, shown, "", None, spool))
    return found


def listed(inputs: Sequence[Any]) -> str:
    """What messages call several inputs, such as "a.txt and 2 more"."""
    first = inputs[0].shown if isinstance(inputs[0], Input) else str(inputs[0])
    return first if len(inputs) == 1 else f"{first} and {len(inputs) - 1} more"
