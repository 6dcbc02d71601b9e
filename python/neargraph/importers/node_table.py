"""Columns of tables as tensors, and node tables.

Node columns: an optional key, `id` unless another is named; `y` or `label` (classes: text becomes
numbers and keeps its names, missing ones become -1); list columns and plain numbers become tensors
by name; columns x_0, x_1, ..., or those that are named, become one tensor x; train_mask, val_mask
and test_mask become a split. Row i is node i. Ids other than 0, 1, 2, ... are keys: edges name
nodes by them, and the store keeps them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import streamed_tensor
from .check import fail, same_rows, to_i64, wider_than_f32
from .chunks import chunk_rows, spans
from .labels import UNLABELLED, class_tensor, missing_labels
from .memory import hold, need
from .notes import Note, left_out
from .npz import split_tensors
from .plan import Array, NodePlan, TensorPlan
from .table_file import TEXT_ROWS, Table

_LABEL = ("y", "label")
_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """What is made of the columns of a node table; ``label`` None stands for y or label."""

    key: str = "id"
    features: tuple[str, ...] = ()
    label: str | None = None


def node_plan(
    table: Table, name: str, named: bool, notes: list[Note], columns: NodeColumns = NodeColumns()
) -> NodePlan:
    """The node type of a table; with ``named`` edges name its nodes by keys."""
    key = columns.key
    _check_columns(table, columns)
    node = NodePlan(name, table.num_rows, strings=named)
    if named:
        node.keys = lambda: _keys(table, key)
        if has_keys(table, key) and not table.is_text(key):
            message = (
                "ids are not 0, 1, 2, ..., so nodes are numbered by row, and ids are kept as "
                "string ids"
            )
            notes.append(Note("ids-relabelled", table.num_rows, table.where(key), message))
    names = [column for column in table.schema.names if column != key]
    label = columns.label or next((column for column in _LABEL if column in names), None)
    wide = _features(table, columns.features, [n for n in names if n not in (label, *_MASKS)])
    lists = [name for name in wide[:1] if len(wide) == 1 and _is_list(table, name)]
    if wide and not lists:
        node.tensors.append(_stacked(table, wide))
    # Masks in pieces, then whole, and the codes of their split.
    hold(table.shown, 3 * table.num_rows * len({*_MASKS} & {*names}))
    masks = [_mask(table, name) if name in names else None for name in _MASKS]
    node.tensors += split_tensors(masks, table.num_rows, table.shown)
    rest = {name: name for name in names if name not in (*wide, *_MASKS)}
    rest |= dict.fromkeys(lists, "x")
    if label is not None:
        rest[label] = "y"
    node.tensors += column_tensors(table, rest, notes)
    return node


def _check_columns(table: Table, columns: NodeColumns) -> None:
    """Refuses columns that are named and are not there."""
    names = table.schema.names
    key = () if columns.key == "id" else (columns.key,)
    label = () if columns.label is None else (columns.label,)
    for column in (*key, *label, *(name for name in columns.features if name != "*")):
        if column not in names:
            known = ", ".join(names[:20])
            fail(table.shown, f"has no column {column!r}", f"use one of its columns: {known}")


def _features(table: Table, given: tuple[str, ...], names: list[str]) -> list[str]:
    """The columns that become x: those that are named, or else x_0, x_1, ..."""
    if not given:
        return _wide_columns(names)
    every = [name for name in names if _is_plain(table, name)]
    listed = [one for name in given for one in (every if name == "*" else [name])]
    return list(dict.fromkeys(listed))


def _is_list(table: Table, column: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(column).type
    sized = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(sized or pa.types.is_fixed_size_list(kind))


def _is_plain(table: Table, column: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(column).type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def column_tensors(table: Table, names: dict[str, str], notes: list[Note]) -> list[TensorPlan]:
    """Columns as tensors, by the names of these; a note says which columns cannot be one."""
    found = {column: _column_tensor(table, column, name, notes) for column, name in names.items()}
    dropped = [column for column, tensor in found.items() if tensor is None]
    notes += left_out(
        "columns-dropped", dropped, table.shown, "only columns of numbers become tensors"
    )
    return [tensor for tensor in found.values() if tensor is not None]


def _mask(table: Table, name: str) -> Array:
    """A column of booleans, whole: one byte for each node."""
    import pyarrow as pa

    where = table.where(name)
    if not pa.types.is_boolean(table.kind(name)):
        what = f"has type {table.kind(name)}, but masks must be booleans"
        fail(where, what, "convert the column to booleans")
    parts = [table.numbers(batch.column(0), name, row) for row, batch in table.batches([name])]
    return np.concatenate([np.zeros(0, bool), *parts])


def has_keys(table: Table, key: str = "id") -> bool:
    """Whether the ids of a node table are anything but 0, 1, 2, ..."""
    if key not in table.schema.names or table.is_text(key):
        return key in table.schema.names
    for row, batch in table.batches([key]):
        ids = table.numbers(batch.column(key), key, row)
        if (ids != np.arange(row, row + len(ids))).any():
            return True
    return False


def _keys(table: Table, key: str) -> Iterator[list[str]]:
    """The names of nodes in the order of rows; those of a table without ids are its row numbers."""
    if key in table.schema.names:
        for row, batch in (text := table.as_text([key])).batches([key], TEXT_ROWS):
            yield text.texts(batch.column(key), key, row)
        return
    for span in spans(table.num_rows, TEXT_ROWS):
        yield [str(row) for row in range(span.start, span.stop)]


def _wide_columns(names: list[str]) -> list[str]:
    numbered = {int(m[1]): name for name in names if (m := re.fullmatch(r"x_?(\d+)", name))}
    places = range(len(numbered))
    return [numbered[k] for k in places] if set(numbered) == set(places) else []


def _stacked(table: Table, names: list[str]) -> TensorPlan:
    for name in names:
        if not _is_plain(table, name):
            what = f"has type {table.kind(name)}, but features must be numbers"
            fail(table.where(name), what, "convert the column to numbers")

    def chunks() -> Iterator[Array]:
        for row, batch in table.batches(names, chunk_rows(4 * len(names))):
            parts = [table.numbers(batch.column(n), n, row).astype(np.float32) for n in names]
            yield np.stack(parts, axis=1)

    kinds = [wider_than_f32(np.dtype(table.kind(name).to_pandas_dtype())) for name in names]
    wider = next((kind for kind in kinds if kind is not None), None)
    return TensorPlan("x", "f32", (len(names),), chunks, table.num_rows, narrowed_from=wider)


def _column_tensor(table: Table, column: str, name: str, notes: list[Note]) -> TensorPlan | None:
    """A numeric or list column as a tensor; None for text and nested columns but labels."""
    import pyarrow as pa

    where = table.where(column)
    if name == "y" and table.is_text(column):
        return class_tensor("y", lambda: _texts(table, column), table.num_rows, where, notes)
    kind = table.schema.field(column).type
    fixed = pa.types.is_fixed_size_list(kind)
    nested = not fixed and _is_list(table, column)
    element = kind.value_type if nested or fixed else kind
    plain = pa.types.is_integer(element) or pa.types.is_floating(element)
    if not (plain or pa.types.is_boolean(element) or pa.types.is_temporal(element)):
        return None
    numpy_kind = (
        np.dtype(np.int64) if pa.types.is_temporal(element) else np.dtype(element.to_pandas_dtype())
    )
    if name == "y" and numpy_kind.kind in "iuf" and not (nested or fixed):
        labels = _labels(table, column, where, notes)
        if labels is not None:
            return labels
    width = _list_width(table, column, kind) if nested or fixed else None

    def pieces(step: int) -> Iterator[Array]:
        for row, batch in table.batches([column], step):
            values = batch.column(0)
            if width is None:
                yield table.numbers(values, column, row)
                continue
            flat = table.numbers(values.flatten(), column, row)
            lengths = np.asarray(values.value_lengths()) if nested else None
            if values.null_count or (lengths is not None and (lengths != width).any()):
                bad = 0 if lengths is None else int(np.flatnonzero(lengths != width)[0])
                file, at = table.place(row + bad)
                what = f"row {at} is null, or its list does not have {width} values"
                fail(f"{file} [{column}]", what, "make all lists of the column equally long")
            same_rows(len(flat), len(values) * width, where, "the column")
            yield flat.reshape(-1, width)

    shape = (table.num_rows, width) if width else (table.num_rows,)
    return streamed_tensor(name, where, shape, numpy_kind, pieces)


def _texts(table: Table, column: str) -> Iterator[list[str | None]]:
    for _, batch in table.batches([column], TEXT_ROWS):
        yield table.labels(batch.column(0), column)


def _labels(table: Table, column: str, where: str, notes: list[Note]) -> TensorPlan | None:
    """Labels as i64, missing ones -1; None for floats that are not classes.

    Floats are classes where some are missing and all others are whole, which is what data frames
    make of integers with gaps.
    """
    missing, whole, is_float = 0, True, False
    for row, batch in table.batches([column]):
        values = table.numbers(batch.column(0), column, row, UNLABELLED)
        is_float = values.dtype.kind == "f"
        if is_float:
            gaps = np.isnan(values)
            missing += int(gaps.sum())
            whole = whole and bool((gaps | (values == np.floor(values))).all())
        else:
            missing += batch.column(0).null_count
    if is_float and not (missing and whole):
        return None
    notes += missing_labels(missing, where)

    def chunks() -> Iterator[Array]:
        for row, batch in table.batches([column]):
            values = table.numbers(batch.column(0), column, row, UNLABELLED)
            if is_float:
                values = np.where(np.isnan(values), UNLABELLED, values)
            yield to_i64(values, where, row)

    return TensorPlan("y", "i64", (), chunks, table.num_rows)


def _list_width(table: Table, column: str, kind: Any) -> int:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    need(table.where(column), 8 * table.mean_values(column))
    for _, batch in table.batches([column], 1):
        return len(batch.column(0)[0])
    return 1
