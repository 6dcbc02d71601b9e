"""Making compiled epochs: what they will take, then the files.

Rows are counted over all epochs first, so that those wanted most stay out of the files; then a
look-ahead reads the epochs, and each batch is written down as it comes. The invariant: a file has
its name only when it is whole and durable; an epoch that is there already is kept.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neargraph import _core
from neargraph.exceptions import IoFailed, NeargraphError, StoreDamaged
from neargraph.loader.compiled import default_directory, epoch_key, file_name, make_directory
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.units import format_bytes

Progress = Callable[[str, int, int], None]

# Batches that an estimate samples: some to choose hot rows by, others to measure what is cold.
# Where there are no more than that, it samples all.
_COUNTED = 128
_MEASURED = 32

# Batches whose samples are in memory at once.
_TOGETHER = 8

# Bytes of rows that two threads put together a second, as long as memory is the bound.
_GATHER_BYTES_PER_S = 7e9

# Space that is left free beside the files.
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Estimate:
    """What compiling will take and what it saves, from a few sampled batches."""

    epochs: int
    batches: int
    bytes_per_epoch: int
    total_bytes: int
    feature_bytes: int
    free_bytes: int
    hot_rows: int
    hot_bytes: int
    build_seconds: float
    fresh_seconds_per_epoch: float
    replay_seconds_per_epoch: float
    break_even_epochs: float | None

    @property
    def times_features(self) -> float | None:
        """An epoch's bytes over those of the rows that are too many for memory."""
        return self.bytes_per_epoch / self.feature_bytes if self.feature_bytes else None

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**asdict(self), "times_features": self.times_features}


