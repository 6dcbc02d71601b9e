"""Batches of whole parts of a graph, in which no node is a seed."""

from typing import Any

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.collate import Collator
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.options import check_count
from neargraph.loader.ranks import Ranks


class WholeCollator(Collator):
    """Leaves out what is said of seeds, but for how many of them only fill the batch."""

    def __call__(self, batch: MiniBatch) -> Any:
        """The PyG object of `batch`."""
        data = self.graph(batch)
        if batch.num_padding:
            data.num_padding = batch.num_padding
        return data


def check_parts(num_parts: Any, num_nodes: int) -> None:
    """Refuses a number of parts that nodes cannot be divided into.

    Raises:
        ValueError: It is not a whole number from 1 to the number of nodes.
    """
    check_count("num_parts", num_parts, 1)
    if num_parts > max(1, num_nodes):
        raise ValueError(f"num_parts must be in 1 ... {num_nodes} nodes, got {num_parts}")


def refuse_pad(ranks: Ranks) -> None:
    """Refuses ``pad=True`` where an epoch has each node at most once.

    Raises:
        UnsupportedArgument: It is there.
    """
    if ranks.pad:
        raise UnsupportedArgument(
            "pad=True would repeat nodes of this epoch, which has each at most once; leave it out "
            "(several ranks leave a smaller last batch out)"
        )
