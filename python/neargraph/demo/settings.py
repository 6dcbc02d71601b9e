"""What the command line sets, and what a process that trains is told."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Source = Literal["memory", "disk", "mapped", "pyg"]
"""Where rows of features come from."""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The options of the command; the defaults are the demo.

    ``mapped_seconds`` bounds each of the two runs from memory-mapped rows, which may take minutes.
    """

    out: Path
    graph: str = "planted"
    memory: str = "256MB"
    epochs: int = 1
    seed: int = 0
    mapped_seconds: float = 7.0

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"--epochs is {self.epochs}; use 1 or more")
        if self.seed < 0:
            raise ValueError(f"--seed is {self.seed}; use 0 or more")


@dataclass(frozen=True, slots=True)
class Training:
    """Batches and model, the same for all sources of rows."""

    batch_size: int = 256
    fanouts: tuple[int, ...] = (10, 5)
    hidden: int = 64
    lr: float = 0.003


@dataclass(frozen=True, slots=True)
class Job:
    """One run of training in a process of its own.

    Args:
        source: Where rows come from.
        store: Path of the store.
        rows: Path of the same rows as a .npy file, for "mapped" and "pyg".
        memory: Budget of the store in bytes, except for "memory", which holds everything.
        training: Batches and model.
        width: Columns of a row.
        classes: Classes of nodes.
        epochs: Passes over the training nodes.
        seed: Seed of the draws, the order of the seeds and the weights.
        model: Where to write the trained model, if anywhere.
        readers: With "mapped", how many threads read rows, one count after the other.
        seconds: With "mapped", how long each count of readers is measured at most.
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
        """All of it as plain data, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Job":
        """The job that `plain` describes."""
        training = {**plain["training"], "fanouts": tuple(plain["training"]["fanouts"])}
        given = {**plain, "training": Training(**training), "readers": tuple(plain["readers"])}
        return cls(**given)
