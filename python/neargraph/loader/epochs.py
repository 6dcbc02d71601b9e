"""What all loaders have in common: passes, where they stand, and how long who waited.

The invariant: which batches a loader yields depends on its arguments alone, so its state is two
numbers, and a resumed epoch goes on with the batches that were missing.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from neargraph.loader.copying import CopyStage
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.state import Position, dump_state, load_state
from neargraph.loader.workers import BatchSource, WorkerPool
from neargraph.reader import Version

# What of a plan decides the batches of all ranks.
_OF_PLAN = ("batch_size", "shuffle", "seed", "drop_last", "world_size", "pad")


class EpochLoader(ABC):
    """Passes over batches; a subclass says which batches there are.

    Args:
        copy: What brings batches to pinned memory or to a device; None leaves them.
    """

    _source: BatchSource
    # Threads make the batches, or processes do.
    _pipeline: Pipeline | None = None
    _pool: WorkerPool | None = None

    def __init__(self, copy: CopyStage | None) -> None:
        self._copy = copy
        self._waited = 0.0
        self._waits_since: float | None = None
        self._position = Position()
        self._next = Position()
        self._loaded: Position | None = None

    @property
    def snapshot(self) -> Version:
        """The version of the store that is read."""
        return self._source.sampler.snapshot

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What decides the batches beside the store and the order of seeds."""

    def __len__(self) -> int:
        """Batches of one whole epoch."""
        return self._source.plan.steps

    def __iter__(self) -> Iterator[Any]:
        """One pass over the seeds, or the rest of the pass that a loaded state stands in."""
        position = self._position = self._next
        self._next = Position(position.epoch + 1)
        self._loaded = None
        return self._run(position)

    def _run(self, position: Position) -> Iterator[Any]:
        batches = self._batches(position.epoch, position.batches)
        if self._copy is not None:
            batches = self._copy.run(batches)
        # No local name may hold a batch: the budget counts it until the caller drops it.
        holder: list[Any] = []
        while True:
            start = self._waits_since = time.perf_counter()
            try:
                holder.append(next(batches))
            except StopIteration:
                return
            finally:
                self._waits_since = None
                self._waited += time.perf_counter() - start
            position.batches += 1
            yield holder.pop()

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        if self._pipeline is None:
            assert self._pool is not None
            return self._pool.run(epoch, first)
        return map(self._source.finish, self._pipeline.run(epoch, first))

    def close(self) -> None:
        """Gives back what the loader keeps in memory between epochs."""
        if self._pipeline is not None:
            self._pipeline.close()

    def stages(self) -> dict[str, float]:
        """Seconds that each stage has worked since the loader was made, and that its consumer has
        waited: ``load`` (topologies read into memory to look ahead), ``sample``, ``read`` (rows, or
        records of compiled epochs, read ahead of their batches), ``gather`` (rows put into batches,
        and read where nothing reads ahead), ``copy``, ``wait``.

        Stages work at the same time, and each may have several threads whose times are added, so
        the sum may pass the wall time. Processes of ``num_workers`` count for themselves.
        """
        copied = 0.0 if self._copy is None else self._copy.seconds
        worked = dict(self._source.sampler.core.stages())
        return {**worked, "copy": copied, "wait": self._waited}

    def waits(self) -> dict[str, float]:
        """Seconds that the stages have waited since the loader was made, by what they waited for;
        ``docs/explanation/reading.md`` has the table. A wait that this way of reading does not have
        is 0.

        The stage that waits least bounds the others. Each may have several threads whose times are
        added. Processes of ``num_workers`` count for themselves."""
        return dict(self._source.sampler.core.waits())

    def waiting(self) -> float:
        """Seconds that the consumer has waited for the batch that it wants now; 0 while it has one.
        Another thread may ask."""
        since = self._waits_since
        return 0.0 if since is None else time.perf_counter() - since

    def busy(self) -> list[str]:
        """The stages that threads are at now, by the names of `stages`. Another thread may ask."""
        return self._source.sampler.core.busy()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of `epoch`, or its rest if a loaded state stands in it."""
        loaded = self._loaded
        if loaded is not None and loaded.epoch == epoch:
            self._next = replace(loaded)
        else:
            self._next = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: epoch, batches handed over, and the settings behind them."""
        return dump_state(self._position, self._fingerprint())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next pass go on where `state` was taken; after a whole pass, with the next.

        Raises:
            StateMismatch: The state belongs to other data or settings; names the field.
        """
        loaded = load_state(state, self._fingerprint(), len(self))
        self._loaded = loaded
        self._position = replace(loaded)
        whole = loaded.batches == len(self) and loaded.batches > 0
        self._next = Position(loaded.epoch + 1) if whole else replace(loaded)

    def _fingerprint(self) -> dict[str, Any]:
        plan = self._source.plan
        return {
            "store": self.snapshot.fingerprint,
            **self._settings(),
            **{name: getattr(plan, name) for name in _OF_PLAN},
        }
