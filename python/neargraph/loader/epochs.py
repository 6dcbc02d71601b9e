"""The base of all loaders: epochs, position in them, and times of work and waits.

The invariant: the batches of a loader depend on its arguments alone. So its state is two numbers,
and a resumed epoch continues with the next batch.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from neargraph.loader.copying import CopyStage
from neargraph.loader.pipeline import Pipeline
from neargraph.loader.results import StageName, Stages, Waits
from neargraph.loader.state import LoaderState, Position, dump_state, load_state
from neargraph.loader.workers import BatchSource, WorkerPool
from neargraph.reader import Version

# The settings of a plan that determine the batches of all ranks.
_OF_PLAN = ("batch_size", "shuffle", "seed", "drop_last", "world_size", "pad")


class EpochLoader(ABC):
    """Epochs of batches; a subclass defines the batches.

    Args:
        copy: The stage that copies batches to pinned memory or to a device; None copies nothing.
    """

    _source: BatchSource
    # Either threads or processes make the batches.
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
        """The version of the store that the loader reads."""
        return self._source.sampler.snapshot

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Returns the settings that determine the batches, beside store and order of seeds."""

    def __len__(self) -> int:
        """Returns the number of batches in a complete epoch."""
        return self._source.plan.steps

    def __iter__(self) -> Iterator[Any]:
        """Iterates over one epoch, or over the rest of the epoch of a loaded state."""
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
        """Releases the memory that the loader keeps between epochs. The loader stays usable."""
        if self._pipeline is not None:
            self._pipeline.close()

    def stages(self) -> Stages:
        """Returns the seconds that each stage has worked since the loader was created.

        Stages work at the same time, and a stage adds up the times of its threads, so the sum can
        exceed the elapsed time. Work in the processes of ``num_workers`` is not included.
        """
        copied = 0.0 if self._copy is None else self._copy.seconds
        worked = dict(self._source.sampler.core.stages())
        return cast(Stages, {**worked, "copy": copied, "wait": self._waited})

    def waits(self) -> Waits:
        """Returns the seconds that the stages have waited since the loader was created, by cause.

        A wait that does not exist in a way of reading is 0. The loader is a bottleneck only if
        ``consumer`` is a large part of the elapsed time. Then the bottleneck is the stage that the
        others wait for: sampling with ``plan_for_samples``, reading with ``gather_for_rows``. A
        stage adds up the times of its threads. Waits in the processes of ``num_workers`` are not
        included.
        """
        return cast(Waits, dict(self._source.sampler.core.waits()))

    def waiting(self) -> float:
        """Returns the seconds that the consumer has waited for its next batch until now.

        It is 0 while the consumer has a batch. Any thread may call this method.
        """
        since = self._waits_since
        return 0.0 if since is None else time.perf_counter() - since

    def busy(self) -> list[StageName]:
        """Returns the stages that are at work now. Any thread may call this method."""
        return cast(list[StageName], self._source.sampler.core.busy())

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch.

        If a loaded state is in this epoch, the next iteration is the rest of it.
        """
        loaded = self._loaded
        if loaded is not None and loaded.epoch == epoch:
            self._next = replace(loaded)
        else:
            self._next = Position(epoch)

    def state_dict(self) -> LoaderState:
        """Returns the position of the loader and the settings that determine its batches.

        The state counts the batches that the consumer has received, not those made ahead. It can be
        saved as JSON or with `torch.save`.
        """
        return dump_state(self._position, self._fingerprint())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position of `state` with the next iteration.

        If that is the end of an epoch, the next epoch follows.

        Raises:
            StateMismatch: The state was saved with other data or settings; the message names the
                setting.
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
