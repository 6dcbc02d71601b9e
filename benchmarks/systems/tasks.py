"""Models for batches that are PyG objects: one for nodes, one for links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch.nn import functional

from neargraph.nn import GraphSAGE

from .drive import Spec
from .sage import counted


def learner_of(spec: Spec) -> Any:
    """The model for the loader of a spec."""
    return OfLinks(spec) if spec.options["loader"].startswith("link") else OfNodes(spec)


class _Learner(ABC):
    def __init__(self, spec: Spec, outputs: int) -> None:
        torch.manual_seed(spec.seed)
        self.spec = spec
        self.model = GraphSAGE(spec.about()["width"], spec.hidden, outputs, len(spec.fanouts))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)

    def step(self, data: Any) -> None:
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(data).backward()
        self.optimizer.step()

    @abstractmethod
    def loss(self, data: Any) -> Any: ...

    def _encode(self, data: Any, seeds: int) -> Any:
        # PyG tells how many each hop added with pyg-lib alone.
        nodes, edges = data.get("num_sampled_nodes"), data.get("num_sampled_edges")
        if nodes is None:
            count = len(self.spec.fanouts)
            nodes, edges = counted(data.edge_index, data.num_nodes, seeds, count)
        return self.model(data.x, data.edge_index, nodes, edges)


class OfNodes(_Learner):
    """Classes of the seeds, or of all nodes of a subgraph without seeds."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, spec.about()["classes"])

    def loss(self, data: Any) -> Any:
        if "batch_size" not in data:
            return functional.cross_entropy(self.model(data.x, data.edge_index), data.y)
        out = self._encode(data, data.batch_size)[: data.batch_size]
        return functional.cross_entropy(out, data.y[: data.batch_size])

    @torch.no_grad()
    def correct(self, data: Any) -> int:
        self.model.eval()
        out = self._encode(data, data.batch_size)[: data.batch_size]
        return int((out.argmax(1) == data.y[: data.batch_size]).sum())


class OfLinks(_Learner):
    """Whether a link is an edge, by the product of both ends."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, 128)

    def _scores(self, data: Any) -> tuple[Any, Any]:
        seeds = int(torch.cat([data[name].reshape(-1) for name in self._ends(data)]).max()) + 1
        out = self._encode(data, seeds)
        if "edge_label_index" in data:
            source, destination = data.edge_label_index
            return (out[source] * out[destination]).sum(1), data.edge_label
        source, known, none = data.src_index, data.dst_pos_index, data.dst_neg_index
        ends = torch.cat([out[known], out[none]])
        scores = (torch.cat([out[source], out[source]]) * ends).sum(1)
        return scores, torch.cat([torch.ones(len(known)), torch.zeros(len(none))])

    @staticmethod
    def _ends(data: Any) -> list[str]:
        if "edge_label_index" in data:
            return ["edge_label_index"]
        return ["src_index", "dst_pos_index", "dst_neg_index"]

    def loss(self, data: Any) -> Any:
        scores, labels = self._scores(data)
        return functional.binary_cross_entropy_with_logits(scores, labels)

    @torch.no_grad()
    def correct(self, data: Any) -> int:
        self.model.eval()
        scores, labels = self._scores(data)
        return int(((scores > 0) == (labels > 0)).sum()) // 2
