"""The batches of a plan, epoch after epoch, as the compiled core prepares them.

The core decides how they are read, also across epochs. This module passes the settings to it and
wraps its batches. The invariant: the batches and their bytes do not depend on how they are read.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from neargraph import _core
from neargraph._process import ProcessLocal, closed_in_this_process
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.compiled import epoch_key, find_compiled
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.reading import Reading
from neargraph.loader.results import ReadingPlan, ReplayPlan
from neargraph.loader.seeds import InputNodes, SeedPlan

if TYPE_CHECKING:
    from neargraph.loader.sampler import NumpySampler

BY_ITSELF = "reading the batches one by one"
"""How batches are read without look-ahead, in words."""


class Pipeline:
    """The batches of `plan`.

    Args:
        sampler: The sampler of the batches.
        inputs: The seeds.
        plan: Order of the seeds.
        reading: How batches are read.
        goes_on: Look-ahead continues into the next epoch, and keeps its memory until something else
            reads from the store. Otherwise it ends with the epoch.

    Raises:
        UnsupportedArgument: The layout does not support `reading`, or such batches cannot be
            compiled.
        CompiledMismatch, StoreDamaged: As in `find_compiled`.
    """

    def __init__(
        self,
        sampler: "NumpySampler",
        inputs: InputNodes,
        plan: SeedPlan,
        reading: Reading,
        *,
        goes_on: bool,
    ) -> None:
        reading.check_layout(sampler.layout)
        if reading.must_replay and not sampler.is_compilable:
            raise UnsupportedArgument(
                f"reading={str(reading.way)!r} is not supported by this loader: only a "
                "NeighborLoader without disjoint=, time_attr= and subgraph_type= replays "
                "compiled epochs; leave out reading="
            )
        self._sampler = sampler
        self._inputs = inputs
        self._plan = plan
        self._reading = reading
        self._goes_on = goes_on
        self._compiled: _core.Epochs | None = None
        if reading.compiled is not False and sampler.layout == "paged":
            key = epoch_key(sampler.key, inputs, plan)
            place, must = (reading.compiled, sampler.snapshot.path), reading.must_replay
            self._compiled = find_compiled(*place, key, must=must)
        self._local: ProcessLocal[_core.Loader] = ProcessLocal(self._build)
        # The core decides about compiled epochs when its loader is created.
        self.epochs = None if self._compiled is None else self._local.get().epochs

    def _build(self) -> _core.Loader:
        compiled = None if self._compiled is None else (self._compiled, self._reading.must_replay)
        return _core.Loader(
            self._sampler.core,
            self._inputs.core(),
            self._plan,
            goes_on=self._goes_on,
            spill_dir=self._sampler.snapshot.path,
            compiled=compiled,
            **self._reading.of_core(),
        )

    def run(self, epoch: int, first: int = 0) -> Iterator[MiniBatch]:
        """Yields the batches of an epoch from `first` on."""
        core = self._local.get()
        # A compiled epoch has its own seeds.
        epoch, run = core.epoch_of(epoch), core.run(epoch, first)
        with closed_in_this_process(run):
            for batch in range(first, self._plan.steps):
                # No local name may hold a batch: the budget counts it until it is dropped.
                yield self._sampler.wrap(
                    next(run), self._inputs, self._plan, (epoch, batch), self.describe
                )

    def chosen(self) -> ReadingPlan | ReplayPlan | None:
        """Returns how batches are read: the plan of look-ahead, or that of a replay.

        It is None before the first plan, and without look-ahead.
        """
        core = self._local.peek()
        return None if core is None else cast(ReadingPlan | ReplayPlan | None, core.chosen())

    def describe(self) -> str:
        """Returns in words how the batches are read."""
        chosen = self.chosen()
        if chosen is None:
            return BY_ITSELF
        window = ""
        if chosen["reading"] != "compiled" and chosen["window"]:
            window = f", window={chosen['window']}"
        return f"reading={chosen['reading']!r}{window}"

    def close(self) -> None:
        """Releases the memory that is kept between epochs."""
        core = self._local.take()
        if core is not None:
            core.close()
