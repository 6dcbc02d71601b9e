"""Layer-wise trimming: a layer runs only on the nodes and edges that the seeds still need.

Batches number nodes and edges hop by hop, so the trimmed part is a prefix. The outputs of the seeds
are equal with and without trimming.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neargraph.schema import EdgeTriple


@dataclass(frozen=True, slots=True)
class Hops:
    """Numbers of nodes [hops + 1] and edges [hops] that each hop of a batch added."""

    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    @staticmethod
    def of(nodes: Sequence[int] | None, edges: Sequence[int] | None) -> "Hops | None":
        """Returns the counts of a batch; None if it has none, as a full graph."""
        if nodes is None or edges is None:
            return None
        if len(nodes) != len(edges) + 1:
            raise ValueError(
                f"num_sampled_nodes= has {len(nodes)} counts: expected {len(edges) + 1}, one "
                "more than num_sampled_edges="
            )
        return Hops(tuple(nodes), tuple(edges))

    def kept(self, layer: int, num_layers: int) -> tuple[int, int]:
        """Returns the numbers (nodes, edges) that layer ``layer`` of ``num_layers`` reads.

        >>> Hops((2, 4, 8), (6, 9)).kept(1, 2)
        (6, 6)
        """
        hops = min(num_layers - layer, len(self.edges))
        return sum(self.nodes[: hops + 1]), sum(self.edges[:hops])


NodeCounts = Mapping[str, Sequence[int]]
EdgeCounts = Mapping[EdgeTriple, Sequence[int]]


@dataclass(frozen=True, slots=True)
class TypedHops:
    """Numbers of nodes [hops + 1] by node type and of edges [hops] by edge type."""

    nodes: NodeCounts
    edges: EdgeCounts

    @staticmethod
    def of(nodes: NodeCounts | None, edges: EdgeCounts | None) -> "TypedHops | None":
        """Returns the counts of a batch; None if it has none, as a full graph."""
        if nodes is None or edges is None:
            return None
        for triple, counts in edges.items():
            # Checks the lengths, which are equal for all types.
            Hops.of(nodes[triple[2]], counts)
        return TypedHops(nodes, edges)

    def kept(self, layer: int, num_layers: int) -> tuple[dict[str, int], dict[EdgeTriple, int]]:
        """Returns the numbers (nodes, edges) that layer ``layer`` reads, by type.

        >>> hops = TypedHops({"a": (2, 4, 8)}, {("a", "to", "a"): (6, 9)})
        >>> hops.kept(1, 2)
        ({'a': 6}, {('a', 'to', 'a'): 6})
        """
        left = num_layers - layer
        nodes = {name: sum(counts[: left + 1]) for name, counts in self.nodes.items()}
        return nodes, {triple: sum(counts[:left]) for triple, counts in self.edges.items()}
