"""What a training run gives back."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class TrainResult:
    """Losses and metrics of one run.

    ``losses`` has one entry per optimiser step, in order, also of the steps before a resume; a
    batch in which no label is known makes no step. ``history`` has a row per epoch: ``epoch``,
    ``loss`` (the mean over its steps; not there where none was made), ``lr``,
    ``seconds``, ``seeds_per_second``, ``read_bytes``, ``useful_bytes``, ``hit_rate``, and the
    validation as ``val_`` and the name of the metric. ``test`` are the metrics of the test, by
    name; empty where the store has no such split. ``best_epoch`` is the epoch of the best
    validation, and ``tested`` says whether its parameters were tested, or the last ones;
    ``metric`` is the one that decides.
    ``resolved`` is what the run has for settings that may be left to it, such as ``sampler`` and
    ``loss``. ``missing_labels`` counts labels that are unknown, by split. ``notes`` are lines that
    a user should read. ``train_seconds`` and ``seeds_per_second`` leave evaluation out.
    ``store_stats`` are the counters of the store over the training epochs of this process.
    """

    losses: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    test: dict[str, float] = field(default_factory=dict)
    tested: str = "last"
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
        """A metric of all validations, in order."""
        key = f"val_{metric}"
        return [row[key] for row in self.history if key in row]

    @property
    def val_accuracy(self) -> list[float]:
        """The accuracy of each validation, a share from 0 to 1; empty if it was not measured."""
        return self.values("accuracy")

    @property
    def test_accuracy(self) -> float | None:
        """The accuracy of the test; None without a test split, or if it was not measured."""
        return self.test.get("accuracy")

    @property
    def seeds_per_second(self) -> float:
        """Training seeds handled per second of training."""
        return self.seeds / self.train_seconds if self.train_seconds else 0.0

    def plain(self) -> dict[str, Any]:
        """Everything as plain data, for JSON."""
        more = {"val_accuracy": self.val_accuracy, "test_accuracy": self.test_accuracy}
        return {**asdict(self), **more, "seeds_per_second": self.seeds_per_second}
