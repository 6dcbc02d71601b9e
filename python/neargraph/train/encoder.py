"""A model on the batches of a run, with the features and degrees that it needs.

Tasks must not live here. The invariant: only sampled batches use degrees of the whole graph. A part
of the graph that is trained as if it were the whole graph uses its own degrees.
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
        model: A model of `neargraph.nn`.
        row_normalize: Whether to divide each feature row by its sum.
        degrees: In-degrees, for models with an argument ``in_degree`` and for GraphSAINT's edge
            weights.
        takes_degrees: Whether the model has an argument ``in_degree``.
        embeddings: Learned rows of nodes without features.
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
        """Returns the model's rows of the first nodes of a batch, [n, d], or by node type."""
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
