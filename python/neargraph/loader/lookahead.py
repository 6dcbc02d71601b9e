"""Batches that are read by looking ahead, from one epoch into the next.

The compiled core samples many batches before their rows are read; this module gives it the seeds in
time and hands the finished batches out. The invariant: which batches come, and their bytes, do not
depend on how far ahead anybody looks.
"""

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.snapshot import Snapshot

READINGS = (
    "auto",
    "direct",
    "window",
    "scan",
    "distribute",
    "naive-uring",
    "naive-uring+sieve",
)

# Epochs that need fewer batches than this are over before looking ahead has paid.
_BATCHES_MIN = 4

_waiting: "weakref.WeakSet[LookAhead]" = weakref.WeakSet()


def check_reading(reading: str) -> str:
    """`reading`, if it is one."""
    if reading not in READINGS:
        raise ValueError(f"reading={reading!r} is none of {', '.join(map(repr, READINGS))}")
    return reading


def looks_ahead(reading: str, core: Callable[[], _core.Sampler], plan: SeedPlan) -> bool:
    """Whether batches of `plan` are read by looking ahead."""
    if reading == "auto":
        return plan.steps >= _BATCHES_MIN and core().is_larger_than_memory()
    return reading != "direct"


class LookAhead:
    """The batches of `plan`, epoch after epoch.

    It keeps its memory between epochs, so that the next one starts at full speed, and gives it up
    when somebody else starts to read from the same store.

    Args:
        core: Makes the compiled sampler.
        snapshot: What is sampled.
        inputs: The seeds.
        plan: Their order.
        goes_on: After an epoch the next one follows; else it ends.
        options: `reading`, `window`, `prefetch`, `threads` and `two_phase` of the core.

    Attributes:
        may_give_up: Memory that is too small is no error: somebody else reads instead.
        gave_up: That has happened.
    """

    def __init__(
        self,
        core: Callable[[], _core.Sampler],
        snapshot: Snapshot,
        inputs: InputNodes,
        plan: SeedPlan,
        *,
        goes_on: bool,
        options: dict[str, Any],
    ) -> None:
        self._sampler = core
        self._snapshot = snapshot
        self._inputs = inputs
        self._plan = plan
        self._goes_on = goes_on
        self._options = options
        self.may_give_up = options["reading"] == "auto"
        self.gave_up = False
        self._local: ProcessLocal[Any] = ProcessLocal(self._build)
        self._next: tuple[int, int] | None = None
        self._jobs: Iterator[tuple[int, int]] = iter(())
        self._given: deque[Any] = deque()

    def _build(self) -> Any:
        return _core.LookAhead(
            self._sampler(),
            self._inputs.node_type.index,
            spill_dir=self._snapshot.store.path,
            **self._options,
        )

    @property
    def plain_options(self) -> dict[str, Any]:
        """The options that reading batches one by one has as well."""
        return {name: self._options.get(name) for name in ("prefetch", "threads")}

    def run(self, train_epoch: int, first: int) -> Iterator[tuple[int, Any, list[_core.MiniBatch]]]:
        """Batches `first` ... of an epoch: (number, places of the seeds, the batch in a list).

        The list is for the caller to empty: a name that held the batch would keep its memory.
        """
        if self._next != (train_epoch, first):
            self.close()
            self._jobs = self._numbers(train_epoch, first)
        self._take_turn()
        self._next = None
        done = False
        try:
            for batch in range(first, self._plan.steps):
                self._feed()
                places = self._given.popleft()
                yield batch, places, [self._take(places)]
            done = True
        finally:
            if done and self._goes_on:
                self._next = (train_epoch + 1, 0)
                _waiting.add(self)
            else:
                self.close()

    def _take_turn(self) -> None:
        """Makes those give their memory back who only wait for their next epoch."""
        _waiting.discard(self)
        for other in [o for o in _waiting if o._snapshot.store is self._snapshot.store]:
            other.close()

    def _numbers(self, train_epoch: int, first: int) -> Iterator[tuple[int, int]]:
        yield from ((train_epoch, batch) for batch in range(first, self._plan.steps))
        if self._goes_on:
            for epoch in itertools.count(train_epoch + 1):
                yield from ((epoch, batch) for batch in range(self._plan.steps))

    def _feed(self) -> None:
        core = self._local.get()
        wanted = core.wanted()
        # A few at a time would do, but laying seeds out is cheap.
        for epoch, batch in itertools.islice(self._jobs, wanted):
            places = self._plan.places(epoch, batch, batch + 1)
            self._given.append(places)
            core.push(self._inputs.nodes(places), self._plan.stream(epoch, batch))
        if wanted and not self._goes_on and len(self._given) < wanted:
            core.end()

    def _take(self, _places: Any) -> _core.MiniBatch:
        batch: _core.MiniBatch = next(self._local.get())
        return batch

    def chosen(self) -> dict[str, Any] | None:
        """What was chosen: policy, window, rows in memory, expected reads and bytes a batch."""
        core = self._local.peek()
        return core.chosen() if core is not None else None

    def describe(self) -> str:
        """How the batches are read, in words."""
        chosen = {**self._options, **(self.chosen() or {})}
        window = f", window {chosen['window']}" if chosen.get("window") else ""
        return f"reading={chosen['reading']!r}{window}"

    def waits(self) -> dict[str, float]:
        """Seconds that each stage has waited, and for what."""
        core = self._local.peek()
        return dict(core.waits()) if core is not None else {}

    def close(self) -> None:
        """Stops reading and gives the memory back."""
        _waiting.discard(self)
        self._next = None
        self._given.clear()
        core = self._local.take()
        if core is not None:
            core.close()
