"""Checks whether a graph fits into memory: as it is stored, with int8 rows, or with sparse rows.

What must not live here: speeds.
"""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neargraph.units import format_bytes

from .modelled import RESIDENT_SHARE, sizes_of
from .trace import Trace

if TYPE_CHECKING:
    from neargraph.store import Store

_LOOKED_AT = 2048
# Bytes of a sparse row without its entries, and of a column number in an entry
# (docs/reference/format.md).
_SPARSE_ROW_BYTES = 8
_NARROW_COLUMNS = 65_536


@dataclass
class Room:
    """The memory that a graph needs.

    Attributes:
        memory_bytes: The memory budget, as in `neargraph.open`.
        topology_bytes: Size of the lists and their index.
        rows_bytes: Size of the rows as they are stored.
        int8_bytes: Size of int8 rows; None if that is not less.
        sparse_bytes: Size of sparse rows, estimated from a sample; None if that is not less.
    """

    memory_bytes: int
    topology_bytes: int
    rows_bytes: int
    int8_bytes: int | None = None
    sparse_bytes: int | None = None

    @property
    def needed_bytes(self) -> int:
        """The memory with which a loader can cache the whole graph."""
        return self._needed(self.rows_bytes)

    @property
    def fits(self) -> bool:
        """Whether the graph fits as it is stored."""
        return self.needed_bytes <= self.memory_bytes

    @property
    def fits_as(self) -> str | None:
        """ "sparse" or "int8", if the graph fits only with it; else None."""
        if self.fits:
            return None
        for name, found in (("sparse", self.sparse_bytes), ("int8", self.int8_bytes)):
            if found is not None and self._needed(found) <= self.memory_bytes:
                return name
        return None

    def words(self) -> str:
        """Returns the conclusion for a buyer."""
        have, need = format_bytes(self.memory_bytes), format_bytes(self.needed_bytes)
        lead = f"The graph needs {need} of memory, and the memory budget is {have}"
        if self.fits:
            return f"{lead}: the graph fits."
        if self.fits_as is not None:
            found = self.sparse_bytes if self.fits_as == "sparse" else self.int8_bytes
            less = format_bytes(self._needed(found or 0))
            return (
                f"{lead}. With features stored as {self.fits_as} rows, the graph needs {less} and "
                "fits. Try this first."
            )
        return (
            f"{lead}. Compare the price of {need} of memory first: with that much memory, the "
            "loader needs no reads from the disk."
        )

    def _needed(self, rows: int) -> int:
        return math.ceil((self.topology_bytes + rows) / RESIDENT_SHARE)


def room_of_store(store: "Store", tensor: str | None) -> Room:
    """Measures a store of one node type, from the sizes of its files and a sample of rows."""
    folder = Path(store.path)
    topology = sum(file.stat().st_size for file in folder.glob("e*.dat"))
    (nodes,) = store.types.node_types
    memory = int(store.info()["memory_bytes"])
    meta = next((one for one in nodes.tensors if one.name == tensor), None)
    if meta is None:
        return Room(memory, topology, 0)
    columns = meta.num_columns
    if meta.sparse or columns == 0:
        # Rows and entries have files of their own; small tensors share one.
        return Room(memory, topology, sum(file.stat().st_size for file in folder.glob("t*.dat")))
    dense = meta.num_rows * columns * meta.numpy_dtype.itemsize
    int8 = meta.num_rows * columns
    sparse = _sparse_bytes(store, nodes.index, meta.name, meta.num_rows, columns)
    return Room(
        memory,
        topology,
        dense,
        int8 if int8 < dense else None,
        sparse if sparse < dense else None,
    )


def room_of_trace(trace: Trace, memory_bytes: int) -> Room:
    """Computes the memory for the graph of a trace. Its rows are not available to inspect."""
    topology, rows = sizes_of(trace)
    int8 = int(trace.about["columns"]) * int(trace.about["num_nodes"])
    return Room(memory_bytes, topology, rows, int8 if int8 < rows else None)


def usual_memory() -> int:
    """Returns a quarter of the machine's memory, the default of `neargraph.open`."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return pages * page_bytes // 4


def _sparse_bytes(store: "Store", node_type: int, tensor: str, count: int, columns: int) -> int:
    """Estimates the size of all rows as sparse rows, from an evenly spaced sample."""
    ids = np.unique(np.linspace(0, max(0, count - 1), min(count, _LOOKED_AT)).astype(np.int64))
    if not len(ids):
        return 0
    rows = store.snapshot().version.rows("node", node_type, tensor, ids)
    values = rows[rows != 0]
    each = int(values.size) / len(ids)
    if values.size == 0 or np.all(values == 1):
        value_bytes = 0
    elif np.all((values == np.rint(values)) & (values > 0) & (values < 256)):
        value_bytes = 1
    else:
        value_bytes = 4
    entry = (2 if columns <= _NARROW_COLUMNS else 4) + value_bytes
    return math.ceil(count * (_SPARSE_ROW_BYTES + each * entry))
