"""The directory of a run: settings, versions, metrics by epoch, training states, result.

``config.yaml`` has every setting by the name of its option, so a run can be repeated from it alone.
Comments show the values that the run chose. The invariant: a directory is created new and never
overwritten; its content belongs to one run on one version of a store.
"""

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from neargraph.exceptions import StateMismatch, StoreBusy, UnsupportedArgument
from neargraph.store import Backend, Store

from .config import Tested, TrainConfig
from .engine import Trainer
from .events import Events
from .files import read_yaml, write_csv, write_json, write_yaml
from .report import left_to_run, write_report
from .result import TrainResult
from .state import load_state, save_state

_PACKAGES = ("torch", "torch_geometric", "torchmetrics", "numpy")
# Arguments of a run that are not in `TrainConfig`.
_OPENING = ("store", "memory", "backend")
# Files that a run writes before its first training state.
_BEFORE_STATE = ("config.yaml", "versions.json", "metrics.csv", "events", "states")


@dataclass(frozen=True)
class Opening:
    """The arguments with which the store of a run is opened."""

    store: str
    memory: str | int | None = None
    backend: Backend = "auto"

    @staticmethod
    def of(store: Store) -> "Opening":
        """Returns the arguments of an open store."""
        return Opening(store.path, store.core.memory_bytes, store.core.backend)


