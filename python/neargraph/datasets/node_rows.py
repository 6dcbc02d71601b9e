"""Rows of node tensors as NumPy arrays, in pieces, for exports.

bf16 and scaled int8 have no NumPy dtype, so they are read as float32 (`is_widened`). The invariant:
a piece has a few megabytes, independent of the tensor.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.importers.chunks import chunk_rows, spans
from neargraph.schema import NodeType, TensorMeta
from neargraph.snapshot import Snapshot

Array = NDArray[Any]

NAMES_AT_ONCE = 1 << 14
"""String ids that are read together."""


def is_widened(tensor: TensorMeta) -> bool:
    """Whether NumPy has no dtype for the stored values."""
    return tensor.scaled or tensor.dtype == "bf16"


def numpy_kind(tensor: TensorMeta) -> np.dtype[Any]:
    """Returns the dtype in which rows of a tensor are written."""
    return np.dtype(np.float32) if is_widened(tensor) else tensor.numpy_dtype


def node_rows(snap: Snapshot, node: NodeType, tensor: TensorMeta, ids: Array) -> Array:
    """Reads rows of a node tensor in pieces. Their dtype is that of `numpy_kind`."""
    dtype, kind = "f32" if is_widened(tensor) else "stored", numpy_kind(tensor)
    step = chunk_rows(kind.itemsize * tensor.num_columns)
    if len(ids) <= step:
        rows: Array = snap.features(node.name, ids, tensor.name, dtype)
        return rows
    whole = np.empty((len(ids), *tensor.shape), kind)
    for span in spans(len(ids), step):
        whole[span] = snap.features(node.name, ids[span], tensor.name, dtype)
    return whole


def node_pieces(snap: Snapshot, node: NodeType, tensor: TensorMeta) -> Iterator[tuple[int, Array]]:
    """Yields all rows of a node tensor in pieces, each with the id of its first row."""
    step = chunk_rows(numpy_kind(tensor).itemsize * tensor.num_columns)
    for span in spans(node.num_nodes, step):
        ids = np.arange(span.start, span.stop)
        yield span.start, node_rows(snap, node, tensor, ids)


def name_pieces(snap: Snapshot, node: NodeType) -> Iterator[list[str]]:
    """Yields the string ids of a node type in order, in pieces."""
    for span in spans(node.num_nodes, NAMES_AT_ONCE):
        yield snap.names(np.arange(span.start, span.stop), node.name)


def widened(rows: Array, tensor: TensorMeta) -> Array:
    """Converts bf16 rows of an edge tensor, read as raw bits, to float32; others are unchanged."""
    if tensor.dtype != "bf16":
        return rows
    return (rows.astype(np.uint32) << 16).view(np.float32)
