"""Batches that are read by looking ahead, from one epoch into the next.

The compiled core samples many batches before their rows are read; this module gives it the seeds in
time and hands the finished batches out. The invariant: which batches come, and their bytes, do not
depend on how far ahead anybody looks.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from neargraph import _core
from neargraph._process import ProcessLocal
from neargraph._room import make_room, others, register
from neargraph.exceptions import BudgetTooSmall
from neargraph.loader.options import ReadOptions
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.snapshot import Snapshot

# Epochs that need fewer batches than this are over before looking ahead has paid.
_BATCHES_MIN = 4

# So often an epoch gets its memory back from others; after that it shares.
_REGAINED_MAX = 3


def looks_ahead(options: ReadOptions, core: Callable[[], _core.Sampler], plan: SeedPlan) -> bool:
    """Whether batches of `plan` are read by looking ahead."""
    if options.reading == "auto" and not options.asks_to_look_ahead:
        return plan.steps >= _BATCHES_MIN and core().is_larger_than_memory()
    return options.reading != "direct"


class LookAhead:
    """The batches of `plan`, epoch after epoch.

    It keeps its memory between epochs, so that the next one starts at full speed, and gives it up
    when somebody else starts to read from the same store. Where that is in the midst of an epoch,
    it takes the memory back when its next batch is asked for, or leaves the rest of the epoch to
    whoever reads batch by batch, if the others have not ended.

    Args:
        core: Makes the compiled sampler.
        snapshot: What is sampled.
        inputs: The seeds.
        plan: Their order.
        goes_on: After an epoch the next one follows; else it ends.
        options: What was asked for.

    Attributes:
        gave_up: Somebody else reads instead, because memory is too small or a file is damaged.
    """

    def __init__(
        self,
        core: Callable[[], _core.Sampler],
        snapshot: Snapshot,
        inputs: InputNodes,
        plan: SeedPlan,
        *,
        goes_on: bool,
        options: ReadOptions,
    ) -> None:
        self._sampler = core
        self._snapshot = snapshot
        self._inputs = inputs
        self._plan = plan
        self._goes_on = goes_on
        self._options = options
        self.gave_up = False
        self._local: ProcessLocal[Any] = ProcessLocal(self._build)
        self._next: tuple[int, int] | None = None
        self._jobs: Iterator[tuple[int, int]] = iter(())
        self._given: deque[tuple[int, int]] = deque()
        # Held while a batch is made, so that memory is taken away between batches alone.
        self._busy = threading.Lock()
        # The run that the memory is for: None is nobody, `self` somebody who shall not come back.
        self._owner: object = None

    @property
    def store(self) -> Any:
        """Whose memory it takes."""
        return self._snapshot.store

    def _build(self) -> Any:
        return _core.LookAhead(
            self._sampler(),
            self._inputs.node_type.index,
            spill_dir=self._snapshot.store.path,
            **self._options.of_look_ahead(),
        )

    def gives_up(self, error: Exception, made: int) -> bool:
        """Whether an error after `made` batches of an epoch is none: memory is too small, and no
        way of reading was asked for."""
        asked = self._options.reading != "auto" or self._options.asks_to_look_ahead
        return isinstance(error, BudgetTooSmall) and not made and not asked

    def epoch_of(self, train_epoch: int) -> int:
        """Whose seeds and draws an epoch has."""
        return train_epoch

    @property
    def options(self) -> ReadOptions:
        """What was asked for."""
        return self._options

    def run(self, train_epoch: int, first: int) -> Iterator[tuple[int, Any, list[_core.MiniBatch]]]:
        """Batches `first` ... of an epoch: (number, places of the seeds, the batch in a list).

        The list is for the caller to empty: a name that held the batch would keep its memory. Ends
        early where memory has to be shared.
        """
        if self.gave_up:
            return
        run = object()
        with self._busy:
            if self._owner is not None or self._next != (train_epoch, first):
                self._restart(train_epoch, first)
            self._owner, self._next = run, None
        register(self)
        make_room(self.store, but=self)
        regained = 0
        done = False
        try:
            for batch in range(first, self._plan.steps):
                with self._busy:
                    if self._owner is not run:
                        regained += 1
                        if regained > _REGAINED_MAX or not self._regain(train_epoch, batch):
                            return
                        self._owner = run
                    try:
                        self._feed()
                        places = self._places(*self._given.popleft())
                        made = [self._take(places)]
                    except BudgetTooSmall:
                        if regained:
                            return
                        raise
                yield batch, places, made
            done = True
        finally:
            if self._owner is run:
                self._owner = None
                if done and self._goes_on:
                    self._next = (train_epoch + 1, 0)
                else:
                    self.close()

    def _restart(self, train_epoch: int, first: int) -> None:
        self.close()
        self._jobs = self._numbers(train_epoch, first)

    def _regain(self, train_epoch: int, batch: int) -> bool:
        """Goes on in the midst of an epoch, unless those who took the memory still read."""
        if self._owner is not None:
            return False
        readers = [other for other in others(self) if other._owner not in (None, other)]
        for reader in readers:
            reader.give_way(for_good=True)
        if readers:
            return False
        make_room(self.store, but=self)
        self._restart(train_epoch, batch)
        return True

    def give_way(self, for_good: bool = False) -> bool:
        """Gives memory back unless a batch is just being made; whether there was any."""
        if not self._busy.acquire(blocking=False):
            return False
        try:
            had_memory = self._local.peek() is not None
            self.close()
            if self._owner is not None:
                self._owner = self if for_good else None
            return had_memory
        finally:
            self._busy.release()

    def _numbers(self, train_epoch: int, first: int) -> Iterator[tuple[int, int]]:
        yield from ((train_epoch, batch) for batch in range(first, self._plan.steps))
        if self._goes_on:
            for epoch in itertools.count(train_epoch + 1):
                yield from ((epoch, batch) for batch in range(self._plan.steps))

    def _feed(self) -> None:
        core = self._local.get()
        self._give(core)
        if core.chosen() is None:
            while core.choose() is None:
                pass
            # Only now is it known how many can be sampled first.
            self._give(core)

    def _give(self, core: _core.LookAhead) -> None:
        wanted = core.wanted()
        # A few at a time would do, but laying seeds out is cheap.
        for epoch, batch in itertools.islice(self._jobs, wanted):
            self._given.append((epoch, batch))
            core.push(
                self._inputs.nodes(self._places(epoch, batch)), self._plan.stream(epoch, batch)
            )
        if wanted and not self._goes_on and len(self._given) < wanted:
            core.end()

    def _places(self, epoch: int, batch: int) -> Any:
        return self._plan.places(epoch, batch, batch + 1)

    def _take(self, _places: Any) -> _core.MiniBatch:
        batch: _core.MiniBatch = next(self._local.get())
        return batch

    def chosen(self) -> dict[str, Any] | None:
        """What was chosen: policy, window, rows in memory, expected reads and bytes a batch."""
        core = self._local.peek()
        return core.chosen() if core is not None else None

    def describe(self) -> str:
        """How the batches are read, in words."""
        chosen = {**self._options.of_look_ahead(), **(self.chosen() or {})}
        window = f", window {chosen['window']}" if chosen.get("window") else ""
        return f"reading={chosen['reading']!r}{window}"

    def waits(self) -> dict[str, float]:
        """Seconds that each stage has waited, and for what."""
        core = self._local.peek()
        return dict(core.waits()) if core is not None else {}

    def close(self) -> None:
        """Stops reading and gives the memory back."""
        self._next = None
        self._given.clear()
        core = self._local.take()
        if core is not None:
            core.close()
