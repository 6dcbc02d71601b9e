"""Detection of the kind of labels: classes, several binary labels, or numbers.

Labels are read once, in blocks. The invariant: only the whole column and the settings determine the
objective, never a batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neargraph.exceptions import UnsupportedArgument
from neargraph.metrics.names import Kind
from neargraph.reader import Version
from neargraph.schema import NodeType
from neargraph.splits import SPLITS

from .config import TrainConfig

BLOCK_ROWS = 1 << 18
_CLASSES_MAX = 1 << 20
_OBJECTIVES: dict[str, Kind] = {
    "single-label": "classes",
    "multi-label": "labels",
    "regression": "values",
}
_LOSSES: dict[Kind, tuple[str, ...]] = {
    "classes": ("cross-entropy",),
    "labels": ("bce",),
    "values": ("mse", "l1"),
}

Block = tuple[NDArray[np.int64], NDArray[np.integer[Any]]]
"""Node ids [n], and the split code of each node [n]."""


@dataclass(slots=True)
class Tally:
    """Counts of known labels by split, and the extremes of each column in training."""

    known: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    missing: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    least: Any = None
    most: Any = None

    def add(self, labels: NDArray[Any], codes: NDArray[Any], known: NDArray[np.bool_]) -> None:
        """Adds a block: labels [n, columns], split codes [n], and which labels are known."""
        for name, code in SPLITS.items():
            inside = known[codes == code]
            self.known[name] += int(inside.sum())
            self.missing[name] += int(inside.size - inside.sum())
        inside = known[codes == SPLITS["train"]]
        wide = labels[codes == SPLITS["train"]].astype(np.float64)
        low = np.where(inside, wide, np.inf).min(axis=0, initial=np.inf)
        high = np.where(inside, wide, -np.inf).max(axis=0, initial=-np.inf)
        self.least = low if self.least is None else np.minimum(self.least, low)
        self.most = high if self.most is None else np.maximum(self.most, high)


@dataclass(slots=True)
class LabelFacts:
    """Properties of a tensor of labels [n, columns].

    ``low`` and ``top`` are the extremes of the values that are neither -1 nor NaN. Whether -1 is a
    known label depends on the kind, which only the whole column determines. So both are counted.
    """

    columns: int
    is_flat: bool
    is_float: bool
    is_whole: bool = True
    is_binary: bool = True
    low: float = np.inf
    top: float = -np.inf
    _answers: Tally = field(default_factory=Tally)
    _numbers: Tally = field(default_factory=Tally)

    def add(self, labels: NDArray[Any], codes: NDArray[Any]) -> None:
        """Adds a block: labels [n, columns] and split codes [n]."""
        is_number = np.isfinite(labels) if self.is_float else np.ones(labels.shape, bool)
        is_answer = is_number & (labels != -1)
        values = labels[is_answer]
        if self.is_float:
            self.is_whole &= bool((values == np.floor(values)).all())
        self.is_binary &= bool(np.isin(values, (0, 1)).all())
        if len(values):
            self.low = min(self.low, float(values.min()))
            self.top = max(self.top, float(values.max()))
        self._answers.add(labels, codes, is_answer)
        self._numbers.add(labels, codes, is_number)

    @property
    def are_classes(self) -> bool:
        """Whether all known labels are integers of at least 0."""
        return self.is_whole and self.low >= 0

    def tally(self, kind: Kind) -> Tally:
        """Returns the counts for a kind: -1 is a value for numbers, and unknown otherwise."""
        return self._numbers if kind == "values" else self._answers


def label_facts(
    snapshot: Version, owner: NodeType, name: str, blocks: Iterable[Block]
) -> LabelFacts:
    """Returns the properties of the tensor `name` at the nodes of `blocks`."""
    meta = snapshot.schema.tensor(owner, name)
    shape = meta.shape
    if len(shape) > 1:
        raise UnsupportedArgument(
            f"{snapshot.path}: tensor {name!r} of node type {owner.name!r} has rows of shape "
            f"{list(shape)}: labels must have at most one dimension per row"
        )
    is_float = np.dtype(meta.numpy_dtype).kind == "f" or meta.dtype == "bf16"
    facts = LabelFacts(meta.num_columns, shape in ((), (1,)), is_float)
    for ids, codes in blocks:
        labels = snapshot.features(owner.name, ids, name, "f32" if meta.dtype == "bf16" else None)
        facts.add(labels.reshape(len(ids), -1), codes)
    return facts


@dataclass(frozen=True, slots=True)
class Target:
    """The objective: the kind of prediction, the number of outputs, and the name of the loss."""

    kind: Kind
    outputs: int
    loss: str

    @property
    def settings(self) -> dict[str, str]:
        """The objective as settings of a run."""
        objective = next(name for name, kind in _OBJECTIVES.items() if kind == self.kind)
        return {"objective": objective, "loss": self.loss}


def target_of(config: TrainConfig, facts: LabelFacts, where: str) -> Target:
    """Returns the objective for the labels of `where`: that of the settings, or the detected one.

    Raises:
        UnsupportedArgument: The labels do not fit the settings, are all unknown, or are all equal.
    """
    kind = _detected(facts) if config.objective == "auto" else _OBJECTIVES[config.objective]
    _check_kind(kind, facts, where, is_given=config.objective != "auto")
    loss = _LOSSES[kind][0] if config.loss == "auto" else config.loss
    if loss not in _LOSSES[kind]:
        objective = next(name for name, known in _OBJECTIVES.items() if known == kind)
        raise UnsupportedArgument(
            f"loss={loss!r} does not support objective={objective!r}; use "
            f"{' or '.join(f'loss={known!r}' for known in _LOSSES[kind])}"
        )
    tally = facts.tally(kind)
    if not tally.known["train"]:
        raise UnsupportedArgument(
            f"{where}: no label of the training split is known; import labels for this split"
        )
    if kind != "values" and bool((tally.least == tally.most).all()):
        raise UnsupportedArgument(
            f"{where}: all labels of the training split are {tally.most[0]:g}: there is only one "
            "class, so there is nothing to learn"
        )
    outputs = int(facts.top) + 1 if kind == "classes" else facts.columns
    return Target(kind, outputs, loss)


def _detected(facts: LabelFacts) -> Kind:
    if facts.is_flat:
        return "classes" if facts.are_classes else "values"
    return "labels" if facts.is_binary else "values"


def _check_kind(kind: Kind, facts: LabelFacts, where: str, *, is_given: bool) -> None:
    if kind == "classes":
        if not facts.is_flat:
            raise UnsupportedArgument(
                f"{where} has {facts.columns} columns, but objective='single-label' needs one "
                "class per row; use objective='multi-label' or objective='regression'"
            )
        if not facts.is_whole:
            raise UnsupportedArgument(
                f"{where} has fractions, which are not classes; use objective='regression'"
            )
        if facts.low < 0:
            raise UnsupportedArgument(
                f"{where} has the label {facts.low:g}: classes must be 0 or more (-1 = unknown); "
                "use objective='regression'"
            )
        if facts.top >= _CLASSES_MAX:
            raise UnsupportedArgument(
                f"{where} has the label {facts.top:g}: classes must be below {_CLASSES_MAX:,}; use "
                "objective='regression'"
            )
    if kind == "labels" and not facts.is_binary:
        raise UnsupportedArgument(
            f"{where} has labels other than 0 and 1 (from {facts.low:g} to {facts.top:g}); use "
            "objective='regression' or objective='single-label'"
        )
    if kind == "values" and not (facts.is_float or is_given):
        raise UnsupportedArgument(
            f"{where} has integers from {facts.low:g} to {facts.top:g}, which are neither classes "
            "(0 or more; -1 = unknown) nor binary labels; give objective='regression' to predict "
            "the numbers"
        )
