"""Measured training runs on each back end, with the models and parameters of a published thesis.

GCN trains on the whole graph, GraphSAGE on sampled neighbourhoods, ClusterGCN on clusters. The
invariant: the time of a step is the sum of its waiting, its parts, and a rest that is not negative.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch_geometric.data import Data

from neargraph.exceptions import NeargraphError, UnsupportedArgument
from neargraph.loader.sampler import NumpySampler
from neargraph.store import Backend, Store
from neargraph.store import open as open_store
from neargraph.train import TrainConfig
from neargraph.train.engine import Trainer
from neargraph.units import format_bytes

from .layers import LayerClock
from .loading import drop_from_cache
from .monitor import Gpu, Monitor, SystemUse

# Graphs with at least this number of nodes use the parameters for large graphs.
_LARGE_NODES = 50_000

_COUNTERS = ("reads", "read_bytes", "useful_bytes", "rows_served", "rows_cached")

Progress = Callable[[str, int, int], None]


class TooLarge(NeargraphError):
    """Full-batch training needs the whole graph in memory, and it does not fit."""


class ProfileRun(TypedDict):
    """One measured training run."""

    seconds: float
    batches: int
    losses: list[float]
    system: SystemUse
    store: dict[str, int]
    """Counters of the store; see `StoreStats`."""
    stages: dict[str, float]
    """Total seconds by stage.

    Background threads: ``sample``, ``read``, ``gather``, ``copy``. The training loop: ``wait`` (for
    batches), ``linear``, ``message``, ``aggregate``, ``update`` (forward pass), and ``rest``
    (backward pass, optimiser and others).
    """
    config: dict[str, Any]


class _ProfileEntry(TypedDict):
    backend: str
    model: str
    runs: list[ProfileRun]


class ProfileEntry(_ProfileEntry, total=False):
    """The runs of one model on one back end."""

    note: str
    """Why this back end was chosen."""
    settings: dict[str, Any]
    refused: str
    """Why the model cannot be trained, if it cannot."""


@dataclass(frozen=True)
class ProfileConfig:
    """Parameters of the runs. None means the default for the size of the graph."""

    epochs: int = 3
    hidden: int | None = None
    fanouts: tuple[int, ...] | None = None
    batch_size: int | None = None
    parts: int | None = None
    batch_parts: int | None = None
    lr: float = 0.01
    weight_decay: float = 5e-4
    seed: int = 0
    fused: bool = False
    device: str | None = None
    interval: float = 0.1

    def training(self, model: str, num_nodes: int) -> TrainConfig:
        """Returns the settings of a training run on a graph of `num_nodes`."""
        large = num_nodes >= _LARGE_NODES
        return TrainConfig(
            model=model,
            fanouts=self.fanouts or ((25, 15) if large else (10, 10)),
            batch_size=self.batch_size or (256 if large else 16),
            hidden=self.hidden or (256 if large and model != "gcn" else 16),
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            seed=self.seed,
            **(self._clusters(large) if model == "cluster" else {}),
        )

    def _clusters(self, large: bool) -> dict[str, Any]:
        """The settings that only the model cluster takes."""
        parts, size = (1000, 32) if large else (100, 16)
        return {"parts": self.parts or parts, "batch_parts": self.batch_parts or size}


def profile_training(
    path: Path,
    models: list[str],
    backends: Sequence[Backend],
    repeats: int = 10,
    config: ProfileConfig | None = None,
    memory: str | None = None,
    progress: Progress | None = None,
) -> list[ProfileEntry]:
    """Trains each model on each back end `repeats` times, from a cold page cache.

    Returns:
        An entry for each back end and model.

    Raises:
        UnsupportedArgument: The store has several node or edge types.
    """
    config = config or ProfileConfig()
    with open_store(path, memory=memory) as store:
        _check_types(store)
    found: list[ProfileEntry] = []
    for backend in backends:
        for model in models:
            entry: ProfileEntry = {"backend": backend, "model": model, "runs": []}
            found.append(entry)
            for repeat in range(repeats):
                for file in Path(path).glob("*.dat"):
                    drop_from_cache(file)
                try:
                    with open_store(path, memory=memory, backend=backend) as store:
                        entry["note"] = store.core.backend_note
                        settings = config.training(model, store.num_nodes)
                        entry["settings"] = settings.plain()
                        entry["runs"].append(profile_run(store, settings, config))
                except TooLarge as error:
                    entry["refused"] = str(error)
                    break
                finally:
                    if progress is not None:
                        progress(f"{backend} {model}", repeat + 1, repeats)
    return found


def _check_types(store: Store) -> None:
    """Rejects stores with several types, which none of the profiled models supports."""
    if not store.schema.is_homogeneous:
        raise UnsupportedArgument(
            f"{store.path} has {len(store.schema.node_types)} node types and "
            f"{len(store.schema.edge_types)} edge types, but only stores with one of each can be "
            "profiled; measure your own loop with loader.stages() and loader.waits()"
        )


def profile_run(store: Store, settings: TrainConfig, config: ProfileConfig) -> ProfileRun:
    """Measures one training run."""
    device = None if config.device is None else torch.device(config.device)
    torch.manual_seed(settings.seed)
    store.reset_stats()
    run = Feed(store, settings, device)
    # Layers with a fused form read this attribute.
    run.trainer.model.fused = config.fused  # type: ignore[assignment]
    if device is not None:
        run.trainer.model.to(device)
    clock = LayerClock(run.trainer.model, device)
    gpu = Gpu(device) if device is not None and device.type == "cuda" else None
    losses: list[float] = []
    num_batches, waited = 0, 0.0
    run.trainer.model.train()
    with Monitor(config.interval, gpu) as monitor:
        start = time.perf_counter()
        for epoch in range(settings.epochs):
            batches = run.epoch(epoch)
            while True:
                asked = time.perf_counter()
                batch = next(batches, None)
                waited += time.perf_counter() - asked
                if batch is None:
                    break
                loss = run.trainer.step(batch)
                losses += [] if loss is None else [loss]
                num_batches += 1
                del batch
        seconds = time.perf_counter() - start
    rest = seconds - waited - sum(clock.seconds.values())
    counters: Mapping[str, Any] = store.stats()
    return {
        "seconds": seconds,
        "batches": num_batches,
        "losses": losses,
        "system": monitor.result(),
        "store": {name: int(counters.get(name, 0)) for name in _COUNTERS},
        "stages": {**run.stages(), "wait": waited, **clock.seconds, "rest": rest},
        "config": asdict(config),
    }


class Feed:
    """The batches of a model: those of a loader, or the whole graph as one batch an epoch."""

    def __init__(self, store: Store, settings: TrainConfig, device: torch.device | None) -> None:
        self._is_whole = settings.model == "gcn"
        if self._is_whole:
            check_fits(store, settings)
        self.trainer = Trainer(store, settings, False, None, lambda *_: None, device)
        self._store, self._device = store, device
        self._whole: Any = None
        self._took = 0.0

    def epoch(self, epoch: int) -> Iterator[Any]:
        """Yields the batches of an epoch. A whole graph is read in the first epoch."""
        if not self._is_whole:
            self.trainer.loader.set_epoch(epoch)
            yield from self.trainer.loader
            return
        if self._whole is None:
            start = time.perf_counter()
            self._whole = whole_graph(self._store)
            if self._device is not None:
                self._whole = self._whole.to(self._device)
            self._took = time.perf_counter() - start
        yield self._whole

    def stages(self) -> dict[str, float]:
        """Returns the seconds of work by stage. A whole graph is gathered and not sampled."""
        names = ("sample", "read", "gather", "copy")
        if self._is_whole:
            return {**dict.fromkeys(names, 0.0), "gather": self._took}
        stages: Mapping[str, Any] = self.trainer.loader.stages()
        return {name: stages[name] for name in names}


def check_fits(store: Store, settings: TrainConfig) -> None:
    """Checks that full-batch training fits into the store's memory budget.

    The estimate counts rows and their copy for dropout, edges with their weights, and the messages
    of all layers, which the backward pass needs.

    Raises:
        TooLarge: The budget is too small; the message has both sizes.
    """
    owner = store.schema.node_types[0]
    width = store.schema.tensor(owner, "x").shape[0]
    entries = store.num_edges + store.num_nodes
    messages = entries * settings.hidden * 4 * 2 * len(settings.fanouts)
    needed = 2 * store.num_nodes * width * 4 + entries * 20 + messages
    if needed > store.core.memory_bytes:
        raise TooLarge(
            f"full-batch GCN on {store.num_nodes:,} nodes and {store.num_edges:,} edges needs "
            f"{format_bytes(needed, up=True)}, but the memory budget is "
            f"{format_bytes(store.core.memory_bytes)}: raise the budget, or profile "
            "sage or cluster instead of gcn"
        )


def whole_graph(store: Store) -> Any:
    """Reads the whole graph as one batch, in the form of `ClusterGCNLoader`."""
    snapshot = store.snapshot()
    ids = np.arange(store.num_nodes, dtype=np.int64)
    edges = NumpySampler(snapshot, [-1], attrs=[]).sample(ids).edge_index()
    return Data(
        x=torch.from_numpy(snapshot.column("x", dtype="f32")),
        y=torch.from_numpy(snapshot.column("y")),
        edge_index=torch.from_numpy(edges),
        n_id=torch.from_numpy(ids),
        train_mask=torch.from_numpy(snapshot.mask("train")),
        batch_size=len(ids),
    )
