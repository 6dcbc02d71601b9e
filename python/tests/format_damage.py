"""Stores that break one rule of docs/reference/format.md, with all checksums right.

A `Files` is a store in memory. After a change `seal` makes every checksum right again, from the
pages up to the root slots, so that the rule alone stands between the damage and a reader. What is
too broken to follow is left as it is. Nothing of neargraph is imported here.
"""

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from format_epochs import PIECE
from format_log import chain
from format_reader import BLOCK, NOWHERE, Checkpoint, crc32c

Catalog = dict[str, Any]


class Files:
    """The files of a store, and its catalog."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        files = (path for path in directory.iterdir() if path.is_file())
        self.bytes = {path.name: bytearray(path.read_bytes()) for path in files}
        self.checkpoint = Checkpoint(directory)
        size = int.from_bytes(self.bytes["root.a"][16:24], "little")
        self.catalog: Catalog = json.loads(self.bytes["root.a"][BLOCK : BLOCK + size])
        self.version = self.bytes["root.a"][8]

    def segment(self, number: int) -> Catalog:
        """The meta of a segment."""
        return self.catalog["segments"][number]

    def number(self, name: str) -> int:
        """The segment of that name."""
        return [meta["name"] for meta in self.catalog["segments"]].index(name)

    def at(self, name: str, page: int) -> int:
        """Where a page is in its data file."""
        pages = self.checkpoint.segments[self.number(name)]
        place = pages.place(page)
        assert place is not None
        return place[0] * pages.meta["page_bytes"]

    def poke(self, file: str, offset: int, value: bytes) -> None:
        """Overwrites bytes."""
        assert offset + len(value) <= len(self.bytes[file])
        self.bytes[file][offset : offset + len(value)] = value

    def poke_page(self, name: str, page: int, offset: int, value: bytes) -> None:
        """Overwrites bytes of a page."""
        self.poke(f"{name}.dat", self.at(name, page) + offset, value)

    def table(self, name: str, kind: int) -> int:
        """Where the last block of a kind is in the table of a segment, of those in use."""
        meta = self.segment(self.number(name))
        blocks = self.bytes[f"{name}.map"]
        inner = meta["table"][0]["block"]
        if kind == 2:
            return inner * BLOCK
        leaf = int.from_bytes(blocks[inner * BLOCK + 16 :][:8], "little")
        if blocks[leaf * BLOCK + 2] == kind:
            return leaf * BLOCK
        assert (blocks[leaf * BLOCK + 2], kind) == (3, 1)
        return int.from_bytes(blocks[leaf * BLOCK + 32 :][:8], "little") * BLOCK

    # Checksums

    def seal(self) -> None:
        """Makes every checksum right."""
        for meta in self.catalog["segments"]:
            with contextlib.suppress(KeyError, IndexError, TypeError, ValueError, struct.error):
                self._seal_segment(meta)
        self.seal_roots(json.dumps(self.catalog).encode())

    def seal_roots(self, body: bytes) -> None:
        """Writes a catalog into both slots."""
        for name in ("root.a", "root.b"):
            self.seal_root(name, body)

    def seal_root(self, name: str, body: bytes, length: int | None = None) -> None:
        """Writes a catalog into a slot."""
        header = self.bytes[name][:BLOCK]
        struct.pack_into("<I", header, 8, self.version)
        struct.pack_into("<Q", header, 16, len(body) if length is None else length)
        struct.pack_into("<I", header, 40, crc32c(body))
        struct.pack_into("<I", header, 44, crc32c(header[:44]))
        self.bytes[name] = header + body + bytes(-len(body) % BLOCK)

    def _seal_segment(self, meta: Catalog) -> None:
        table, data = self.bytes[f"{meta['name']}.map"], self.bytes[f"{meta['name']}.dat"]
        per_page = meta["page_bytes"] // BLOCK
        for pointer in meta["table"]:
            inner = pointer["block"] * BLOCK
            for at in self._pointers(table, inner + 16, inner, 12):
                leaf = int.from_bytes(table[at : at + 8], "little") * BLOCK
                if table[leaf + 2] == 3:
                    for child in range(leaf + 32, leaf + 80, 12):
                        self._seal_child(table, data, child, per_page)
                else:
                    first, _, count = struct.unpack_from("<QII", table, leaf + 16)
                    for block in range(min(count * per_page, 1016)):
                        _put_crc(table, leaf + 32 + 4 * block, data, first * per_page + block)
                _put_crc(table, at + 8, table, leaf // BLOCK)
            pointer["crc"] = crc32c(table[inner : inner + BLOCK])

    def _pointers(self, table: bytearray, at: int, inner: int, width: int) -> Iterator[int]:
        for _ in range(min(340, int.from_bytes(table[inner + 12 : inner + 16], "little"))):
            if int.from_bytes(table[at : at + 8], "little") * BLOCK < len(table):
                yield at
            at += width

    def _seal_child(self, table: bytearray, data: bytearray, pointer: int, per_page: int) -> None:
        child = int.from_bytes(table[pointer : pointer + 8], "little") * BLOCK
        if child >= len(table):
            return
        width = 12 + 4 * per_page
        for at in range(child + 32, child + BLOCK - width, width):
            physical = int.from_bytes(table[at : at + 8], "little")
            if physical != NOWHERE and any(table[at : at + width]):
                for block in range(per_page):
                    _put_crc(table, at + 12 + 4 * block, data, physical * per_page + block)
        _put_crc(table, pointer + 8, table, child // BLOCK)

    def save(self, directory: Path) -> Path:
        """Writes the files to a new directory."""
        directory.mkdir()
        for name, data in self.bytes.items():
            (directory / name).write_bytes(data)
        return directory

    # The log

    def append_record(self, ops: bytes, lsn_ahead: int = 1, **fields: int) -> None:
        """Puts a record where the root says that the next one is, and nothing behind it."""
        log, root = self.catalog["log"], self.checkpoint.root
        file = "wal.a" if log["file"] == 0 else "wal.b"
        for name in ("wal.a", "wal.b"):
            self.bytes[name] = bytearray(len(self.bytes[name]))
        given = {"length": len(ops), "file_bytes": len(self.bytes[file]), **fields}
        before = given.get("chain", root.fingerprint)
        joined = struct.pack("<QQQ", given["length"], given["file_bytes"], before) + ops
        lsn = root.lsn + lsn_ahead
        count = given.get("blocks", -(-len(joined) // (BLOCK - 32)))
        for index in range(count):
            part = joined[index * (BLOCK - 32) :][: BLOCK - 32].ljust(BLOCK - 32, b"\0")
            block = struct.pack("<QQII", lsn, given.get("group", lsn), index, count) + part
            block = b"LG\0\0" + crc32c(block).to_bytes(4, "little") + block
            self.poke(file, log["offset"] + index * BLOCK, block)

    def chain_after(self, ops: bytes) -> int:
        """The chain behind the record of the next commit."""
        return chain(self.checkpoint.root.fingerprint, self.checkpoint.root.lsn + 1, ops)


def _put_crc(table: bytearray, at: int, data: bytearray, block: int) -> None:
    found = data[block * BLOCK : (block + 1) * BLOCK]
    if len(found) == BLOCK:
        struct.pack_into("<I", table, at, crc32c(found))


def pieces_crc(data: bytes | bytearray) -> int:
    """The checksum of a record, or of hot rows."""
    pieces = [crc32c(data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
    return crc32c(b"".join(piece.to_bytes(4, "little") for piece in pieces))


class EpochBytes:
    """A compiled epoch that breaks one rule of docs/reference/compiled.md, with sound checksums."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.tail = len(data) - BLOCK
        self.index, self.batches = struct.unpack_from("<QQ", data, self.tail + 16)
        length = int.from_bytes(data[12:16], "little")
        self.text_end = 32 + length
        self.maps = -(-self.text_end // BLOCK) * BLOCK
        self.record, self.record_bytes = struct.unpack_from("<QQ", data, self.index)
        tables = json.loads(data[32 : self.text_end])["tables"]
        sizes = sum(-(-table["rows"] // 64) * 8 for table in tables)
        self.hot = self.maps + -(-sizes // BLOCK) * BLOCK

    def set_text(self, text: bytes) -> None:
        """Another text of the same blocks."""
        assert len(text) <= self.maps - 32
        struct.pack_into("<II", self.data, 12, len(text), crc32c(text))
        self.data[32 : self.maps] = text + bytes(self.maps - 32 - len(text))

    def seal(self) -> bytes:
        """Makes the checksums of hot rows, first record, index, head and tail right."""
        self.seal_hot_rows()
        record = self.data[self.record : self.record + self.record_bytes]
        struct.pack_into("<I", self.data, self.index + 16, pieces_crc(record))
        entries = self.data[self.index : self.index + 24 * self.batches]
        struct.pack_into("<I", self.data, self.tail + 12, crc32c(entries))
        struct.pack_into("<I", self.data, self.tail + 56, crc32c(self.data[:32]))
        self.seal_tail()
        return bytes(self.data)

    def seal_hot_rows(self) -> None:
        """Makes the checksum of the hot rows right, but not that of the tail."""
        rows = self.data[self.hot : self.record]
        struct.pack_into("<I", self.data, self.tail + 60, pieces_crc(rows) if rows else 0)

    def seal_tail(self) -> None:
        crc = crc32c(self.data[self.tail : self.tail + BLOCK - 4])
        struct.pack_into("<I", self.data, self.tail + BLOCK - 4, crc)
