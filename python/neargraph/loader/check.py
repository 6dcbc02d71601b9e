"""Checks the rows of a batch by reading each a second time.

For tests and for diagnosis: it reads everything twice. The second reads go through a separate
handle, with another back end and other caches, if the version can be opened again. The invariant: a
batch that passes has as many rows as nodes (or edges), and each has the bytes of its second read.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph.exceptions import WrongRow
from neargraph.reader import Version
from neargraph.schema import EdgeType, Kind, NodeType

# Budget of the second handle, beside that of the store.
_MEMORY_BYTES = 32_000_000
_ROWS_AT_ONCE = 2048

# (kind, type id, tensor, dtype).
Column = tuple[Kind, int, str, str | None]


class RowCheck:
    """Checks the rows of batches of `snapshot`."""

    def __init__(self, snapshot: Version) -> None:
        self._snapshot = snapshot
        self._local: ProcessLocal[_core.Snapshot] = ProcessLocal(self._open)

    def _open(self) -> _core.Snapshot:
        """Opens the version again; without a second handle if it is newer than the checkpoint."""
        path = os.fspath(self._snapshot.path)
        other = _core.open_store(path, _MEMORY_BYTES, "pread", None, False).snapshot()
        same = other.fingerprint == self._snapshot.fingerprint
        return other if same else self._snapshot.version

    def check(self, batch: _core.MiniBatch, columns: list[Column], name: str, how: str) -> None:
        """Compares all rows of a batch with a second read.

        Args:
            batch: The batch.
            columns: The columns that it has.
            name: Name of the batch, for the message.
            how: How it was read, for the message.

        Raises:
            WrongRow: A row is missing, superfluous or has other bytes.
        """
        for column in columns:
            kind, type_id, tensor, _ = column
            schema = self._snapshot.schema
            is_node = kind == "node"
            owner = schema.node_types[type_id] if is_node else schema.edge_type_at(type_id)
            ids = batch.nodes(type_id) if is_node else batch.edge_ids(type_id)
            if ids is None:
                continue
            what = f"{_owner(owner)}.{tensor}"
            found = batch.tensor(kind, type_id, tensor)
            sparse = isinstance(found, tuple)
            count = len(found[0]) - 1 if sparse else len(found)
            if count != len(ids):
                raise WrongRow(
                    f"{name} ({how}): {what} has {count} rows for {len(ids)} {kind}s; please "
                    "report this defect of neargraph"
                )
            read = self._sparse if sparse else self._dense
            for first in range(0, count, _ROWS_AT_ONCE):
                part = slice(first, min(first + _ROWS_AT_ONCE, count))
                wrong = read(found, part, column, ids)
                if wrong is None:
                    continue
                place = first + wrong
                row = None if sparse else _bytes(found[place : place + 1])[0]
                said = (
                    "" if row is None else f"; the row in the batch {self._said(row, column, ids)}"
                )
                raise WrongRow(
                    f"{name} ({how}): {what} of {kind} {ids[place]} (row {place} of {count}) "
                    f"differs from a second read of the same row{said}; please report this "
                    "defect of neargraph"
                )

    def _dense(
        self, found: NDArray[Any], part: slice, column: Column, ids: NDArray[np.int64]
    ) -> int | None:
        """Returns the first place of `part` that differs from a second read."""
        kind, type_id, tensor, dtype = column
        plain = self._local.get().rows(kind, type_id, tensor, ids[part], dtype)
        given = found[part]
        if plain.dtype != given.dtype or plain.shape != given.shape:
            return 0
        wrong = np.flatnonzero((_bytes(plain) != _bytes(given)).any(axis=1))
        return int(wrong[0]) if len(wrong) else None

    def _sparse(
        self, found: tuple[Any, Any, Any], part: slice, column: Column, ids: NDArray[np.int64]
    ) -> int | None:
        indptr, indices, values = found
        own = self._local.get().sparse_rows(*column[:3], ids[part])
        for place in range(len(own[0]) - 1):
            here = slice(*indptr[part.start + place : part.start + place + 2])
            there = slice(*own[0][place : place + 2])
            same = np.array_equal(indices[here], own[1][there])
            if not same or values[here].tobytes() != own[2][there].tobytes():
                return place
        return None

    def _said(self, row: NDArray[np.uint8], column: Column, ids: NDArray[np.int64]) -> str:
        """Describes a wrong row, to tell confused slots from a missing read."""
        if not row.any():
            return "is all zeros"
        kind, type_id, tensor, dtype = column
        for first in range(0, len(ids), _ROWS_AT_ONCE):
            part = ids[first : first + _ROWS_AT_ONCE]
            plain = _bytes(self._local.get().rows(kind, type_id, tensor, part, dtype))
            same = np.flatnonzero((plain == row).all(axis=1))
            if len(same):
                return f"equals the stored row of {kind} {part[same[0]]}"
        return "equals no other stored row of the batch"


def _bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns rows as bytes, [n, bytes], so that NaN equals itself."""
    whole = np.ascontiguousarray(rows)
    return whole.view(np.uint8).reshape(len(rows), -1) if len(rows) else np.zeros((0, 0), np.uint8)


def _owner(owner: NodeType | EdgeType) -> str:
    return owner.name if isinstance(owner, NodeType) else "-".join(owner.triple)
