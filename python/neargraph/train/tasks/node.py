"""Predictions for nodes: a class, several labels, or numbers.

The invariant: a node counts in a loss or metric if it is in the split and its label is known, and
then once per pass.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.schema import NodeType
from neargraph.store import Store

from ..config import TrainConfig
from ..labels import BLOCK_ROWS, Block, label_facts, target_of
from ..objective import Prediction, known_rows, label_loss
from ..sources import Feed
from .base import Task, named_type, no_split


class NodeTask(Task):
    """Predicts the labels ``y`` of the nodes of one type, by its splits.

    Args:
        store: The open store.
        config: The settings.
        resident: Function that adds features and labels to batches, which are read without them.
        device: The device for batches.
    """

    def __init__(
        self,
        store: Store,
        config: TrainConfig,
        resident: Callable[[Any], Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._owner = _target_type(store, config)
        super().__init__(store, config)
        where = f"{store.path}: tensor 'y' of node type {self._owner.name!r}"
        facts = label_facts(store.snapshot(), self._owner, "y", _blocks(store, self._owner, config))
        self.target = target_of(config, facts, where)
        self.kind, self.outputs = self.target.kind, self.target.outputs
        self.wanted_channels = self.outputs
        tally = facts.tally(self.kind)
        self.missing_labels, self.known_labels = tally.missing, tally.known
        # The expectation of the weighted sum is the sum over training nodes divided by all nodes.
        # This factor makes it the mean over known training labels, as with other samplers.
        self._weight = self._owner.num_nodes * facts.columns / max(1, tally.known["train"])
        self._feed = Feed(store, config, self._attrs(resident is not None), resident, device)

    def _attrs(self, is_resident: bool) -> Any:
        if is_resident:
            return []
        attrs = self.features()
        attrs[self._owner.name] = [*attrs[self._owner.name], "y"]
        return attrs[self._owner.name] if self.store.schema.is_homogeneous else attrs

    def resolved(self) -> dict[str, Any]:
        """Returns the values of `Task.resolved`, with the objective and the loss."""
        return {**super().resolved(), **self.target.settings}

    @property
    def objective(self) -> str:
        """The objective and the loss, in words."""
        return f"{self.kind} ({self.outputs}), {self.target.loss}"

    def _seeds(self, split: str) -> Any:
        config, schema = self.config, self.store.schema
        if schema.is_homogeneous and config.split_index == 0:
            return split
        ids = torch.from_numpy(self.store.split(split, self._owner.name, config.split_index))
        return ids if schema.is_homogeneous else (self._owner.name, ids)

    def train_loader(self) -> EpochLoader:
        """Returns the loader of training batches, shuffled."""
        return self.source.loader(self._feed, self._seeds("train"), train=True)

    def loader(self, split: str) -> EpochLoader | None:
        """Returns the loader of "val" or "test", in order; None if the split is empty."""
        made = self.source.loader(self._feed, self._seeds(split), train=False)
        return made if len(made) else None

    def predict(self, batch: Any) -> Prediction:
        """Returns outputs and labels of the labelled seeds, or of a part's training nodes."""
        out = self.encoder(batch)
        part = batch if isinstance(out, Tensor) else batch[self._owner.name]
        out = out if isinstance(out, Tensor) else out[self._owner.name]
        seeds = self._places(part)
        # Batches of ShaDow have the labels of their roots only.
        labels = part.y if "root_n_id" in part else part.y[seeds]
        outputs, labels, known = known_rows(self.target, out[seeds], labels)
        weight = part.node_norm[seeds][known] * self._weight if "node_norm" in part else None
        return Prediction(outputs, labels, weight)

    def _places(self, part: Any) -> Tensor | slice:
        """Returns the positions of the predicted nodes in a batch. In a sample they come first."""
        if "root_n_id" in part:
            roots: Tensor = part.root_n_id
            return roots
        if not (self.source.is_whole and self.encoder.model.training):
            return slice(0, part.batch_size)
        mask: Tensor = part.train_mask
        return mask if mask.dim() == 1 else mask[:, self.config.split_index]

    def loss(self, prediction: Prediction) -> Tensor:
        """Returns the loss of a prediction, which must not be empty."""
        return label_loss(self.target, prediction)

    def seeds(self, batch: Any) -> int:
        """Returns the number of nodes of a batch that are predicted."""
        part = batch if self.store.schema.is_homogeneous else batch[self._owner.name]
        places = self._places(part)
        if isinstance(places, slice):
            return int(places.stop)
        return int(places.sum()) if places.dtype == torch.bool else len(places)


class Resident:
    """All features and labels as tensors in memory; adds the rows of a batch by index."""

    def __init__(self, store: Store) -> None:
        if not store.schema.is_homogeneous:
            raise UnsupportedArgument(
                f"{store.path}: in_memory=True supports only stores with one node type and one "
                "edge type; leave out in_memory="
            )
        self._x = torch.from_numpy(np.ascontiguousarray(store.column("x")))
        self._y = torch.from_numpy(np.ascontiguousarray(store.column("y")))

    def __call__(self, batch: Any) -> Any:
        """Returns the batch with ``x`` and ``y`` of its nodes."""
        batch.x = self._x.index_select(0, batch.n_id)
        batch.y = self._y.index_select(0, batch.n_id)
        return batch


def _target_type(store: Store, config: TrainConfig) -> NodeType:
    """Returns the node type whose labels are predicted, after checking labels and splits."""
    schema = store.schema
    if config.target is None:
        owners = [t for t in schema.node_types if any(m.name == "y" for m in t.tensors)]
        if len(owners) > 1:
            names = ", ".join(t.name for t in owners)
            raise UnsupportedArgument(
                f"{store.path}: {len(owners)} node types have labels ({names}); name one of "
                "these types as target="
            )
        owner = owners[0] if owners else schema.node_types[0]
    else:
        owner = named_type(schema.node_type, config.target)
    tensors = [tensor.name for tensor in owner.tensors]
    if "y" not in tensors:
        raise NameNotFound(
            f"{store.path}: node type {owner.name!r} has no tensor 'y'; import labels"
        )
    if f"split_{config.split_index}" not in tensors:
        raise no_split(store, owner, config)
    if not len(store.split("train", owner.name, config.split_index)):
        raise UnsupportedArgument(
            f"{store.path}: the training split is empty; import again with `neargraph import "
            "--split-sizes 60,20,20`"
        )
    return owner


def _blocks(store: Store, owner: NodeType, config: TrainConfig) -> Iterator[Block]:
    """Yields all nodes of a type with their split codes. Deleted nodes have the code 0."""
    snapshot = store.snapshot()
    dead = snapshot.dead_nodes(owner.name)
    for first in range(0, owner.num_nodes, BLOCK_ROWS):
        ids = np.arange(first, min(first + BLOCK_ROWS, owner.num_nodes), dtype=np.int64)
        codes = np.array(snapshot.features(owner.name, ids, f"split_{config.split_index}"))
        codes[np.isin(ids, dead)] = 0
        yield ids, codes
