"""A model on the batches of a run: its features, and the degrees that it takes.

What must not live here: what is predicted. The invariant: degrees of the whole graph go with
sampled batches alone; a part of the graph that is trained as if it were the whole has its own.
"""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from neargraph.nn.batches import features_of, on_batch
from neargraph.nn.saint import saint_weights

from .embeddings import Embeddings


class Encoder:
    """Runs a model on batches of a loader.

    Args:
        model: Of `neargraph.nn`.
        row_normalize: Whether features are divided by their sum.
        degrees: For models that take ``in_degree``, and for GraphSAINT's weights of edges.
        takes_degrees: Whether the model takes ``in_degree``.
        embeddings: Rows of nodes without features.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        row_normalize: bool,
        degrees: Any = None,
        takes_degrees: bool = False,
        embeddings: Embeddings | None = None,
    ) -> None:
        self.model = model
        self._row_normalize, self._degrees = row_normalize, degrees
        self._takes_degrees, self._embeddings = takes_degrees, embeddings

    def __call__(self, batch: Any) -> Any:
        """What the model gives for a batch: rows of its first nodes [n, d], or by node type."""
        degrees = self._degrees if self._takes_degrees and is_sampled(batch) else None
        if self._degrees is not None and "edge_norm" in batch:
            ends = (batch.edge_index, batch.edge_norm, batch.n_id)
            batch.sum_weight = saint_weights(*ends, self._degrees)
        return on_batch(self.model, batch, degrees=degrees, x=self._inputs(batch))

    def _inputs(self, batch: Any) -> Any:
        learned = {} if self._embeddings is None else self._embeddings.inputs(batch)
        if isinstance(learned, Tensor):
            return learned
        x = features_of(batch)
        if self._row_normalize:
            x = (
                _normalized(x)
                if isinstance(x, Tensor)
                else {k: _normalized(v) for k, v in x.items()}
            )
        return x if isinstance(x, Tensor) else {**x, **learned}


def _normalized(x: Tensor) -> Tensor:
    return x / x.sum(dim=1, keepdim=True).clamp(min=1.0e-12)


def is_sampled(batch: Any) -> bool:
    """Whether a batch was sampled around seeds, which come first, hop by hop."""
    if isinstance(batch, HeteroData):
        return any("num_sampled_nodes" in store for store in batch.node_stores)
    return "num_sampled_nodes" in batch
