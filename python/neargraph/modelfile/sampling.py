"""The example of an export, sampled from a store, and the metadata of that store.

Tracing and ONNX must not live here. The invariant: an example is a batch as in training, so a model
that accepts batches of the store accepts the example.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

from torch import nn

from neargraph import __version__
from neargraph.exceptions import ExportFailed
from neargraph.loader.neighbor import NeighborLoader
from neargraph.loader.reading import Reading
from neargraph.reader import Reader
from neargraph.schema import Schema, TensorMeta

from .inputs import Inputs

# Numbers of seeds to try, until a batch has two nodes and two edges of each type.
_SEEDS = (8, 13, 64, 512)


def sampled(model: nn.Module, store: Reader, fanouts: Any) -> tuple[Any, ...]:
    """Returns the arguments of ``forward`` without a default, from a small batch.

    Raises:
        ExportFailed: A batch lacks an argument, or has too few nodes or edges.

    Example:
        >>> x, edge_index = sampled(model, store, [25, 10])             # doctest: +SKIP
    """
    refused: ExportFailed | None = None
    for seeds in _SEEDS:
        example = _example(model, store, fanouts, seeds)
        try:
            Inputs(model, example)
        except ExportFailed as error:
            refused = error
        else:
            return example
    assert refused is not None
    raise ExportFailed(f"no batch of the store is a valid example: {refused}") from refused


def _example(model: nn.Module, store: Reader, fanouts: Any, seeds: int) -> tuple[Any, ...]:
    wanted = [
        parameter.name
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    node_type = None if store.schema.is_homogeneous else store.schema.node_types[0].name
    reading = Reading(threads=1)
    loader = NeighborLoader(
        store, fanouts, node_type, batch_size=seeds, shuffle=True, reading=reading
    )
    batch = next(iter(loader))
    missing = [name for name in wanted if getattr(batch, name, None) is None]
    if missing:
        raise ExportFailed(
            f"the model's forward() requires {', '.join(missing)}, but a batch of the store has "
            f"only {', '.join(sorted(batch.keys()))}: give the arguments of the model instead of "
            "the store"
        )
    return tuple(getattr(batch, name) for name in wanted)


def described(store: Reader, fanouts: Any) -> dict[str, Any]:
    """Returns the metadata of a store: fanouts, schema, its hash, and the version of neargraph.

    Example:
        >>> described(store, [25, 10])["fanouts"]                       # doctest: +SKIP
        [25, 10]
    """
    return {
        "fanouts": by_name(fanouts),
        "schema": schema_parts(store.schema),
        "schema_sha256": schema_sha256(store.schema),
        "neargraph_version": __version__,
    }


def by_name(fanouts: Any) -> Any:
    """Returns fanouts for JSON: triples of edge types become ``a__to__b``."""
    if not isinstance(fanouts, Mapping):
        return fanouts
    return {key if isinstance(key, str) else "__".join(key): n for key, n in fanouts.items()}


def schema_sha256(schema: Schema) -> str:
    """Returns a digest of types and of their tensors' names, dtypes and row shapes, not counts."""
    text = json.dumps(schema_parts(schema), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def schema_parts(schema: Schema) -> dict[str, Any]:
    """Returns types and tensors as lists: [name, tensors] of nodes, [triple, tensors] of edges.
    Each tensor is [name, dtype, shape of a row]."""
    nodes = [[one.name, _tensors(one.tensors)] for one in schema.node_types]
    edges = [[list(one.triple), _tensors(one.tensors)] for one in schema.edge_types]
    return {"nodes": nodes, "edges": edges}


def _tensors(tensors: tuple[TensorMeta, ...]) -> list[list[Any]]:
    return sorted([one.name, one.read_dtype or one.dtype, list(one.shape)] for one in tensors)
