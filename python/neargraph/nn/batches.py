"""Runs a model on a batch: finds the parts of the batch for the arguments of ``forward``.

Arguments have the names of the parts of a PyG batch. The invariant: an argument without a default
is found, or raises an error.
"""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import HeteroData

from neargraph.exceptions import UnsupportedArgument

from .degrees import InDegrees


def features_of(batch: Any) -> Tensor | dict[str, Tensor]:
    """Returns ``x`` of a batch as float32 [n, d].

    For `HeteroData`, it returns a dictionary by node type, with [n, 0] for types without ``x``.

    Raises:
        UnsupportedArgument: A batch of one node type has no ``x``.

    Example:
        >>> out = model(features_of(batch), batch.edge_index_dict)            # doctest: +SKIP
    """
    if isinstance(batch, HeteroData):
        return {name: _rows(batch[name]) for name in batch.node_types}
    if batch.get("x") is None:
        raise UnsupportedArgument(
            "the batch has no tensor 'x': add 'x' to attrs= of the loader, or give x=, such as "
            "the rows of a StoreEmbedding"
        )
    return _rows(batch)


def on_batch(
    model: torch.nn.Module, batch: Any, *, degrees: InDegrees | None = None, x: Any = None
) -> Any:
    """Runs a model of this package on a batch of a loader.

    If the batch has counts per hop, layers are trimmed, and the result has only the rows of the
    seeds, [seeds, out_channels]. Otherwise it has the rows of all nodes.

    Args:
        model: A model whose ``forward`` has arguments with the names of a batch's parts, or a
            `DistributedDataParallel` around it.
        batch: `Data` or `HeteroData` from a loader.
        degrees: In-degrees, for models with an argument ``in_degree``.
        x: Rows that replace those of the batch. For `HeteroData`: by node type; types that are
            missing keep the rows of the batch.

    Raises:
        UnsupportedArgument: The batch lacks an argument of the model, which the message names.

    Example:
        >>> z = on_batch(model, batch, degrees=degrees)                       # doctest: +SKIP
    """
    # DistributedDataParallel takes any arguments and passes them to its module.
    own = model.module if isinstance(model, DistributedDataParallel) else model
    taken = inspect.signature(own.forward).parameters
    given: dict[str, Any] = {"x": _inputs(batch, x)}
    if degrees is not None:
        if "in_degree" not in taken:
            raise UnsupportedArgument(
                f"{type(own).__name__} does not use degrees; leave out degrees="
            )
        is_typed = isinstance(batch, HeteroData)
        given["in_degree"] = degrees(batch.n_id_dict if is_typed else batch.n_id)
    for name, parameter in taken.items():
        # The attribute `edge_channels` declares whether a model uses edge features.
        if name in given or (name == "edge_attr" and not getattr(own, "edge_channels", 0)):
            continue
        found = _part(batch, name)
        if found is not None:
            given[name] = found
        elif parameter.default is parameter.empty:
            raise UnsupportedArgument(
                f"{type(own).__name__} needs the attribute {name!r}, which the batch does not "
                "have; see docs/reference/models.md for the loader to use"
            )
    return model(**given)


def _inputs(batch: Any, x: Any) -> Tensor | dict[str, Tensor]:
    if x is None:
        return features_of(batch)
    if not isinstance(batch, HeteroData):
        rows: Tensor = x
        return rows
    return {name: x[name] if name in x else _rows(batch[name]) for name in batch.node_types}


def _part(batch: Any, name: str) -> Any:
    if isinstance(batch, HeteroData):
        return batch.collect(name, allow_empty=True) or None
    if name == "seed_time" and "seed_time" not in batch:
        # Both ends of a link, and its negatives, are sampled at the time of the link.
        name = "edge_label_time"
    return batch.get(name)


def _rows(store: Any) -> Tensor:
    x = store.get("x")
    if x is None:
        return torch.zeros(store.num_nodes, 0, device=store.n_id.device)
    rows: Tensor = x.to(torch.float32)
    return rows
