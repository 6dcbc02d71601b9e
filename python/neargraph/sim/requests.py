"""Streams of requests for single nodes, with a given locality and a given share of repeats.

The gain of GLIST's scheduling (S) and of kept results depends on the requests. So this module makes
requests with a given locality (its equation 7, section 5.2) and records the nodes that they visit.
It must not depend on devices: `simulate` runs the trace. The invariant: a request is served once,
in any order, unless its result was kept.
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
# The probability is tuned on at most this number of first requests, to this error.
SAMPLE = 4096
TOLERANCE = 0.01
ROUNDS = 8
# The largest error of the locality of a stream that is longer than the sample.
MISSED = 0.1
# A chain of close targets has 32 targets on average at most, as longer ones exhaust their region.
NEAR_MAX = 31 / 32
# Number of candidates from the previous target's subgraph that are compared with that target.
COMPARED = 32
POOLS = 4
# Random streams of the pools, apart from those of batches.
POOL_STREAM = 1 << 32
# The number of subgraphs in memory while a whole stream is measured.
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
    """Records the nodes that a stream of inference requests visits. Each request has one target.

    `Requests.draw` describes the stream, and `Requests.trace` how it is served. Call these two to
    serve one stream in several ways.

    Args:
        store: An open store of one node type and one edge type.
        count: Number of requests.
        locality: Share of its subgraph that a request has in common with the previous one, 0 to 1.
        repeats: Share of requests for an earlier target, from 0 to below 1.
        fanouts: Neighbours per node by hop.
        window: Requests per batch.
        shuffle_within: Number of requests that arrive in random order; 0 does not shuffle.
        reorder_within: Number of requests that are sorted by affinity; 0 keeps the order.
        keep_results: Number of results that are kept for repeated targets.
        seed: Random seed of targets and draws.
        rows: `tensor`, `row_bytes`, `page_bytes`, `progress` of `Trace.from_sampler`.

    Returns:
        A trace, with the reached counts and localities in `about["requests"]`.

    Raises:
        NameNotFound: The nodes have no such tensor.
        UnsupportedArgument: The store has several types, or fewer nodes than there are targets, or
            it does not reach the locality (the message has the largest).

    Example:
        >>> trace = request_stream(store, 1024, locality=0.5)                # doctest: +SKIP
        >>> runs = simulate(trace, platforms=["GList"], merged=True)         # doctest: +SKIP
        >>> runs["targets_per_s"].shape                                      # doctest: +SKIP
        (1,)
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

    Equation 7 divides the number of nodes that the subgraphs of two adjacent requests have in
    common by the number of nodes of the later one. The locality is its mean over all pairs. The
    subgraphs are the *sampled* ones, because only rows that are read can be read once for both.

    The draws for a node depend on the seed, the hop and the batch. Two requests of one window
    therefore draw the same neighbours of a node that both reach in the same hop. If a target occurs
    twice in a window, the second request has a locality of 1. Requests of different windows have
    independent draws: if a node has more neighbours than the fanout, even requests for the same
    target share only a part of their subgraphs. So the largest locality grows with the window, and
    with a window of 1 all draws are independent. Windows are the batches of `trace`, if no result
    is kept and the order does not change.

    Attributes:
        targets: Node ids, `[count]`.
        fanouts: Neighbours per node by hop.
        window: Requests per batch.
        seed: Random seed of targets and draws.
        about: `count`; `repeats`, the number of requests for an earlier target; `locality_wanted`;
            `locality`, reached before the shuffle, and `near`, the probability that reaches it;
            `locality_arrived`, the locality after the shuffle.
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

        With probability `near`, the next new target is one of 32 nodes around the previous target,
        the one that shares most with it. Otherwise it is a random node without an earlier request.
        The secant method finds `near` on the first 4,096 requests. If `locality` is below that of
        random targets, targets are random. A repeat is for the target of a random earlier request,
        so popularity follows a power law (H. A. Simon, 1955). Repeats are spread at random over the
        stream and count as pairs, so they lower the largest locality.

        Args:
            store: An open store of one node type and one edge type.
            count: Number of requests, at least 2.
            locality: Locality to reach, 0 to 1.
            repeats: Share of repeated requests, from 0 to below 1. Their number is rounded.
            fanouts: Neighbours per node by hop.
            window: Requests per batch.
            shuffle_within: Shuffle each run of this number of requests after targets are chosen. 0
                does not shuffle; GLIST shuffles all requests.
            seed: Random seed of targets and draws.

        Raises:
            UnsupportedArgument: The store has several types, or fewer nodes than there are new
                targets, or the locality is not reached.
        """
        count = whole("count", count, 2, REQUESTS_MAX)
        window = whole("window", window, 1, REQUESTS_MAX)
        within = whole("shuffle_within", shuffle_within, 0, REQUESTS_MAX)
        locality = _share("locality", locality)
        again = _repeated(repeats, count)
        # Checks the arguments as a trace does, before the work.
        Trace.from_sampler(
            store, [0], fanouts, seed, batches=1, batch_size=1, tensor=None, page_bytes=None
        )
        nodes = store.types.node_types[0].num_nodes
        if count - again > nodes:
            raise UnsupportedArgument(
                f"{count} requests, of which {again} repeat an earlier target, need "
                f"{count - again} different targets, but {store.path} has only {nodes} nodes; "
                "lower count= or raise repeats="
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
        """Records the nodes that these requests visit, in batches of `window` requests.

        Scheduling (S) sorts each run of `reorder_within` requests. The run starts with the request
        that arrived first. The next one is the request whose subgraph shares most nodes with the
        previous one (GLIST, section 4.2). The subgraphs of a run are compared by draws of one
        batch.

        A request whose result is kept visits nothing and is in no batch. Results are kept by
        target; the least recently used are evicted first. A request for a result in progress waits
        for it. A target that occurs twice in a batch is visited once in any case.

        Args:
            store: The store, or another one of the same graph, such as a reorganised one.
            reorder_within: Requests per run, at least 2; 0 keeps the order of arrival.
            keep_results: Number of kept results; 0 keeps none.
            rows: `tensor`, `row_bytes`, `page_bytes`, `progress` of `Trace.from_sampler`.

        Returns:
            A trace. Its `about["requests"]` has the items of `about`; `locality_served`, the
            locality in the order of service, as if all requests were computed; and the numbers of
            requests that were `answered` from kept results, `joined` with another request of their
            batch for the same target, and `computed`. Requests/s are targets/s times
            `count / computed`.

        Raises:
            NameNotFound: The nodes have no such tensor.
            UnsupportedArgument: An argument is out of range; see also `Trace.from_sampler`.
        """
        within = whole("reorder_within", reorder_within, 0, REORDER_MAX)
        if within == 1:
            raise UnsupportedArgument(
                "reorder_within=1 changes nothing; use 2 or more, or 0 to keep the order"
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
    """Samples subgraphs of single targets, with the draws of the batch with number `stream`."""

    def __init__(self, store: "Store", fanouts: Sequence[int], seed: int) -> None:
        version = store.snapshot().version
        per_type = resolve_fanouts(store.types, list(fanouts))
        self._sampler = _core.Sampler(version, per_type, _core.Method.uniform(), seed, [])

    def of(self, targets: Any, streams: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns (first, nodes): subgraph i has the nodes `nodes[first[i]:first[i + 1]]`."""
        ids = np.ascontiguousarray(targets, dtype=np.int64)
        ends = np.arange(1, len(ids) + 1).tolist()
        columns = self._sampler.trace(ids, ends, list(streams)).columns()
        return columns["first_entry"].astype(np.int64), columns["node"].astype(np.int64)


