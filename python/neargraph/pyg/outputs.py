"""Mini-batches as the outputs of samplers for PyG's own loaders: structure without rows.

Links between two node types have seeds of both. This module joins the disjoint samples around each
of them. The invariant: seeds come first, then the nodes hop by hop.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from neargraph.loader.minibatch import MiniBatch
from neargraph.schema import EdgeTriple, Schema


def homogeneous_output(batch: MiniBatch, by_hop: bool) -> SamplerOutput:
    """Returns the only types of `batch`, with counts per hop if `by_hop`."""
    row, col = torch.from_numpy(batch.edge_index())
    return SamplerOutput(
        node=torch.from_numpy(batch.nodes()),
        row=row,
        col=col,
        edge=_optional(batch.edge_ids()),
        batch=_optional(batch.subgraphs()),
        num_sampled_nodes=batch.num_sampled_nodes() if by_hop else None,
        num_sampled_edges=batch.num_sampled_edges() if by_hop else None,
    )


def hetero_output(
    batches: Sequence[MiniBatch], schema: Schema, by_hop: bool
) -> HeteroSamplerOutput:
    """Returns all types of `batches`, whose subgraphs are disjoint, as one sample."""
    names = [t.name for t in schema.node_types]
    triples = [t.triple for t in schema.edge_types]
    nodes = {name: _Order([b.num_sampled_nodes(name) for b in batches]) for name in names}
    edges = {t: _Order([b.num_sampled_edges(t) for b in batches]) for t in triples}

    def ends(triple: EdgeTriple, side: int) -> Tensor:
        columns = [batch.edge_index(triple)[side] for batch in batches]
        found = edges[triple].join(nodes[triple[2 * side]].renumbered(columns))
        assert found is not None
        return found

    subgraphs = {name: nodes[name].join([b.subgraphs(name) for b in batches]) for name in names}
    return HeteroSamplerOutput(
        node={name: nodes[name].join([b.nodes(name) for b in batches]) for name in names},
        row={t: ends(t, 0) for t in triples},
        col={t: ends(t, 1) for t in triples},
        edge={t: edges[t].join([b.edge_ids(t) for b in batches]) for t in triples},
        batch=subgraphs if all(map(torch.is_tensor, subgraphs.values())) else None,
        num_sampled_nodes={name: nodes[name].counts for name in names} if by_hop else None,
        num_sampled_edges={t: edges[t].counts for t in triples} if by_hop else None,
    )


class _Order:
    """The joined order of nodes or edges of several batches: by hop, then by batch.

    `counts` has their number per hop.
    """

    def __init__(self, counts: list[list[int]]) -> None:
        self.counts = [sum(of_hop) for of_hop in zip(*counts, strict=True)]
        self._order: NDArray[np.int64] | None = None
        # One batch is in this order as it is, and its arrays are not copied.
        if len(counts) > 1:
            hops = [np.repeat(np.arange(len(of_batch)), of_batch) for of_batch in counts]
            self._order = np.argsort(np.concatenate(hops), kind="stable")
            self._ends = np.cumsum([len(of_batch) for of_batch in hops])

    def join(self, columns: Sequence[Any]) -> Tensor | None:
        """Returns one column of all batches; None if a batch does not have it."""
        if any(column is None for column in columns):
            return None
        if self._order is None:
            return torch.from_numpy(columns[0])
        return torch.from_numpy(np.concatenate(columns)[self._order])

    def renumbered(self, columns: Sequence[NDArray[np.int64]]) -> Sequence[NDArray[np.int64]]:
        """Converts places in each batch to places in the joined order."""
        if self._order is None:
            return columns
        places = np.empty_like(self._order)
        places[self._order] = np.arange(len(places))
        parts = np.split(places, self._ends[:-1])
        return [part[column] for part, column in zip(parts, columns, strict=True)]


def _optional(array: Any) -> Tensor | None:
    return None if array is None else torch.from_numpy(array)
