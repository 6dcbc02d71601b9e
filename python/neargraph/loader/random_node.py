"""PyG's RandomNodeLoader over a store on disk: random parts of all nodes."""

from typing import Any

from neargraph._optional import torch_for
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.seeds import resolve_input_nodes
from neargraph.loader.spreading import SpreadSampler, only_edge_type
from neargraph.reader import Reader

with torch_for("RandomNodeLoader"):
    import torch  # noqa: F401

from neargraph.loader.sampling import LoaderOptions, SamplingLoader
from neargraph.loader.whole import WholeCollator, check_parts, refuse_pad


class RandomNodeLoader(SamplingLoader):
    """Parts of all nodes with all edges between them, as `Data`.

    Each batch has the tensors of the store, ``edge_index`` [2, e] and ``n_id`` [n]. All parts but
    the last have equal size. With `shuffle`, each epoch has different parts.

    Several ranks divide each part into shares, and the batch of a rank has only the edges inside
    its share. They drop a smaller last part, so an epoch may not contain every node.

    Args:
        data: The open store or a snapshot, with one node type and one edge type.
        num_parts: Maximum number of parts of an epoch. A part has ``ceil(nodes / num_parts)``
            nodes, as in PyG, so an epoch can have fewer parts: 5 nodes and 4 parts result in 3.
            Several ranks round the size of a part up to a multiple of `world_size`.
        **options: As in `NeighborLoader`: `shuffle`, `seed`, `attrs`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others, except `batch_size`.

    Raises:
        UnsupportedArgument: The store has several types, or `ranks` has ``pad=True``, which would
            repeat nodes.
        ValueError: `num_parts` is not a whole number from 1 to the number of nodes.

    Example:
        >>> loader = ng.RandomNodeLoader(store, num_parts=40, shuffle=True)
    """

    def __init__(self, data: Reader, num_parts: int, **options: Any) -> None:
        if "batch_size" in options:
            raise UnsupportedArgument(
                "batch_size= has no effect, as num_parts= determines the number of nodes of a "
                "batch; leave out batch_size="
            )
        given = LoaderOptions.take(type(self).__name__, options)
        refuse_pad(given.peers)
        given.pads = False
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, type(self).__name__)
        inputs = resolve_input_nodes(snapshot, None)
        check_parts(num_parts, len(inputs))
        rows, x_cast = given.rows(snapshot.schema)
        size = -(-len(inputs) // num_parts)
        ranks = given.peers.world_size
        given.batch_size = -(-size // ranks) * ranks
        sampler = SpreadSampler(snapshot, seed=given.seed, **rows)
        collator = WholeCollator(sampler.schema, sampler.tensors, x_cast, by_hop=False)
        self._start(sampler, inputs, collator, given)

    def __repr__(self) -> str:
        return f"RandomNodeLoader({self.snapshot.path!r}, num_parts={len(self)})"
