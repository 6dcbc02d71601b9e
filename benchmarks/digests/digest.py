"""One digest of batches: names, dtypes, shapes and bytes of all that is in them, in a fixed order.

A batch of NumPy arrays and the PyG object of the same batch have the same digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

Flat = dict[str, Any]
SPLITS = ("train", "val", "test")


def digest_of(batches: Iterable[Flat]) -> tuple[str, int]:
    """The digest of flat batches, and how many there are."""
    hashed, count = hashlib.blake2b(digest_size=16), 0
    for batch in batches:
        hashed.update(b"batch")
        for name in sorted(batch):
            for part, array in _arrays(batch[name]):
                head = f"{name}{part} {array.dtype.str} {array.shape}"
                hashed.update(head.encode() + b"\0")
                hashed.update(np.ascontiguousarray(array).tobytes())
        count += 1
    return hashed.hexdigest(), count


def _arrays(value: Any) -> list[tuple[str, Any]]:
    """A value as named arrays: sparse rows are three, and bf16 is its bits."""
    import torch

    if isinstance(value, torch.Tensor) and value.layout == torch.sparse_csr:
        parts = (value.crow_indices(), value.col_indices(), value.values())
        return _sparse(*(part.numpy() for part in parts), tuple(value.shape))
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        return [("", value.view(torch.int16).numpy().view(np.uint16))]
    if isinstance(value, torch.Tensor):
        return [("", value.numpy())]
    if hasattr(value, "indptr"):
        return _sparse(value.indptr, value.indices, value.values, tuple(value.shape))
    return [("", np.asarray(value))]


def _sparse(indptr: Any, indices: Any, values: Any, shape: Any) -> list[tuple[str, Any]]:
    named = {"indptr": indptr, "indices": indices, "values": values, "shape": np.asarray(shape)}
    return [(f".{name}", array) for name, array in named.items()]


def flat_pyg(batch: Any) -> Flat:
    """What a `Data` or `HeteroData` has, by name."""
    flat: Flat = {}
    for key, value in batch.to_dict().items():
        if isinstance(value, dict):
            flat |= {f"{_name(key)}.{name}": part for name, part in value.items()}
        else:
            flat[key] = value
    return {name: value for name, value in flat.items() if value is not None}


def _name(key: Any) -> str:
    return " ".join(key) if isinstance(key, tuple) else str(key)


def flat_numpy(batch: Any, schema: Any, attrs: Any = None) -> Flat:
    """What a `MiniBatch` has, under the names that its PyG object has."""
    flat: Flat = {}
    for owner in schema.node_types:
        prefix = "" if schema.is_homogeneous else f"{owner.name}."
        columns = [t for t in owner.tensors if attrs is None or t.name in attrs]
        flat |= _node_type(batch, owner, columns, prefix)
    for owner in schema.edge_types:
        prefix = "" if schema.is_homogeneous else f"{_name(owner.triple)}."
        columns = [t for t in owner.tensors if attrs is None or t.name in attrs]
        flat |= _edge_type(batch, owner, columns, prefix)
    prefix = "" if schema.is_homogeneous else f"{batch.input_type}."
    flat |= {f"{prefix}input_id": batch.input_id, f"{prefix}batch_size": batch.num_seeds}
    if batch.num_padding:
        flat[f"{prefix}num_padding"] = batch.num_padding
    return flat


def _node_type(batch: Any, owner: Any, columns: list[Any], prefix: str) -> Flat:
    name, nodes = owner.name, batch.nodes(owner.name)
    flat: Flat = {"n_id": nodes, "num_sampled_nodes": batch.num_sampled_nodes(name)}
    flat |= {t.name: batch.features(t.name, name) for t in columns if not t.is_split}
    if any(t.is_split for t in columns):
        flat |= {f"{split}_mask": batch.mask(split, name) for split in SPLITS}
    if "x" not in flat:
        flat["num_nodes"] = len(nodes)
    return {f"{prefix}{key}": value for key, value in flat.items()}


def _edge_type(batch: Any, owner: Any, columns: list[Any], prefix: str) -> Flat:
    triple = owner.triple
    flat: Flat = {
        "edge_index": batch.edge_index(triple),
        "num_sampled_edges": batch.num_sampled_edges(triple),
        "e_id": batch.edge_ids(triple),
        "edge_time": batch.times(triple),
        "edge_weight": batch.weights(triple),
    }
    flat |= {t.name: batch.edge_features(t.name, triple) for t in columns}
    return {f"{prefix}{key}": value for key, value in flat.items() if value is not None}
