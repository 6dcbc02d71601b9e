"""A graph with its nodes of even and odd ids as two types, for samplers of several types.

NumPy alone, since PyG's environment reads it as well; the store is written by this project's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TYPES = ("even", "odd")


def typed_edges(indptr: Any, indices: Any, ends: tuple[int, int]) -> Iterator[tuple[Any, Any]]:
    """(destinations, sources) between two of `TYPES`: node k of a type is node 2 k or 2 k + 1."""
    nodes = len(indptr) - 1
    step = max(1, nodes * (1 << 18) // max(1, len(indices)))
    for row in range(0, nodes, step):
        end = min(row + step, nodes)
        own = np.repeat(np.arange(row, end, dtype=np.int64), np.diff(indptr[row : end + 1]))
        sources = indices[indptr[row] : indptr[end]].astype(np.int64)
        kept = (sources % 2 == ends[0]) & (own % 2 == ends[1])
        yield own[kept] // 2, sources[kept] // 2


def write(home: Path, stored: Callable[[], Iterator[Any]]) -> None:
    """The store of the arrays in `home`, whose rows `stored` gives in blocks, as HOME_typed.ng."""
    from neargraph.importers import (
        EdgeChunk,
        EdgePlan,
        GraphPlan,
        ImportOptions,
        NodePlan,
        TensorPlan,
        run_import,
    )

    arrays = {path.stem: np.load(path, mmap_mode="r") for path in home.glob("*.npy")}
    nodes, width = arrays["feat"].shape

    def part(place: int) -> Any:
        def rows() -> Iterator[Any]:
            first = 0
            for block in stored():
                yield np.ascontiguousarray(block[(place - first) % 2 :: 2])
                first += len(block)

        count = (nodes + 1 - place) // 2
        labels = np.ascontiguousarray(arrays["labels"][place::2])
        tensors = [
            TensorPlan("x", "f32", (width,), rows, count),
            TensorPlan("y", "i64", (), lambda: iter([labels]), count),
        ]
        return NodePlan(TYPES[place], num_nodes=count, tensors=tensors)

    def edges(ends: tuple[int, int]) -> Any:
        def chunks() -> Iterator[Any]:
            for own, sources in typed_edges(arrays["indptr"], arrays["indices"], ends):
                yield EdgeChunk(own, sources)

        return EdgePlan(TYPES[ends[0]], "to", TYPES[ends[1]], chunks=chunks)

    plan = GraphPlan(
        f"{home.name}_typed",
        "benchmark",
        [part(0), part(1)],
        [edges((source, own)) for source in (0, 1) for own in (0, 1)],
    )
    options = ImportOptions(memory=1_000_000_000, overwrite=True)
    run_import(plan, home.with_name(f"{home.name}_typed.ng"), options)
