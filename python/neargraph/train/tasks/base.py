"""What a task is: what is predicted of a batch, what an error costs, and whose loaders feed it.

What must not live here: the loop. The invariant: a task knows its store and settings when it is
made; what depends on random numbers is made by `build`, after the generators are seeded.
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
    """The type that ``target`` names, or the only one.

    Raises:
        NameNotFound: There is none, or several; names the option.
    """
    try:
        return find(target)
    except NameNotFound as error:
        raise NameNotFound(
            f"{error.args[0]}; name one as target=, such as paper, or user,buys,item for edges"
        ) from None


def no_split(store: Store, owner: NodeType, config: TrainConfig) -> NameNotFound:
    """The error of a split that the store does not have; says which it has."""
    there = sorted(int(t.name.removeprefix("split_")) for t in owner.tensors if t.is_split)
    if not there:
        return NameNotFound(
            f"{store.path}: nodes of {owner.name!r} have no split; import again with `neargraph "
            "import --split-sizes 60,20,20`"
        )
    return NameNotFound(
        f"{store.path}: split_index={config.split_index} is not one of {owner.name!r}, which has "
        f"{', '.join(map(str, there))}; use one of these"
    )


class Task(ABC):
    """One kind of prediction on one store.

    Attributes:
        schema: The types that batches have, with the reverses that are sampled.
        kind: What metrics measure.
        outputs: Outputs of a prediction: classes, labels, numbers.
        wanted_channels: Width that the model has to give; None is that of its embeddings.
        out_channels: Width of what the model gives, once it is built.
        missing_labels: Labels that are unknown, by split.
        known_labels: Labels that are known, by split; None where the task has no labels.
        notes: Lines that a user should read.
        head: What turns rows of the model into predictions; None where the model does.
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
        """The tensors that the model takes from batches, by node type; never learned rows, which
        loaders have as they were when the run began."""
        learned = without_features(self.store.schema)
        return {name: [] if name in learned else ["x"] for name in self.widths}

    @property
    def objective(self) -> str:
        """What is predicted and by which loss, in words."""
        return self.kind

    def resolved(self) -> dict[str, Any]:
        """What the run has for each setting that may be left to it, by name."""
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
        """Features of a node of the first type that has some."""
        return next((width for width in self.widths.values() if width), 0)

    def build(self, saved: dict[str, Any] | None = None) -> torch.nn.Module:
        """The model, with fresh parameters from torch's generator.

        Args:
            saved: The training state that the run goes on from, if there is one.

        Raises:
            UnsupportedArgument: The model does not fit in memory.
        """
        config = self.config
        try:
            model = make_model(config, self.schema, self.wanted_channels, self.widths)
            self.out_channels = embedding_width(model, self.widths)
            self.head = self._make_head()
        except (MemoryError, RuntimeError) as error:
            # Torch says in a runtime error, of several lines, that memory does not suffice.
            raise UnsupportedArgument(
                f"the model {config.model} with hidden={config.hidden} and {len(config.fanouts)} "
                f"layers cannot be made ({str(error).splitlines()[0]}); use a smaller hidden="
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
        """The batches of training, shuffled."""

    @abstractmethod
    def loader(self, split: str) -> EpochLoader | None:
        """The batches of "val" or "test", in order; None where nothing is in it."""

    @abstractmethod
    def predict(self, batch: Any) -> Prediction:
        """Outputs and what they should be, where that is known."""

    def fault(self, batch: Any) -> str | None:
        """What is wrong with a batch, so that nothing may be learned of it; None if nothing is."""
        return None

    @abstractmethod
    def loss(self, prediction: Prediction) -> Tensor:
        """The loss of a prediction that is not empty."""

    @abstractmethod
    def seeds(self, batch: Any) -> int:
        """How many nodes, links or graphs of a batch are predicted."""

    def metrics(self) -> Metrics:
        """What a pass is measured by, with nothing in it yet."""
        return Metrics(self.kind, self.config.metrics, self.outputs)

    def plain_state(self) -> dict[str, Any]:
        """What a training state holds of the head."""
        return {} if self.head is None else self.head.state_dict()
