"""The settings of a training run. Equal settings give equal losses.

There is one field per option, and each is checked alone here. `models.py` checks combinations.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from neargraph.exceptions import StateMismatch, UnsupportedArgument
from neargraph.loader.methods import MethodName
from neargraph.loader.reading import Reading
from neargraph.units import parse_bytes

TaskName = Literal["node", "link", "graph"]
Objective = Literal["auto", "single-label", "multi-label", "regression"]
Loss = Literal["auto", "cross-entropy", "bce", "mse", "l1", "bpr"]
Schedule = Literal["constant", "cosine", "step", "plateau"]
Negatives = Literal["binary", "triplet"]
Tested = Literal["last", "best"]
TestOn = Literal["auto", "last", "best"]
Pool = Literal["mean", "sum", "max"]
Norm = Literal["none", "batch"]
Decoder = Literal["dot", "mlp"]
Temporal = Literal["auto", "off", "uniform", "last"]
RowOptimizer = Literal["adagrad", "adam", "sgd"]

TASKS: tuple[TaskName, ...] = get_args(TaskName)
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
LOSSES: tuple[Loss, ...] = get_args(Loss)
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
NEGATIVES: tuple[Negatives, ...] = get_args(Negatives)
TESTED: tuple[TestOn, ...] = get_args(TestOn)
POOLS: tuple[Pool, ...] = get_args(Pool)
NORMS: tuple[Norm, ...] = get_args(Norm)
DECODERS: tuple[Decoder, ...] = get_args(Decoder)
TEMPORAL: tuple[Temporal, ...] = get_args(Temporal)
ROW_OPTIMIZERS: tuple[RowOptimizer, ...] = get_args(RowOptimizer)

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
# Torch and the loaders take an unsigned 64-bit seed, and each node type adds its number to it.
_SEED_MAX = 2**63 - 1
# With larger values, the first step would overflow single precision.
_LARGEST = 1e36

# Settings that may differ from those of the training state: they change neither batches nor losses.
_FREE = frozenset(("epochs", "save_steps", "val_every", "patience", "test_on", "reading")) | {
    "temporary_writes",
    "embedding_memory",
}

# A cosine spans all epochs, and a plateau counts validations.
_BOUND = {"cosine": frozenset(["epochs"]), "plateau": frozenset(["val_every"])}


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """The settings of `fit`.

    Each setting is also an option of `neargraph train`.

    Attributes:
        model: Name of the model. ``docs/how-to/training.md`` has tables of models and samplers.
        fanouts: Neighbours per node, one number per layer. -1 takes all. The task "graph" reads
            whole graphs and accepts only -1 for each layer.
        batch_size: Seeds per batch. For the samplers "cluster" and "random-node": those of
            validation and test. For GraphSAINT: draws per batch.
        hidden: Width of the hidden layers.
        epochs: Number of epochs.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        dropout: Dropout probability in training.
        seed: Random seed. It determines the batches, the parameters and the held-out links.
        split_index: Number of the split: 0 for ``split_0``.
        row_normalize: Whether to divide each feature row by its sum, as the published GCN does.
        heads: Number of attention heads. None: the model's default.
        attention_dropout: Dropout probability of attention weights.
        norm: Normalisation of hidden layers: ``"none"`` or ``"batch"``.
        pool: Reduction of the rows of a graph to one: ``"mean"``, ``"sum"`` or ``"max"``.
        save_steps: Number of optimiser steps between training states within an epoch. 0: only at
            the end of each epoch.
        val_every: Number of epochs between validations.
        parts: Number of clusters or parts of the graph, for the samplers "cluster" and
            "random-node".
        batch_parts: Number of clusters per training batch, for the sampler "cluster".
        task: The task: ``"node"``, ``"link"`` or ``"graph"``.
        target: Node type or edge type (``"user,buys,item"``) to predict, if there are several.
        objective: The objective. ``"auto"``: by the labels.
        loss: The loss. ``"auto"``: by the labels.
        sampler: Name of the sampler. ``"auto"``: the one that the model is designed for.
        metrics: Names of metrics. The first one selects the best epoch. Empty: by the objective.
        patience: Number of validations without a better value after which training ends. 0: never.
        test_on: The parameters to test: ``"last"`` or ``"best"``. ``"auto"``: the best if
            `patience` is set, else the last.
        schedule: Learning rate schedule: ``"constant"``, ``"cosine"`` (to 0 over all epochs),
            ``"step"`` (times `schedule_factor` every `schedule_epochs` epochs) or ``"plateau"``
            (times `schedule_factor` after `schedule_epochs` validations without a better value).
        schedule_epochs: See `schedule`.
        schedule_factor: See `schedule`.
        warmup_steps: Number of steps over which the learning rate rises linearly to its value.
        clip: Maximum norm of the gradient. 0: no limit.
        reading: The reading of training batches, as in `Reading`. With compiled epochs, validation
            and test still sample their batches.
        x_dtype: Dtype of features in batches, as in `NeighborLoader`.
        method: How neighbours are chosen, as in `NeighborLoader`.
        temporary_writes: Limit on temporary files, as in `Reading`.
        walk_length: Length of the random walks of the sampler "saint-walk".
        steps: Number of batches per epoch of GraphSAINT.
        coverage: Mean number of times that each node is drawn to estimate the weights of
            GraphSAINT. 0: no weights.
        decoder: Decoder of links: ``"dot"`` or ``"mlp"``.
        negatives: Negative links in training: ``"binary"`` (both ends are drawn) or ``"triplet"``
            (the destination is drawn).
        num_negatives: Number of negative links per link in training.
        eval_negatives: Number of negative links per link in validation and test.
        holdout: Percentages of links (or graphs) that are held out for validation and test.
        val_after: Time after which links are for validation.
        test_after: Time after which links are for test. It replaces `holdout`.
        train_edges: Maximum number of links per epoch. None: no limit.
        eval_edges: Maximum number of links per validation or test.
        rank_all: Metrics of the test for which each link is ranked among all nodes of its
            destination type, such as ``"recall@20"``.
        temporal: Sampling of only those edges that are earlier than the link: ``"uniform"``,
            ``"last"`` or ``"off"``. It requires `test_after`. ``"auto"``: "last" for the model
            temporal, else "off".
        embedding: Width of the rows to learn for nodes without ``x``. 0: none.
        embedding_name: Name of the tensors of learned rows in the store.
        embedding_optimizer: Optimiser of learned rows, as in `neargraph.nn.StoreEmbedding`.
        embedding_lr: Learning rate of learned rows. `schedule` applies to it. None: that of torch.
        embedding_memory: Memory for changed rows, as in `neargraph.nn.StoreEmbedding`.
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
    norm: Norm = "none"
    pool: Pool = "mean"
    save_steps: int = 0
    val_every: int = 1
    parts: int = 100
    batch_parts: int = 16
    task: TaskName = "node"
    target: str | None = None
    objective: Objective = "auto"
    loss: Loss = "auto"
    sampler: str = "auto"
    metrics: tuple[str, ...] = ()
    patience: int = 0
    test_on: TestOn = "auto"
    schedule: Schedule = "constant"
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
    decoder: Decoder = "dot"
    negatives: Negatives = "binary"
    num_negatives: int = 1
    eval_negatives: int = 50
    holdout: tuple[float, float] = (10.0, 10.0)
    val_after: int | None = None
    test_after: int | None = None
    train_edges: int | None = None
    eval_edges: int = 100_000
    rank_all: tuple[str, ...] = ()
    temporal: Temporal = "auto"
    embedding: int = 0
    embedding_name: str = "emb"
    embedding_optimizer: RowOptimizer = "adagrad"
    embedding_lr: float | None = None
    embedding_memory: str = "64MB"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is not valid: expected one of "
                    f"{', '.join(map(repr, choices))}"
                )
        if not self.fanouts or any(f == 0 or f < -1 for f in self.fanouts):
            raise ValueError(
                f"fanouts={list(self.fanouts)} is not valid: expected counts of at least 1, or "
                "-1 for all"
            )
        for name in (*_FROM_ONE, *_FROM_ONE_TOO):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is not valid: expected 1 or more")
        for name in (*_FROM_ZERO, *_FROM_ZERO_TOO):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} is not valid: expected 0 or more")
        self._check_numbers()
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} is not valid: expected at least 0 and below 1"
                )
        if self.heads is not None and self.heads < 1:
            raise ValueError(f"heads={self.heads} is not valid: expected 1 or more")
        try:
            parse_bytes(self.embedding_memory)
        except ValueError as error:
            raise ValueError(f"embedding_memory= needs a size, but {error}") from None
        for name in ("lr", "embedding_lr"):
            rate = getattr(self, name)
            if rate is not None and rate <= 0:
                raise ValueError(f"{name}={rate} is not valid: expected a rate above 0")
        if not 0 < self.schedule_factor < 1:
            raise ValueError(
                f"schedule_factor={self.schedule_factor} is not valid: expected a number above 0 "
                "and below 1"
            )
        if self.clip < 0:
            raise ValueError(
                f"clip={self.clip} is not valid: expected a gradient norm above 0, or 0 for no "
                "clipping"
            )
        self._check_links()

    def _check_numbers(self) -> None:
        for name in (*_FLOATS, *_FLOATS_TOO):
            value = getattr(self, name)
            numbers = value if isinstance(value, tuple) else [value or 0.0]
            if not all(map(math.isfinite, numbers)):
                raise ValueError(f"{name}={value} is not valid: expected a finite number")
            if max(numbers) > _LARGEST:
                raise ValueError(
                    f"{name}={value} is not valid: expected a number up to {_LARGEST:g}"
                )
        if self.seed > _SEED_MAX:
            raise ValueError(
                f"seed={self.seed} is not valid: expected a number from 0 to {_SEED_MAX}"
            )

    def _check_links(self) -> None:
        shares = self.holdout
        if len(shares) != 2 or min(shares) < 0 or sum(shares) >= 100 or not shares[1]:
            raise ValueError(
                f"holdout={list(shares)} is not valid: expected percentages for validation and "
                "test, such as 10,10, with a test part above 0 and a sum below 100"
            )
        if self.val_after is not None and self.test_after is None:
            raise ValueError(
                "val_after= is given without test_after=; give both, or only test_after="
            )
        if self.test_after is not None and shares != (10.0, 10.0):
            raise ValueError(
                f"holdout={list(shares)} and test_after={self.test_after} exclude each other; "
                "leave out holdout= or test_after="
            )
        if None not in (self.val_after, self.test_after) and self._times[0] >= self._times[1]:
            raise ValueError(
                f"val_after={self.val_after} is not valid: expected a time below "
                f"test_after={self.test_after}"
            )
        for name in ("train_edges", "eval_edges"):
            bound = getattr(self, name)
            if bound is not None and bound < 1:
                raise ValueError(f"{name}={bound} is not valid: expected 1 or more")

    @property
    def _times(self) -> tuple[int, int]:
        return (self.val_after or 0, self.test_after or 0)

    @property
    def strategy(self) -> Literal["uniform", "last"] | None:
        """How edges earlier than a link are drawn: "uniform" or "last". None: times are ignored."""
        if self.temporal == "auto":
            return "last" if self.model == "temporal" else None
        return None if self.temporal == "off" else self.temporal

    @property
    def tested(self) -> Tested:
        """The parameters to test, "last" or "best"."""
        if self.test_on != "auto":
            return self.test_on
        return "best" if self.patience else "last"

    def plain(self) -> dict[str, Any]:
        """Returns the settings as plain data, for training states, JSON and YAML."""
        found = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> "TrainConfig":
        """Returns the settings from the result of `plain`.

        Raises:
            UnsupportedArgument: A key is not a setting. The message lists the valid ones.
        """
        known = {f.name: f for f in fields(TrainConfig)}
        for key in plain:
            if key not in known:
                raise UnsupportedArgument(
                    f"{key!r} is not a setting: expected one of {', '.join(known)}"
                )
        tuples: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()
        }
        return TrainConfig(**tuples)

    def same_run(self, saved: Mapping[str, Any]) -> None:
        """Raises `StateMismatch` for a training state with other settings.

        Settings that do not change losses may differ.
        """
        # A setting that an old training state lacks had the value that is the default today.
        saved = {**TrainConfig().plain(), **saved}
        free = _FREE - _BOUND.get(self.schedule, frozenset())
        if Reading.of(self.reading).compiled != Reading.of(saved["reading"]).compiled:
            # Compiled epochs repeat, so replay gives other batches than sampling.
            free -= {"reading"}
        for name, value in self.plain().items():
            if name not in free and saved.get(name) != value:
                raise StateMismatch(
                    f"the training state was written with {name}={saved.get(name)}, but this run "
                    f"has {name}={value}; use the same value, or another training state"
                )
