"""Draws, orders of seeds and batches as docs/reference/format.md, section 11, has them.

Nothing of neargraph is imported here. What is sampled is anything with `node_types`, `edge_types`
and `neighbors(edge type, node)`.
"""

import itertools
import math
import struct
from dataclasses import dataclass, field
from typing import Any

WORD = 2**32


def philox(counter: list[int], key: list[int]) -> list[int]:
    """One block of Philox 4x32-10."""
    c, k = list(counter), list(key)
    for step in range(10):
        if step:
            k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [
            second // WORD ^ c[1] ^ k[0],
            second % WORD,
            first // WORD ^ c[3] ^ k[1],
            first % WORD,
        ]
    return c


def words(value: int) -> list[int]:
    """The low and the high word of a number of 64 bits."""
    return [value % WORD, value // WORD]


def stream_key(seed: int, stream: int) -> list[int]:
    """The key of all draws of a batch."""
    return philox([*words(stream), 0, 1], words(seed))[:2]


def draw_bits(key: list[int], edge_type: int, destination: int, draw: int) -> int:
    """64 random bits."""
    low, high = words(destination)
    block = philox([low, high | edge_type << 8, draw // 2, 0], key)
    pair = block[2:] if draw % 2 else block[:2]
    return pair[0] + pair[1] * WORD


def below(bits: int, bound: int) -> int:
    """A number below `bound` from 64 bits."""
    return bits * bound >> 64


class BadWeight(ValueError):
    """A list that cannot be drawn from by weight."""


def real(bits: int) -> float:
    """The f64 of these bits."""
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    return value


def ln(u: float) -> float:
    """The natural logarithm as the document has it."""
    half, exponent = math.frexp(u)
    m, exponent = 2 * half, exponent - 1
    if m > real(0x3FF6A09E667F3BCD):
        m, exponent = m / 2, exponent + 1
    s = (m - 1) / (m + 1)
    z, r = s * s, 0.0
    for k in range(9, -1, -1):
        r = r * z + 1 / (2 * k + 1)
    return exponent * real(0x3FE62E42FEFA39EF) + (2 * s) * r


def weight_key(bits: int, weight: float) -> float:
    """The key of a position."""
    u = ((bits >> 12) + 0.5) * 2.0**-52
    return -ln(u) / weight


def weighted_position(bits: int, weights: list[float]) -> int:
    """The position that a draw with replacement takes."""
    sums = list(itertools.accumulate(weights))
    target = (bits >> 11) * 2.0**-53 * sums[-1]
    return next(position for position, end in enumerate(sums) if end > target)


def source_number(seed: int, group: int, node_type: int, source: int) -> int:
    """The number that LABOR gives to a source."""
    a, b = philox([*words(group), node_type, 3], words(seed))[:2]
    low, high = words(source)
    x = low ^ a
    x ^= x >> 17
    x = x * 0xED5AD4BB % WORD
    x = x ^ x >> 11 ^ b ^ high * 0x9E3779B9 % WORD
    x = x * 0xAC4C1B51 % WORD
    x ^= x >> 15
    x = x * 0x31848BAB % WORD
    return x ^ x >> 14


def seed_order(length: int, seed: int, epoch: int, place: int) -> int:
    """Which input node is at a place of the shuffled order."""
    half = max(1, -(-(length - 1).bit_length() // 2))
    mask, value = (1 << half) - 1, place
    while True:
        left, right = value >> half, value & mask
        for step in range(6):
            low, high = words(epoch)
            word = philox([right, low, high ^ step << 24, 2], words(seed))[0]
            left, right = right, left ^ word & mask
        value = left << half | right
        if value < length:
            return value


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which seeds are in which batch of an epoch."""

    inputs: list[int]
    batch_size: int
    seed: int = 0
    shuffle: bool = False
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    pad: bool = False

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        full, rest = divmod(len(self.inputs), self.batch_size)
        keeps = rest and not self.drop_last and (self.world_size == 1 or self.pad)
        return full + bool(keeps)

    def stream(self, epoch: int, batch: int) -> int:
        """The stream of a batch, the same on all ranks."""
        return (epoch * -(-len(self.inputs) // self.batch_size) + batch) % 2**64

    def seeds(self, epoch: int, batch: int) -> list[int]:
        """The seeds of a batch on this rank, padding included."""
        first, count = batch * self.batch_size, len(self.inputs)
        places = list(range(first, min(first + self.batch_size, count)))
        missing = -len(places) % self.world_size
        repeated = list(range(min(missing, count)))
        places += [repeated[i % len(repeated)] for i in range(missing)]
        part = len(places) // self.world_size
        places = places[self.rank * part : (self.rank + 1) * part]
        if self.shuffle:
            places = [seed_order(count, self.seed, epoch, p) for p in places]
        return [self.inputs[place] for place in places]


@dataclass
class NodeBlock:
    """The nodes of one type."""

    n_id: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    per_hop: list[int] = field(default_factory=list)

    def number(self, node: int) -> int:
        """The number of a node, the next one if it has none."""
        if node not in self.numbers:
            self.numbers[node] = len(self.n_id)
            self.n_id.append(node)
        return self.numbers[node]


@dataclass
class EdgeBlock:
    """The edges of one type: numbers of sources and destinations, and the entries."""

    rows: list[int] = field(default_factory=list)
    cols: list[int] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    per_hop: list[int] = field(default_factory=list)

    @property
    def edge_index(self) -> list[list[int]]:
        """Sources and destinations."""
        return [self.rows, self.cols]

    @property
    def e_id(self) -> list[int]:
        """The edge id of each edge."""
        return [entry.edge_id for entry in self.entries]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a batch is drawn: fanouts by edge type and hop, and the method."""

    fanouts: list[list[int]]
    seed: int = 0
    replace: bool = False
    labor: int | None = None
    weighted: bool = False

    def positions(self, store: Any, stream: int, edge_type: int, node: int, hop: int) -> list[int]:
        """Which positions of a list are drawn."""
        entries, fanout = store.neighbors(edge_type, node), self.fanouts[edge_type][hop]
        degree = len(entries)
        if fanout == -1:
            return list(range(degree))
        if self.labor is not None:
            if degree <= fanout:
                return list(range(degree))
            group, bound = stream // self.labor, fanout * WORD // degree
            source_type = store.edge_types[edge_type]["source"]
            number = [source_number(self.seed, group, source_type, e.source) for e in entries]
            return [position for position in range(degree) if number[position] < bound]
        key = stream_key(self.seed, stream)
        if self.weighted:
            weights = [float(entry.weight) for entry in entries]
            if not all(0 <= weight < math.inf for weight in weights):
                raise BadWeight
            bits = [draw_bits(key, edge_type, node, k) for k in range(max(degree, fanout))]
            if self.replace:
                draws = range(fanout if sum(weights) > 0 else 0)
                return [weighted_position(bits[k], weights) for k in draws]
            keys = [(weight_key(bits[p], w), p) for p, w in enumerate(weights) if w]
            return [position for _, position in sorted(keys)[:fanout]]
        if self.replace:
            draws = range(fanout if degree else 0)
            return [below(draw_bits(key, edge_type, node, k), degree) for k in draws]
        positions = list(range(degree))
        for k in range(min(fanout, degree)):
            other = k + below(draw_bits(key, edge_type, node, k), degree - k)
            positions[k], positions[other] = positions[other], positions[k]
        return positions[: min(fanout, degree)]


def sample(
    store: Any, seeds: dict[int, list[int]], stream: int, how: Sampling
) -> tuple[list[NodeBlock], list[EdgeBlock]]:
    """A batch around seeds by node type."""
    nodes = [NodeBlock() for _ in store.node_types]
    edges = [EdgeBlock() for _ in store.edge_types]
    for node_type, ids in seeds.items():
        for node in ids:
            nodes[node_type].numbers.setdefault(node, len(nodes[node_type].n_id))
            nodes[node_type].n_id.append(node)
    frontier = [range(len(block.n_id)) for block in nodes]
    for hop in range(len(how.fanouts[0]) if how.fanouts else 0):
        drawn = []
        for edge_type, meta in enumerate(store.edge_types):
            before = len(edges[edge_type].cols)
            block = nodes[meta["destination"]]
            for number in frontier[meta["destination"]]:
                node = block.n_id[number]
                chosen = how.positions(store, stream, edge_type, node, hop)
                entries = store.neighbors(edge_type, node)
                edges[edge_type].entries += [entries[position] for position in chosen]
                edges[edge_type].cols += [number] * len(chosen)
            edges[edge_type].per_hop.append(len(edges[edge_type].cols) - before)
            places = range(before, len(edges[edge_type].cols))
            drawn += [(edges[edge_type].cols[at], edge_type, at) for at in places]
        for block, new in zip(nodes, frontier, strict=True):
            block.per_hop.append(len(new))
        ends = [len(block.n_id) for block in nodes]
        for _, edge_type, at in sorted(drawn):
            source = nodes[store.edge_types[edge_type]["source"]]
            edges[edge_type].rows.append(source.number(edges[edge_type].entries[at].source))
        frontier = [range(end, len(block.n_id)) for end, block in zip(ends, nodes, strict=True)]
    for block, new in zip(nodes, frontier, strict=True):
        block.per_hop.append(len(new))
    return nodes, edges
