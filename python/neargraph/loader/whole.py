"""Batches of whole parts of a graph, in which no node is a seed."""

from typing import Any

from neargraph.loader.collate import Collator
from neargraph.loader.minibatch import MiniBatch


class WholeCollator(Collator):
    """Leaves out what is said of seeds."""

    def __call__(self, batch: MiniBatch) -> Any:
        """The PyG object of `batch`."""
        return self.graph(batch)
