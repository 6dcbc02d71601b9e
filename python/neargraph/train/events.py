"""TensorBoard event files of a run, if the package `tensorboard` is installed.

The invariant: each epoch occurs once, also after a resume.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Events:
    """Writes the rows of a history as scalars, by epoch.

    Args:
        folder: The directory for event files.
        done: Number of epochs that are already done. Events of later epochs are discarded.

    Attributes:
        note: Why nothing is written; None if events are written.
    """

    def __init__(self, folder: Path, done: int) -> None:
        self.note: str | None = None
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.note = (
                "no TensorBoard events: tensorboard is not installed; pip install "
                "'neargraph[train]'"
            )
            return
        maker: Any = SummaryWriter
        self._writer = maker(log_dir=str(folder), purge_step=done + 1)
        self._last = done

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds an epoch."""
        if self._writer is None:
            return
        self._last = int(row["epoch"])
        for name, value in row.items():
            if name != "epoch":
                tag = name.replace("val_", "val/") if name.startswith("val_") else f"train/{name}"
                self._writer.add_scalar(tag, value, self._last)
        self._writer.flush()

    def close(self, test: Mapping[str, float]) -> None:
        """Adds the metrics of the test, and closes the file."""
        if self._writer is None:
            return
        for name, value in test.items():
            self._writer.add_scalar(f"test/{name}", value, self._last)
        self._writer.close()
