"""The interface of a task: predictions of a batch, their loss, and the loaders.

The training loop must not live here. The invariant: `__init__` uses no random numbers; `build`
creates everything that depends on them, after the generators are seeded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from neargraph.exceptions import NameNotFound, UnsupportedArgument
from neargraph.loader.epochs import EpochLoader
from neargraph.metrics import Metrics
from neargraph.metrics.names import Kind
from neargraph.nn.models import embedding_width, spec_of
from neargraph.schema import NodeType
from neargraph.store import Store

from ..config import TrainConfig
from ..embeddings import Embeddings, widths_of, without_features
from ..encoder import Encoder
from ..models import (
    degrees_of,
    make_model,
    notes_of,
    sampler_of,
    takes_degrees,
    trained_schema,
)
from ..objective import Prediction
from ..sources import SAMPLERS


def named_type(find: Callable[[Any], Any], target: Any) -> Any:
    """Returns the type that ``target`` names, or the only one.

    Raises:
        NameNotFound: The type does not exist, or `target` is None and there are several types.
    """
    try:
        return find(target)
    except NameNotFound as error:
        raise NameNotFound(
            f"{error.args[0]}; name one type as target=, such as target='paper', or "
            "target='user,buys,item' for edges"
        ) from None


def no_split(store: Store, owner: NodeType, config: TrainConfig) -> NameNotFound:
    """Returns the error for a missing split, with the splits that exist."""
    there = sorted(int(t.name.removeprefix("split_")) for t in owner.tensors if t.is_split)
    if not there:
        return NameNotFound(
            f"{store.path}: nodes of {owner.name!r} have no split; import again with `neargraph "
            "import --split-sizes 60,20,20`"
        )
    return NameNotFound(
        f"{store.path}: split_index={config.split_index} is not a split of node type "
        f"{owner.name!r}; use {' or '.join(map(str, there))}"
    )


class Task(ABC):
    """One kind of prediction on one store.

    Attributes:
        schema: The schema of batches, with the reverses that are sampled.
        kind: The kind of prediction.
        outputs: Number of outputs of a prediction: classes, labels or values.
        wanted_channels: Required width of the model's output. None: that of its embeddings.
        out_channels: Width of the model's output; set by `build`.
        missing_labels: Number of unknown labels by split.
        known_labels: Number of known labels by split; None if the task has no labels.
        notes: Notes for the user.
        head: The decoder of the model's rows; None if the model predicts itself.
    """

    kind: Kind
    outputs: int
    wanted_channels: int | None = None
    out_channels: int

    def __init__(self, store: Store, config: TrainConfig) -> None:
        self.store, self.config = store, config
        self.schema = trained_schema(config, store.schema)
        self.missing_labels: dict[str, int] = {}
        self.known_labels: dict[str, int] | None = None
        self.notes = notes_of(config, store.schema)
        self.head: torch.nn.Module | None = None
        self.widths = widths_of(store.schema, config)
        self.embeddings: Embeddings | None = None
        self.source = SAMPLERS[sampler_of(config)]
        self._degrees: Any = degrees_of(config, store)

    def features(self) -> dict[str, list[str]]:
        """Returns the tensors for batches by node type, without learned rows: the snapshot of a
        loader has them in an old state."""
        learned = without_features(self.store.schema)
        return {name: [] if name in learned else ["x"] for name in self.widths}

    @property
    def objective(self) -> str:
        """The objective and the loss, in words."""
        return self.kind

    def resolved(self) -> dict[str, Any]:
        """Returns the values that the run chose for open settings, by name."""
        heads = spec_of(self.config.model).defaults().get("heads")
        return {
            "sampler": sampler_of(self.config),
            "temporal": self.config.strategy or "off",
            "metrics": [name.text for name in self.metrics().names],
            "test_on": self.config.tested,
            **({} if heads is None else {"heads": self.config.heads or heads}),
        }

    @property
    def num_features(self) -> int:
        """Number of features of the first node type with features."""
        return next((width for width in self.widths.values() if width), 0)

    def build(self, saved: dict[str, Any] | None = None) -> torch.nn.Module:
        """Returns the model, with new parameters from torch's generator.

        Args:
            saved: The training state from which the run resumes, if there is one.

        Raises:
            UnsupportedArgument: The model does not fit into memory.
        """
        config = self.config
        try:
            model = make_model(config, self.schema, self.wanted_channels, self.widths)
            self.out_channels = embedding_width(model, self.widths)
            self.head = self._make_head()
        except (MemoryError, RuntimeError) as error:
            # Torch reports insufficient memory as a `RuntimeError` of several lines.
            raise UnsupportedArgument(
                f"the model {config.model!r} with hidden={config.hidden} and "
                f"{len(config.fanouts)} layers cannot be created ({str(error).splitlines()[0]}); "
                "use a smaller hidden="
            ) from error
        if config.embedding:
            self.embeddings = Embeddings(self.store, config, saved)
            self.notes.append(self.embeddings.note)
        degrees = (self._degrees, takes_degrees(config))
        self.encoder = Encoder(model, config.row_normalize, *degrees, self.embeddings)
        return model

    def _make_head(self) -> torch.nn.Module | None:
        return None

    @abstractmethod
    def train_loader(self) -> EpochLoader:
        """Returns the loader of training batches, shuffled."""

    @abstractmethod
    def loader(self, split: str) -> EpochLoader | None:
        """Returns the loader of "val" or "test", in order; None if the split is empty."""

    @abstractmethod
    def predict(self, batch: Any) -> Prediction:
        """Returns the outputs of a batch whose targets are known, with the targets."""

    def fault(self, batch: Any) -> str | None:
        """Returns why a batch must not be used; None if it is valid."""
        return None

    @abstractmethod
    def loss(self, prediction: Prediction) -> Tensor:
        """Returns the loss of a prediction, which must not be empty."""

    @abstractmethod
    def seeds(self, batch: Any) -> int:
        """Returns the number of nodes, links or graphs of a batch that are predicted."""

    def metrics(self) -> Metrics:
        """Returns new metrics for a pass."""
        return Metrics(self.kind, self.config.metrics, self.outputs)

    def plain_state(self) -> dict[str, Any]:
        """Returns the parameters of the head for a training state."""
        return {} if self.head is None else self.head.state_dict()
