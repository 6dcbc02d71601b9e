"""Streams of requests for single nodes: how much neighbours in time share, and which repeat.

What GLIST's scheduling (S) and kept results are worth hangs on the requests, so this module makes
requests with a stated locality, its equation 7 (section 5.2), and records what they visit. It must
not know devices: `simulate` runs the trace. The invariant: a request is served once, in whatever
order, unless its result was kept.
"""

import numbers
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neargraph import _core
from neargraph.exceptions import UnsupportedArgument
from neargraph.loader.fanouts import resolve_fanouts

from .config import whole
from .trace import Trace

if TYPE_CHECKING:
    from neargraph.store import Store

REQUESTS_MAX = 1 << 20
# The probability is tuned on the first requests of a stream, as many at most, to this error.
SAMPLE = 4096
TOLERANCE = 0.01
ROUNDS = 8
# What a stream may miss that is longer than the sample.
MISSED = 0.1
# A chain of close targets ends after 32 on average at the latest: a longer one uses up its region.
NEAR_MAX = 31 / 32
# Candidates, out of the previous target's subgraph, that are compared with that target.
COMPARED = 32
POOLS = 4
# Random streams of the pools, apart from those of batches.
POOL_STREAM = 1 << 32
# Subgraphs that are in memory at a time where a whole stream is measured.
CHUNK = 1024
# The greedy order compares each request of a run with all others of it.
REORDER_MAX = 1 << 14


def request_stream(
    store: "Store",
    count: int,
    *,
    locality: float = 0.0,
    repeats: float = 0.0,
    fanouts: Sequence[int] = (15, 10),
    window: int = 64,
    shuffle_within: int = 0,
    reorder_within: int = 0,
    keep_results: int = 0,
    seed: int = 0,
    **rows: Any,
) -> Trace:
    """Records what a stream of inference requests visits, one target each.

    `Requests.draw` says what the stream is, `Requests.trace` how it is served; use the two to serve
    one stream in several ways.

    Args:
        store: An open store of one node type and one edge type.
        count: Requests.
        locality: Share of its subgraph that a request has in common with the one before, 0 to 1.
        repeats: Share of requests whose target was asked for before, from 0 to below 1.
        fanouts: Neighbours of a node by hop.
        window: Requests of a batch.
        shuffle_within: Requests that arrive in random order among each other; 0 leaves them.
        reorder_within: Requests that are put in order of affinity; 0 is the order of arrival.
        keep_results: Results that are kept for targets that come again.
        seed: Of targets and draws.
        rows: `tensor`, `row_bytes`, `page_bytes`, `progress` of `Trace.from_sampler`.

    Returns:
        A trace whose `about["requests"]` has the counts and localities that were reached.

    Raises:
        NameNotFound: If the nodes have no such tensor.
        UnsupportedArgument: For a store of several types, a locality that the store does not
            reach (the message has the largest), more targets than nodes.

    Example:
        >>> trace = request_stream(store, 1024, locality=0.5, reorder_within=256)
        >>> simulate(trace, platforms=["GList"], mode="detailed", merged=True)["targets_per_s"]
    """
    drawn = Requests.draw(
        store,
        count,
        locality=locality,
        repeats=repeats,
        fanouts=fanouts,
        window=window,
        shuffle_within=shuffle_within,
        seed=seed,
    )
    return drawn.trace(store, reorder_within=reorder_within, keep_results=keep_results, **rows)


