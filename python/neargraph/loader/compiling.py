"""Compiling epochs: first an estimate of time and space, then the files.

Rows are counted over all epochs first, and the rows that most batches use are left out of the
files. Then a look-ahead reads the epochs, and each batch is written as it arrives. The invariant: a
file has its name only once it is complete and durable. An epoch that exists is kept.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from neargraph import _core
from neargraph.exceptions import IoFailed, NeargraphError, StoreDamaged
from neargraph.loader.compiled import default_directory, epoch_key, file_name, make_directory
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, SeedPlan
from neargraph.units import format_bytes

Progress = Callable[[str, int, int], None]

# Batches that an estimate samples: some to choose hot rows, others to measure cold rows. If there
# are no more batches than that, it samples all.
_COUNTED = 128
_MEASURED = 32

# Batches whose samples are in memory at once.
_TOGETHER = 8

# Bytes of rows that two threads gather per second, bounded by memory bandwidth.
_GATHER_BYTES_PER_S = 7e9

# Space that is left free beside the files.
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True)
class Estimate:
    """The expected cost and benefit of compiling, from a few sampled batches.

    Attributes:
        epochs: Number of epochs to compile.
        batches: Batches per epoch.
        bytes_per_epoch: Bytes of the file of an epoch, without hot rows.
        total_bytes: Bytes of all files.
        feature_bytes: Bytes of the tensors that do not fit into memory.
        free_bytes: Free bytes of the file system.
        hot_rows: Rows that a replay holds in memory.
        hot_bytes: Bytes of these rows.
        build_seconds: Time to compile.
        fresh_seconds_per_epoch: Time to sample and read an epoch that is not compiled.
        replay_seconds_per_epoch: Time to replay an epoch.
        break_even_epochs: Replayed epochs after which the saved time exceeds `build_seconds`; None
            if a replay saves no time.
    """

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
        """`bytes_per_epoch` divided by `feature_bytes`; None if all features fit in memory."""
        return self.bytes_per_epoch / self.feature_bytes if self.feature_bytes else None

    def plain(self) -> dict[str, Any]:
        """Returns the estimate as a dictionary, for JSON."""
        return {**asdict(self), "times_features": self.times_features}


class CompileReport(TypedDict):
    """The result of compiling epochs.

    Attributes:
        directory: Directory of the files.
        name: Name of the set of epochs.
        epochs: Number of epochs in the set.
        kept: Epochs that existed and were not written again.
        written_bytes: Bytes of the files that were written.
        hot_rows: Rows that a replay holds in memory.
        hot_bytes: Bytes of these rows.
        replay_memory_bytes: Memory that a replay needs.
        count_seconds: Time for counting rows.
        seconds: Time in total.
    """

    directory: str
    name: str
    epochs: int
    kept: int
    written_bytes: int
    hot_rows: int
    hot_bytes: int
    replay_memory_bytes: int
    count_seconds: float
    seconds: float


class EpochCompiler:
    """Compiles epochs of a sampler's batches.

    Args:
        sampler: The sampler. A replay can read only its tensors.
        inputs: The seeds.
        plan: Order of the seeds.
        epochs: Number of epochs.
        first_epoch: Number of the first epoch.
        directory: Directory of the files. None: inside the store.
        name: Name of the set. None: derived from the settings.

    Raises:
        ValueError: The epochs are not valid, or there are no seeds.
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
            raise ValueError(
                f"epochs={epochs} and first_epoch={first_epoch} are not valid: expected epochs= "
                "of 1 or more, and first_epoch= of 0 or more"
            )
        if plan.steps == 0:
            raise ValueError("there is no batch to compile; give seeds for at least one batch")
        self._sampler = sampler
        self._inputs = inputs
        self._plan = plan
        self._epochs = range(first_epoch, first_epoch + epochs)
        self.directory = directory or default_directory(sampler.snapshot.path)
        self._name = name

    def estimate(self) -> Estimate:
        """Samples a few batches and returns the expected cost and benefit. It writes nothing."""
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
        # A look-ahead reads all rows once before it reaches full speed.
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
        """Checks that the disk has room for `wanted` bytes.

        Raises:
            IoFailed: The disk is too full.
        """
        free = self._free_bytes()
        if wanted + _SPARE_BYTES > free:
            raise IoFailed(
                f"compiled epochs need {format_bytes(wanted)}, and the file system of "
                f"{self.directory} has {format_bytes(free)} free; compile fewer epochs, give the "
                "store more memory, or name a directory on another disk"
            )

    def run(self, progress: Progress, *, overwrite: bool = False) -> CompileReport:
        """Writes the files that do not exist.

        Args:
            progress: Called with (phase, done, total).
            overwrite: Write existing epochs again.

        Raises:
            IoFailed: The disk is full, or an I/O operation failed.
            StoreBusy: Another process compiles into the directory.
            BudgetTooSmall: The memory budget of the store is too small to look ahead.
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
        # The look-ahead needs the memory of its counters and of its topology.
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
        """The first epoch, and the one behind the last."""
        return self._epochs.start, self._epochs.stop

    def _parts(self, epoch: int, batches: range) -> Iterator[tuple[int, Any, int, int]]:
        """Yields arguments of the survey: node type, seeds, seeds per batch, first stream."""
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
        """Returns the time of the disk that a look-ahead expects per batch."""
        with closing(self._loader(hot.stored(self._sampler.core))) as loader:
            return float(loader.choose(self._epochs[0])["device_s_per_batch"])

    def _free_bytes(self) -> int:
        place = self.directory if self.directory.exists() else self.directory.parent
        return shutil.disk_usage(place).free


def _set_name(key: dict[str, str], hot: _core.HotSet, epochs: range) -> str:
    which = [hot.digest, hot.num_rows, epochs.start, epochs.stop]
    text = json.dumps([key, *which], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
