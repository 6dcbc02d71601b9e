"""A model on a batch: which parts of the batch are the arguments of its ``forward``.

Arguments have the names that PyG gives to the parts of a batch, so the names say what a model
takes. The invariant: an argument without a default is found or refused, never left out.
"""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from neargraph.exceptions import UnsupportedArgument

from .degrees import InDegrees


def features_of(batch: Any) -> Tensor | dict[str, Tensor]:
    """``x`` of a batch as float32, [n, d]; by node type for `HeteroData`, [n, 0] where it has none.

    Raises:
        UnsupportedArgument: A batch of one node type has no ``x``.

    Example:
        >>> out = model(features_of(batch), batch.edge_index_dict)            # doctest: +SKIP
    """
    if isinstance(batch, HeteroData):
        return {name: _rows(batch[name]) for name in batch.node_types}
    if batch.get("x") is None:
        raise UnsupportedArgument(
            "the batch has no x: name it in attrs= of the loader, or give x=, such as the rows of "
            "a StoreEmbedding"
        )
    return _rows(batch)


def on_batch(
    model: torch.nn.Module, batch: Any, *, degrees: InDegrees | None = None, x: Any = None
) -> Any:
    """Runs a model of this package on a batch of a loader.

    Where the batch tells its hops, layers are trimmed to them and only the seeds' rows come back,
    [seeds, out_channels]; else those of all nodes.

    Args:
        model: A model whose ``forward`` names its arguments as batches name their parts.
        batch: `Data` or `HeteroData` of a loader.
        degrees: Gives ``in_degree`` to models that take it.
        x: Rows instead of those of the batch; by node type for `HeteroData`, where types that are
            not in it have the rows of the batch.

    Raises:
        UnsupportedArgument: The batch lacks what the model needs; says what.

    Example:
        >>> z = on_batch(model, batch, degrees=degrees)                       # doctest: +SKIP
    """
    taken = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {"x": _inputs(batch, x)}
    if degrees is not None:
        if "in_degree" not in taken:
            raise UnsupportedArgument(f"{type(model).__name__} takes no degrees; leave them out")
        is_typed = isinstance(batch, HeteroData)
        given["in_degree"] = degrees(batch.n_id_dict if is_typed else batch.n_id)
    for name, parameter in taken.items():
        # A model says itself whether it has a use for features of edges.
        if name in given or (name == "edge_attr" and not getattr(model, "edge_channels", 0)):
            continue
        found = _part(batch, name)
        if found is not None:
            given[name] = found
        elif parameter.default is parameter.empty:
            raise UnsupportedArgument(
                f"{type(model).__name__} needs {name}, which the batch does not have; see "
                "docs/reference/models.md for the loader that gives it"
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
        # Of links: both ends of a link, and what is drawn against it, ask about its time.
        name = "edge_label_time"
    return batch.get(name)


def _rows(store: Any) -> Tensor:
    x = store.get("x")
    if x is None:
        return torch.zeros(store.num_nodes, 0, device=store.n_id.device)
    rows: Tensor = x.to(torch.float32)
    return rows
