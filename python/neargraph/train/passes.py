"""The progress of one pass over batches: position, speed, and waiting time.

The display must not live here. The invariant: another thread may read a pass at any time.
"""

import time
from dataclasses import dataclass, field
from typing import TypedDict

from neargraph.loader.epochs import EpochLoader


class PassInfo(TypedDict):
    """The progress of a pass, as `Pass.plain` returns it."""

    phase: str
    step: int
    steps: int
    value: float | None
    measure: str
    seeds_per_second: float
    waiting_share: float
    """Part of the time in which the pass waited for batches, 0 to 1."""
    waiting_seconds: float
    """Duration of the present wait; 0 if the pass does not wait."""
    busy: list[str]
    """The stages that work during the present wait."""


@dataclass(slots=True)
class Pass:
    """A pass over the batches of a loader. It is updated as the pass proceeds.

    Attributes:
        phase: "epoch 1", ..., "val" or "test".
        loader: The loader.
        step: Number of batches that are done.
        seeds: Number of seeds in these batches.
        value: In training: the last loss. Otherwise: the metric `measure` so far, or the last loss
            if that metric is expensive. None before the first batch.
        measure: Name of the first metric.
    """

    phase: str
    loader: EpochLoader
    step: int = 0
    seeds: int = 0
    value: float | None = None
    measure: str = "accuracy"
    _begin: float = field(default_factory=time.perf_counter)
    _waited: float = field(init=False)

    def __post_init__(self) -> None:
        self._waited = self.loader.stages()["wait"]

    @property
    def steps(self) -> int:
        """Number of batches of the pass."""
        return len(self.loader)

    def seeds_per_second(self) -> float:
        """Returns the seeds per second since the pass began."""
        return self.seeds / max(1e-9, time.perf_counter() - self._begin)

    def waiting_share(self) -> float:
        """Returns the part of the time in which the pass waited for batches, 0 to 1."""
        waited = self.loader.stages()["wait"] - self._waited + self.loader.waiting()
        return min(1.0, waited / max(1e-9, time.perf_counter() - self._begin))

    def plain(self) -> PassInfo:
        """Returns the progress as plain data."""
        waiting = self.loader.waiting()
        return {
            "phase": self.phase,
            "step": self.step,
            "steps": self.steps,
            "value": self.value,
            "measure": self.measure,
            "seeds_per_second": self.seeds_per_second(),
            "waiting_share": self.waiting_share(),
            "waiting_seconds": waiting,
            "busy": [*self.loader.busy()] if waiting else [],
        }
