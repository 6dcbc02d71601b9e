"""Predictions for whole graphs, in a store with many small graphs.

The invariant: each graph belongs to exactly one split. A split that divides a graph is an error.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.loader.graph import GraphLoader, graph_ends
from neargraph.nn.decoders import GraphDecoder
from neargraph.splits import SPLITS
from neargraph.store import Store

from ..config import TrainConfig
from ..labels import BLOCK_ROWS, label_facts, target_of
from ..objective import Prediction, known_rows, label_loss
from ..sources import Feed
from .base import Task, no_split

_LABELS = "graph_y"


class GraphTask(Task):
    """Predicts the labels ``graph_y`` of the graphs that ``graph_id`` defines.

    A split of nodes is used as one of graphs if it divides no graph. Without a split, ``holdout``
    percent of the graphs are drawn by the seed.
    """

    def __init__(
        self, store: Store, config: TrainConfig, device: torch.device | None = None
    ) -> None:
        super().__init__(store, config)
        snapshot, owner = store.snapshot(), store.schema.node_types[0]
        ends = graph_ends(snapshot)
        if all(tensor.name != _LABELS for tensor in owner.tensors):
            raise NameNotFound(f"{store.path} has no node tensor {_LABELS!r}; import graph labels")
        self._codes = _graph_codes(store, ends, config)
        gone = _without_nodes(ends, snapshot.dead_nodes(owner.name))
        self._codes[gone] = 0
        if len(gone):
            self.notes.append(
                f"{len(gone):,} of {len(ends) - 1:,} graphs are left out: all their nodes were "
                "deleted"
            )
        self._graphs = {name: np.flatnonzero(self._codes == code) for name, code in SPLITS.items()}
        if not len(self._graphs["train"]):
            raise UnsupportedArgument(
                f"{store.path}: no graph is in the training split; use another split_index=, or "
                "a smaller holdout="
            )
        starts = ends[:-1]
        blocks = (
            (starts[at : at + BLOCK_ROWS], self._codes[at : at + BLOCK_ROWS])
            for at in range(0, len(starts), BLOCK_ROWS)
        )
        facts = label_facts(snapshot, owner, _LABELS, blocks)
        self.target = target_of(config, facts, f"{store.path}: tensor {_LABELS!r}")
        self.kind, self.outputs = self.target.kind, self.target.outputs
        tally = facts.tally(self.kind)
        self.missing_labels, self.known_labels = tally.missing, tally.known
        self._feed = Feed(store, config, ["x", _LABELS], device=device)

    def resolved(self) -> dict[str, Any]:
        """Returns the values of `Task.resolved`, with the objective and the loss."""
        return {**super().resolved(), **self.target.settings}

    @property
    def objective(self) -> str:
        """The objective and the loss, in words."""
        return f"{self.kind} ({self.outputs}), {self.target.loss}"

    def _make_head(self) -> torch.nn.Module:
        pool: Any = self.config.pool
        return GraphDecoder(self.out_channels, self.outputs, pool, dropout=self.config.dropout)

    def train_loader(self) -> EpochLoader:
        """Returns the loader of training batches, shuffled."""
        return self._loader("train", train=True)

    def loader(self, split: str) -> EpochLoader | None:
        """Returns the loader of a split's graphs, in order; None if there are none."""
        return self._loader(split, train=False) if len(self._graphs[split]) else None

    def _loader(self, split: str, *, train: bool) -> EpochLoader:
        options = self._feed.options(train=train)
        graphs = self._graphs[split]
        return GraphLoader(self.store, self.config.batch_size, graphs=graphs, **options)

    def predict(self, batch: Any) -> Prediction:
        """Returns the outputs and labels of the graphs with a known label."""
        assert self.head is not None
        out = self.head(self.encoder(batch), batch.batch, len(batch.graph_id))
        outputs, labels, _ = known_rows(self.target, out, batch.y)
        return Prediction(outputs, labels)

    def loss(self, prediction: Prediction) -> Tensor:
        """Returns the loss of a prediction, which must not be empty."""
        return label_loss(self.target, prediction)

    def seeds(self, batch: Any) -> int:
        """Returns the number of graphs of a batch."""
        return len(batch.graph_id)


def _without_nodes(ends: NDArray[np.int64], dead: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the graphs whose nodes were all deleted. ``dead`` is in ascending order."""
    return np.flatnonzero(np.diff(ends - np.searchsorted(dead, ends)) == 0)


def _graph_codes(store: Store, ends: NDArray[np.int64], config: TrainConfig) -> NDArray[np.uint8]:
    """Returns the split code of each graph."""
    owner, name = store.schema.node_types[0], f"split_{config.split_index}"
    count = len(ends) - 1
    if all(tensor.name != name for tensor in owner.tensors):
        if config.split_index:
            raise no_split(store, owner, config)
        return _drawn_codes(count, config)
    if config.holdout != TrainConfig().holdout:
        raise UnsupportedArgument(
            f"holdout={config.holdout!r} applies only to stores without a split, but "
            f"{store.path} has the split tensor {name!r}; leave out holdout="
        )
    codes = np.zeros(count, np.uint8)
    for first, values in store.snapshot().scan(owner, name):
        graphs = np.searchsorted(ends, np.arange(first, first + len(values)), side="right") - 1
        begins = ends[graphs] == np.arange(first, first + len(values))
        codes[graphs[begins]] = values[begins]
        torn = np.flatnonzero(codes[graphs] != values)
        if len(torn):
            raise UnsupportedArgument(
                f"{store.path}: the split tensor {name!r} divides graph {int(graphs[torn[0]])} "
                "between splits; import the data set without a split, and use holdout= to draw "
                "whole graphs"
            )
    return codes


def _drawn_codes(count: int, config: TrainConfig) -> NDArray[np.uint8]:
    """Draws ``holdout`` percent of the graphs for validation and test, by the seed."""
    order = np.random.default_rng(config.seed).permutation(count)
    val, test = (round(count * share / 100) for share in config.holdout)
    codes = np.full(count, SPLITS["train"], np.uint8)
    codes[order[:val]], codes[order[val : val + test]] = SPLITS["val"], SPLITS["test"]
    return codes
