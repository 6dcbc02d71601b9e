"""What a graph of a published shape takes, before anything is made: nodes, bytes, the disk's peak.

Arithmetic alone; nothing here touches a store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neargraph.units import format_bytes

# Peaks that are planned have to leave this much of the disk free.
SPARE_BYTES = 1 << 30
# What an update batch, its log and its checkpoint add at most, for each operation.
BYTES_PER_OPERATION = 4 * 4096
# The share of edges that were drawn before, at scale 1, and the power of the scale that it follows;
# measured at 0.01 and 0.05.
REPEATED = 0.0273
REPEATED_POWER = -0.244
# Samples that look-ahead keeps on disk, for each batch, and of how many batches at once; rows that
# are sorted by batch on disk, and of how many batches at once.
SAMPLE_BYTES = 1 << 20
BATCHES_AHEAD = 1024
BATCHES_TOGETHER = 1000
NODES_A_SEED = 1 + 15 + 15 * 10
# A loader has to hold some batches whatever the scale is.
MEMORY_MIN = 256_000_000


@dataclass(frozen=True)
class Shape:
    """A published graph: what it has at scale 1, and the memory that it is used in then."""

    name: str
    nodes: int
    edges: int
    classes: int
    width: int
    train: int
    memory: int


SHAPES = {
    "papers100m": Shape("papers100m", 111_059_956, 1_615_685_872, 172, 128, 1_207_179, 4 * 10**9)
}


@dataclass(frozen=True)
class Plan:
    """One scale of a shape. All sizes are bytes."""

    shape: Shape
    scale: float
    import_memory: int
    store_memory: int | None = None

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return max(2 * self.shape.classes, round(self.shape.nodes * self.scale))

    @property
    def edges(self) -> int:
        """About how many edges are stored."""
        return round(self.shape.edges * self.scale)

    @property
    def drawn(self) -> int:
        """How many edges are drawn: those that were drawn before are dropped, fewer the larger the
        graph is."""
        return round(self.edges / (1 - REPEATED * self.scale**REPEATED_POWER))

    @property
    def train(self) -> int:
        """About how many nodes are training seeds."""
        return round(self.shape.train * self.scale)

    @property
    def memory(self) -> int:
        """The memory of stores that are opened."""
        return self.store_memory or max(MEMORY_MIN, round(self.shape.memory * self.scale))

    @property
    def runs(self) -> int:
        """The runs of the sort: 8 bytes for each edge, in blocks of which some are not full."""
        return self.drawn * 8 * 21 // 20

    @property
    def topology(self) -> int:
        """4 bytes for each edge, 11 for each list, in pages that are filled to 90 %."""
        return round((4 * self.edges + 11 * self.nodes) / 0.9 * 1.01)

    @property
    def rows(self) -> int:
        """Features as f16, labels as i32, splits, and their checksums."""
        return self.nodes * (2 * self.shape.width + 4 + 1) * 1025 // 1024

    @property
    def store(self) -> int:
        """The whole store."""
        return self.topology + self.rows

    @property
    def import_peak(self) -> int:
        """The runs are gone before rows are written."""
        return max(self.runs + self.topology, self.store)

    def peak(self, steps: list[str], operations: int) -> int:
        """The most that has to be on disk at once in these steps. Temporary files of loaders and
        compiled epochs come on top where there is room, and are smaller or left out else."""
        update = operations * BYTES_PER_OPERATION if "update" in steps else 0
        return max(self.import_peak if "import" in steps else 0, self.store + update)

    def temporary(self, free: int, batch_size: int) -> int:
        """What temporary files of a loader take at most on a disk with so much free before the
        store is there: samples of batches, and rows that are sorted by batch."""
        batches = -(-self.train // batch_size)
        nodes = min(self.nodes, batch_size * NODES_A_SEED)
        rows = min(batches, BATCHES_TOGETHER) * nodes * 2 * self.shape.width
        samples = min(batches, BATCHES_AHEAD) * SAMPLE_BYTES
        return min(max(0, free - self.store) // 4, rows + samples)

    def text(self, peak: int, temporary: int, free: int) -> str:
        """What is printed before anything is made."""
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"about {self.edges:,}; {self.drawn:,} are drawn, and repeated ones dropped"),
            ("features", f"{self.shape.width} columns of f16, {self.shape.classes} classes"),
            ("training seeds", f"about {self.train:,}"),
            ("runs of the sort", f"{format_bytes(self.runs)}, gone before rows are written"),
            ("topology", format_bytes(self.topology)),
            ("rows", format_bytes(self.rows)),
            ("peak on disk", f"{format_bytes(peak)} of {format_bytes(free)} free"),
            ("temporary files", f"up to {format_bytes(temporary)} more while batches are made"),
            ("memory of the import", format_bytes(self.import_memory)),
            ("memory of the store", format_bytes(self.memory)),
        ]
        head = f"{self.shape.name} at scale {self.scale:g}"
        return "\n".join([head, *(f"  {name:22}{value}" for name, value in rows)])


def lack_of_room(plan: Plan, peak: int, free: int, folder: Path) -> str | None:
    """Why a plan is refused, and which scale fits; None where there is room."""
    needed = peak + SPARE_BYTES
    if needed <= free:
        return None
    text = (
        f"{plan.shape.name} at scale {plan.scale:g} needs {format_bytes(needed, up=True)} on the "
        f"disk of {folder}, which has {format_bytes(free)} free"
    )
    for scale in (0.5, 0.1, 0.01):
        smaller = Plan(plan.shape, scale, plan.import_memory)
        fits = peak * smaller.store // plan.store + SPARE_BYTES <= free
        if scale < plan.scale and fits:
            name = "half the shape" if scale == 0.5 else f"{scale:g} of the shape"
            return f"{text}; --scale {scale:g} ({name}, {smaller.nodes:,} nodes) fits"
    return f"{text}; give --out a folder on another disk"
