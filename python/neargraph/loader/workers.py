"""Batches made in workers of torch's DataLoader.

Threads are the default. Workers are for transforms that need processes. A worker samples batches by
number, so the result is the same as in the main process.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from neargraph.loader.collate import Collator
from neargraph.loader.sampler import NumpySampler
from neargraph.loader.seeds import InputNodes, SeedPlan


@dataclass
class BatchSource(Dataset[Any]):
    """Batches by (epoch, number). Each worker process receives a copy."""

    sampler: NumpySampler
    inputs: InputNodes
    plan: SeedPlan
    collator: Collator
    transform: Callable[[Any], Any] | None

    def __getitem__(self, key: tuple[int, int]) -> Any:
        return self.finish(self.sampler.fetch(self.inputs, self.plan, *key))

    def finish(self, batch: Any) -> Any:
        """Returns the PyG object of a mini-batch, transformed."""
        data = self.collator(batch)
        return data if self.transform is None else self.transform(data)


class _Order(torch.utils.data.Sampler[tuple[int, int]]):
    """The batch numbers of the next epoch."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.epoch = 0
        self.first = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.epoch
        return iter([(epoch, batch) for batch in range(self.first, self._steps)])

    def __len__(self) -> int:
        return self._steps - self.first


class WorkerPool:
    """The DataLoader over a `BatchSource`. Persistent workers stay for many epochs."""

    def __init__(self, source: BatchSource, num_workers: int, options: dict[str, Any]) -> None:
        self._order = _Order(source.plan.steps)
        self._loader: DataLoader[Any] = DataLoader(
            source,
            batch_size=None,
            sampler=self._order,
            num_workers=num_workers,
            collate_fn=_unchanged,
            **options,
        )

    def run(self, epoch: int, first: int) -> Iterator[Any]:
        """Returns an iterator over the batches of an epoch from `first` on, in order."""
        self._order.epoch, self._order.first = epoch, first
        return iter(self._loader)


def _unchanged(batch: Any) -> Any:
    return batch
