"""A reader of stores, written from docs/reference/format.md with the standard library and NumPy.

It is the other opinion that `test_format_document.py` compares neargraph with, so nothing of
neargraph is imported here. It reads whole files and keeps what it has checked: it is meant for
small stores. The log is in `format_log.py`, batches in `format_batches.py`, compiled epochs in
`format_epochs.py`.
"""

import itertools
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from format_catalog import (
    DTYPE_BYTES,
    Catalog,
    Damaged,
    check_catalog,
    columns_of,
    ensure,
    order_bytes,
    parse_catalog,
    rows_layout,
    sparse_entry_bytes,
)

VERSION = 5
BLOCK = 4096
NOWHERE = 2**64 - 1


class NewerVersion(Exception):
    """A root slot of a version that this reader does not know."""


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """The Castagnoli CRC of some bytes."""
    return _crc32c(bytes(data))


@lru_cache(maxsize=64)
def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc_of_blocks(data: bytes) -> Any:
    """The CRC of each whole block, [blocks]: byte after byte, all blocks at a time."""
    blocks = np.frombuffer(data[: len(data) // BLOCK * BLOCK], np.uint8).reshape(-1, BLOCK)
    if len(blocks) < 24:
        return np.array([crc32c(block.tobytes()) for block in blocks], np.uint32)
    table, columns = np.array(CRC_TABLE, np.uint32), np.ascontiguousarray(blocks.T)
    crc = np.full(len(blocks), 0xFFFFFFFF, np.uint32)
    for column in columns:
        crc = table[(crc ^ column) & 255] ^ crc >> 8
    return crc ^ np.uint32(0xFFFFFFFF)


def fnv1a(data: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


class Root(NamedTuple):
    """A valid root slot."""

    header: bytes
    checkpoint_id: int
    lsn: int
    catalog: Catalog
    fingerprint: int


def read_slot(path: Path) -> Root | None:
    """Section 4: one slot, None where there is no file."""
    if not path.exists():
        return None
    data = path.read_bytes()
    ensure(len(data) >= BLOCK and data[:8] == b"NGRAPH\0\0", f"{path.name}: no magic")
    version, length, body_bytes, checkpoint_id, lsn, body_crc = struct.unpack_from(
        "<IIQQQI", data, 8
    )
    ensure(crc32c(data[:44]) == int.from_bytes(data[44:48], "little"), f"{path.name}: header")
    if version > VERSION:
        raise NewerVersion(f"{path.name} has version {version}, this reader knows {VERSION}")
    ensure(length == BLOCK and body_bytes <= 64 << 20, f"{path.name}: header length")
    ensure(len(data) >= BLOCK + -(-body_bytes // BLOCK) * BLOCK, f"{path.name}: catalog cut off")
    body = data[BLOCK : BLOCK + body_bytes]
    ensure(crc32c(body) == body_crc, f"{path.name}: checksum of the catalog")
    catalog = parse_catalog(body)
    check_catalog(catalog, version)
    log = catalog.get("log")
    fingerprint = log["chain"] if log and lsn else fnv1a(data[:44] + body)
    return Root(data[:44], checkpoint_id, lsn, catalog, fingerprint)


def read_root(directory: Path) -> Root:
    """Section 4: the slot that counts."""
    slots, damage = [], []
    for name in ("root.a", "root.b"):
        try:
            slots.append(read_slot(directory / name))
        except Damaged as error:
            damage.append(error)
    valid = [slot for slot in slots if slot is not None]
    if not valid:
        raise Damaged("; ".join(map(str, damage)) or "not a store: both root slots are missing")
    if len(valid) == 2 and valid[0].checkpoint_id == valid[1].checkpoint_id:
        ensure(valid[0] == valid[1], "two root slots of one checkpoint differ")
    return max(valid, key=lambda slot: slot.checkpoint_id)


class Pages:
    """A segment: section 5. `page` checks the way to a page, and every block of it."""

    def __init__(self, directory: Path, number: int, meta: dict[str, Any]) -> None:
        self.number, self.meta = number, meta
        self.per_page = meta["page_bytes"] // BLOCK
        self.per_leaf = 1016 // self.per_page
        self.physical_pages = meta.get("physical_pages", meta["num_pages"])
        self.data = (directory / f"{meta['name']}.dat").read_bytes()
        self.table = (directory / f"{meta['name']}.map").read_bytes()
        ensure(len(self.data) >= self.physical_pages * meta["page_bytes"], f"{self} is cut")
        ensure(len(self.table) >= meta["map_blocks"] * BLOCK, f"the table of {self} is cut")
        self.crcs: Any = None
        self.leaves: dict[int, list[tuple[int, bytes] | None]] = {}

    def __str__(self) -> str:
        return f"segment {self.meta['name']}"

    def page(self, logical: int) -> bytes:
        """The bytes of a logical page."""
        place = self.place(logical)
        ensure(place is not None, f"{self}: page {logical} has no place")
        physical, crcs = place
        if self.crcs is None:
            self.crcs = crc_of_blocks(self.data)
        first = physical * self.per_page
        found = self.crcs[first : first + self.per_page].astype("<u4").tobytes()
        ensure(found == crcs, f"{self}: checksum of page {logical}")
        return self.data[first * BLOCK : (first + self.per_page) * BLOCK]

    def place(self, logical: int) -> tuple[int, bytes] | None:
        """The physical page and the checksums of a logical one."""
        ensure(logical < self.meta["num_pages"], f"{self}: page {logical} is past the end")
        leaf = logical // self.per_leaf
        if leaf not in self.leaves:
            self.leaves[leaf] = self._leaf(leaf)
        pages = self.leaves[leaf]
        return pages[logical % self.per_leaf] if logical % self.per_leaf < len(pages) else None

    def _block(self, number: int, crc: int) -> bytes:
        ensure(number < self.meta["map_blocks"], f"{self}: table block {number} is past the end")
        block = self.table[number * BLOCK : (number + 1) * BLOCK]
        ensure(crc32c(block) == crc, f"{self}: checksum of table block {number}")
        ensure(block[:2] == b"PT" and block[3] == 0, f"{self}: table block {number}")
        ensure(block[4:8] == self.number.to_bytes(4, "little"), f"{self}: of another segment")
        return block

    def _pointer(self, block: bytes, at: int) -> tuple[int, int] | None:
        target, crc = struct.unpack_from("<QI", block, at)
        if target == NOWHERE:
            ensure(crc == 0, f"{self}: a pointer to nothing with a checksum")
            return None
        ensure(target < self.meta["map_blocks"], f"{self}: a pointer past the end")
        return target, crc

    def _leaf(self, leaf: int) -> list[tuple[int, bytes] | None]:
        """What the leaf says of each page that it covers."""
        num_leaves = -(-self.meta["num_pages"] // self.per_leaf)
        inner, in_inner = divmod(leaf, 340)
        pointer = self.meta["table"][inner]
        block = self._block(pointer["block"], pointer["crc"])
        count = min(340, num_leaves - inner * 340)
        ensure(block[2] == 2, f"{self}: not an inner block")
        ensure(struct.unpack_from("<II", block, 8) == (inner, count), f"{self}: inner block")
        zero(block[16 + 12 * count :], f"{self}: inner block")
        pointers = [self._pointer(block, 16 + 12 * i) for i in range(count)]
        found = pointers[in_inner]
        if found is None:
            return []
        first = leaf * self.per_leaf
        covered = min(self.per_leaf, self.meta["num_pages"] - first)
        block = self._block(*found)
        ensure(int.from_bytes(block[8:16], "little") == first, f"{self}: leaf of other pages")
        if block[2] == 0:
            return self._run(block, covered)
        ensure(block[2] == 3, f"{self}: not a leaf")
        return self._fan(block, first, covered)

    def _run(self, block: bytes, covered: int) -> list[tuple[int, bytes] | None]:
        physical, _, count = struct.unpack_from("<QII", block, 16)
        ensure(0 < count <= covered, f"{self}: a run of {count} pages")
        ensure(physical + count <= self.physical_pages, f"{self}: a run past the end")
        width = 4 * self.per_page
        zero(block[32 + width * count :], f"{self}: run")
        return [(physical + i, block[32 + width * i : 32 + width * (i + 1)]) for i in range(count)]

    def _fan(self, block: bytes, first: int, covered: int) -> list[tuple[int, bytes] | None]:
        zero(block[16:32] + block[80:], f"{self}: fan")
        each, width = -(-self.per_leaf // 4), 12 + 4 * self.per_page
        pages: list[tuple[int, bytes] | None] = []
        for child in range(4):
            pointer = self._pointer(block, 32 + 12 * child)
            if pointer is None:
                pages += [None] * each
                continue
            entries = self._block(*pointer)
            start = int.from_bytes(entries[8:16], "little")
            ensure(entries[2] == 1 and start == first + child * each, f"{self}: entries")
            zero(entries[16:32] + entries[32 + width * each :], f"{self}: entries")
            for at in range(32, 32 + width * each, width):
                physical = int.from_bytes(entries[at : at + 8], "little")
                if physical == NOWHERE:
                    zero(entries[at + 8 : at + width], f"{self}: an entry without a place")
                    pages.append(None)
                    continue
                ensure(physical < self.physical_pages, f"{self}: an entry past the end")
                pages.append((physical, entries[at + 12 : at + width]))
        ensure(not any(pages[covered:]), f"{self}: an entry of a page that does not exist")
        return pages[:covered]


def zero(data: bytes, what: str) -> None:
    """Invariant 2."""
    ensure(not any(data), f"{what}: padding is not 0")


class Tree:
    """Section 6: records of 8-byte numbers in pages of an index segment."""

    def __init__(self, pages: Pages, kind: int, root: dict[str, int] | None) -> None:
        self.pages, self.kind, self.root = pages, kind, root

    def _records(self, page: int, level: int, largest: int | None) -> list[tuple[int, ...]]:
        block = self.pages.page(page)
        ensure(block[:2] == b"TR", f"{self.pages}: page {page} is not of a tree")
        ensure(block[2:4] == bytes([self.kind, level]), f"{self.pages}: tree page {page}")
        count = int.from_bytes(block[4:6], "little")
        width = 24 if self.kind == 1 and level == 0 else 16
        ensure(count > 0 and 16 + count * width <= BLOCK, f"{self.pages}: {count} records")
        records = list(struct.iter_unpack("<" + "Q" * (width // 8), block[16 : 16 + count * width]))
        wanted = largest in (None, records[-1][0])
        ensure(wanted, f"{self.pages}: the largest key of page {page} differs from above")
        return records

    def find(self, key: int) -> tuple[int, ...] | None:
        """The first record whose key is at least `key`."""
        if self.root is None:
            return None
        page, largest = self.root["page"], None
        for level in range(self.root["level"], -1, -1):
            records = self._records(page, level, largest)
            record = next((r for r in records if r[0] >= key), None)
            if record is None:
                return None
            largest, page = record[0], record[1]
        return record

    def leaves(self) -> Iterator[tuple[int, ...]]:
        """All records of the leaves."""

        def walk(page: int, level: int, largest: int | None) -> Iterator[tuple[int, ...]]:
            for record in self._records(page, level, largest):
                yield from [record] if level == 0 else walk(record[1], level - 1, record[0])

        if self.root is not None:
            yield from walk(self.root["page"], self.root["level"], None)


def bitmap_has(directory: Tree, node: int) -> bool:
    """Whether the bit of a node is set."""
    record = directory.find(node // 32768)
    if record is None or record[0] != node // 32768:
        return False
    return bool(directory.pages.page(record[1])[node % 32768 // 8] >> node % 8 & 1)


class Entry(NamedTuple):
    """An entry of a list; a column that the edge type lacks is 0."""

    source: int
    edge_id: int
    time: int
    weight: float


class Topology:
    """The lists of one edge type as the checkpoint has them: section 6."""

    def __init__(self, store: "Checkpoint", number: int, meta: dict[str, Any]) -> None:
        self.number, self.meta, place = number, meta, meta["topology"]
        self.pages, self.index = store.segments[place["pages"]], store.segments[place["index"]]
        self.l_index = Tree(self.index, 0, place["l_root"])
        self.h_index = Tree(self.index, 1, place["h_root"])
        self.gmap = Tree(self.index, 2, place["gmap_root"])
        self.id_width = place["id_width"]
        columns = (meta["has_edge_ids"], meta["has_time"], meta["has_weight"])
        self.flags = sum(1 << bit for bit, has in enumerate(columns) if has)
        widths = [width for width, has in zip((5, 8, 4), columns, strict=True) if has]
        self.entry_bytes = self.id_width + sum(widths)

    def entry(self, raw: bytes) -> Entry:
        """An entry from its bytes."""
        at = self.id_width
        source, edge_id, time, weight = int.from_bytes(raw[:at], "little"), 0, 0, 0.0
        if self.meta["has_edge_ids"]:
            edge_id, at = int.from_bytes(raw[at : at + 5], "little"), at + 5
        if self.meta["has_time"]:
            time, at = int.from_bytes(raw[at : at + 8], "little", signed=True), at + 8
        if self.meta["has_weight"]:
            (weight,) = struct.unpack_from("<f", raw, at)
        return Entry(source, edge_id, time, weight)

    def neighbors(self, node: int) -> list[Entry]:
        """The list of a node, in order."""
        if bitmap_has(self.gmap, node):
            record = self.h_index.find(node)
            found = record is not None and record[0] == node
            ensure(found, f"{self.index}: the gmap has node {node}, the H index does not")
            raw = self._long(node, record[1], record[2] % 2**63)
        else:
            record = self.l_index.find(node)
            raw = b"" if record is None else self._short(node, record[1])
        return [self.entry(raw[at : at + self.entry_bytes]) for at in self._starts(raw)]

    def _starts(self, raw: bytes) -> range:
        return range(0, len(raw), self.entry_bytes)

    def _header(self, page: bytes, kind: int) -> tuple[int, int, int, int]:
        expected = bytes([kind, self.id_width, self.flags, 0])
        ensure(page[:2] == b"TN" and page[2:6] == expected, f"{self.pages}: page header")
        count, first, entries, number, edge_type, rest = struct.unpack_from("<HQIIII", page, 6)
        ensure((edge_type, rest) == (self.number, 0), f"{self.pages}: page of another edge type")
        return count, first, entries, number

    def _short(self, node: int, number: int) -> bytes:
        page = self.pages.page(number)
        count, first, _, _ = self._header(page, 0)
        directory = len(page) - 8 * count
        ensure(count > 0 and directory >= 32, f"{self.pages}: directory of {count} lists")
        for delta, offset, entries in struct.iter_unpack("<IHH", page[directory:]):
            if first + delta == node:
                end = offset + entries * self.entry_bytes
                inside = entries > 0 and offset >= 32 and end <= directory
                ensure(inside, f"{self.pages}: the list of node {node} is out of place")
                return page[offset:end]
        return b""

    def _long(self, node: int, first: int, degree: int) -> bytes:
        width = self.entry_bytes
        in_first, in_other = (BLOCK - 32) // width, BLOCK // width
        in_page = in_first + (self.pages.per_page - 1) * in_other
        num_pages = -(-degree // in_page)
        ensure(first + num_pages <= self.pages.meta["num_pages"], f"{self.pages}: a long list")
        raw = b""
        for part in range(num_pages):
            page = self.pages.page(first + part)
            here = min(in_page, degree - part * in_page)
            _, owner, entries, number = self._header(page, 1)
            ensure((owner, entries, number) == (node, here, part), f"{self.pages}: H-type page")
            for position in range(here):
                block, place = divmod(position - in_first, in_other)
                at = (1 + block) * BLOCK + place * width
                at = 32 + position * width if position < in_first else at
                raw += page[at : at + width]
        return raw


class Tensor:
    """The rows of a tensor as the checkpoint has them: section 7."""

    def __init__(self, store: "Checkpoint", meta: dict[str, Any]) -> None:
        self.meta = meta
        self.pages = store.segments[meta["segment"]]
        self.columns = columns_of(meta)
        self.row_bytes = self.columns * DTYPE_BYTES[meta["dtype"]]
        self.scales = self.entries = None
        if "scales" in meta:
            raw = read_row(store.segments[meta["scales"]], 4 * self.columns, 0)
            self.scales = np.frombuffer(raw, "<f4")
            normal = (self.scales == 0) | (self.scales >= np.float32(2.0**-126))
            ensure(bool((normal & np.isfinite(self.scales)).all()), f"{meta['name']}: a scale")
        if "sparse" in meta:
            self.entries = store.segments[meta["sparse"]["entries"]]
            self.spans: list[tuple[int, int]] = []

    def stored(self, row: int) -> bytes:
        """A row as it is stored; a sparse one with its zeros."""
        if self.entries is None:
            return read_row(self.pages, self.row_bytes, row)
        sparse = self.meta["sparse"]
        span = int.from_bytes(read_row(self.pages, 8, row), "little")
        start, count = span % 2**40, span >> 40
        inside = start + count <= sparse["num_entries"] and count <= self.columns
        ensure(inside, f"{self.meta['name']}: {count} entries from {start}")
        out, last, width = np.zeros(self.columns, "<f4"), -1, sparse["column_bytes"]
        for number in range(start, start + count):
            raw = read_row(self.entries, sparse_entry_bytes(sparse), number)
            column, value = int.from_bytes(raw[:width], "little"), 1.0
            if sparse["value"] == "u8":
                value = float(raw[width])
            if sparse["value"] == "f32":
                (value,) = struct.unpack_from("<f", raw, width)
            ensure(last < column < self.columns, f"{self.meta['name']}: column {column}")
            ensure(value != 0, f"{self.meta['name']}: an entry of value 0")
            out[column], last = value, column
        return out.tobytes()


def read_row(pages: Pages, row_bytes: int, row: int) -> bytes:
    """A row of a segment whose rows have `row_bytes`."""
    _page_bytes, per_page, pages_per_row = rows_layout(row_bytes)
    if per_page:
        at = row % per_page * row_bytes
        return pages.page(row // per_page)[at : at + row_bytes]
    first = row * pages_per_row
    whole = b"".join(pages.page(first + page) for page in range(pages_per_row))
    return whole[:row_bytes]


class Dictionary:
    """The string ids of a node type: section 8."""

    def __init__(self, store: "Checkpoint", meta: dict[str, Any], num_nodes: int) -> None:
        self.num_nodes, self.keys_root = num_nodes, meta["keys_root"]
        self.names, self.keys = store.segments[meta["names"]], store.segments[meta["keys"]]
        self.index = Tree(store.segments[meta["names_index"]], 3, meta["names_root"])

    def _strings(self, pages: Pages, number: int, level: int) -> list[tuple[int, bytes]]:
        page = pages.page(number)
        ensure(page[:4] == bytes([0x53, 0x54, level, 0]), f"{pages}: page {number}")
        count, end, segment = struct.unpack_from("<HHI", page, 4)
        ensure(segment == pages.number, f"{pages}: page of another segment")
        directory = BLOCK - 2 * count
        ensure(count > 0 and 16 <= end <= directory, f"{pages}: directory of page {number}")
        starts = [*struct.unpack_from(f"<{count}H", page, directory), end]
        strings = []
        for start, stop in itertools.pairwise(starts):
            ensure(start >= 16 and start + 8 <= stop, f"{pages}: a string out of place")
            strings.append(
                (int.from_bytes(page[start : start + 8], "little"), page[start + 8 : stop])
            )
        return strings

    def name(self, node: int) -> str:
        """The string of a node."""
        record = self.index.find(node)
        ensure(record is not None, f"{self.names}: node {node} has no name")
        strings = self._strings(self.names, record[1], 0)
        place = node - strings[0][0]
        found = 0 <= place < len(strings) and strings[place][0] == node
        ensure(found, f"{self.names}: node {node} is not where the index says")
        try:
            return strings[place][1].decode()
        except UnicodeDecodeError as error:
            raise Damaged(f"{self.names}: the name of node {node}") from error

    def lookup(self, key: str) -> int | None:
        """The node of a string."""
        wanted, root = key.encode(), self.keys_root
        if root is None:
            return None
        page = root["page"]
        for level in range(root["level"], -1, -1):
            strings = self._strings(self.keys, page, level)
            found = next(((number, text) for number, text in strings if text >= wanted), None)
            if found is None:
                return None
            page = found[0]
        if found[1] != wanted:
            return None
        ensure(found[0] < self.num_nodes, f"{self.keys}: a key of node {found[0]}")
        return found[0]


class Checkpoint:
    """A store as its root has it, without the log."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self.root = read_root(self.directory)
        self.catalog = self.root.catalog
        metas = enumerate(self.catalog["segments"])
        self.segments = [Pages(self.directory, number, meta) for number, meta in metas]
        edges = enumerate(self.catalog["edge_types"])
        self.topologies = [Topology(self, number, meta) for number, meta in edges]
        owners = {"node": self.catalog["node_types"], "edge": self.catalog["edge_types"]}
        self.tensors = {
            (kind, owner, place): Tensor(self, meta)
            for kind, metas in owners.items()
            for owner, owner_meta in enumerate(metas)
            for place, meta in enumerate(owner_meta["tensors"])
        }
        self.dictionaries = [
            Dictionary(self, meta["dictionary"], meta["num_nodes"]) if meta["dictionary"] else None
            for meta in self.catalog["node_types"]
        ]

    def dead(self, node_type: int) -> set[int]:
        """The deleted nodes of a type."""
        meta = self.catalog["node_types"][node_type].get("dead")
        if meta is None:
            return set()
        directory = Tree(self.segments[meta["segment"]], 2, meta["root"])
        found: set[int] = set()
        for block, page in directory.leaves():
            bits = np.frombuffer(directory.pages.page(page), np.uint8)
            places = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            found.update((block * 32768 + places).tolist())
        return found

    def row_of(self, node_type: int, node: int) -> int:
        """The row that belongs to a node."""
        order = self.catalog["node_types"][node_type].get("order")
        if order is None or node >= order["num_nodes"]:
            return node
        raw = read_row(self.segments[order["segment"]], order_bytes(order["num_nodes"]), node)
        row = int.from_bytes(raw, "little")
        ensure(row < order["num_nodes"], f"order of rows: row {row}")
        return row

    def stored(self, kind: str, owner: int, tensor: int, number: int) -> bytes:
        """The stored row of a node or of an edge id."""
        row = self.row_of(owner, number) if kind == "node" else number
        return self.tensors[kind, owner, tensor].stored(row)
