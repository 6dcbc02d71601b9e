"""The edges that are held out for validation and test, and their removal from batches.

Nothing is written: a hash of the ends and the seed, or the time, decides whether an edge is held
out. So the rule works for stores larger than memory, and costs one hash per edge of a batch. A
batch is sampled from the whole store, and held-out edges are removed before the model runs. Nodes
that were reached only through them then have no path to a seed. The invariant: an edge that is
scored in validation or test never carries a message, in either direction or in parallel.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from neargraph._lists import lists_of
from neargraph.exceptions import UnsupportedArgument
from neargraph.schema import EdgeType
from neargraph.splits import SPLITS
from neargraph.store import Store

from .config import TrainConfig

_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Holdout:
    """The rule that assigns a split to each edge: 1 train, 2 val, 3 test.

    Parallel edges of a pair are held out together, unless times decide.

    Attributes:
        config: The settings of the run.
        symmetric: Whether an edge and its reverse are held out together.
        undirected: Whether the store declares an edge and its reverse as one link.
    """

    config: TrainConfig
    symmetric: bool
    undirected: bool = False

    @staticmethod
    def of(config: TrainConfig, edge_type: EdgeType) -> "Holdout":
        """Returns the rule for the links of an edge type."""
        is_within = edge_type.source == edge_type.destination
        undirected = is_within and edge_type.undirected
        # A store may hold both directions without declaring it, and a reverse would leak its link.
        # With times, both directions of an undirected link have one time, and an earlier reverse
        # belongs to the past.
        return Holdout(config, is_within and (undirected or config.test_after is None), undirected)

    @property
    def by_time(self) -> bool:
        """Whether times decide about the split."""
        return self.config.test_after is not None

    def codes(self, sources: Ids, targets: Ids, times: Any = None) -> NDArray[np.uint8]:
        """Returns the split code of each edge, [n]."""
        if self.by_time:
            codes = np.full(len(sources), SPLITS["train"], np.uint8)
            if self.config.val_after is not None:
                codes[times > self.config.val_after] = SPLITS["val"]
            codes[times > self.config.test_after] = SPLITS["test"]
            return codes
        place = self.keys(sources, targets) >> np.uint64(11)
        share = place.astype(np.float64) / 2**53 * 100
        val, test = self.config.holdout
        codes = np.full(len(sources), SPLITS["train"], np.uint8)
        codes[share < val + test] = SPLITS["test"]
        codes[share < val] = SPLITS["val"]
        return codes

    def keys(self, sources: Ids, targets: Ids) -> NDArray[np.uint64]:
        """Returns a hash of the ends and the seed (splitmix64, Steele et al., OOPSLA 2014)."""
        first, second = sources, targets
        if self.symmetric:
            first, second = np.minimum(sources, targets), np.maximum(sources, targets)
        seed = np.full(len(first), self.config.seed % 2**64, np.uint64)
        return _mixed(_mixed(_mixed(seed) ^ first.astype(np.uint64)) ^ second.astype(np.uint64))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        values = values + np.uint64(_STEP)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX[0])
        values = (values ^ (values >> np.uint64(27))) * np.uint64(_MIX[1])
    return values ^ (values >> np.uint64(31))


def edge_blocks(store: Store, edge_type: EdgeType) -> Iterator[tuple[Ids, Ids, Any]]:
    """Yields all edges of a type in blocks: (sources, targets, times or None)."""
    for ids, found in lists_of(store.snapshot(), edge_type):
        yield found.indices, np.repeat(ids, np.diff(found.indptr)), found.times


class Collected:
    """Links of a split: all, or the `most` with the smallest hashes, a uniform sample."""

    def __init__(self, most: int | None) -> None:
        self.count, self._most = 0, most
        self._parts: list[Any] = []

    def add(self, pairs: Ids, keys: NDArray[np.uint64]) -> None:
        """Adds links, [2, n] or with times [3, n], and their hashes [n]."""
        self.count += len(keys)
        self._parts.append((pairs, keys))
        if self._most is not None and sum(len(k) for _, k in self._parts) > 2 * self._most:
            self._shrink()

    def _shrink(self) -> None:
        pairs = np.concatenate([p for p, _ in self._parts], axis=1)
        keys = np.concatenate([k for _, k in self._parts])
        if self._most is not None and len(keys) > self._most:
            kept = np.sort(np.argsort(keys, kind="stable")[: self._most])
            pairs, keys = pairs[:, kept], keys[kept]
        self._parts = [(pairs, keys)]

    def pairs(self) -> Ids:
        """Returns the links, int64 [2, n]; [3, n] if they were added with times."""
        if not self._parts:
            return np.empty((3, 0), np.int64)
        self._shrink()
        found: Ids = self._parts[0][0]
        return found


def collect(store: Store, edge_type: EdgeType, holdout: Holdout) -> dict[str, Collected]:
    """Returns the links of each split, with times if these decide. Reads the edges once.

    Raises:
        UnsupportedArgument: Times decide but the edges have none, or the training links do not fit
            into a quarter of the store's memory.
    """
    config = holdout.config
    if holdout.by_time and not edge_type.has_time:
        raise UnsupportedArgument(
            f"{store.path}: edges of {edge_type.triple} have no times, which test_after= needs; "
            "use holdout= instead of test_after="
        )
    fits = store.core.memory_bytes // 4 // (32 if holdout.by_time else 24)
    if config.train_edges is None and edge_type.num_edges > fits:
        raise UnsupportedArgument(
            f"{store.path}: {edge_type.num_edges:,} links need more than a quarter of the memory "
            f"budget; set train_edges= to at most {fits:,}, or raise memory="
        )
    found = {name: Collected(config.eval_edges) for name in SPLITS}
    found["train"] = Collected(config.train_edges)
    for sources, targets, times in edge_blocks(store, edge_type):
        codes = holdout.codes(sources, targets, times)
        # An undirected edge is stored in both directions but is one link.
        once = sources <= targets if holdout.undirected else np.ones(len(sources), bool)
        keys = _mixed(holdout.keys(sources, targets))
        for name, code in SPLITS.items():
            chosen = once & (codes == code)
            rows = [sources, targets, times] if holdout.by_time else [sources, targets]
            found[name].add(np.stack([row[chosen] for row in rows]), keys[chosen])
    return found


class TrainingDegrees:
    """In-degrees of the graph without its held-out edges.

    Args:
        whole: The `InDegrees` of the whole graph.
        held_out: Number of held-out edges that lead to each node, by edge type, int32 [nodes].
    """

    def __init__(self, whole: Any, held_out: dict[Any, Tensor]) -> None:
        self._whole, self._held_out = whole, held_out

    def __call__(self, n_id: Any) -> Any:
        """Returns the degrees of the nodes ``n_id``, as `InDegrees` does."""
        degrees = self._whole(n_id)
        if isinstance(degrees, Tensor):
            (counts,) = self._held_out.values()
            return degrees - counts[n_id.cpu()].to(degrees)
        for triple, counts in self._held_out.items():
            degrees[triple] = degrees[triple] - counts[n_id[triple[2]].cpu()].to(degrees[triple])
        return degrees