class RunFolder:
    """A run on disk.

    Args:
        path: The directory.
        opening: The arguments with which its store is opened.
        config: The settings.
    """

    def __init__(self, path: Path, opening: Opening, config: TrainConfig) -> None:
        self.path, self.opening, self.config = path, opening, config
        self._events: Events | None = None
        self._made: list[Path] = []

    @staticmethod
    def check_new(path: Path) -> None:
        """Checks that the path does not exist.

        Raises:
            UnsupportedArgument: The path exists.
        """
        if path.exists() or path.is_symlink():
            is_run = (path / "config.yaml").is_file()
            resume = f", or resume this run: `neargraph train --resume {path}`" if is_run else ""
            raise UnsupportedArgument(
                f"{path} already exists, and a run overwrites nothing; use another name{resume}"
            )

    @staticmethod
    def create(path: Path, opening: Opening, store: Store, config: TrainConfig) -> "RunFolder":
        """Creates the directory, with settings and versions."""
        RunFolder.check_new(path)
        made = RunFolder(path, opening, config)
        # From the innermost outwards, which is the order in which they can be removed.
        made._made = [parent for parent in path.parents if not parent.exists()]
        found = versions(store)
        try:
            path.mkdir(parents=True)
            with made.kept_from_first_state():
                (path / "states").mkdir()
                made._write_config()
                write_json(path / "versions.json", found)
        except OSError as error:
            raise UnsupportedArgument(
                f"{path} cannot be created ({error.strerror}); use another directory"
            ) from error
        return made

    @staticmethod
    def open(path: Path) -> "RunFolder":
        """Opens the run of a directory.

        Raises:
            UnsupportedArgument: The path is not the directory of a run.
        """
        file = path / "config.yaml"
        if not file.is_file():
            raise UnsupportedArgument(
                f"{path} is not the directory of a run: it has no config.yaml; check the path"
            )
        settings = {name.replace("-", "_"): value for name, value in read_yaml(file).items()}
        if "store" not in settings:
            raise UnsupportedArgument(f"{file} has no entry 'store'; restore the file from a copy")
        opening = Opening(**{k: settings.pop(k) for k in _OPENING if k in settings})
        return RunFolder(path, opening, TrainConfig.of(settings))

    def changed(
        self,
        epochs: int | None = None,
        memory: str | int | None = None,
        backend: Backend | None = None,
    ) -> "RunFolder":
        """Returns the same run with the given values replaced."""
        config = self.config if epochs is None else replace(self.config, epochs=epochs)
        opening = self.opening
        if memory is not None:
            opening = replace(opening, memory=memory)
        if backend is not None:
            opening = replace(opening, backend=backend)
        return RunFolder(self.path, opening, config)

    @contextmanager
    def kept_from_first_state(self) -> Iterator[None]:
        """Removes the files of this run if it fails before its first training state, so that the
        next start can use the name. Other files stay."""
        try:
            yield
        except BaseException:
            if not self.last.exists():
                self._remove()
            raise

    def _remove(self) -> None:
        if self._events is not None:
            self._events.close({})
        for name in _BEFORE_STATE:
            file = self.path / name
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        for folder in (self.path, *self._made):
            with suppress(OSError):
                folder.rmdir()

    @property
    def last(self) -> Path:
        """Path of the training state from which a run resumes."""
        return self.path / "states" / "last.pt"

    @property
    def best(self) -> Path:
        """Path of the parameters of the best validation."""
        return self.path / "states" / "best.pt"

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended and written its result."""
        return (self.path / "result.json").exists()

    @property
    def tested(self) -> Tested:
        """The parameters that the run tests or has tested, "last" or "best"."""
        if not self.is_finished:
            return self.config.tested
        found: Tested = json.loads((self.path / "result.json").read_text())["tested"]
        return found

    def _write_config(self, resolved: Mapping[str, Any] | None = None) -> None:
        opening = {name: getattr(self.opening, name) for name in _OPENING}
        settings = {**opening, **self.config.plain()}
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        left = left_to_run(self.config, resolved or {})
        remarks = {name.replace("_", "-"): f"in this run: {value}" for name, value in left.items()}
        write_yaml(self.path / "config.yaml", named, remarks)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the directory against other processes and threads.

        Raises:
            StoreBusy: Another process or thread has locked it.
        """
        # The lock is on the directory itself: it leaves no file behind, and a kill releases it.
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusy(
                    f"{self.path}: another process executes this run; wait until it has ended, or "
                    "start another run"
                ) from None
            yield
        finally:
            os.close(handle)

    def begin(self, trainer: Trainer) -> None:
        """Prepares the files that are written after each epoch, from the position of `trainer`."""
        self._write_config(trainer.result.resolved)
        # A kill right after a training state leaves these files one epoch behind.
        if trainer.result.history:
            self._write_epochs(trainer, is_best=True)
        self._events = Events(self.path / "events", len(trainer.result.history))
        if self._events.note is not None:
            trainer.result.notes.append(self._events.note)

    def add_epoch(self, trainer: Trainer, is_best: bool) -> None:
        """Writes the results of an epoch."""
        self._write_epochs(trainer, is_best)
        if self._events is not None:
            self._events.add(trainer.result.history[-1])

    def _write_epochs(self, trainer: Trainer, is_best: bool) -> None:
        write_csv(self.path / "metrics.csv", trainer.result.history)
        if is_best and trainer.best is not None:
            save_state(self.best, trainer.best)

    def finish(self, result: TrainResult) -> None:
        """Writes the result and the report."""
        if self._events is not None:
            self._events.close(result.test)
        note = write_report(self.path, self.config, self.opening.store, result)
        if note is not None:
            result.notes.append(note)
        write_json(self.path / "result.json", result.plain())

    def parameters(self, which: str) -> dict[str, Any]:
        """Returns the training state "last" or "best".

        Raises:
            StateMismatch: It does not exist, or is not readable.
        """
        file = self.best if which == "best" else self.last
        state = load_state(file)
        if state is None:
            why = "no validation has ended" if which == "best" else "no epoch has ended"
            raise StateMismatch(f"{file} does not exist: {why} yet; resume the run, or wait")
        return state


def versions(store: Store) -> dict[str, Any]:
    """Returns the versions of packages and store, and a description of the machine."""
    import neargraph

    snapshot = store.snapshot()
    return {
        "neargraph": neargraph.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "store": {
            "path": store.path,
            "fingerprint": snapshot.fingerprint,
            "checkpoint_id": snapshot.checkpoint_id,
            "lsn": snapshot.lsn,
        },
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
