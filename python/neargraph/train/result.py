"""What a training run gives back."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class TrainResult:
    """Losses and accuracies of one run.

    ``losses`` has one entry per optimiser step, in order, also of the steps before a resume.
    Accuracies are shares from 0 to 1 (None where the store has no such split). ``train_seconds``
    and ``seeds_per_second`` leave evaluation out. ``store_stats`` are the counters of the store
    over the training epochs of this process.
    """

    losses: list[float] = field(default_factory=list)
    val_accuracy: list[float] = field(default_factory=list)
    test_accuracy: float | None = None
    train_seconds: float = 0.0
    seeds: int = 0
    num_classes: int = 0
    num_features: int = 0
    resumed_at_step: int = 0
    store_stats: dict[str, Any] = field(default_factory=dict)

    @property
    def seeds_per_second(self) -> float:
        """Training seeds handled per second of training."""
        return self.seeds / self.train_seconds if self.train_seconds else 0.0

    def plain(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        return {**asdict(self), "seeds_per_second": self.seeds_per_second}
