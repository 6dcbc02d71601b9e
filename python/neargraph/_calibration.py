"""The data on which a model runs to find value ranges or to measure accuracy.

What must not live here: models. The invariant: arrays have the dtypes that graphs take.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.dfg import Dfg
from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.reader import Reader

_DTYPES = {"f32": np.float32, "i64": np.int64, "bool": np.bool_}


@dataclass(frozen=True)
class Calibration:
    """Arrays by input name, labels of all nodes, and ids for the search and the evaluation."""

    inputs: dict[str, NDArray[Any]]
    labels: NDArray[np.int64] | None
    search: NDArray[np.int64] | None
    evaluate: NDArray[np.int64] | None

    @classmethod
    def of(cls, graph: Dfg, data: Any) -> "Calibration":
        """Takes the inputs and labels from a PyG ``Data``, a mapping of arrays, or a store.

        Raises:
            UnsupportedArgument: An input is missing or has the wrong kind of values.
        """
        wanted = graph.inputs
        found = _of_store(data, wanted) if isinstance(data, Reader) else _named(data)
        inputs = {name: _array(name, found(name), of) for name, of in wanted.items()}
        labels = found("y")
        if labels is None:
            return cls(inputs, None, None, None)
        labels = np.asarray(labels).reshape(-1).astype(np.int64)
        return cls(inputs, labels, _ids(found, "val"), _ids(found, "test"))

    @property
    def labelled(self) -> tuple[list[int], list[int]] | None:
        """The rows that are used to choose formats, and the label of each."""
        if self.labels is None:
            return None
        rows = _known(self.search, self.labels)
        return rows.tolist(), self.labels[rows].tolist()

    def right(self, output: NDArray[Any]) -> tuple[int | None, int]:
        """Returns how many evaluated nodes are predicted right, and how many are evaluated."""
        if self.labels is None or output.ndim != 2:
            return None, 0
        rows = _known(self.evaluate, self.labels)
        return int((output[rows].argmax(1) == self.labels[rows]).sum()), len(rows)


def _known(ids: NDArray[np.int64] | None, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the ids that have a label, out of all nodes if there is no split."""
    ids = np.arange(len(labels)) if ids is None else ids
    return ids[labels[ids] >= 0]


def _named(data: Any) -> Any:
    if isinstance(data, Mapping):
        return data.get
    return lambda name: getattr(data, name, None)


def _array(name: str, value: Any, of: tuple[str, list[str]] | None) -> NDArray[Any]:
    if value is None:
        raise UnsupportedArgument(f"data= has no {name!r}, an input of the model; add {name!r}")
    array = np.asarray(value)
    dtype = _DTYPES[of[0]] if of is not None else array.dtype
    if array.dtype.kind != np.dtype(dtype).kind:
        expected = np.dtype(dtype).name
        raise UnsupportedArgument(f"{name!r} in data= has dtype {array.dtype}: expected {expected}")
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def _ids(found: Any, split: str) -> NDArray[np.int64] | None:
    mask = found(f"{split}_mask")
    if mask is not None:
        mask = np.asarray(mask)
        # The first of several splits, which is PyG's convention.
        return np.flatnonzero(mask if mask.ndim == 1 else mask[:, 0])
    ids = found(split)
    return None if ids is None else np.asarray(ids).astype(np.int64)


def _of_store(store: Reader, wanted: Mapping[str, Any]) -> Any:
    """Returns a function that reads the whole graph of a store with one node and edge type."""
    snap = store.snapshot()
    if len(snap.node_types) != 1 or len(snap.edge_types) != 1:
        raise UnsupportedArgument(
            "the store has several node or edge types; give data= as a dictionary of arrays "
            "by input name"
        )

    def edge_index() -> NDArray[np.int64]:
        indptr, indices, *_ = snap.neighbors(snap.edge_types[0], np.arange(snap.num_nodes))
        destinations = np.repeat(np.arange(snap.num_nodes), np.diff(indptr))
        return np.stack([indices, destinations]).astype(np.int64)

    def found(name: str) -> Any:
        try:
            if name == "edge_index":
                return edge_index()
            if name in ("val", "test"):
                return snap.split(name)
            return None if name.endswith("_mask") else snap.column(name)
        except NameNotFound:
            return None

    return found
