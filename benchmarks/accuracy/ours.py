"""Our side: a store opened with little memory, neargraph's loaders and its trainer.

The invariant: a run has a quarter of the bytes that its store has on disk, and at least 16 MB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .rows import Row
from .sets import STORE

LEAST_BYTES = 16_000_000


def disk_bytes(store: Path) -> int:
    """Bytes of a store on disk."""
    return sum(file.stat().st_size for file in store.rglob("*") if file.is_file())


def memory_of(store: Path) -> int:
    """The memory that a run from a store gets, in bytes."""
    return max(LEAST_BYTES, disk_bytes(store) // 4)


def train(row: Row, seed: int, folder: Path) -> dict[str, Any]:
    """One seed of a row of nodes or graphs, tested with the parameters of the best validation."""
    import neargraph as ng
    from neargraph.train import TrainConfig, fit

    config = TrainConfig(
        model=row.model,
        metrics=(row.metric,),
        seed=seed,
        split=seed if row.is_folded else 0,
        test_on="best",
        **row.settings,
    )
    path = folder / STORE
    with ng.open(path, memory=memory_of(path)) as store:
        result = fit(store, config)
        peaks = budget_of(store)
    return (
        {"value": result.test[row.metric], "best_epoch": result.best_epoch}
        | peaks
        | {
            "budget_peak": max(peaks["budget_peak"], result.store_stats["budget_peak"]),
            "disk_bytes": disk_bytes(path),
        }
    )


def budget_of(store: Any) -> dict[str, int]:
    """What of the memory a store has used at most, since its counters began, and the whole."""
    now = store.stats()
    return {name: int(now[name]) for name in ("budget_peak", "budget_limit")}
