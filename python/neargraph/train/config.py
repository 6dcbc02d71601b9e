"""What a training run is told; equal configurations give equal losses."""

from dataclasses import asdict, dataclass
from typing import Any

from neargraph.exceptions import StateMismatch

MODELS = ("sage", "gcn", "cluster")


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of `fit`.

    ``fanouts`` has one entry per layer, -1 takes all neighbours. ``split`` chooses `split_0`,
    `split_1`, ... ``row_normalize`` divides each feature row by its sum, as the published GCN
    does. ``checkpoint_steps`` counts optimiser steps between checkpoints beside the one at the
    end of each epoch; 0 writes none in between. ``val_every`` is the number of epochs between
    validations. The model "cluster" trains the layers of GraphSAGE on ``batch_parts`` of ``parts``
    clusters a batch, and is tested on sampled neighbourhoods; ``batch_size`` and ``fanouts`` are
    those of the tests, and ``fanouts`` has one entry per layer there, too.
    """

    model: str = "sage"
    fanouts: tuple[int, ...] = (15, 10)
    batch_size: int = 256
    hidden: int = 64
    epochs: int = 3
    lr: float = 0.003
    weight_decay: float = 0.0
    dropout: float = 0.5
    seed: int = 0
    split: int = 0
    row_normalize: bool = False
    checkpoint_steps: int = 0
    val_every: int = 1
    parts: int = 100
    batch_parts: int = 16

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model is {self.model!r}; use {', '.join(MODELS)}")
        if not self.fanouts or any(f == 0 or f < -1 for f in self.fanouts):
            raise ValueError(f"fanouts are {list(self.fanouts)}; use counts, or -1 for all")
        for name in ("batch_size", "hidden", "epochs", "val_every", "parts", "batch_parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; use 1 or more")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; use a share from 0 to below 1")
        if self.lr <= 0 or self.weight_decay < 0 or self.seed < 0:
            raise ValueError("lr must be above 0, weight_decay and seed not negative")

    def plain(self) -> dict[str, Any]:
        """The settings as plain data, for checkpoints and JSON."""
        return {**asdict(self), "fanouts": list(self.fanouts)}

    def same_run(self, saved: dict[str, Any]) -> None:
        """Refuses a checkpoint of other settings by name; only ``epochs`` may differ."""
        # Checkpoints from before a setting was there were trained with what is its default now.
        saved = {**TrainConfig().plain(), **saved}
        for name, value in self.plain().items():
            if name not in ("epochs", "checkpoint_steps", "val_every") and saved.get(name) != value:
                raise StateMismatch(
                    f"the checkpoint was written with {name}={saved.get(name)}, this run has "
                    f"{value}; use the same setting or another checkpoint file"
                )
