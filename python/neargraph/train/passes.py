"""One pass over batches while it goes on: how far it is, how fast, and what it waits for.

What must not live here: how that is shown. The invariant: another thread may look at any time.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from neargraph.loader.epochs import EpochLoader


@dataclass(slots=True)
class Pass:
    """A pass over the batches of `loader`.

    ``phase`` is "epoch 1", ..., "val" or "test". ``step`` of ``steps`` batches are done, which had
    ``seeds`` seeds. ``value`` is the last loss of an epoch, and of the others the metric
    `measure` until now, or the last loss where that metric costs a pass; None before the first
    batch.
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
        """Batches of the pass."""
        return len(self.loader)

    def seeds_per_second(self) -> float:
        """Seeds a second since the pass began."""
        return self.seeds / max(1e-9, time.perf_counter() - self._begin)

    def waiting_share(self) -> float:
        """Share of the time since the pass began in which it waited for batches, from 0 to 1."""
        waited = self.loader.stages()["wait"] - self._waited + self.loader.waiting()
        return min(1.0, waited / max(1e-9, time.perf_counter() - self._begin))

    def plain(self) -> dict[str, Any]:
        """All of it as plain data, with the stages that are at work while it waits."""
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
            "busy": self.loader.busy() if waiting else [],
        }
