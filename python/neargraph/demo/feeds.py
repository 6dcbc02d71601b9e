"""The compared sources of batches. Each yields PyG's `Data` with ``x`` and ``y``.

For memory, disk and memory-mapped rows, neargraph's loader samples, so the draws are the same and
only the source of rows differs. PyG's own loader draws other neighbours.
"""

import mmap
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import neargraph as ng
from neargraph._lists import lists_of

from .rss import mapped_bytes
from .settings import Job

_TEST_BATCH = 256


@dataclass
class Feed:
    """Batches of one source.

    ``turns`` are the steps at which the way of reading changes; the first one is 0. ``is_over``
    tells that the source ended before the epochs did.
    """

    train: Iterable[Any]
    test: Iterable[Any] | None
    store: ng.Store | None = None
    loader: Any = None
    turns: list[int] = field(default_factory=lambda: [0])
    is_over: bool = False
    cached_bytes: int = 0


@contextmanager
def feed_of(job: Job) -> Iterator[Feed]:
    """Opens the store of a job and yields its feed."""
    with _opened(job) as store:
        if job.source == "pyg":
            yield _pyg(job, store)
            return
        attrs = ["y"] if job.source == "mapped" else ["x", "y"]
        train, test = (_loader(job, store, split, attrs) for split in ("train", "test"))
        feed = Feed(train, test, store, train)
        if job.source != "mapped":
            yield feed
            return
        with MappedRows(job, feed) as mapped:
            feed.train, feed.test = mapped, None
            yield feed


def _opened(job: Job) -> ng.Store:
    if job.source == "memory":
        return ng.open(job.store, backend="memory")
    return ng.open(job.store, memory=job.memory)


def _loader(job: Job, store: ng.Store, split: str, attrs: list[str]) -> Any:
    return ng.NeighborLoader(
        store,
        num_neighbors=list(job.training.fanouts),
        input_nodes=split,
        batch_size=job.training.batch_size if split == "train" else _TEST_BATCH,
        shuffle=split == "train",
        seed=job.seed,
        attrs=attrs,
    )


class MappedRows:
    """Batches whose rows are gathered from `np.load(..., mmap_mode="r")` with random advice.

    The numbers of reading threads in `job.readers` take turns. A turn ends after `job.seconds`, or
    after its share of all steps. One thread gathers as ``x[n_id]`` does. Several threads gather
    parts of the next batch while the model trains on the last one, like the workers of a
    DataLoader.
    """

    def __init__(self, job: Job, feed: Feed) -> None:
        self._job, self._feed, self._loader = job, feed, feed.loader
        self._rows: Any = np.load(job.rows, mmap_mode="r")
        # Without this advice, the kernel reads 128 KiB around each row.
        self._rows._mmap.madvise(mmap.MADV_RANDOM)
        self._steps = len(self._loader) * job.epochs
        self._turn, self._done, self._since = 0, 0, time.perf_counter()
        self._pool = ThreadPoolExecutor(max(job.readers) + 1)

    def __enter__(self) -> "MappedRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __iter__(self) -> Iterator[Any]:
        waiting: Any = None
        for batch in self._loader:
            threads = self._job.readers[self._turn]
            # Memory that other threads allocate would not be reused by them.
            rows = np.empty((batch.num_nodes, self._rows.shape[1]), np.float32)
            if threads > 1:
                coming = self._pool.submit(self._fill, batch, rows, threads)
                batch, waiting = None if waiting is None else waiting.result(), coming
            else:
                self._fill(batch, rows, 1)
            del rows
            if batch is not None:
                yield batch
                if self._is_last():
                    return
        if waiting is not None:
            yield waiting.result()
            self._is_last()

    def _is_last(self) -> bool:
        """Counts a step, and returns whether the last turn is over."""
        self._done += 1
        turns, now = len(self._job.readers), time.perf_counter()
        is_long = now - self._since > self._job.seconds
        if not is_long and self._done < self._steps * (self._turn + 1) / turns:
            return False
        self._feed.cached_bytes = mapped_bytes(self._job.rows)
        self._turn, self._since = self._turn + 1, now
        if self._turn < turns:
            self._feed.turns.append(self._done)
            return False
        self._feed.is_over = True
        return True

    def _fill(self, batch: Any, rows: Any, threads: int) -> Any:
        ids = batch.n_id.numpy()

        def gather(part: slice) -> None:
            # In the mode "clip", NumPy writes to `out` without an intermediate copy.
            np.take(self._rows, ids[part], axis=0, out=rows[part], mode="clip")

        if threads == 1:
            gather(slice(None))
        else:
            ends = [len(ids) * part // threads for part in range(threads + 1)]
            list(self._pool.map(gather, map(slice, ends, ends[1:])))
        batch.x = torch.from_numpy(rows)
        return batch


def _pyg(job: Job, store: ng.Store) -> Feed:
    """PyG's own loader on arrays in memory."""
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    edge = store.schema.edge_types[0]
    lists = [
        np.stack([found.indices, np.repeat(ids, np.diff(found.indptr))])
        for ids, found in lists_of(store.snapshot(), edge)
    ]
    data = Data(
        x=torch.from_numpy(np.load(job.rows)),
        edge_index=torch.from_numpy(np.concatenate(lists, axis=1)),
        y=torch.from_numpy(np.ascontiguousarray(store.labels)),
    )
    lists.clear()

    def loader(split: str) -> Any:
        return NeighborLoader(
            data,
            num_neighbors=list(job.training.fanouts),
            input_nodes=torch.from_numpy(store.split(split)),
            batch_size=job.training.batch_size if split == "train" else _TEST_BATCH,
            shuffle=split == "train",
        )

    return Feed(loader("train"), loader("test"))