class _Reached(NamedTuple):
    """Targets, the probability by which they were chosen, and their locality."""

    near: float
    targets: np.ndarray
    locality: float


class _Choice:
    """Chooses the targets of a stream. The first targets do not depend on the length of the stream,
    so a probability that is tuned on them is valid for the whole."""

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
        """Returns `count` targets. With probability `near`, a new one is close to the last."""
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
            # All nodes of `fresh` are different, so it has a new node whenever one is needed.
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
        """Returns nodes of a target's subgraphs without an earlier request."""
        streams = range(POOL_STREAM + POOLS * at, POOL_STREAM + POOLS * (at + 1))
        _, pool = self._subgraphs.of([target] * POOLS, streams)
        options = [node for node in np.unique(pool).tolist() if node not in used]
        some = picks.choice(len(options), min(COMPARED, len(options)), replace=False)
        return [options[one] for one in some]


def _reached(choice: _Choice, wanted: float) -> _Reached:
    """Returns a whole stream with the wanted locality, or with that of random targets if larger.

    Raises:
        UnsupportedArgument: The locality is not reached.
    """
    sample = min(choice.count, SAMPLE)
    found = _tuned(lambda near: choice.walk(near, sample), wanted)
    if sample < choice.count:
        found = choice.walk(found.near, choice.count)
    if found.locality < wanted - MISSED:
        raise UnsupportedArgument(
            f"locality={wanted:g} is not reached: the first {SAMPLE} requests have it, but all "
            f"{choice.count} requests have only {found.locality:.2f}; lower count= or locality="
        )
    return found


def _tuned(walk: Callable[[float], _Reached], wanted: float) -> _Reached:
    """Returns the walk with the wanted locality, found between two that enclose it."""
    low = walk(0.0)
    if wanted <= low.locality:
        return low
    high = walk(NEAR_MAX)
    if wanted > high.locality + TOLERANCE:
        raise UnsupportedArgument(
            f"locality={wanted:g} cannot be reached on this graph: the largest locality with the "
            f"given fanouts=, window= and repeats= is {high.locality:.2f}; lower locality=, raise "
            "fanouts= or window=, or lower repeats="
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
    """Returns the mean of equation 7 over adjacent requests, each with the draws of its window."""
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
    """Returns the order of requests: in each run, the next shares most nodes with the last."""
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
            # Of equal ones, the one that arrived first.
            current = int(np.argmax(np.where(left, common, -1)))
    return np.array(order, dtype=np.int64)


def _shuffled(targets: np.ndarray, within: int, seed: int) -> np.ndarray:
    """Returns targets with each run in random order."""
    if not within:
        return targets
    random = np.random.default_rng([seed, 3])
    starts = range(0, len(targets), within)
    return np.concatenate([random.permutation(targets[at : at + within]) for at in starts])


def _answered(targets: np.ndarray, keep: int) -> np.ndarray:
    """Returns whether the result of each request is among the `keep` most recently used."""
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
    """Returns an argument as float, if it is from 0 to 1."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= float(value) <= 1:
        raise UnsupportedArgument(f"{name}={value!r} is not valid: expected a number from 0 to 1")
    return float(value)


def _repeated(repeats: Any, count: int) -> int:
    """Returns the number of repeated requests."""
    again = round(_share("repeats", repeats) * count)
    if again >= count:
        raise UnsupportedArgument(
            f"repeats={repeats!r} makes {again} of {count} requests repeat an earlier one, but the "
            "first request has no earlier one; lower repeats="
        )
    return again
