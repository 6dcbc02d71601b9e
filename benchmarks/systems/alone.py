"""The same training on random tensors of a batch's shape, without any store: what torch needs.

Options: `nodes` and `edges` by hop, as a real batch had them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .drive import Batch, Spec
from .sage import Block, Sage


class System:
    """Batches of noise, each made anew."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.nodes: list[int] = spec.options["nodes"]
        self.edges: list[int] = spec.options["edges"]
        self.about = spec.about()
        torch.manual_seed(spec.seed)

    def batches(self, split: str, epoch: int) -> Iterator[Batch]:
        del split, epoch
        total, first = sum(self.nodes), 0
        sources, targets = [], []
        for hop, edges in enumerate(self.edges):
            end = first + max(self.nodes[hop], 1)
            targets.append(torch.randint(first, end, (edges,)).sort().values)
            sources.append(torch.randint(0, sum(self.nodes[: hop + 2]), (edges,)))
            first += self.nodes[hop]
        edge_index = torch.stack([torch.cat(sources), torch.cat(targets)])
        x = torch.randn(total, self.about["width"])
        y = torch.randint(0, self.about["classes"], (self.nodes[0],))
        block = Block(x, edge_index, self.nodes, self.edges, y)
        yield Batch(self.nodes[0], total, sum(self.edges), block)

    def learner(self) -> Any:
        return Sage(self.spec)

    def reset(self) -> None:
        """There is nothing to count."""

    def stats(self) -> dict[str, Any]:
        return {"torch_threads": torch.get_num_threads()}
