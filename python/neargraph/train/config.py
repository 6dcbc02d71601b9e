"""What a training run is told; equal configurations give equal losses.

One field per option, each checked by itself; which of them go together stands in `models.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from neargraph.exceptions import StateMismatch, UnsupportedArgument
from neargraph.loader.methods import MethodName
from neargraph.loader.reading import Reading

TASKS = ("node", "link", "graph")
OBJECTIVES = ("auto", "single-label", "multi-label", "regression")
LOSSES = ("auto", "cross-entropy", "bce", "mse", "l1", "bpr")
SCHEDULES = ("constant", "cosine", "step", "plateau")
NEGATIVES = ("binary", "triplet")
TESTED = ("auto", "last", "best")
POOLS = ("mean", "sum", "max")
NORMS = ("none", "batch")
DECODERS = ("dot", "mlp")
TEMPORAL = ("auto", "off", "uniform", "last")
ROW_OPTIMIZERS = ("adagrad", "adam", "sgd")

_CHOICES = {
    "task": TASKS,
    "objective": OBJECTIVES,
    "loss": LOSSES,
    "schedule": SCHEDULES,
    "negatives": NEGATIVES,
    "test_on": TESTED,
    "pool": POOLS,
    "norm": NORMS,
    "decoder": DECODERS,
    "embedding_optimizer": ROW_OPTIMIZERS,
    "temporal": TEMPORAL,
}
_FROM_ONE = ("batch_size", "hidden", "epochs", "val_every", "parts", "batch_parts", "walk_length")
_FROM_ONE_TOO = ("num_negatives", "eval_negatives", "schedule_epochs", "steps")
_FROM_ZERO = ("weight_decay", "seed", "split_index", "save_steps", "patience", "warmup_steps")
_FROM_ZERO_TOO = ("coverage", "embedding")
_FLOATS = ("lr", "weight_decay", "dropout", "attention_dropout", "schedule_factor", "clip")
_FLOATS_TOO = ("embedding_lr", "holdout")
# Torch and the loaders take it as an unsigned number of 64 bits; types of nodes count up from it.
_SEED_MAX = 2**63 - 1
# Beyond, the first step would overflow single precision, which torch ends with an error of its own.
_LARGEST = 1e36

# What a run may go on with although the training state was written with something else: the
# batches, and so the losses, are the same.
_FREE = frozenset(("epochs", "save_steps", "val_every", "patience", "test_on", "reading")) | {
    "temporary_writes",
    "embedding_memory",
}

# A cosine spans all epochs, and a plateau counts validations.
_BOUND = {"cosine": frozenset(["epochs"]), "plateau": frozenset(["val_every"])}


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of `fit`.

    Of all tasks:
        ``model`` and ``sampler`` name rows of the tables in ``docs/how-to/training.md``; ``"auto"``
        is the sampler that the model is made for. ``fanouts`` has one entry per layer, -1 takes all
        neighbours. The task graph reads whole graphs: give -1 for each layer; the default is two
        layers. ``row_normalize`` divides each feature row by its sum, as the published GCN does.
        ``heads`` (None is the model's own number) and ``attention_dropout`` are those of models
        that attend. ``norm`` "batch" normalises hidden layers by batch; ``pool`` is how the rows of
        a graph become one: "mean", "sum" or "max".

    What is predicted:
        ``task`` is "node", "link" or "graph". ``target`` names the node type or the edge type
        (``"user,buys,item"``) where a store has several. ``objective`` and ``loss`` are found from
        the labels unless they are given. ``split`` chooses ``split_0``, ``split_1``, ...

    Links:
        ``holdout`` is the share of edges held out for validation and test, in percent, drawn by
        `seed`; or ``val_after`` and ``test_after`` cut by time instead. Each edge that trains comes
        with ``num_negatives`` others, each that is measured with ``eval_negatives``.
        ``train_edges`` bounds the edges that one epoch trains on; None is all. ``eval_edges``
        bounds those of a validation or test. ``temporal`` samples for each link only edges that are
        earlier than it, drawn "uniform" or the "last" ones; "auto" is "last" for the model
        temporal, and else "off". It takes ``test_after``. ``rank_all`` are metrics of the test such
        as "recall@20", for which each link is ranked among all nodes of the type that it leads to.

    Learned rows:
        ``embedding`` is the width of rows that are learned for nodes without ``x``, and kept in the
        tensors ``embedding_name`` of the store; 0 learns none. ``embedding_optimizer``,
        ``embedding_lr`` (None is that of torch) and ``embedding_memory`` are those of
        `neargraph.nn.StoreEmbedding`; the schedule holds for them, too.

    Optimisation:
        Adam with ``lr`` and ``weight_decay``. ``schedule`` changes the rate: "cosine" down to zero
        over all epochs, "step" by ``schedule_factor`` every ``schedule_epochs``, "plateau" by
        ``schedule_factor`` after so many validations without a better value; ``warmup_steps`` come
        up to it in a line. ``clip`` bounds the norm of the gradient; 0 does not. ``metrics`` are
        measured, and the first one decides: training ends after ``patience`` validations without a
        better value (0 never does), and ``test_on="best"`` tests the parameters of the best one
        ("auto": with patience the best, else the last).

    Training states:
        ``save_steps`` counts optimiser steps between training states beside the one at the end of
        each epoch; 0 writes none in between. ``val_every`` is the number of epochs between
        validations.

    Samplers:
        "cluster" trains on ``batch_parts`` of ``parts`` clusters a batch and is tested on sampled
        neighbourhoods, for which ``batch_size`` and ``fanouts`` are; the model "cluster" is
        GraphSAGE on that sampler. ``walk_length`` and ``steps`` (batches of an epoch) are those of
        GraphSAINT, whose ``batch_size`` counts draws; ``coverage`` is how often each node is drawn
        to count its weights, 0 for none. ``x_dtype`` and ``method`` are those of `NeighborLoader`,
        ``reading`` and ``temporary_writes`` those of `Reading`; validation and test sample their
        batches where training replays compiled ones.
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
    split_index: int = 0
    row_normalize: bool = False
    heads: int | None = None
    attention_dropout: float = 0.0
    norm: str = "none"
    pool: str = "mean"
    save_steps: int = 0
    val_every: int = 1
    parts: int = 100
    batch_parts: int = 16
    task: str = "node"
    target: str | None = None
    objective: str = "auto"
    loss: str = "auto"
    sampler: str = "auto"
    metrics: tuple[str, ...] = ()
    patience: int = 0
    test_on: str = "auto"
    schedule: str = "constant"
    schedule_epochs: int = 10
    schedule_factor: float = 0.1
    warmup_steps: int = 0
    clip: float = 0.0
    reading: str = "auto"
    x_dtype: str | None = None
    method: MethodName = "uniform"
    temporary_writes: str = "auto"
    walk_length: int = 2
    steps: int = 30
    coverage: int = 50
    decoder: str = "dot"
    negatives: str = "binary"
    num_negatives: int = 1
    eval_negatives: int = 50
    holdout: tuple[float, float] = (10.0, 10.0)
    val_after: int | None = None
    test_after: int | None = None
    train_edges: int | None = None
    eval_edges: int = 100_000
    rank_all: tuple[str, ...] = ()
    temporal: str = "auto"
    embedding: int = 0
    embedding_name: str = "emb"
    embedding_optimizer: str = "adagrad"
    embedding_lr: float | None = None
    embedding_memory: str = "64MB"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; use {', '.join(choices)}")
        if not self.fanouts or any(f == 0 or f < -1 for f in self.fanouts):
            raise ValueError(f"fanouts are {list(self.fanouts)}; use counts, or -1 for all")
        for name in (*_FROM_ONE, *_FROM_ONE_TOO):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; use 1 or more")
        for name in (*_FROM_ZERO, *_FROM_ZERO_TOO):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; use 0 or more")
        self._check_numbers()
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; use a share from 0 to below 1")
        if self.heads is not None and self.heads < 1:
            raise ValueError(f"heads is {self.heads}; use 1 or more")
        for name in ("lr", "embedding_lr"):
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                raise ValueError(f"{name} is {rate}; use a rate above 0")
        if not 0 < self.schedule_factor < 1:
            raise ValueError(
                f"schedule_factor is {self.schedule_factor}; use one above 0 and below 1"
            )
        if self.clip < 0:
            raise ValueError(f"clip is {self.clip}; use a norm above 0, or 0 for none")
        self._check_links()

    def _check_numbers(self) -> None:
        for name in (*_FLOATS, *_FLOATS_TOO):
            value = getattr(self, name)
            numbers = value if isinstance(value, tuple) else [value or 0.0]
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"{name} is {value}; use a finite number")
            if max(numbers) > _LARGEST:
                raise ValueError(f"{name} is {value}; use a number up to {_LARGEST:g}")
        if self.seed > _SEED_MAX:
            raise ValueError(f"seed is {self.seed}; use one from 0 to {_SEED_MAX}")

    def _check_links(self) -> None:
        shares = self.holdout
        if len(shares) != 2 or min(shares) < 0 or sum(shares) >= 100 or not shares[1]:
            raise ValueError(
                f"holdout is {list(shares)}; use the shares of validation and test in percent, "
                "like 10,10, that leave some for training"
            )
        if self.val_after is not None and self.test_after is None:
            raise ValueError("val_after is given without test_after; give both, or test_after")
        if self.test_after is not None and shares != (10.0, 10.0):
            raise ValueError(
                f"holdout is {list(shares)} and test_after {self.test_after}, and times alone cut "
                "links then; leave one of them out"
            )
        if None not in (self.val_after, self.test_after) and self._times[0] >= self._times[1]:
            raise ValueError(
                f"val_after is {self.val_after} and test_after {self.test_after}; validation comes "
                "first"
            )
        for name in ("train_edges", "eval_edges"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise ValueError(f"{name} is {bound}; use 1 or more")

    @property
    def _times(self) -> tuple[int, int]:
        return (self.val_after or 0, self.test_after or 0)

    @property
    def strategy(self) -> str | None:
        """How edges earlier than a link are drawn, "uniform" or "last"; None if all times are."""
        if self.temporal == "auto":
            return "last" if self.model == "temporal" else None
        return None if self.temporal == "off" else self.temporal

    @property
    def tested(self) -> str:
        """Which parameters are tested, "last" or "best"."""
        if self.test_on != "auto":
            return self.test_on
        return "best" if self.patience else "last"

    def plain(self) -> dict[str, Any]:
        """The settings as plain data, for training states, JSON and YAML."""
        found = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> "TrainConfig":
        """The configuration of what `plain` gave.

        Raises:
            UnsupportedArgument: A key is not a setting; names it and what there is.
        """
        known = {f.name: f for f in fields(TrainConfig)}
        for key in plain:
            if key not in known:
                raise UnsupportedArgument(f"{key!r} is not a setting; use {', '.join(known)}")
        tuples: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()
        }
        return TrainConfig(**tuples)

    def same_run(self, saved: Mapping[str, Any]) -> None:
        """Refuses a training state of other settings by name; those that change no loss may
        differ."""
        # Training states from before a setting was there were trained with what is its default now.
        saved = {**TrainConfig().plain(), **saved}
        free = _FREE - _BOUND.get(self.schedule, frozenset())
        if Reading.of(self.reading).compiled != Reading.of(saved["reading"]).compiled:
            # Epochs beyond the compiled ones repeat them.
            free -= {"reading"}
        for name, value in self.plain().items():
            if name not in free and saved.get(name) != value:
                raise StateMismatch(
                    f"the training state was written with {name}={saved.get(name)}, this run has "
                    f"{value}; use the same setting or another training state"
                )
