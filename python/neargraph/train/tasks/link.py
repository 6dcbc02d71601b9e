"""Prediction of links: whether an edge of one type exists.

Each positive link is scored beside negative links from the loader, which are not edges of the
store. The invariant: a held-out edge never carries a message (`holdout.py`), and a training batch
does not contain the links that it predicts.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.link import LinkNeighborLoader
from neargraph.loader.neighbor import NeighborLoader
from neargraph.loader.pinsage import HeldOutEdges, PinSAGELoader
from neargraph.nn.decoders import DotDecoder, MLPDecoder
from neargraph.nn.links import among, without_edges
from neargraph.schema import EdgeType
from neargraph.splits import SPLITS
from neargraph.store import Store

from ..config import TrainConfig
from ..holdout import Holdout, TrainingDegrees, collect, edge_blocks
from ..models import sampler_of
from ..objective import Prediction
from ..ranking import Ranking
from ..sources import Feed
from .base import Task, named_type

_EDGE_COLUMNS = ("edge_index", "edge_weight", "edge_time", "e_id")
_LOSSES = ("bce", "bpr")


class LinkTask(Task):
    """Predicts edges of one type against pairs that are not edges.

    With "triplet", negatives have the source of their positive link, which is compared with them.
    With "binary", both ends are drawn. Evaluation uses "triplet", so that each link has a rank.
    """

    kind = "links"
    outputs = 1

    def __init__(
        self, store: Store, config: TrainConfig, device: torch.device | None = None
    ) -> None:
        super().__init__(store, config)
        self._hetero = not self.schema.is_homogeneous
        target = None if config.target is None else tuple(config.target.split(","))
        self._type = named_type(store.schema.edge_type, target)
        self._loss = "bce" if config.loss == "auto" else config.loss
        _check(config, self._loss)
        if config.strategy is not None:
            self._check_past()
        self._holdout = Holdout.of(config, self._type)
        found = collect(store, self._type, self._holdout)
        rows = {name: torch.from_numpy(links.pairs()) for name, links in found.items()}
        self._links = {name: row[:2] for name, row in rows.items()}
        # A link is scored at the time just before it, so that its own sample does not contain it.
        self._times = {name: row[2] - 1 for name, row in rows.items() if config.strategy}
        for name, links in found.items():
            if links.count > self._links[name].size(1):
                kept = self._links[name].size(1)
                self.notes.append(
                    f"split {name!r}: {kept:,} of {links.count:,} links are used, drawn by the seed"
                )
        for name in ("train", "test"):
            if not found[name].count:
                raise UnsupportedArgument(
                    f"{store.path}: no edge of {self._type.triple} is in the split {name!r}; use "
                    "another holdout= or test_after="
                )
        self._feed = Feed(store, config, self._attrs(), device=device)
        # Temporal sampling takes only the past of a link, which may be known.
        is_masked = config.strategy is None
        self._masked = [t for t in self.schema.edge_types if is_masked and self._is_masked(t)]
        self._walks = sampler_of(config) == "pinsage"
        if self._degrees is not None:
            self._degrees = TrainingDegrees(self._degrees, self._held_out_degrees())

    def resolved(self) -> dict[str, Any]:
        """Returns the values of `Task.resolved`, with the loss."""
        return {**super().resolved(), "loss": self._loss}

    def _check_past(self) -> None:
        """Rejects edge types that would reveal a link before its time."""
        for edge_type in self.schema.edge_types:
            if not edge_type.has_time and self._joins_the_same(edge_type):
                raise UnsupportedArgument(
                    f"{self.store.path}: edges of {edge_type.triple} have no times. They join the "
                    f"same node types as {self._type.triple}, so temporal samples could contain "
                    "links that are later than their seeds; import these edges with times, or use "
                    "temporal='off'"
                )

    def _joins_the_same(self, edge_type: EdgeType) -> bool:
        """Whether an edge type has the two node types of the links, in either direction."""
        ends = {edge_type.source, edge_type.destination}
        return ends == {self._type.source, self._type.destination}

    def _held_out_degrees(self) -> dict[Any, Any]:
        """Returns the number of held-out edges to each node, by edge type, int32 [nodes]."""
        found = {}
        for edge_type in self._masked:
            count = self.store.schema.node_type(edge_type.destination).num_nodes
            counts = np.zeros(count, np.int32)
            for sources, targets, times in edge_blocks(self.store, edge_type):
                codes = self._codes(edge_type, sources, targets, times)
                np.add.at(counts, targets[codes != SPLITS["train"]], 1)
            found[edge_type.triple] = torch.from_numpy(counts)
        return found

    def _codes(self, edge_type: EdgeType, sources: Any, targets: Any, times: Any) -> Any:
        """Returns the split codes of edges of the predicted type or of a reverse type."""
        if self._holdout.by_time and times is None:
            raise UnsupportedArgument(
                f"the reverse edges {edge_type.triple} have no times, so held-out edges cannot "
                "be found among them; import the reverse edges with times, or leave out "
                "test_after="
            )
        ends = (sources, targets)
        if edge_type.triple != self._type.triple:
            ends = ends[::-1]
        return self._holdout.codes(*ends, times)

    def _attrs(self) -> Any:
        attrs = self.features()
        return attrs if self._hetero else next(iter(attrs.values()))

    def _is_masked(self, edge_type: EdgeType) -> bool:
        """Whether a type may contain held-out edges: the predicted type, and all types in the
        opposite direction."""
        ends = (edge_type.source, edge_type.destination)
        return edge_type.triple == self._type.triple or (
            ends == (self._type.destination, self._type.source)
        )

    @property
    def objective(self) -> str:
        """The objective and the loss, in words."""
        name = ",".join(self._type.triple)
        return f"links {name}, {self._loss} with {self.config.negatives} negatives"

    def _make_head(self) -> torch.nn.Module:
        if self.config.decoder == "dot":
            return DotDecoder()
        return MLPDecoder(self.out_channels, dropout=self.config.dropout)

    def train_loader(self) -> EpochLoader:
        """Returns the loader of training links, shuffled."""
        config = self.config
        return self._loader("train", config.negatives, config.num_negatives, train=True)

    def loader(self, split: str) -> EpochLoader | None:
        """Returns the loader of a split's links, in order; None if there are none."""
        if not self._links[split].size(1):
            return None
        return self._loader(split, "triplet", self.config.eval_negatives, train=False)

    def _loader(self, split: str, mode: str, amount: int, *, train: bool) -> EpochLoader:
        config, pairs = self.config, self._links[split]
        links: Any = (self._type.triple, pairs) if self._hetero else pairs
        options = {
            **self._feed.options(train=train),
            "batch_size": config.batch_size,
            "edge_label_index": links,
            "neg_sampling": {"mode": mode, "amount": amount},
        }
        if self._walks:
            held_out = self._held_out_of_walks()
            return PinSAGELoader(self.store, list(config.fanouts), held_out=held_out, **options)
        options |= {"method": config.method, **self._of_times(split)}
        return LinkNeighborLoader(self.store, self._feed.fanouts, **options)

    def _held_out_of_walks(self) -> HeldOutEdges:
        return HeldOutEdges(self.config.seed, sum(self.config.holdout), self._holdout.symmetric)

    def ranking(self, split: str) -> Ranking | None:
        """Returns the ranking of a split's links among all nodes; None if there are no links."""
        links = self._links[split]
        if not links.size(1):
            return None
        how: Any = (self._node_loader, self._seed_rows, self.out_channels)
        undirected = self._holdout.undirected
        return Ranking(self.store, self._type, links.numpy(), undirected, *how)

    def _node_loader(self, node_type: str, nodes: Any) -> EpochLoader:
        """Returns the loader around nodes, or around all nodes of a type, in order."""
        config = self.config
        options = {**self._feed.options(train=False), "batch_size": config.batch_size}
        seeds = (node_type, nodes) if self._hetero else nodes
        if self._walks:
            held_out = self._held_out_of_walks()
            fanouts = list(config.fanouts)
            return PinSAGELoader(self.store, fanouts, seeds, held_out=held_out, **options)
        options |= {"method": config.method}
        return NeighborLoader(self.store, self._feed.fanouts, seeds, **options)

    def _seed_rows(self, batch: Any, node_type: str) -> Tensor:
        self._take_out(batch, None)
        z = self.encoder(batch)
        rows: Tensor = z if isinstance(z, Tensor) else z[node_type]
        return rows[: (batch[node_type] if self._hetero else batch).batch_size]

    def _of_times(self, split: str) -> dict[str, Any]:
        if self.config.strategy is None:
            return {}
        strategy = {"time_attr": "edge_time", "temporal_strategy": self.config.strategy}
        return {"edge_label_time": self._times[split], **strategy}

    def fault(self, batch: Any) -> str | None:
        """Returns a message if an edge of the batch is not earlier than its link; else None."""
        if self.config.strategy is None:
            return None
        links = self._of_links(batch)
        source = batch[self._type.source] if self._hetero else batch
        asked = links.edge_label_time if "edge_label_time" in links else source.seed_time
        for edges, part in self._timed_edges(batch):
            late = edges.edge_time - asked[part]
            if late.numel() and int(late.max()) > 0:
                at = int(late.argmax())
                return (
                    f"an edge of time {int(edges.edge_time[at])} was sampled for a link of time "
                    f"{int(asked[part[at]]) + 1}; training would see the future"
                )
        return None

    def _timed_edges(self, batch: Any) -> Iterator[tuple[Any, Tensor]]:
        """Yields (edges, the link of each edge [e]) of the edge types with times."""
        if not self._hetero:
            yield batch, batch.batch[batch.edge_index[1]]
            return
        for edge_type in batch.edge_types:
            if "edge_time" in batch[edge_type]:
                edges = batch[edge_type]
                yield edges, batch[edge_type[2]].batch[edges.edge_index[1]]

    def predict(self, batch: Any) -> Prediction:
        """Returns the scores of positive links [n], and of the negative links of each [n, m]."""
        links = self._of_links(batch)
        sources, targets, negatives = self._ends(batch, links)
        self._take_out(batch, torch.stack([sources, targets]) if self.model_trains else None)
        z = self.encoder(batch)
        first = z if isinstance(z, Tensor) else z[self._type.source]
        second = z if isinstance(z, Tensor) else z[self._type.destination]
        assert self.head is not None
        positive = self.head(first, second, torch.stack([sources, targets]))
        return Prediction(positive, self._negative_scores(first, second, sources, negatives))

    @property
    def model_trains(self) -> bool:
        """Whether the model is in training."""
        return self.encoder.model.training

    def _of_links(self, batch: Any) -> Any:
        return batch[self._type.triple] if self._hetero else batch

    def _ends(self, batch: Any, links: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Returns (sources [n], targets [n], negatives: targets [n, m] or pairs [2, n m])."""
        if "edge_label_index" in links:
            is_edge = links.edge_label > 0
            pairs = links.edge_label_index
            return pairs[0, is_edge], pairs[1, is_edge], pairs[:, ~is_edge]
        source = batch[self._type.source] if self._hetero else batch
        target = batch[self._type.destination] if self._hetero else batch
        negative = target.dst_neg_index
        return source.src_index, target.dst_pos_index, negative.reshape(len(source.src_index), -1)

    def _negative_scores(
        self, first: Tensor, second: Tensor, sources: Tensor, negatives: Tensor
    ) -> Tensor:
        assert self.head is not None
        count = len(sources)
        is_pairs = self.config.negatives == "binary" and self.model_trains
        if is_pairs:
            # Binary negatives do not belong to a positive link.
            scores: Tensor = self.head(first, second, negatives)
            return scores.reshape(1, -1)
        pairs = torch.stack([sources.repeat_interleave(negatives.size(1)), negatives.reshape(-1)])
        found: Tensor = self.head(first, second, pairs)
        return found.reshape(count, -1)

    def _take_out(self, batch: Any, asked: Tensor | None) -> None:
        """Removes held-out edges from a batch, and in training the links that it predicts."""
        for edge_type in self._masked:
            store = batch[edge_type.triple] if self._hetero else batch
            source = batch[edge_type.source] if self._hetero else batch
            target = batch[edge_type.destination] if self._hetero else batch
            back = edge_type.triple != self._type.triple
            ends = store.edge_index.flip(0) if back else store.edge_index
            times = store.edge_time.cpu().numpy() if "edge_time" in store else None
            sources = source.n_id[store.edge_index[0]].cpu().numpy()
            targets = target.n_id[store.edge_index[1]].cpu().numpy()
            keep = torch.ones(len(sources), dtype=torch.bool, device=ends.device)
            if not self._walks:
                # Walks use no held-out edge, and their ends are not edges of the store.
                codes = self._codes(edge_type, sources, targets, times)
                keep = torch.from_numpy(codes == SPLITS["train"]).to(ends.device)
            if asked is not None:
                keep &= ~among(ends, asked, symmetric=self._holdout.symmetric)
            columns = {*_EDGE_COLUMNS, *(tensor.name for tensor in edge_type.tensors)}
            without_edges(store, keep, columns)

    def loss(self, prediction: Prediction) -> Tensor:
        """Returns the binary cross entropy of all scores, or BPR (Rendle et al., UAI 2009)."""
        positive, negative = prediction.outputs, prediction.targets
        if self._loss == "bpr":
            return -functional.logsigmoid(positive.unsqueeze(1) - negative).mean()
        scores = torch.cat([positive, negative.reshape(-1)])
        answers = torch.zeros_like(scores)
        answers[: len(positive)] = 1
        return functional.binary_cross_entropy_with_logits(scores, answers)

    def seeds(self, batch: Any) -> int:
        """Returns the number of links that a batch predicts."""
        return len(self._of_links(batch).input_id)


def _check(config: TrainConfig, loss: str) -> None:
    if loss not in _LOSSES:
        raise UnsupportedArgument(
            f"loss={loss!r} does not support the task 'link'; use "
            f"{' or '.join(f'loss={known!r}' for known in _LOSSES)}"
        )
    if loss == "bpr" and config.negatives != "triplet":
        raise UnsupportedArgument(
            "loss='bpr' compares a link with negatives of its own source; use negatives='triplet'"
        )
    if config.objective != "auto":
        raise UnsupportedArgument(
            f"objective={config.objective!r} applies only to labels of nodes and graphs; leave "
            "out objective="
        )
