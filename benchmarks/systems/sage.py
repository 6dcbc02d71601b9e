"""The training that all systems with PyG share: 2 layers of PyG's SAGEConv, Adam, cross-entropy.

Layers run on what the seeds still need (trimming by hops), as PyG's own examples do it; where a
loader does not tell the hops they are counted from the edges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional

from neargraph.nn import GraphSAGE

from .drive import Spec


class Block(NamedTuple):
    """x [n, width], edge_index [2, e] (targets ascend), counts by hop, y [seeds]."""

    x: Any
    edge_index: Any
    nodes: list[int]
    edges: list[int]
    y: Any


class Sage:
    """A new model for a graph."""

    def __init__(self, spec: Spec) -> None:
        torch.manual_seed(spec.seed)
        about = spec.about()
        self.model = GraphSAGE(about["width"], spec.hidden, about["classes"], len(spec.fanouts))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)

    def step(self, data: Block) -> None:
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(self._out(data), data.y).backward()
        self.optimizer.step()

    @torch.no_grad()
    def correct(self, data: Block) -> int:
        self.model.eval()
        return int((self._out(data).argmax(1) == data.y).sum())

    def _out(self, data: Block) -> Any:
        return self.model(data.x, data.edge_index, data.nodes, data.edges)[: len(data.y)]


def counted(edge_index: Any, num_nodes: int, seeds: int, hops: int) -> tuple[list[int], list[int]]:
    """(nodes by hop, edges by hop) of a batch that numbers nodes in the order of discovery.

    The edges of hop k have the nodes that hop k - 1 found as targets, and targets ascend.
    """
    source, target = edge_index
    nodes, edges = [seeds], []
    known, done = seeds, 0
    for _ in range(hops):
        end = int(torch.searchsorted(target, known))
        found = max(known, int(source[done:end].max()) + 1) if end > done else known
        edges.append(end - done)
        nodes.append(found - known)
        known, done = found, end
    nodes[-1] += num_nodes - known
    return nodes, edges