class EpochCompiler:
    """Compiles `epochs` epochs of a sampler's batches.

    Args:
        sampler: What is sampled; its tensors are those that a replay can give.
        inputs: The seeds.
        plan: Their order.
        epochs: How many epochs, from `first_epoch` on.
        directory: Where the files go; None is inside the store.
        name: Name of the set; None is made from what shapes it.
    """

    def __init__(
        self,
        sampler: NumpySampler,
        inputs: InputNodes,
        plan: SeedPlan,
        epochs: int,
        *,
        first_epoch: int = 0,
        directory: Path | None = None,
        name: str | None = None,
    ) -> None:
        if epochs < 1 or first_epoch < 0:
            raise ValueError(f"cannot compile {epochs} epochs from epoch {first_epoch} on")
        if plan.steps == 0:
            raise ValueError("there are no seeds, so there is no batch to compile")
        self._sampler = sampler
        self._inputs = inputs
        self._plan = plan
        self._epochs = range(first_epoch, first_epoch + epochs)
        self.directory = directory or default_directory(sampler.snapshot.path)
        self._name = name

    def estimate(self) -> Estimate:
        """Samples a few batches and says what is to be expected; writes nothing."""
        plan = self._plan
        survey = _core.Survey(self._sampler.core)
        batches = plan.steps * len(self._epochs)
        start = time.perf_counter()
        if batches <= _COUNTED + _MEASURED:
            counted = [(epoch, range(plan.steps)) for epoch in self._epochs]
            measured = counted
        else:
            first = range(max(1, min(_COUNTED, plan.steps * 3 // 4)))
            counted = [(self._epochs[0], first)]
            others = range(len(first), min(len(first) + _MEASURED, plan.steps))
            measured = [(self._epochs[0], others or first)]
        for epoch, some in counted:
            self._count(survey, epoch, some)
        sample_s = (time.perf_counter() - start) / sum(len(some) for _, some in counted)
        hot, _ = survey.choose()
        sizes: dict[str, int] = {}
        for part in (part for chosen in measured for part in self._parts(*chosen)):
            for name, value in survey.measure(*part, hot).items():
                sizes[name] = sizes.get(name, 0) + value
        per_batch = sizes["bytes"] / sizes["batches"]
        row_bytes = sizes["row_bytes"] / sizes["batches"]
        _, bytes_per_s = survey.disk_costs()
        feature_bytes = survey.table_bytes
        del survey
        reading_s = self._reading_seconds(hot)
        gather_s = row_bytes / _GATHER_BYTES_PER_S
        fresh_s = max(reading_s, sample_s + gather_s)
        replay_s = max(per_batch / bytes_per_s, gather_s)
        written_s = per_batch / bytes_per_s
        build_s = sample_s + max(reading_s + written_s, sample_s + gather_s + written_s)
        # A look-ahead reads the rows once before it runs at full speed.
        first_s = feature_bytes / bytes_per_s if reading_s else 0.0
        # The hot rows are read and written once.
        first_s += 2 * hot.row_bytes / bytes_per_s
        saved_s = plan.steps * (fresh_s - replay_s)
        bytes_per_epoch = int(per_batch * plan.steps) + feature_bytes // 4096 + 16384
        return Estimate(
            epochs=len(self._epochs),
            batches=plan.steps,
            bytes_per_epoch=bytes_per_epoch,
            total_bytes=bytes_per_epoch * len(self._epochs) + hot.row_bytes,
            feature_bytes=feature_bytes,
            free_bytes=self._free_bytes(),
            hot_rows=hot.num_rows,
            hot_bytes=hot.row_bytes,
            build_seconds=first_s + build_s * batches,
            fresh_seconds_per_epoch=fresh_s * plan.steps,
            replay_seconds_per_epoch=replay_s * plan.steps,
            break_even_epochs=(first_s + build_s * batches) / saved_s if saved_s > 0 else None,
        )

    def check_room(self, wanted: int) -> None:
        """Refuses what the disk has no room for.

        Raises:
            IoFailed: The disk is too full.
        """
        free = self._free_bytes()
        if wanted + _SPARE_BYTES > free:
            raise IoFailed(
                f"compiled epochs of {format_bytes(wanted)} do not fit: the file system of "
                f"{self.directory} has {format_bytes(free)} free; compile fewer epochs, give the "
                "store more memory, or name a directory on another disk"
            )

    def run(self, progress: Progress, *, overwrite: bool = False) -> dict[str, Any]:
        """Writes the files that are not there yet, and says what was done.

        Raises:
            IoFailed: The disk is full, or failed.
            StoreBusy: Somebody else compiles into the directory.
            BudgetTooSmall: The memory of the store is too small to look ahead.
        """
        start = time.perf_counter()
        steps = self._plan.steps
        survey = _core.Survey(self._sampler.core)
        for done, epoch in enumerate(self._epochs):
            for batch in range(0, steps, _TOGETHER):
                progress("count", done * steps + batch, len(self._epochs) * steps)
                self._count(survey, epoch, range(batch, min(batch + _TOGETHER, steps)))
        hot, memory = survey.choose()
        counted_s = time.perf_counter() - start
        expected = survey.record_bytes(hot)
        # Its counters and its topology are needed no more, and the look-ahead needs the memory.
        del survey
        stored = hot.stored(self._sampler.core)
        key = epoch_key(self._sampler.key, self._inputs, self._plan)
        name = self._name or _set_name(key, hot, self._epochs)
        make_directory(self.directory, self._sampler.snapshot.path)
        missing = [e for e in self._epochs if overwrite or not self._is_there(name, e, key, hot)]
        # The file of the first epoch has the hot rows of the set.
        hot_bytes = hot.row_bytes if self._epochs.start in missing else 0
        self.check_room(expected * len(missing) // len(self._epochs) + hot_bytes)
        written = 0
        for done, epoch in enumerate(missing):
            args = (str(self.directory), file_name(name, epoch), key, epoch, self._set, hot)
            writer = _core.EpochWriter(self._sampler.snapshot.version, *args)
            with closing(writer):
                for batch in self._write(stored, writer, epoch):
                    progress("write", done * steps + batch + 1, len(missing) * steps)
                written += writer.finish()
        return {
            "directory": str(self.directory),
            "name": name,
            "epochs": len(self._epochs),
            "kept": len(self._epochs) - len(missing),
            "written_bytes": written,
            "hot_rows": hot.num_rows,
            "hot_bytes": hot.row_bytes,
            "replay_memory_bytes": memory["bytes"],
            "count_seconds": counted_s,
            "seconds": time.perf_counter() - start,
        }

    def _write(self, stored: _core.Sampler, writer: _core.EpochWriter, epoch: int) -> Iterator[int]:
        run = self._loader(stored).run(epoch, 0)
        with closing(run):
            for batch in range(self._plan.steps):
                run.write_next(writer)
                yield batch

    def _loader(self, stored: _core.Sampler) -> _core.Loader:
        spill_dir = self._sampler.snapshot.path
        return _core.Loader(
            stored, self._inputs.core(), self._plan, goes_on=False, spill_dir=spill_dir
        )

    def _is_there(self, name: str, epoch: int, key: dict[str, str], hot: _core.HotSet) -> bool:
        try:
            file = _core.EpochFile(str(self.directory), file_name(name, epoch))
            file.check(key)
        except (NeargraphError, StoreDamaged):
            return False
        found = (file.epoch, file.epochs, file.hot_digest)
        return found == (epoch, self._set, hot.digest)

    @property
    def _set(self) -> tuple[int, int]:
        """The first epoch, and the one after the last."""
        return self._epochs.start, self._epochs.stop

    def _parts(self, epoch: int, batches: range) -> Iterator[tuple[int, Any, int, int]]:
        """Batches as the survey takes them: node type, seeds, seeds of a batch, first stream."""
        plan, inputs = self._plan, self._inputs
        for start in range(batches.start, batches.stop, _TOGETHER):
            stop = min(start + _TOGETHER, batches.stop)
            seeds = inputs.nodes(plan.places(epoch, start, stop))
            stream = plan.stream(epoch, start)
            yield inputs.node_type.index, seeds, plan.local_batch_size, stream

    def _count(self, survey: _core.Survey, epoch: int, batches: range) -> None:
        for part in self._parts(epoch, batches):
            survey.count(*part)

    def _reading_seconds(self, hot: _core.HotSet) -> float:
        """Seconds of the disk that a look-ahead expects for a batch."""
        with closing(self._loader(hot.stored(self._sampler.core))) as loader:
            return float(loader.choose(self._epochs[0])["device_s_per_batch"])

    def _free_bytes(self) -> int:
        place = self.directory if self.directory.exists() else self.directory.parent
        return shutil.disk_usage(place).free


def _set_name(key: dict[str, str], hot: _core.HotSet, epochs: range) -> str:
    which = [hot.digest, hot.num_rows, epochs.start, epochs.stop]
    text = json.dumps([key, *which], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
