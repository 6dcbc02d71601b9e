"""Encodings of text: which are known, byte order marks, and conversion to UTF-8 as a stream.

Parsers read UTF-8. Text in another encoding is converted before it reaches them. Invariant: a byte
that is not valid in the encoding is an error that names the line and the byte; nothing is replaced.
"""

import codecs
from collections.abc import Iterator
from io import BufferedIOBase
from typing import NoReturn

from neargraph.remedies import remedy

from .check import fail

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MARK_BYTES = 4
"""How many bytes of a text `check_mark` needs."""
_UTF8 = ("utf-8", "ascii")
_CHUNK_BYTES = 1 << 20


def known_encoding(name: str | None) -> str | None:
    """The canonical name of an encoding; None for UTF-8, which needs no conversion.

    >>> known_encoding("Latin1"), known_encoding("utf8")
    ('iso8859-1', None)
    """
    if name is None:
        return None
    try:
        found = codecs.lookup(name)
        # Codecs that are not for text raise LookupError here.
        is_text = "a,1\n".encode(found.name).decode(found.name) == "a,1\n"
        if not is_text or found.incrementaldecoder is None:
            raise LookupError(name)
    except (LookupError, ValueError, TypeError):
        raise ValueError(
            f"{name!r} is not a valid encoding, expected one that Python knows, e.g. utf-8, "
            "latin-1, cp1252 or utf-16"
        ) from None
    plain = found.name.replace("_", "-").removesuffix("-sig")
    return None if plain in _UTF8 else found.name


def check_mark(head: bytes, encoding: str | None, shown: str) -> None:
    """Refuses a text whose byte order mark contradicts its encoding, or is missing."""
    mark = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    given = encoding or "utf-8"
    family = next((name for name in ("utf-32", "utf-16") if given.startswith(name)), given)
    if mark is not None and mark != family:
        what = f"begins with the byte order mark of {mark}, but is read as {given}"
        fail(shown, what, remedy("NameEncoding", encoding=mark))
    if mark is None and head and given in ("utf-16", "utf-32"):
        what = (
            f"has no byte order mark, so its byte order is unknown: {given}-le (little-endian) or "
            f"{given}-be (big-endian)"
        )
        fail(shown, what, remedy("NameEncoding", encoding=f"{given}-le"))


def decoded(
    stream: BufferedIOBase, encoding: str, shown: str, is_whole: bool = True
) -> Iterator[str]:
    """The text of a stream in pieces, without a byte order mark.

    `ImportFailed` names the line and the byte that is not valid. The last character of what is not
    whole may be cut off.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    done, lines, is_first = 0, 1, True
    while True:
        piece = stream.read(_CHUNK_BYTES)
        if is_first:
            check_mark(piece[:MARK_BYTES], encoding, shown)
        state = decoder.getstate()
        try:
            text = decoder.decode(piece, final=is_whole and not piece)
        except UnicodeDecodeError as error:
            before = len(error.object) - len(piece)
            decoder.setstate(state)
            valid = decoder.decode(piece[: max(0, error.start - before)])
            at = done - before + error.start
            _wrong_byte(shown, lines + valid.count("\n"), at, error, encoding)
        yield text.removeprefix("\ufeff") if is_first else text
        if not piece:
            return
        done += len(piece)
        lines += text.count("\n")
        is_first = False


def _wrong_byte(
    shown: str, line: int, at: int, error: UnicodeDecodeError, encoding: str
) -> NoReturn:
    what = f"byte {at + 1} of the text, 0x{error.object[error.start]:02X}, is not valid {encoding}"
    fail(f"{shown}, line {line}", what, remedy("CheckEncoding"))
