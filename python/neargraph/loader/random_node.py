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

    Each batch has the tensors of the store, ``edge_index`` [2, e] and ``n_id`` [n]. Parts are of
    equal size but for the last one; with `shuffle` each epoch has other ones.

    Several ranks divide each part, and a batch has the edges inside the share of its rank: between
    two shares of one part there are none. A smaller last part is left out then, so that not every
    node is in every epoch.

    Args:
        data: The open store, or a snapshot, with one node type and one edge type.
        num_parts: As many parts as an epoch has at most. A part has ``ceil(nodes / num_parts)``
            nodes, as in PyG, so that an epoch may have fewer of them: 5 nodes in 4 parts make 3.
            Several ranks round the size of a part up to a multiple of `world_size`.
        **options: As of `NeighborLoader`: `shuffle`, `seed`, `attrs`, `transform`, `reading`,
            `ranks`, `num_workers`, `device` and the others, but not `batch_size`.

    Raises:
        UnsupportedArgument: The store has several types; or ranks with ``pad=True``, which would
            repeat nodes.
        ValueError: `num_parts` is not a whole number from 1 to the number of nodes.

    Example:
        >>> loader = ng.RandomNodeLoader(store, num_parts=40, shuffle=True)
    """

    def __init__(self, data: Reader, num_parts: int, **options: Any) -> None:
        if "batch_size" in options:
            raise UnsupportedArgument("batch_size follows from num_parts; leave it out")
        given = LoaderOptions.take(type(self).__name__, options)
        refuse_pad(given.peers)
        given.pads = False
        super().__init__(data, given)
        snapshot = data.snapshot()
        only_edge_type(snapshot.schema, "a graph that is cut into random parts")
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