@dataclass(frozen=True)
class Requests:
    """Requests in the order of their arrival.

    Equation 7 divides the nodes that the subgraphs of two adjacent requests have in common by the
    nodes of the later one; the locality is its mean over all pairs. The subgraphs are the *sampled*
    ones, because only what is read can be read once for both. What is drawn of a node depends on
    the seed, the hop and the batch. Two requests of one window therefore draw the same neighbours
    of a node that both reach in the same hop, and of a target that comes twice the second has a
    locality of 1. Requests of different windows draw anew: where a node has more neighbours than
    the fanout, even the same target shares only a part of its subgraph. So the largest locality
    grows with the window, and a window of 1 measures independent draws. Windows are the batches of
    `trace` as long as no result is kept and the order stays.

    Attributes:
        targets: Node ids, `[count]`.
        fanouts: Neighbours of a node by hop.
        window: Requests of a batch.
        seed: Of targets and draws.
        about: `count`; `repeats`, the requests whose target is not new; `locality_wanted` and
            `locality`, what was reached before the shuffle; `near`, the probability that was found
            for it; `locality_arrived`, the same after the shuffle.
    """

    targets: np.ndarray
    fanouts: list[int]
    window: int
    seed: int
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def draw(
        cls,
        store: "Store",
        count: int,
        *,
        locality: float = 0.0,
        repeats: float = 0.0,
        fanouts: Sequence[int] = (15, 10),
        window: int = 64,
        shuffle_within: int = 0,
        seed: int = 0,
    ) -> "Requests":
        """Draws targets so that adjacent requests share `locality` of the later one's subgraph,
        by equation 7 as this class defines it.

        The next new target is, with probability `near`, the one that shares most out of 32 nodes
        around the target before; else it is any node that was not asked for yet. `near` is found by
        the secant method on the first 4,096 requests. A `locality` below that of random targets
        gives random targets. A repeat asks for the target of an earlier request, each equally
        likely, so popularity follows a power law (H. A. Simon, 1955). Repeats are spread at
        random over the stream and count as pairs, so they lower what can be reached.

        Args:
            store: An open store of one node type and one edge type.
            count: Requests, 2 at least.
            locality: Wanted, 0 to 1.
            repeats: Share of requests that repeat, from 0 to below 1; the count is rounded.
            fanouts: Neighbours of a node by hop.
            window: Requests of a batch.
            shuffle_within: Shuffle each run of this many requests after targets are chosen. GLIST
                shuffles all of them. 0 does not shuffle.
            seed: Of targets and draws.

        Raises:
            UnsupportedArgument: For a store of several types, a locality that is not reached, more
                new targets than nodes.
        """
        count = whole("count", count, 2, REQUESTS_MAX)
        window = whole("window", window, 1, REQUESTS_MAX)
        within = whole("shuffle_within", shuffle_within, 0, REQUESTS_MAX)
        locality = _share("locality", locality)
        again = _repeated(repeats, count)
        # Refuses what a trace refuses, before the work.
        Trace.from_sampler(
            store, [0], fanouts, seed, batches=1, batch_size=1, tensor=None, page_bytes=None
        )
        nodes = store.types.node_types[0].num_nodes
        if count - again > nodes:
            raise UnsupportedArgument(
                f"{count} requests with {again} repeats have {count - again} different targets, "
                f"but {store.path} has {nodes} nodes; ask for fewer requests or more repeats"
            )
        subgraphs = _Subgraphs(store, fanouts, seed)
        choice = _Choice(subgraphs, nodes, count, again, window, seed)
        found = _reached(choice, locality)
        arrived = _shuffled(found.targets, within, seed)
        about = {
            "count": count,
            "repeats": again,
            "locality_wanted": locality,
            "locality": found.locality,
            "near": found.near,
            "locality_arrived": _locality(subgraphs, arrived, window) if within else found.locality,
        }
        return cls(arrived, [int(fanout) for fanout in fanouts], window, int(seed), about)

    def trace(
        self,
        store: "Store",
        *,
        reorder_within: int = 0,
        keep_results: int = 0,
        **rows: Any,
    ) -> Trace:
        """Records what these requests visit, `window` of them a batch.

        Scheduling (S) on requests: each stretch of `reorder_within` requests starts with the one
        that arrived first, and the next is the one whose subgraph shares most nodes with the one
        before (GLIST, section 4.2). Subgraphs of a stretch are compared by draws of one batch.

        A request whose result is kept visits nothing, so it is left out of the batches. Results
        are kept by target, the least recently used go first; a request for a result that is on its
        way waits for it. A target that is twice in a batch is visited once in any case.

        Args:
            store: The store, or another one of the same graph, such as a reorganised one.
            reorder_within: Requests of a stretch, 2 at least; 0 keeps the order of arrival.
            keep_results: Results that are kept; 0 is none.
            rows: `tensor`, `row_bytes`, `page_bytes`, `progress` of `Trace.from_sampler`.

        Returns:
            A trace. Its `about["requests"]` has what `about` has, and `locality_served`, in the
            order in which they are served and as if all were computed; `answered` from kept
            results; `joined` with another request of their batch for the same target; `computed`,
            the rest. Throughput in requests is that of the targets times `count / computed`.

        Raises:
            NameNotFound: If the nodes have no such tensor.
            UnsupportedArgument: For arguments that `Trace.from_sampler` refuses, too.
        """
        within = whole("reorder_within", reorder_within, 0, REORDER_MAX)
        if within == 1:
            raise UnsupportedArgument(
                "reorder_within is 1: a single request has no order; use 2 or more, 0 for none"
            )
        keep = whole("keep_results", keep_results, 0, 1 << 32)
        served, reached = self.targets, self.about["locality_arrived"]
        if within:
            subgraphs = _Subgraphs(store, self.fanouts, self.seed)
            served = served[_by_affinity(subgraphs, served, within, self.window)]
            reached = _locality(subgraphs, served, self.window)
        computed = served[~_answered(served, keep)]
        trace = Trace.from_sampler(
            store,
            computed,
            self.fanouts,
            self.seed,
            batches=-(-len(computed) // self.window),
            batch_size=self.window,
            **rows,
        )
        visited = int(np.count_nonzero(trace.columns["hop"] == 0))
        trace.about["requests"] = {
            **self.about,
            "locality_served": reached,
            "answered": len(served) - len(computed),
            "joined": len(computed) - visited,
            "computed": visited,
        }
        return trace


class _Subgraphs:
    """Sampled subgraphs of single targets, as a batch with the number `stream` draws them."""

    def __init__(self, store: "Store", fanouts: Sequence[int], seed: int) -> None:
        version = store.snapshot().version
        per_type = resolve_fanouts(store.types, list(fanouts))
        self._sampler = _core.Sampler(version, per_type, _core.Method.uniform(), seed, [])

    def of(self, targets: Any, streams: Any) -> tuple[np.ndarray, np.ndarray]:
        """(first, nodes): subgraph i has the different nodes `nodes[first[i]:first[i + 1]]`."""
        ids = np.ascontiguousarray(targets, dtype=np.int64)
        ends = np.arange(1, len(ids) + 1).tolist()
        columns = self._sampler.trace(ids, ends, list(streams)).columns()
        return columns["first_entry"].astype(np.int64), columns["node"].astype(np.int64)


class _Reached(NamedTuple):
    """Targets, the probability that led to them, and their locality."""

    near: float
    targets: np.ndarray
    locality: float


class _Choice:
    """Chooses the targets of a stream. A part of a stream has the targets that it has in the whole,
    so that what is tuned on a part holds for it in the whole."""

    def __init__(
        self, subgraphs: _Subgraphs, nodes: int, count: int, again: int, window: int, seed: int
    ) -> None:
        random = np.random.default_rng([seed, 1])
        self.count = count
        self._subgraphs = subgraphs
        self._window = window
        self._seed = seed
        self._is_repeat = np.zeros(count, dtype=bool)
        self._is_repeat[1 + random.choice(count - 1, again, replace=False)] = True
        self._fresh = random.choice(nodes, count - again, replace=False)
        self._chance = random.random(count)
        self._earlier = random.random(count)

    def walk(self, near: float, count: int) -> _Reached:
        """The first `count` targets, new ones close to the last with probability `near`."""
        picks = np.random.default_rng([self._seed, 2])
        fresh = iter(self._fresh.tolist())
        targets: list[int] = []
        used: set[int] = set()
        last, total = np.empty(0, dtype=np.int64), 0.0
        for at in range(count):
            options: list[int] = []
            if self._is_repeat[at]:
                options = [targets[int(self._earlier[at] * at)]]
            elif at and self._chance[at] < near:
                options = self._around(targets[-1], at, used, picks)
            # All nodes of `fresh` are different, so one of them is new whenever one is wanted.
            options = options or [next(node for node in fresh if node not in used)]
            first, nodes = self._subgraphs.of(options, [at // self._window] * len(options))
            common = np.add.reduceat(np.isin(nodes, last), first[:-1], dtype=np.int64)
            shares = common / np.diff(first)
            best = int(np.argmax(shares))
            total += float(shares[best])
            last = nodes[first[best] : first[best + 1]]
            targets.append(options[best])
            used.add(options[best])
        return _Reached(near, np.array(targets, dtype=np.int64), total / (count - 1))

    def _around(
        self, target: int, at: int, used: set[int], picks: np.random.Generator
    ) -> list[int]:
        """Some nodes of subgraphs of a target that were not asked for."""
        streams = range(POOL_STREAM + POOLS * at, POOL_STREAM + POOLS * (at + 1))
        _, pool = self._subgraphs.of([target] * POOLS, streams)
        options = [node for node in np.unique(pool).tolist() if node not in used]
        some = picks.choice(len(options), min(COMPARED, len(options)), replace=False)
        return [options[one] for one in some]


def _reached(choice: _Choice, wanted: float) -> _Reached:
    """A whole stream with the locality wanted, or that of random targets if it is larger.

    Raises:
        UnsupportedArgument: It is not reached.
    """
    sample = min(choice.count, SAMPLE)
    found = _tuned(lambda near: choice.walk(near, sample), wanted)
    if sample < choice.count:
        found = choice.walk(found.near, choice.count)
    if found.locality < wanted - MISSED:
        raise UnsupportedArgument(
            f"locality {wanted:g} is reached by the first {SAMPLE} requests, but all "
            f"{choice.count} have {found.locality:.2f}: too few nodes are close to each other; ask "
            "for fewer requests or for less locality"
        )
    return found


def _tuned(walk: Callable[[float], _Reached], wanted: float) -> _Reached:
    """The walk whose locality is the one wanted, found between two that enclose it."""
    low = walk(0.0)
    if wanted <= low.locality:
        return low
    high = walk(NEAR_MAX)
    if wanted > high.locality + TOLERANCE:
        raise UnsupportedArgument(
            f"locality {wanted:g} cannot be reached on this graph with these fanouts, windows and "
            f"repeats; the largest is {high.locality:.2f}: ask for at most that, or use a larger "
            "window, larger fanouts or fewer repeats"
        )
    best = min(low, high, key=lambda one: abs(one.locality - wanted))
    for _ in range(ROUNDS):
        if abs(best.locality - wanted) <= TOLERANCE:
            break
        part = (wanted - low.locality) / (high.locality - low.locality)
        tried = walk(low.near + part * (high.near - low.near))
        low, high = (tried, high) if tried.locality < wanted else (low, tried)
        best = min(best, tried, key=lambda one: abs(one.locality - wanted))
    return best


def _locality(subgraphs: _Subgraphs, targets: np.ndarray, window: int) -> float:
    """Equation 7, the mean over adjacent requests, each drawn as in its window."""
    total = 0.0
    for start in range(0, len(targets) - 1, CHUNK):
        part = targets[start : start + CHUNK + 1]
        first, nodes = subgraphs.of(part, np.arange(start, start + len(part)) // window)
        sizes = np.diff(first)
        owner = np.repeat(np.arange(len(part)), sizes)
        wide = CHUNK + 2
        common = np.isin(nodes * wide + owner, nodes * wide + owner + 1)
        total += float((np.bincount(owner, common) / sizes)[1:].sum())
    return total / (len(targets) - 1)


def _by_affinity(
    subgraphs: _Subgraphs, targets: np.ndarray, within: int, window: int
) -> np.ndarray:
    """Places of requests, stretch by stretch: next comes who shares most nodes with the last."""
    order: list[int] = []
    for start in range(0, len(targets), within):
        part = targets[start : start + within]
        first, nodes = subgraphs.of(part, [start // window] * len(part))
        different, compact = np.unique(nodes, return_inverse=True)
        is_last = np.zeros(len(different), dtype=bool)
        left = np.ones(len(part), dtype=bool)
        current = 0
        for _ in range(len(part)):
            order.append(start + current)
            left[current] = False
            own = compact[first[current] : first[current + 1]]
            is_last[own] = True
            common = np.add.reduceat(is_last[compact], first[:-1], dtype=np.int64)
            is_last[own] = False
            # Of several, the one that arrived first.
            current = int(np.argmax(np.where(left, common, -1)))
    return np.array(order, dtype=np.int64)


def _shuffled(targets: np.ndarray, within: int, seed: int) -> np.ndarray:
    """Each stretch in random order."""
    if not within:
        return targets
    random = np.random.default_rng([seed, 3])
    starts = range(0, len(targets), within)
    return np.concatenate([random.permutation(targets[at : at + within]) for at in starts])


def _answered(targets: np.ndarray, keep: int) -> np.ndarray:
    """Whether the result of each request is among the `keep` that were used last."""
    kept: OrderedDict[int, None] = OrderedDict()
    found = np.zeros(len(targets), dtype=bool)
    for at, target in enumerate(targets.tolist() if keep else []):
        found[at] = target in kept
        kept[target] = None
        kept.move_to_end(target)
        if len(kept) > keep:
            kept.popitem(last=False)
    return found


def _share(name: str, value: Any) -> float:
    """An argument from 0 to 1."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= float(value) <= 1:
        raise UnsupportedArgument(f"{name} is {value!r}; use a number from 0 to 1")
    return float(value)


def _repeated(repeats: Any, count: int) -> int:
    """How many requests repeat."""
    again = round(_share("repeats", repeats) * count)
    if again >= count:
        raise UnsupportedArgument(
            f"repeats is {repeats!r}: {again} of {count} requests would repeat an earlier one, but "
            "the first cannot; use less"
        )
    return again
