"""Temporary copies of input: of a stream that is read more than once, or of text as UTF-8.

A copy lies in an unlinked temporary file beside the output, so a killed import leaves nothing.
What must not live here: formats. Invariant: a copy exists as long as its `Spool`, and messages name
the input, not the copy.
"""

import gzip
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

from neargraph.exceptions import IoFailed
from neargraph.units import format_bytes

from .check import fail
from .encodings import decoded
from .lines import text_bytes
from .plan import GraphPlan, TextColumns

_CHUNK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"


class Spool:
    """An unlinked temporary file in ``folder``, which other code opens at `path`."""

    def __init__(self, folder: Path, shown: str) -> None:
        self._shown, self._folder = shown, folder
        self.size = 0
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            self._failed(error)

    @property
    def path(self) -> Path:
        """Where this process finds the file."""
        return Path(f"/proc/self/fd/{self._file.fileno()}")

    def write(self, pieces: Iterable[bytes]) -> "Spool":
        """Appends all pieces."""
        for piece in pieces:
            view = memoryview(piece)
            while view:
                try:
                    count = self._file.write(view) or 0
                except OSError as error:
                    self._failed(error)
                self.size += count
                view = view[count:]
        return self

    def close(self) -> None:
        """Gives the disk space back."""
        self._file.close()

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _failed(self, error: OSError) -> None:
        done = f", {format_bytes(self.size)} written" if self.size else ""
        raise IoFailed(
            f"cannot write the temporary copy of {self._shown} in {self._folder} "
            f"({error.strerror or error}{done}); nothing was left behind"
        ) from error


def spool_stream(stream: Any, folder: Path, shown: str, encoding: str | None) -> Spool:
    """A copy of a stream of bytes; of text in an encoding other than UTF-8, the text as UTF-8."""
    spool = Spool(folder, shown)
    try:
        if encoding is None:
            return spool.write(iter(lambda: _bytes(stream.read(_CHUNK_BYTES), shown), b""))
        with Spool(folder, shown) as raw:
            raw.write(iter(lambda: _bytes(stream.read(_CHUNK_BYTES), shown), b""))
            return as_utf8(raw.path, encoding, spool, shown)
    except BaseException:
        spool.close()
        raise


def _bytes(piece: Any, shown: str) -> bytes:
    if not isinstance(piece, bytes | bytearray):
        kind = type(piece).__name__
        fail(shown, f"is a stream of {kind}, not of bytes", "open the stream in binary mode")
    return bytes(piece)


def as_utf8(path: Path, encoding: str, spool: Spool, shown: str) -> Spool:
    """Appends the text of a file, gzip or not, to ``spool`` as UTF-8."""
    try:
        with open_plain(path) as stream:
            return spool.write(text.encode() for text in decoded(stream, encoding, shown))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return fail(shown, f"is damaged or truncated ({error})", "copy the input again")


def open_plain(path: Path) -> BufferedIOBase:
    """A file, unpacked where it is gzip."""
    raw = path.open("rb")
    packed = raw.read(len(_GZIP)) == _GZIP
    raw.seek(0)
    if not packed:
        return raw
    raw.close()
    return gzip.open(path, "rb")


@contextmanager
def text_as_utf8(file: TextColumns, folder: Path) -> Iterator[dict[str, Any]]:
    """What the extension takes to read a text, which is copied as UTF-8 where it is not that."""
    if file.encoding is None:
        yield file.arguments()
        return
    with Spool(folder, file.shown) as spool:
        as_utf8(Path(file.path), file.encoding, spool, file.shown)
        yield file.arguments(str(spool.path))


def converted_bytes(plan: GraphPlan) -> int:
    """About what `text_as_utf8` takes of disk at once: one text is converted after the other."""
    files = [file for edge in plan.edges for file in edge.files if isinstance(file, TextColumns)]
    return max((text_bytes(file.path) for file in files if file.encoding is not None), default=0)
