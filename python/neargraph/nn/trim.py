"""Layer-wise trimming: a layer runs only on the nodes and edges that the seeds still need.

Batches number nodes and edges hop by hop, so a trim is a prefix. The seeds' outputs are the same
with and without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hops:
    """How many nodes and edges each hop of a batch added: [hops + 1] and [hops]."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    @staticmethod
    def of(nodes: Sequence[int] | None, edges: Sequence[int] | None) -> "Hops | None":
        """The counts of a batch, or None where the batch tells none (a full graph)."""
        if nodes is None or edges is None:
            return None
        if len(nodes) != len(edges) + 1:
            raise ValueError(
                f"num_sampled_nodes has {len(nodes)} counts, expected {len(edges) + 1} "
                "(hops + 1, one more than num_sampled_edges)"
            )
        return Hops(tuple(nodes), tuple(edges))

    def kept(self, layer: int, num_layers: int) -> tuple[int, int]:
        """(nodes, edges) that layer ``layer`` of ``num_layers`` reads.

        >>> Hops((2, 4, 8), (6, 9)).kept(1, 2)
        (6, 6)
        """
        hops = min(num_layers - layer, len(self.edges))
        return sum(self.nodes[: hops + 1]), sum(self.edges[:hops])
