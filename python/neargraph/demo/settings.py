"""The settings of the command line, and the description of a training job."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Source = Literal["memory", "disk", "mapped", "pyg"]
"""The source of feature rows."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The options of the command; the defaults are those of the demo.

    ``mapped_seconds`` limits each of the two turns with memory-mapped rows, which can take minutes.
    """

    out: Path
    graph: str = "planted"
    memory: str = "256MB"
    epochs: int = 1
    seed: int = 0
    mapped_seconds: float = 7.0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"--epochs {self.epochs} is out of range: use 1 or more")
        if self.seed < 0:
            raise ValueError(f"--seed {self.seed} is out of range: use 0 or more")


@dataclass(frozen=True, slots=True)
class Training:
    """Batches and model, the same for all sources of rows."""

    batch_size: int = 256
    fanouts: tuple[int, ...] = (10, 5)
    hidden: int = 64
    lr: float = 0.003


@dataclass(frozen=True, slots=True)
class Job:
    """One training run in a separate process.

    Args:
        source: The source of rows.
        store: Path of the store.
        rows: Path of the same rows as a .npy file, for "mapped" and "pyg".
        memory: Memory budget of the store in bytes; unused for "memory", which loads everything.
        training: Batches and model.
        width: Columns of a row.
        classes: Number of classes.
        epochs: Passes over the training nodes.
        seed: Random seed of the draws, the order of the seeds, and the weights.
        model: Path for the trained model, or None.
        readers: For "mapped": the numbers of reading threads to measure in turn.
        seconds: For "mapped": the longest time for each number of readers.
    """

    source: Source
    store: str
    rows: str
    memory: int
    training: Training
    width: int
    classes: int
    epochs: int
    seed: int
    model: str | None = None
    readers: tuple[int, ...] = (1, 8)
    seconds: float = 7.0

    def plain(self) -> dict[str, Any]:
        """Returns the job as plain data, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Job":
        """Returns the job that `plain` describes."""
        training = {**plain["training"], "fanouts": tuple(plain["training"]["fanouts"])}
        given = {**plain, "training": Training(**training), "readers": tuple(plain["readers"])}
        return cls(**given)
