"""Ranking every item for every user, without the matrix of scores.

Scores are made in blocks of users by items, and the best K of each block are merged into the best
so far. Ties: of items with equal scores the one with the lower id comes first. The invariant: the
result does not depend on the size of blocks beyond the rounding of products, and memory is bounded.
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
# A score, its key, and what selecting the best takes.
_BYTES_PER_SCORE = 32
# An item that was seen, its key, and what sorting takes.
_BYTES_PER_SEEN = 64


class _Rows(Protocol):
    """A table whose rows are read in ranges: a tensor, an array, a mapped file."""

    @property
    def shape(self) -> Any: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class RankingTable:
    """Items of each user as CSR: those of user u are ``items[indptr[u]:indptr[u + 1]]``.

    Example:
        >>> RankingTable.of([[4], [], [2, 0]]).items.tolist()
        [4, 0, 2]
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int64]

    @staticmethod
    def of(lists: Sequence[Sequence[int]]) -> "RankingTable":
        """The table of one list of items per user; an item twice is once."""
        unique = [sorted(set(items)) for items in lists]
        lengths = np.array([0, *map(len, unique)], dtype=np.int64)
        flat = np.array([item for items in unique for item in items], dtype=np.int64)
        return RankingTable(lengths.cumsum(), flat)

    @staticmethod
    def of_pairs(users: Any, items: Any, num_users: int) -> "RankingTable":
        """The table of pairs, [n] and [n]; a pair twice is once."""
        pairs = np.unique(np.stack([np.asarray(users), np.asarray(items)]), axis=1)
        counts = np.bincount(pairs[0], minlength=num_users)
        indptr = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
        return RankingTable(indptr, pairs[1].astype(np.int64))

    def pairs(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(user - first, item) of all users from `first` to below `last`."""
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
    """Ranks all items for each user by the dot product of their rows, and measures the best K.

    Args:
        users: Embeddings of users, float [num_users, d].
        items: Embeddings of items, float [num_items, d]; read in ranges, once for each block of
            users, so it may be a mapped file.
        wanted: The items that should come first, such as a user's test items. Users without any
            take no part.
        seen: Items that must not be ranked, such as a user's training items. What is wanted is
            ranked even if it was seen.
        metrics: recall@K (share of the wanted items among the best K), ndcg@K (binary gains, the
            ideal order has min(K, wanted) items), hits@K (share of users with one or more),
            precision@K, mrr@K (1 / rank of the first wanted item among the best K, else 0).
        memory: Bound of what blocks of scores take, bytes or like "256MB". What the users of a
            block have seen takes as much again at most, unless one user alone has seen more.

    Returns:
        The means over the users that have wanted items, by name.

    Raises:
        UnsupportedArgument: Another metric, tables that do not fit, a score that is NaN, or no
            user with wanted items.

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
        raise UnsupportedArgument("no user has an item that is wanted; there is nothing to rank")
    return {name: total / count for name, total in sums.items()}


def ranked_at(name: str) -> int:
    """The K of a metric of rankings, such as 20 of "recall@20".

    Raises:
        UnsupportedArgument: It is none; says which there are.
    """
    base, _, k = name.partition("@")
    if f"{base}@K" not in _METRICS or not k.isdigit() or int(k) < 1:
        raise UnsupportedArgument(
            f"{name!r} is not a metric of rankings; use {', '.join(_METRICS)}, with a count from 1 "
            "on for K"
        )
    return int(k)


def _check(users: _Rows, items: _Rows, wanted: RankingTable, seen: RankingTable | None) -> None:
    num_users = int(users.shape[0])
    if len(users.shape) != 2 or len(items.shape) != 2 or users.shape[1] != items.shape[1]:
        raise UnsupportedArgument(
            f"users are {tuple(users.shape)} and items {tuple(items.shape)}; they need two "
            "dimensions, and rows of one length"
        )
    for name, table in (("wanted", wanted), ("seen", seen)):
        if table is None:
            continue
        if len(table.indptr) != num_users + 1:
            raise UnsupportedArgument(
                f"{name} has {len(table.indptr) - 1} users, and there are {num_users}"
            )
        # The two extremes need no copy of a table that may be a mapped file.
        for item in (table.items.min(initial=0), table.items.max(initial=0)):
            if not 0 <= item < max(1, items.shape[0]):
                raise UnsupportedArgument(
                    f"{name} holds item {item}, and there are {items.shape[0]} items"
                )


def _block(memory: int, best: int, num_users: int, num_items: int) -> tuple[int, int]:
    """Users and items of a block: as wide as high, unless one of them has fewer."""
    scores = memory // _BYTES_PER_SCORE
    height = max(1, min(num_users, int(scores**0.5), scores // (2 * best)))
    width = min(num_items, scores // height - best)
    height = max(1, min(num_users, scores // max(1, width + best)))
    if width < 1:
        raise UnsupportedArgument(
            f"memory={memory} bytes does not hold the best {best} items of one user; raise it to "
            f"at least {_BYTES_PER_SCORE * (best + 1)}"
        )
    return height, width


def _user_blocks(
    num_users: int, height: int, seen: RankingTable | None, memory: int
) -> Iterator[tuple[int, int]]:
    """(first, last) of the users of each block: at most ``height``, and as have seen what fits."""
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
    """What gives the pairs to leave out of users from `first` to below `last`."""

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
    """The ids of the best items of each user, best first, [users, best]; -1 where there is none."""
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
    # A copy, since a mapped file cannot be written to, and torch wants that.
    tensor = rows if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows))
    return tensor.to(torch.float32)


def _keys(scores: Tensor, begin: int) -> Tensor:
    """int64 keys, all different, that order by score and then by the lower id.

    The bits of a float, those of negative ones turned over, order as the floats do; they take the
    upper half of the key, and the id, turned over, the lower.
    """
    if bool(scores.isnan().any()):
        raise UnsupportedArgument("a score is NaN; the embeddings hold values that are not finite")
    bits = (scores + 0.0).view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
    ids = torch.arange(begin, begin + scores.shape[1])
    return (ordered << 32) | (0xFFFFFFFF - ids)


def _hits(top: Tensor, owners: Any, targets: Any, num_items: int) -> Tensor:
    """Whether each of the best items is wanted, float64 [users, best]."""
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
