"""Removal of edges from batches: the links that a batch predicts must not carry messages.

A batch of links is sampled from the whole graph, so a link to predict may be one of its edges. A
model would then learn to recognise that edge instead of what the two nodes have in common. The
invariant: columns of edges keep their order, and counts per hop match the edges that are left.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.collate import take_rows

_OF_LINKS = frozenset({"edge_index", "edge_label", "edge_label_index", "edge_label_time"})
_OF_LINKS |= {"input_id", "src_index", "dst_pos_index", "dst_neg_index", "seed_time"}


def without_links(batch: Any) -> Any:
    """Removes the links that a batch predicts from the edges of the batch, in place.

    It also removes the same links in the opposite direction: of the edge type itself within one
    node type, and otherwise of each type that leads back. Nodes and their numbers do not change.
    Loaders with `time_attr` do not need it, because no link is in its own sample.

    In a batch of one node type with as many nodes as edges, ``edge`` in its name identifies a
    tensor of edges.

    Args:
        batch: `Data` or `HeteroData` of a `LinkNeighborLoader`, with any negative links.

    Returns:
        The batch, so that the function can be the `transform` of a loader.

    Raises:
        UnsupportedArgument: The batch is not of a `LinkNeighborLoader`.

    Example:
        >>> loader = ng.LinkNeighborLoader(store, [10, 5], neg_sampling="binary",
        ...                                transform=ng.nn.without_links)
    """
    if not isinstance(batch, HeteroData):
        if "input_id" not in batch:
            raise _not_of_links()
        links = _given_links(batch, batch, batch)
        keep = ~among(batch.edge_index, links, symmetric=True)
        without_edges(batch, keep, _edge_columns(batch, batch.num_nodes))
        return batch
    predicted = next((t for t in batch.edge_types if "input_id" in batch[t]), None)
    if predicted is None:
        raise _not_of_links()
    first, _, last = predicted
    links = _given_links(batch[predicted], batch[first], batch[last])
    for triple in batch.edge_types:
        edges = batch[triple]
        if triple != predicted and (triple[0], triple[2]) != (last, first):
            continue
        ends = edges.edge_index if triple == predicted else edges.edge_index.flip(0)
        keep = ~among(ends, links, symmetric=first == last)
        without_edges(edges, keep, _edge_columns(edges, None))
    return batch


def _not_of_links() -> UnsupportedArgument:
    return UnsupportedArgument(
        "the batch has no links to predict; call without_links() with batches of a "
        "LinkNeighborLoader"
    )


def _given_links(links: Any, source: Any, target: Any) -> Tensor:
    """Returns the local ids [2, s] of the given links, without negative links."""
    if "src_index" in source:
        return torch.stack([source.src_index, target.dst_pos_index])
    if "edge_label_index" not in links:
        raise _not_of_links()
    given: Tensor = links.edge_label_index[:, : len(links.input_id)]
    return given


def _edge_columns(store: Any, num_nodes: int | None) -> frozenset[str]:
    """Returns the names of the tensors with a row for each edge.

    `num_nodes` is the number of nodes of a batch that has nodes and edges in one place.
    """
    count = store.edge_index.size(1)
    rows = {
        name
        for name in set(store.keys()) - _OF_LINKS
        if torch.is_tensor(store[name]) and store[name].dim() and store[name].size(0) == count
    }
    if count == num_nodes:
        rows = {name for name in rows if "edge" in name or name in ("e_id", "time")}
    return frozenset(rows)


def without_edges(store: Any, keep: Tensor, names: Collection[str]) -> None:
    """Removes edges of one edge type from a batch in place, and updates the counts per hop.

    Args:
        store: The edges: a `Data`, or the part of a `HeteroData`.
        keep: Which edges remain, bool [e].
        names: The tensors with a row for each edge; those that the batch does not have are ignored.
    """
    count = store.edge_index.size(1)
    for name in set(names) & set(store.keys()):
        value = store[name]
        if torch.is_tensor(value) and name != "edge_index" and value.size(0) == count:
            store[name] = take_rows(value, keep.nonzero().squeeze(1))
    store.edge_index = store.edge_index[:, keep]
    if "num_sampled_edges" in store:
        parts = torch.split(keep, list(store.num_sampled_edges))
        store.num_sampled_edges = [int(part.sum()) for part in parts]


def among(ends: Tensor, links: Tensor, *, symmetric: bool) -> Tensor:
    """Returns which edges [2, e] are among the links [2, n]; if symmetric, in either direction."""
    width = max(_top(ends), _top(links)) + 1
    keys = links[0] * width + links[1]
    if symmetric:
        keys = torch.cat([keys, links[1] * width + links[0]])
    return torch.isin(ends[0] * width + ends[1], keys)


def _top(ids: Tensor) -> int:
    return int(ids.max()) if ids.numel() else 0
