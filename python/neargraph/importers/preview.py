"""The first rows of an import, as they will be stored, so that a wrong column is seen beforehand.

What must not live here: how rows are shown. Invariant: rows come from the functions and the parser
that the import itself uses, so a preview and the store cannot differ.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from neargraph import _core

from .arrays import open_npy
from .encodings import decoded
from .options import ImportOptions
from .plan import Array, EdgePlan, GraphPlan, NodePlan, NpyFile, TensorPlan, TextColumns
from .run import apply_options, declared
from .spool import Spool, open_plain

ROWS = 5
_VALUES_MAX = 64
"""Values of a row of a tensor that a preview holds."""


def preview_import(
    plan: GraphPlan, out: Path | str, options: ImportOptions, rows: int = ROWS
) -> dict[str, Any]:
    """The first ``rows`` nodes and edges of each type; nothing is left on disk.

    ``nodes`` are dictionaries of ``type``, ``num_nodes`` (None: as many as edges name), ``names``
    (None where nodes are numbers) and ``tensors``; ``edges`` of ``type``, ``columns``, ``rows`` and
    ``tensors``. Rows are those of the input: before reverse edges, loops and duplicates. Tensors
    have ``name``, ``dtype`` and ``shape`` as stored, and ``rows``, of each the first 64 values.

    Raises:
        ImportFailed: One of these rows is bad; the message names it.
    """
    apply_options(plan, options)
    with declared(plan, out, options) as (importer, numbers):
        folder = Path(out).absolute().parent
        return {
            "nodes": [_nodes(node, rows) for node in plan.nodes],
            "edges": [
                _edges(importer, number, edge, folder, rows)
                for edge, number in zip(plan.edges, numbers, strict=True)
            ],
        }


def _nodes(node: NodePlan, rows: int) -> dict[str, Any]:
    names = None if node.keys is None else next(node.keys(), [])[:rows]
    tensors = [_tensor(tensor, rows) for tensor in node.tensors]
    return {"type": node.name, "num_nodes": node.num_nodes, "names": names, "tensors": tensors}


def _edges(
    importer: _core.Importer, number: int, edge: EdgePlan, folder: Path, rows: int
) -> dict[str, Any]:
    found = _first_edges(importer, number, edge, folder, rows)
    columns = {name: values[:rows] for name, values in found.items() if values is not None}
    return {
        "type": [edge.source, edge.relation, edge.destination],
        "columns": list(columns),
        "rows": [list(row) for row in zip(*columns.values(), strict=True)],
        "tensors": [_tensor(tensor, rows) for tensor in edge.tensors],
    }


def _first_edges(
    importer: _core.Importer, number: int, edge: EdgePlan, folder: Path, rows: int
) -> dict[str, list[Any] | None]:
    """The columns of the first edges, with None for those that the type lacks."""
    if edge.files and isinstance(edge.files[0], NpyFile):
        array = open_npy(Path(edge.files[0].path))
        pairs = array[:, :rows] if edge.files[0].layout == "rows" else array[:rows].T
        return {"source": pairs[0].tolist(), "destination": pairs[1].tolist()}
    found: dict[str, Any] = {"ends": [], "times": [], "weights": []}
    for file in edge.files:
        assert isinstance(file, TextColumns)
        with _head_as_utf8(file, folder) as arguments:
            more = importer.preview_text(number, arguments, rows)
        found = {name: values + more[name] for name, values in found.items()}
        if len(found["ends"]) >= rows:
            break
    if edge.files:
        return {
            "source": [source for source, _ in found["ends"]],
            "destination": [destination for _, destination in found["ends"]],
            "time": found["times"] if edge.has_time else None,
            "weight": found["weights"] if edge.has_weight else None,
        }
    assert edge.chunks is not None
    chunk = next(edge.chunks(), None)
    if chunk is None:
        return {"source": [], "destination": []}
    return {
        "source": _listed(chunk.sources, rows),
        "destination": _listed(chunk.destinations, rows),
        "time": _listed(chunk.times, rows),
        "weight": _listed(chunk.weights, rows),
        "edge_id": _listed(chunk.edge_ids, rows),
    }


@contextmanager
def _head_as_utf8(file: TextColumns, folder: Path) -> Iterator[dict[str, Any]]:
    """What the extension takes to read a text; of one in another encoding, its first lines."""
    if file.encoding is None:
        yield file.arguments()
        return
    with Spool(folder, file.shown) as spool, open_plain(Path(file.path)) as stream:
        text = next(decoded(stream, file.encoding, file.shown))
        whole, newline, rest = text.rpartition("\n")
        spool.write([(whole + newline or rest).encode()])
        yield file.arguments(str(spool.path))


def _listed(values: Array | list[str] | None, rows: int) -> list[Any] | None:
    if values is None or isinstance(values, list):
        return None if values is None else values[:rows]
    return list(values[:rows].tolist())


def _tensor(tensor: TensorPlan, rows: int) -> dict[str, Any]:
    chunk = next(tensor.chunks(), None)
    found: Sequence[Any] = [] if chunk is None else _values(chunk[:rows], tensor)
    return {
        "name": tensor.name,
        "dtype": tensor.stored or tensor.dtype,
        "shape": list(tensor.shape),
        "rows": list(found),
    }


def _values(rows: Array, tensor: TensorPlan) -> list[Any]:
    """Rows as numbers, or as the names of their classes."""
    if tensor.dtype == "bf16" and rows.dtype == np.uint16:
        rows = (rows.astype(np.uint32) << 16).view(np.float32)
    if tensor.class_names is not None:
        names = tensor.class_names
        return [names[code] if code >= 0 else None for code in rows.tolist()]
    first = rows.reshape(len(rows), -1)[:, :_VALUES_MAX].tolist()
    # JSON has no place for NaN and infinity.
    plain = [[one if math.isfinite(one) else str(one) for one in row] for row in first]
    return plain if tensor.shape else [one for (one,) in plain]
