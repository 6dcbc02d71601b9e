"""Rows of node tensors as NumPy has them, in pieces, for data sets of other packages.

bf16 and scaled int8 have no NumPy dtype, so they are read as float32 (`is_widened`). The invariant:
a piece is a few megabytes, whatever the tensor.
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
    """Whether NumPy has no dtype for what the store has."""
    return tensor.scaled or tensor.dtype == "bf16"


def numpy_kind(tensor: TensorMeta) -> np.dtype[Any]:
    """The dtype that rows of a tensor are written as."""
    return np.dtype(np.float32) if is_widened(tensor) else tensor.numpy_dtype


def node_rows(snap: Snapshot, node: NodeType, tensor: TensorMeta, ids: Array) -> Array:
    """Rows of a node tensor, with the dtype of `numpy_kind`; read in pieces."""
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
    """All rows of a node tensor, each piece with the id of its first row."""
    step = chunk_rows(numpy_kind(tensor).itemsize * tensor.num_columns)
    for span in spans(node.num_nodes, step):
        ids = np.arange(span.start, span.stop)
        yield span.start, node_rows(snap, node, tensor, ids)


def name_pieces(snap: Snapshot, node: NodeType) -> Iterator[list[str]]:
    """The string ids of a node type, in order."""
    for span in spans(node.num_nodes, NAMES_AT_ONCE):
        yield snap.names(np.arange(span.start, span.stop), node.name)


def widened(rows: Array, tensor: TensorMeta) -> Array:
    """Rows of an edge tensor as NumPy has them: bf16, which is read as raw bits, as float32."""
    if tensor.dtype != "bf16":
        return rows
    return (rows.astype(np.uint32) << 16).view(np.float32)
