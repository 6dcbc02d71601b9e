"""Ranking of all items for each user, without the complete matrix of scores.

Scores are computed in blocks of users by items. The best K of a block are merged into the best so
far. Of items with equal scores, the one with the lower id comes first. The invariant: the result
does not depend on the size of blocks, except for the rounding of products, and memory is bounded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from neargraph.exceptions import UnsupportedArgument
from neargraph.units import parse_bytes

_METRICS = ("recall@K", "ndcg@K", "hits@K", "precision@K", "mrr@K")
# A score, its key, and the memory for selecting the best.
_BYTES_PER_SCORE = 32
# An item that was seen, its key, and the memory for sorting.
_BYTES_PER_SEEN = 64


class _Rows(Protocol):
    """A table whose rows are read in ranges: a tensor, an array or a mapped file."""

    @property
    def shape(self) -> Any: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class RankingTable:
    """Items of each user in CSR form: those of user u are ``items[indptr[u]:indptr[u + 1]]``.

    Attributes:
        indptr: First item of each user and the end of the last, int64 [num_users + 1].
        items: Item ids, int64 [n].

    Example:
        >>> RankingTable.of([[4], [], [2, 0]]).items.tolist()
        [4, 0, 2]
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int64]

    @staticmethod
    def of(lists: Sequence[Sequence[int]]) -> "RankingTable":
        """Returns the table of one list of items per user. Repeated items count once."""
        unique = [sorted(set(items)) for items in lists]
        lengths = np.array([0, *map(len, unique)], dtype=np.int64)
        flat = np.array([item for items in unique for item in items], dtype=np.int64)
        return RankingTable(lengths.cumsum(), flat)

    @staticmethod
    def of_pairs(users: Any, items: Any, num_users: int) -> "RankingTable":
        """Returns the table of (user, item) pairs, [n] and [n]. Repeated pairs count once."""
        pairs = np.unique(np.stack([np.asarray(users), np.asarray(items)]), axis=1)
        counts = np.bincount(pairs[0], minlength=num_users)
        indptr = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
        return RankingTable(indptr, pairs[1].astype(np.int64))

    def pairs(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns (user - `first`, item) for users `first` to `last` - 1, as two arrays."""
        begin, end = self.indptr[first], self.indptr[last]
        owners = np.repeat(np.arange(last - first), np.diff(self.indptr[first : last + 1]))
        return owners, self.items[begin:end]


def rank_all_items(
    users: _Rows,
    items: _Rows,
    wanted: RankingTable,
    seen: RankingTable | None = None,
    *,
    metrics: Sequence[str] = ("recall@20", "ndcg@20"),
    memory: str | int = "256MB",
) -> dict[str, float]:
    """Ranks all items for each user by the dot product of their rows, and evaluates the best K.

    Args:
        users: Embeddings of users, float [num_users, d].
        items: Embeddings of items, float [num_items, d]. They are read in ranges, once per block of
            users, so they can be a mapped file.
        wanted: The relevant items of each user, such as test items. Users without any are left out.
        seen: Items to leave out of the ranking of each user, such as training items. Relevant items
            are ranked even if they were seen.
        metrics: Names of metrics, with a count of at least 1 for K:

            - ``"recall@K"``: share of the relevant items among the best K
            - ``"ndcg@K"``: with binary gains; the ideal order has min(K, relevant) items
            - ``"hits@K"``: share of users with a relevant item among the best K
            - ``"precision@K"``: share of relevant items in the best K
            - ``"mrr@K"``: 1 / rank of the first relevant item among the best K, else 0
        memory: Maximum memory for blocks of scores, in bytes or such as ``"256MB"``. The seen items
            of a block's users need up to the same again, and more only if one user has seen more.

    Returns:
        The mean over the users with relevant items, by metric.

    Raises:
        UnsupportedArgument: A metric is not valid, the tables do not fit together, a score is NaN,
            no user has relevant items, or `memory` is too small.

    Example:
        >>> wanted = RankingTable.of([[0], [1]])
        >>> rank_all_items(torch.eye(2), torch.eye(2), wanted, metrics=["recall@1"])
        {'recall@1': 1.0}
    """
    ks = {name: ranked_at(name) for name in metrics}
    _check(users, items, wanted, seen)
    num_users, num_items = len(wanted.indptr) - 1, int(items.shape[0])
    best = min(max(ks.values()), num_items)
    height, width = _block(parse_bytes(memory), best, num_users, num_items)
    sums = dict.fromkeys(metrics, 0.0)
    count = 0
    for first, last in _user_blocks(num_users, height, seen, parse_bytes(memory)):
        top = _best(_float(users[first:last]), items, width, best, _without(seen, wanted), first)
        owners, targets = wanted.pairs(first, last)
        lengths = torch.from_numpy(np.bincount(owners, minlength=last - first))
        hits = _hits(top, owners, targets, num_items)
        part = lengths > 0
        count += int(part.sum())
        for name, k in ks.items():
            gains = _gain(name.partition("@")[0], hits[part], lengths[part], k)
            sums[name] += float(gains.sum())
    if not count:
        raise UnsupportedArgument(
            "wanted= has no items for any user; give at least one relevant item"
        )
    return {name: total / count for name, total in sums.items()}


def ranked_at(name: str) -> int:
    """Returns the K of a metric of rankings, such as 20 for "recall@20".

    Raises:
        UnsupportedArgument: The metric is not valid; the message lists those that are.
    """
    base, _, k = name.partition("@")
    if f"{base}@K" not in _METRICS or not k.isdigit() or int(k) < 1:
        raise UnsupportedArgument(
            f"{name!r} is not a metric of rankings: expected {', '.join(_METRICS)}, where K is 1 "
            "or more"
        )
    return int(k)


def _check(users: _Rows, items: _Rows, wanted: RankingTable, seen: RankingTable | None) -> None:
    num_users = int(users.shape[0])
    if len(users.shape) != 2 or len(items.shape) != 2 or users.shape[1] != items.shape[1]:
        raise UnsupportedArgument(
            f"users= has shape {list(users.shape)} and items= has shape {list(items.shape)}: "
            "expected two dimensions each, and rows of equal length"
        )
    for name, table in (("wanted", wanted), ("seen", seen)):
        if table is None:
            continue
        if len(table.indptr) != num_users + 1:
            raise UnsupportedArgument(
                f"{name}= has lists for {len(table.indptr) - 1} users: expected {num_users}, one "
                "for each row of users="
            )
        # The two extremes need no copy of a table that may be a mapped file.
        for item in (table.items.min(initial=0), table.items.max(initial=0)):
            if not 0 <= item < max(1, items.shape[0]):
                raise UnsupportedArgument(
                    f"{name}= contains item {item}, but items= has only {items.shape[0]} rows"
                )


def _block(memory: int, best: int, num_users: int, num_items: int) -> tuple[int, int]:
    """Returns the users and items per block: equally many, unless there are fewer of one."""
    scores = memory // _BYTES_PER_SCORE
    height = max(1, min(num_users, int(scores**0.5), scores // (2 * best)))
    width = min(num_items, scores // height - best)
    height = max(1, min(num_users, scores // max(1, width + best)))
    if width < 1:
        raise UnsupportedArgument(
            f"memory={memory} is too small to rank the best {best} items of one user; raise "
            f"memory= to at least {_BYTES_PER_SCORE * (best + 1)} bytes"
        )
    return height, width


def _user_blocks(
    num_users: int, height: int, seen: RankingTable | None, memory: int
) -> Iterator[tuple[int, int]]:
    """Yields (first, last) of the users per block: at most `height` whose seen items fit."""
    first = 0
    while first < num_users:
        last = min(first + height, num_users)
        if seen is not None:
            most = seen.indptr[first] + memory // _BYTES_PER_SEEN
            fitting = int(np.searchsorted(seen.indptr, most, side="right")) - 1
            last = min(last, max(fitting, first + 1))
        yield first, last
        first = last


def _without(seen: RankingTable | None, wanted: RankingTable) -> Any:
    """Returns a function that returns the pairs to leave out for a range of users."""

    def pairs(first: int, last: int, num_items: int) -> tuple[Tensor, Tensor]:
        if seen is None:
            return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
        owners, items = seen.pairs(first, last)
        keys = owners * num_items + items
        wanted_owners, wanted_items = wanted.pairs(first, last)
        keys = np.setdiff1d(keys, wanted_owners * num_items + wanted_items)
        keys = keys[np.argsort(keys % num_items, kind="stable")]
        return torch.from_numpy(keys // num_items), torch.from_numpy(keys % num_items)

    return pairs


def _best(users: Tensor, items: _Rows, width: int, best: int, without: Any, first: int) -> Tensor:
    """Returns the ids of the best items of each user, best first, [users, best]; -1 for none."""
    num_items = int(items.shape[0])
    owners, columns = without(first, first + len(users), num_items)
    kept = torch.full((len(users), best), torch.iinfo(torch.int64).min)
    for begin, block in _blocks(items, width):
        keys = _keys(users @ block.T, begin)
        low, high = np.searchsorted(columns.numpy(), [begin, begin + len(block)])
        keys[owners[low:high], columns[low:high] - begin] = torch.iinfo(torch.int64).min
        both = torch.cat([kept, keys], dim=1)
        kept = both.topk(best, dim=1).values
    ids = 0xFFFFFFFF - (kept & 0xFFFFFFFF)
    return torch.where(kept == torch.iinfo(torch.int64).min, -1, ids)


def _blocks(items: _Rows, width: int) -> Iterator[tuple[int, Tensor]]:
    for begin in range(0, int(items.shape[0]), width):
        yield begin, _float(items[begin : begin + width])


def _float(rows: Any) -> Tensor:
    # A copy, since torch needs writable memory, and a mapped file is read-only.
    tensor = rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows))
    return tensor.to(torch.float32)


def _keys(scores: Tensor, begin: int) -> Tensor:
    """Returns distinct int64 keys that order by score and then by descending id.

    The upper half of a key has the bits of the float, with those of negative ones inverted, which
    are in the order of the floats. The lower half has the inverted bits of the id.
    """
    if bool(scores.isnan().any()):
        raise UnsupportedArgument("a score is NaN; give users= and items= with finite values only")
    bits = (scores + 0.0).view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
    ids = torch.arange(begin, begin + scores.shape[1])
    return (ordered << 32) | (0xFFFFFFFF - ids)


def _hits(top: Tensor, owners: Any, targets: Any, num_items: int) -> Tensor:
    """Returns 1 for each of the best items that is relevant, else 0, float64 [users, best]."""
    rows = torch.arange(len(top)).reshape(-1, 1) * num_items
    wanted = torch.from_numpy(np.sort(owners * num_items + targets))
    found = torch.isin(rows + top, wanted) & (top >= 0)
    return found.to(torch.float64)


def _gain(base: str, hits: Tensor, lengths: Tensor, k: int) -> Tensor:
    hits = hits[:, :k]
    if base == "recall":
        return hits.sum(dim=1) / lengths
    if base == "precision":
        return hits.sum(dim=1) / k
    if base == "hits":
        return (hits.sum(dim=1) > 0).to(torch.float64)
    place = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    if base == "mrr":
        return (hits / place).max(dim=1).values
    discount = 1 / torch.log2(place + 1)
    ideal = torch.cat([torch.zeros(1, dtype=torch.float64), _discounts(k).cumsum(0)])
    return (hits * discount).sum(dim=1) / ideal[lengths.clamp(max=k)]


def _discounts(k: int) -> Tensor:
    return 1 / torch.log2(torch.arange(2, k + 2, dtype=torch.float64))
