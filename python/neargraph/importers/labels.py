"""Labels: class names become numbers and are kept beside them, missing labels become -1.

-1 is what training leaves out and what PyTorch's losses take as ``ignore_index``. Classes are
numbered in the order of their names, so the numbers depend on nothing else. Memory is that of the
names and of one chunk.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .check import fail, to_i64
from .chunks import chunk_rows
from .memory import hold_to
from .notes import Note
from .plan import Array, TensorPlan

UNLABELLED = -1
_CLASSES_MAX = 1 << 16
# A name, its places in a set, a list and a dictionary, and its copy for the store.
_CLASS_BYTES = 320
_TEXT_ROWS = 1 << 15

Texts = Callable[[], Iterator[Sequence[str | None]]]
"""Streams labels as text; None and "" are missing."""


def text_rows(dtype: np.dtype[Any]) -> int:
    """How many rows of an array of text make a chunk, as Python strings."""
    return min(_TEXT_ROWS, chunk_rows(dtype.itemsize))


def missing_labels(count: int, where: str) -> list[Note]:
    """The note of labels that are missing; none where there are none."""
    message = f"{count} labels are missing and stored as -1, which training ignores"
    return [Note("labels-missing", count, where, message)] if count else []


def class_tensor(
    name: str, texts: Texts, num_rows: int, where: str, notes: list[Note]
) -> TensorPlan:
    """Labels as text to an i64 tensor that keeps the names of its classes."""
    found: set[str] = set()
    missing = wanted = held = 0
    for chunk in texts():
        known = {text for text in chunk if text}
        missing += sum(not text for text in chunk)
        wanted += sum(_CLASS_BYTES + 4 * len(text) for text in known - found)
        held = hold_to(where, wanted, held)
        found |= known
        if len(found) > _CLASSES_MAX:
            fail(where, f"has more than {_CLASSES_MAX:,} different labels", "store them as numbers")
    notes.extend(missing_labels(missing, where))
    class_names = sorted(found)
    number = {text: at for at, text in enumerate(class_names)}

    def chunks() -> Iterator[Array]:
        for chunk in texts():
            codes = [number[text] if text else UNLABELLED for text in chunk]
            yield np.array(codes, dtype=np.int64)

    return TensorPlan(name, "i64", (), chunks, num_rows, class_names=class_names)


def parsed_labels(name: str, texts: list[str], where: str, notes: list[Note]) -> TensorPlan:
    """Labels of a text file: whole numbers i64, other numbers f32, anything else classes."""
    try:
        values = np.array([float(text) if text else np.nan for text in texts], dtype=np.float64)
    except ValueError:
        return class_tensor(name, lambda: iter([texts]), len(texts), where, notes)
    missing = np.isnan(values)
    if (np.isfinite(values) & (values == np.floor(values)) | missing).all():
        notes.extend(missing_labels(int(missing.sum()), where))
        whole = np.where(missing, UNLABELLED, values).astype(np.int64)
        return TensorPlan(name, "i64", (), lambda: iter([whole]), len(whole))
    floats = values.astype(np.float32)
    return TensorPlan(name, "f32", (), lambda: iter([floats]), len(floats))


def number_labels(
    name: str,
    pieces: Callable[[], Iterator[Array]],
    num_rows: int,
    where: str,
    notes: list[Note],
) -> TensorPlan:
    """Labels of one column that stream as numbers: classes where all known ones are whole.

    Integers, and floats that are whole or NaN, become i64 with missing ones -1; other floats f32.
    """
    missing, whole = 0, True
    for piece in pieces():
        if piece.dtype.kind != "f":
            continue
        gaps = np.isnan(piece)
        missing += int(gaps.sum())
        whole = whole and bool((gaps | (piece == np.floor(piece)) & (np.abs(piece) < 2**62)).all())
    if whole:
        notes.extend(missing_labels(missing, where))

    def chunks() -> Iterator[Array]:
        row = 0
        for piece in pieces():
            if not whole:
                yield piece.astype(np.float32)
            elif piece.dtype.kind == "f":
                yield np.where(np.isnan(piece), UNLABELLED, piece).astype(np.int64)
            else:
                yield to_i64(piece, where, row)
            row += len(piece)

    return TensorPlan(name, "i64" if whole else "f32", (), chunks, num_rows)
