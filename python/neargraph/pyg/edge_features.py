"""Edge tensors for batches of PyG's own loaders, which only read node tensors from a store."""

from typing import Any

import numpy as np
import torch

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.collate import as_tensor
from neargraph.reader import Reader
from neargraph.schema import EdgeType


class EdgeFeatures:
    """A transform that adds edge tensors [e, ...] to a batch by its ``e_id``.

    Use it as ``transform=`` of PyG's NodeLoader and LinkLoader. Batches of
    `neargraph.NeighborLoader` already have edge tensors.

    Args:
        store: The open store or a snapshot.

    Example:
        >>> loader = NodeLoader(store, store.sampler([15, 10]), input_nodes=ids,
        ...                     transform=ng.pyg.EdgeFeatures(store))
    """

    def __init__(self, store: Reader) -> None:
        self._snapshot = store.snapshot()

    def __call__(self, batch: Any) -> Any:
        """Adds the tensors in place and returns the batch.

        Raises:
            UnsupportedArgument: An edge type has tensors, and the batch has no ``e_id`` for it.
        """
        schema = self._snapshot.schema
        for edge_type in schema.edge_types:
            out = batch if schema.is_homogeneous else batch[edge_type.triple]
            for meta in edge_type.tensors:
                ids = self._ids(out, edge_type)
                rows = self._snapshot.version.rows("edge", edge_type.index, meta.name, ids)
                out[meta.name] = as_tensor(rows)
        return batch

    def _ids(self, out: Any, edge_type: EdgeType) -> Any:
        if "e_id" in out:
            ids: torch.Tensor = out.e_id
            return np.ascontiguousarray(ids.cpu().numpy())
        raise UnsupportedArgument(
            f"the batch has no e_id for edge type {edge_type.triple!r}; use a sampler from "
            "store.sampler()"
        )
