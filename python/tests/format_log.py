"""The log of a store by docs/reference/format.md, section 9, and a store with it replayed.

Nothing of neargraph is imported here, and nothing is written.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from format_catalog import check_keys, keep_key
from format_reader import BLOCK, Checkpoint, Damaged, Entry, crc32c, ensure

LOGS = ("wal.a", "wal.b")
STEP = 64 << 10

# Header of a block behind its checksum, and what precedes the operations of a record.
HEADER = struct.Struct("<QQII")
PREFIX = struct.Struct("<QQQ")


class Header(NamedTuple):
    """The header of a block of a log."""

    lsn: int
    group: int
    index: int
    blocks: int


def decode_header(block: bytes) -> Header | None:
    """The header of a sound block, else None."""
    if block[:4] != b"LG\0\0" or crc32c(block[8:]) != int.from_bytes(block[4:8], "little"):
        return None
    header = Header(*HEADER.unpack_from(block, 8))
    return header if header.index < header.blocks and header.group <= header.lsn else None


def mix(value: int, part: int) -> int:
    """Section 9: one step of the chain."""
    mixed = (value ^ part) * 0x9E3779B97F4A7C15 % 2**64
    return mixed ^ mixed >> 29


def chain(before: int, lsn: int, ops: bytes) -> int:
    """Section 9: the chain behind a record."""
    value = mix(before, lsn)
    whole = len(ops) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", ops[:whole]):
        value = mix(value, word)
    tail = len(ops)
    for byte in ops[whole:]:
        tail = (tail * 256 + byte) % 2**64
    return mix(value, tail)


@dataclass
class LogFile:
    """One of the two files, block by block."""

    data: bytes
    headers: list[Header | None] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "LogFile":
        """Reads a file; what follows the last whole block means nothing."""
        data = path.read_bytes()
        ensure(len(data) >= STEP, f"{path.name} is cut")
        blocks = range(0, len(data) // BLOCK * BLOCK, BLOCK)
        return cls(data, [decode_header(data[at : at + BLOCK]) for at in blocks])

    @property
    def last_group(self) -> int:
        """The largest group of any sound block."""
        return max((header.group for header in self.headers if header), default=0)

    def payload(self, offset: int, lsn: int) -> tuple[bytes, int] | None:
        """The joined payload of the whole record of `lsn` at `offset`, and where it ends."""
        first = offset // BLOCK
        head = self.headers[first] if first < len(self.headers) else None
        if head is None or head.lsn != lsn or head.index != 0:
            return None
        found = self.headers[first : first + head.blocks]
        if found != [head._replace(index=index) for index in range(head.blocks)]:
            return None
        end = (first + head.blocks) * BLOCK
        blocks = (self.data[at : at + BLOCK] for at in range(first * BLOCK, end, BLOCK))
        return b"".join(block[32:] for block in blocks), end


def records(checkpoint: Checkpoint) -> Iterator[tuple[int, bytes]]:
    """Section 9: number and operations of each commit that the root does not contain."""
    log = checkpoint.catalog.get("log")
    if log is None:
        return
    files = [LogFile.read(checkpoint.directory / name) for name in LOGS]
    file, offset = log["file"], log["offset"]
    lsn, before = checkpoint.root.lsn, checkpoint.root.fingerprint
    ensure(len(files[file].data) >= offset + STEP, f"{LOGS[file]} is cut")
    while True:
        found = files[file].payload(offset, lsn + 1)
        if found is None:
            file, found = 1 - file, files[1 - file].payload(0, lsn + 1)
        if found is None:
            break
        joined, offset = found
        length, file_bytes, chained = PREFIX.unpack_from(joined)
        whole = len(joined) == -(-(PREFIX.size + length) // (BLOCK - 32)) * (BLOCK - 32)
        ensure(whole and chained == before, f"commit {lsn + 1} does not follow commit {lsn}")
        ensure(file_bytes <= len(files[file].data), f"{LOGS[file]} is cut")
        ops = joined[PREFIX.size : PREFIX.size + length]
        yield lsn + 1, ops
        lsn, before = lsn + 1, chain(before, lsn + 1, ops)
    last_group = max(each.last_group for each in files)
    ensure(last_group <= lsn + 1, f"commit {lsn + 1} is damaged")


class Numbers:
    """Operations, number by number."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        ensure(self.at + count <= len(self.data), "an operation is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, bound: int = 2**64) -> int:
        """The next number in LEB128."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                ensure(value < bound, f"number {value} is too large")
                return value
        raise Damaged("a number of more than 10 bytes")


@dataclass
class Counts:
    """What commits change of a node type or an edge type."""

    ids: int
    live: int


class Store:
    """A store with the commits of its log, in memory."""

    def __init__(self, directory: Path | str, replay: bool = True) -> None:
        self.base = Checkpoint(Path(directory))
        catalog = self.base.catalog
        self.node_types, self.edge_types = catalog["node_types"], catalog["edge_types"]
        self.nodes = [Counts(t["num_nodes"], t["num_nodes_live"]) for t in self.node_types]
        self.edges = [Counts(t["num_edge_ids"], t["num_edges"]) for t in self.edge_types]
        self.dead = [self.base.dead(number) for number in range(len(self.nodes))]
        self.lists: dict[tuple[int, int], list[Entry]] = {}
        self.rows: dict[tuple[str, int, int, int], bytes] = {}
        self.keys: list[dict[str, Any]] | None = catalog.get("keys")
        self.lsn, self.fingerprint = self.base.root.lsn, self.base.root.fingerprint
        for lsn, ops in records(self.base) if replay else ():
            self._apply(ops)
            self.lsn, self.fingerprint = lsn, chain(self.fingerprint, lsn, ops)

    def neighbors(self, edge_type: int, node: int) -> list[Entry]:
        """The list of a node, in order."""
        key = (edge_type, node)
        if key not in self.lists:
            self.lists[key] = self.base.topologies[edge_type].neighbors(node)
        return self.lists[key]

    def stored(self, kind: str, owner: int, tensor: int, number: int) -> bytes:
        """The row of a node or of an edge id, as it is stored."""
        key = (kind, owner, tensor, number)
        if key not in self.rows:
            self.rows[key] = self.base.stored(*key)
        return self.rows[key]

    def values(self, kind: str, owner: int, tensor: int, number: int) -> Any:
        """The same as floats where the tensor has scales, else as bytes."""
        raw, scales = self.stored(kind, owner, tensor, number), self._tensor(kind, owner, tensor)
        if scales.scales is None:
            return np.frombuffer(raw, np.uint8)
        return np.frombuffer(raw, np.int8).astype(np.float32) * scales.scales

    def name(self, node_type: int, node: int) -> str:
        """The string id of a node."""
        return self.base.dictionaries[node_type].name(node)

    def lookup(self, node_type: int, key: str) -> int | None:
        """The node of a string id."""
        return self.base.dictionaries[node_type].lookup(key)

    def _tensor(self, kind: str, owner: int, tensor: int) -> Any:
        found = self.base.tensors.get((kind, owner, tensor))
        ensure(found is not None, f"there is no tensor {tensor} of {kind} type {owner}")
        return found

    # Operations

    def _apply(self, data: bytes) -> None:
        numbers = Numbers(data)
        does: dict[int, Callable[[Numbers, int], None]] = {
            1: self._add_node,
            2: self._delete_node,
            3: self._add_edge,
            4: self._delete_edges,
            5: self._delete_one_edge,
            6: self._set_node_row,
            7: self._set_edge_row,
            8: self._keep_key,
        }
        while numbers.at < len(data):
            tag = numbers.take(1)[0]
            ensure(tag in does, f"no operation has tag {tag}")
            does[tag](numbers, numbers.number(1 << 16))

    def _keep_key(self, numbers: Numbers, length: int) -> None:
        lsn, note_length = numbers.number(), numbers.number()
        key, note = numbers.take(length), numbers.take(note_length)
        ensure(self.keys is not None, "the root has no keys")
        known = {"lsn": lsn, "key": key.hex(), "note": note.hex()}
        self.keys = keep_key(self.keys, known)
        check_keys(self.keys)

    def _check_node(self, node_type: int, node: int) -> None:
        there = node < self.nodes[node_type].ids and node not in self.dead[node_type]
        ensure(there, f"there is no node {node} of type {node_type}")

    def _ends(self, edge_type: int) -> tuple[int, int]:
        ensure(edge_type < len(self.edge_types), f"there is no edge type {edge_type}")
        meta = self.edge_types[edge_type]
        return meta["source"], meta["destination"]

    def _add_node(self, numbers: Numbers, owner: int) -> None:
        ensure(owner < len(self.nodes), f"there is no node type {owner}")
        node, counts = numbers.number(), self.nodes[owner]
        ensure(node == counts.ids or node in self.dead[owner], f"node {node} is not free")
        counts.ids += node == counts.ids
        counts.live += 1
        self.dead[owner].discard(node)
        self._clear_rows("node", owner, node)

    def _clear_rows(self, kind: str, owner: int, number: int) -> None:
        metas = self.node_types if kind == "node" else self.edge_types
        for place in range(len(metas[owner]["tensors"])):
            row_bytes = self.base.tensors[kind, owner, place].row_bytes
            self.rows[kind, owner, place, number] = bytes(row_bytes)

    def _delete_node(self, numbers: Numbers, owner: int) -> None:
        ensure(owner < len(self.nodes), f"there is no node type {owner}")
        node = numbers.number()
        self._check_node(owner, node)
        for edge_type, meta in enumerate(self.edge_types):
            if meta["destination"] != owner:
                continue
            gone, reverse = self.neighbors(edge_type, node), meta["reverse"]
            self.lists[edge_type, node] = []
            self.edges[edge_type].live -= len(gone)
            for other in {entry.source for entry in gone} if reverse is not None else ():
                self._remove(reverse, other, node, None)
        self.nodes[owner].live -= 1
        self.dead[owner].add(node)

    def _remove(self, edge_type: int, node: int, source: int, edge_id: int | None) -> int:
        before = self.neighbors(edge_type, node)
        kept = [e for e in before if e.source != source or edge_id not in (None, e.edge_id)]
        self.lists[edge_type, node] = kept
        self.edges[edge_type].live -= len(before) - len(kept)
        return len(before) - len(kept)

    def _insert(self, edge_type: int, node: int, entry: Entry) -> None:
        found, meta = self.neighbors(edge_type, node), self.edge_types[edge_type]
        place = len(found)
        while meta["has_time"] and place and found[place - 1].time > entry.time:
            place -= 1
        self.lists[edge_type, node] = [*found[:place], entry, *found[place:]]
        self.edges[edge_type].live += 1

    def _both(self, edge_type: int, destination: int, entry: Entry) -> list[tuple[int, int, Entry]]:
        """The entry, and that of the reverse."""
        reverse = self.edge_types[edge_type]["reverse"]
        ends = [(edge_type, destination, entry)]
        if reverse is not None and not (reverse == edge_type and destination == entry.source):
            ends.append((reverse, entry.source, entry._replace(source=destination)))
        return ends

    def _add_edge(self, numbers: Numbers, edge_type: int) -> None:
        source_type, destination_type = self._ends(edge_type)
        meta = self.edge_types[edge_type]
        destination, source, edge_id = (numbers.number() for _ in range(3))
        zigzag, bits = numbers.number(), numbers.number(1 << 32)
        time = (zigzag >> 1 ^ -(zigzag & 1)) if meta["has_time"] else 0
        (weight,) = struct.unpack("<f", bits.to_bytes(4, "big")) if meta["has_weight"] else (0.0,)
        self._check_node(source_type, source)
        self._check_node(destination_type, destination)
        entry = Entry(source, edge_id, time, weight)
        found = [e for e in self.neighbors(edge_type, destination) if e.source == source]
        if meta["unique"] and found:
            ensure(found[0].edge_id == edge_id, f"edge id {edge_id} of an edge that has another")
            for owner, node, new in self._both(edge_type, destination, entry):
                self._replace(owner, node, new)
            return
        wanted = self.edges[edge_type].ids if meta["has_edge_ids"] else 0
        ensure(edge_id == wanted, f"edge id {edge_id} where {wanted} is next")
        if meta["has_edge_ids"]:
            for owner in {edge_type, meta["reverse"]} - {None}:
                self.edges[owner].ids = edge_id + 1
                self._clear_rows("edge", owner, edge_id)
        for owner, node, new in self._both(edge_type, destination, entry):
            self._insert(owner, node, new)

    def _replace(self, edge_type: int, node: int, entry: Entry) -> None:
        found = self.neighbors(edge_type, node)
        place = next(i for i, old in enumerate(found) if old.source == entry.source)
        if found[place].time == entry.time:
            self.lists[edge_type, node] = [*found[:place], entry, *found[place + 1 :]]
        else:
            self._remove(edge_type, node, entry.source, None)
            self._insert(edge_type, node, entry)

    def _delete_edges(self, numbers: Numbers, edge_type: int) -> None:
        self._delete(numbers, edge_type, False)

    def _delete_one_edge(self, numbers: Numbers, edge_type: int) -> None:
        self._delete(numbers, edge_type, True)

    def _delete(self, numbers: Numbers, edge_type: int, one: bool) -> None:
        self._ends(edge_type)
        destination, source = numbers.number(), numbers.number()
        edge_id = numbers.number() if one else None
        entry = Entry(source, 0, 0, 0.0)
        for at, (owner, node, gone) in enumerate(self._both(edge_type, destination, entry)):
            removed = self._remove(owner, node, gone.source, edge_id)
            ensure(at > 0 or removed > 0, f"there is no edge {source} -> {destination}")

    def _set_node_row(self, numbers: Numbers, owner: int) -> None:
        self._set_row(numbers, "node", owner)

    def _set_edge_row(self, numbers: Numbers, owner: int) -> None:
        self._set_row(numbers, "edge", owner)

    def _set_row(self, numbers: Numbers, kind: str, owner: int) -> None:
        place, number, length = numbers.number(1 << 16), numbers.number(), numbers.number()
        tensor, row = self._tensor(kind, owner, place), numbers.take(length)
        fits = tensor.entries is None and length == tensor.row_bytes
        ensure(fits, f"a row of {length} bytes for {tensor.meta['name']}")
        if kind == "node":
            self._check_node(owner, number)
        else:
            ensure(number < self.edges[owner].ids, f"edge id {number} was never given out")
        self.rows[kind, owner, place, number] = row
