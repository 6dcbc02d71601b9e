"""Batches of whole parts of a graph, which have no seeds."""

from typing import Any

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.collate import Collator
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import check_count
from neargraph.loader.ranks import Ranks


class WholeCollator(Collator):
    """Leaves out the attributes of seeds, except the number of repeated ones."""

    def __call__(self, batch: MiniBatch) -> Any:
        """Returns the PyG object of `batch`."""
        data = self.graph(batch)
        if batch.num_padding:
            data.num_padding = batch.num_padding
        return data


def check_parts(num_parts: Any, num_nodes: int) -> None:
    """Checks the number of parts that nodes are divided into.

    Raises:
        ValueError: It is not a whole number from 1 to the number of nodes.
    """
    check_count("num_parts", num_parts, 1)
    if num_parts > max(1, num_nodes):
        raise ValueError(
            f"num_parts={num_parts} is not valid: the store has only {num_nodes} nodes to divide"
        )


def refuse_pad(ranks: Ranks) -> None:
    """Rejects ``pad=True`` for loaders whose epochs contain each node at most once.

    Raises:
        UnsupportedArgument: `ranks` has ``pad=True``.
    """
    if ranks.pad:
        raise UnsupportedArgument(
            "pad=True would repeat nodes, and an epoch of this loader contains each node at most "
            "once; leave out pad= (several ranks then drop a smaller last batch)"
        )
