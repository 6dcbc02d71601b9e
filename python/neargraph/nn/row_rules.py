"""Optimisers of embedding rows: the sparse forms of SGD, Adagrad and Adam.

They compute the same as torch's optimisers on the gradient of ``torch.nn.Embedding(sparse=True)``,
in the same order of operations. Rows without a gradient, and their state, do not change.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from neargraph.exceptions import UnsupportedArgument


class RowRule(Protocol):
    """An optimiser of rows with `slots` rows of state per row."""

    name: ClassVar[str]
    slots: ClassVar[int]

    @property
    def lr(self) -> float:
        """The learning rate."""

    def update(self, rows: Tensor, state: Tensor, grad: Tensor, step: int) -> None:
        """Updates rows [n, d] and their state [n, slots, d] in place. ``step`` counts from 1."""

    def plain(self) -> dict[str, Any]:
        """Returns the settings as plain data."""


@dataclass(frozen=True)
class Sgd:
    """``torch.optim.SGD`` without momentum."""

    name: ClassVar[str] = "sgd"
    slots: ClassVar[int] = 0
    lr: float = 0.01

    def update(self, rows: Tensor, state: Tensor, grad: Tensor, step: int) -> None:
        """See `RowRule`."""
        rows.add_(grad, alpha=-self.lr)

    def plain(self) -> dict[str, Any]:
        """See `RowRule`."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class Adagrad:
    """``torch.optim.Adagrad`` (Duchi et al., JMLR 2011). The state is the sum of squares."""

    name: ClassVar[str] = "adagrad"
    slots: ClassVar[int] = 1
    lr: float = 0.01
    eps: float = 1e-10

    def update(self, rows: Tensor, state: Tensor, grad: Tensor, step: int) -> None:
        """See `RowRule`."""
        total = state[:, 0]
        total.add_(grad.square())
        rows.add_(grad / total.sqrt().add_(self.eps), alpha=-self.lr)

    def plain(self) -> dict[str, Any]:
        """See `RowRule`."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class Adam:
    """``torch.optim.SparseAdam`` (Kingma and Ba, ICLR 2015). The state is two moving averages."""

    name: ClassVar[str] = "adam"
    slots: ClassVar[int] = 2
    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def update(self, rows: Tensor, state: Tensor, grad: Tensor, step: int) -> None:
        """See `RowRule`."""
        mean, square = state[:, 0], state[:, 1]
        mean.add_(grad.sub(mean).mul_(1 - self.beta1))
        square.add_(grad.square().sub_(square).mul_(1 - self.beta2))
        scale = self.lr * math.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
        rows.sub_(scale * (mean / square.sqrt().add_(self.eps)))

    def plain(self) -> dict[str, Any]:
        """See `RowRule`."""
        return {"name": self.name, **asdict(self)}


_RULES: dict[str, type[Sgd] | type[Adagrad] | type[Adam]] = {
    rule.name: rule for rule in (Sgd, Adagrad, Adam)
}


def row_rule(name: str, settings: dict[str, Any]) -> RowRule:
    """Returns the optimiser called ``name``.

    Raises:
        UnsupportedArgument: The optimiser or a setting does not exist, or a value is not valid.

    Example:
        >>> row_rule("sgd", {"lr": 0.5})
        Sgd(lr=0.5)
    """
    if name not in _RULES:
        raise UnsupportedArgument(
            f"optimizer={name!r} is not valid: expected one of {', '.join(map(repr, _RULES))}"
        )
    kind = _RULES[name]
    known = kind.__dataclass_fields__
    for setting, value in settings.items():
        if setting not in known:
            raise UnsupportedArgument(
                f"optimizer={name!r} has no setting {setting!r}; its settings are "
                f"{', '.join(known)}"
            )
        is_share = setting.startswith("beta")
        if not 0 <= value < (1 if is_share else math.inf):
            bound = "at least 0 and below 1" if is_share else "0 or more"
            raise UnsupportedArgument(
                f"{setting}={value} is not valid for optimizer={name!r}: expected {bound}"
            )
    return kind(**settings)
