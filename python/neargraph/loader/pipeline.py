"""The batches of a plan, epoch after epoch, as the compiled core prepares them.

How they are read, from one epoch into the next, is for the core; this module spells what was asked
for and wraps what comes. The invariant: which batches come, and their bytes, do not depend on how.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from neargraph import _core
from neargraph._process import ProcessLocal, closed_in_this_process
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.compiled import epoch_key, find_compiled
from neargraph.loader.minibatch import MiniBatch
from neargraph.loader.reading import Reading
from neargraph.loader.seeds import InputNodes, SeedPlan

if TYPE_CHECKING:
    from neargraph.loader.sampler import NumpySampler

BY_ITSELF = "reading each batch by itself"
"""How batches are read that nothing reads ahead for."""


class Pipeline:
    """The batches of `plan`.

    Args:
        sampler: What samples them.
        inputs: The seeds.
        plan: Their order.
        reading: How they are to be read.
        goes_on: After an epoch the next one follows, and what reads ahead keeps its memory until
            somebody else reads from the store; else it ends.

    Raises:
        UnsupportedArgument: The layout has no such way of reading, or such batches are not
            compiled.
        CompiledMismatch, StoreDamaged: As of `find_compiled`.
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
                f"reading={str(reading.way)!r}: epochs are compiled for NeighborLoader alone, "
                "where all seeds share one subgraph as it was drawn; leave it out"
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
        # Whether compiled epochs serve is known when the loader is made.
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
        """Batches `first` ... of an epoch."""
        core = self._local.get()
        # The seeds are those of the epoch that was compiled.
        epoch, run = core.epoch_of(epoch), core.run(epoch, first)
        with closed_in_this_process(run):
            for batch in range(first, self._plan.steps):
                # No local name may hold a batch: the budget counts it until it is dropped.
                yield self._sampler.wrap(
                    next(run), self._inputs, self._plan, (epoch, batch), self.describe
                )

    def chosen(self) -> dict[str, Any] | None:
        """What was chosen: policy, window, rows in memory, expected reads and bytes a batch; of
        compiled epochs how many take turns, and what of the memory is for what."""
        core = self._local.peek()
        return core.chosen() if core is not None else None

    def describe(self) -> str:
        """How the batches are read, in words."""
        chosen = self.chosen()
        if chosen is None:
            return BY_ITSELF
        window = f", window {chosen['window']}" if chosen.get("window") else ""
        return f"reading={chosen['reading']!r}{window}"

    def close(self) -> None:
        """Gives back what is kept between epochs."""
        core = self._local.take()
        if core is not None:
            core.close()
