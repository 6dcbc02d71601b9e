"""The result of a training run."""

from dataclasses import asdict, dataclass, field
from typing import Any

from .config import Tested


@dataclass(slots=True)
class TrainResult:
    """Losses and metrics of one run.

    Attributes:
        losses: The loss of each optimiser step, in order, including steps before a resume. A batch
            without a known label makes no step.
        history: One row per epoch: ``epoch``, ``loss`` (the mean over its steps; missing if there
            was none), ``lr``, ``seconds``, ``seeds_per_second``, ``read_bytes``, ``useful_bytes``,
            ``hit_rate``, and the metrics of its validation as ``val_NAME``.
        test: Metrics of the test by name. Empty if the store has no test split.
        tested: The parameters that were tested: ``"last"`` or ``"best"``.
        best_epoch: Number of the epoch with the best validation.
        stopped_early: Whether training ended before its last epoch.
        objective: The objective and the loss, in words.
        metric: Name of the metric that determines the best epoch.
        resolved: The values that the run chose for open settings, such as ``sampler`` and
            ``loss``.
        num_parameters: Number of parameters, without learned rows.
        missing_labels: Number of unknown labels by split.
        notes: Notes for the user.
        train_seconds: Time of training, without evaluation.
        seeds: Number of training seeds that were processed.
        num_classes: Number of outputs: classes, labels or values.
        num_features: Number of features of the first node type with features.
        resumed_at_step: Number of steps before the last resume; 0 if there was none.
        store_stats: Counters of the store over the training epochs of this process.
    """

    losses: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    test: dict[str, float] = field(default_factory=dict)
    tested: Tested = "last"
    best_epoch: int | None = None
    stopped_early: bool = False
    objective: str = ""
    metric: str = "accuracy"
    resolved: dict[str, Any] = field(default_factory=dict)
    num_parameters: int = 0
    missing_labels: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    train_seconds: float = 0.0
    seeds: int = 0
    num_classes: int = 0
    num_features: int = 0
    resumed_at_step: int = 0
    store_stats: dict[str, Any] = field(default_factory=dict)

    def values(self, metric: str) -> list[float]:
        """Returns the values of a metric over all validations, in order."""
        key = f"val_{metric}"
        return [row[key] for row in self.history if key in row]

    @property
    def val_accuracy(self) -> list[float]:
        """The accuracy of each validation, from 0 to 1; empty if it was not measured."""
        return self.values("accuracy")

    @property
    def test_accuracy(self) -> float | None:
        """The accuracy of the test; None if it was not measured."""
        return self.test.get("accuracy")

    @property
    def seeds_per_second(self) -> float:
        """Seeds per second of training, without evaluation."""
        return self.seeds / self.train_seconds if self.train_seconds else 0.0

    def plain(self) -> dict[str, Any]:
        """Returns the result as plain data, for JSON."""
        more = {"val_accuracy": self.val_accuracy, "test_accuracy": self.test_accuracy}
        return {**asdict(self), **more, "seeds_per_second": self.seeds_per_second}
