"""Compiled epochs as docs/reference/compiled.md has them.

Nothing of neargraph is imported here.
"""

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from format_reader import BLOCK, Damaged, crc32c, ensure, zero

PIECE = 256 << 10


@dataclass
class Batch:
    """What a record holds; rows by table are those that are not hot."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    rows: list[list[bytes]]


class Epoch:
    """A file of one epoch, checked but for its records."""

    def __init__(self, path: Path | str) -> None:
        self.data = Path(path).read_bytes()
        ensure(len(self.data) >= 2 * BLOCK and len(self.data) % BLOCK == 0, "length")
        at = self._read_head()
        self._read_tail()
        at = self._read_hot_rows(at)
        ensure(self.index_at <= len(self.data) - BLOCK, "the index is cut off")
        index = self.data[self.index_at : len(self.data) - BLOCK]
        entries, rest = index[: 24 * self.num_batches], index[24 * self.num_batches :]
        ensure(len(entries) == 24 * self.num_batches, "the index is cut off")
        ensure(crc32c(entries) == self.index_crc, "checksum of the index")
        zero(rest, "index")
        self.records = list(struct.iter_unpack("<QQII", entries))
        for offset, length, _, reserved in self.records:
            whole = length % BLOCK == 0 and 0 < length <= self.longest and reserved == 0
            ensure(offset == at and whole, f"a record of {length} bytes at {offset}")
            at += length
        ensure(at == self.index_at, "the records do not end where the index begins")

    def _read_head(self) -> int:
        ensure(self.data[:8] == b"ngepoch\0", "no magic")
        version, length, crc, maps_crc = struct.unpack_from("<IIII", self.data, 8)
        ensure(version == 3, f"version {version}")
        end = -(-(32 + length) // BLOCK) * BLOCK
        text = self.data[32 : 32 + length]
        ensure(len(text) == length and crc32c(text) == crc, "checksum of the head")
        zero(self.data[24:32] + self.data[32 + length : end], "head")
        try:
            head = json.loads(text)
        except ValueError as error:
            raise Damaged(f"the head is not JSON: {error}") from error
        named = {"epoch", "first_epoch", "epochs", "key", "tables"}
        ensure(set(head) == named, "members of the head")
        self.epoch, self.key, self.tables = head["epoch"], head["key"], head["tables"]
        self.set = range(head["first_epoch"], head["first_epoch"] + head["epochs"])
        ensure(self.epoch in self.set, "an epoch that its set does not have")
        members = {"kind", "type_id", "index", "row_bytes", "rows"}
        known = (set(t) == members and t["kind"] in ("node", "edge") for t in self.tables)
        ensure(all(known), "members of a table")
        sizes = [-(-table["rows"] // 64) * 8 for table in self.tables]
        maps = self.data[end : end + sum(sizes)]
        ensure(len(maps) == sum(sizes) and crc32c(maps) == maps_crc, "checksum of the maps")
        stop = end + -(-sum(sizes) // BLOCK) * BLOCK
        zero(self.data[end + sum(sizes) : stop], "maps")
        self.hot = []
        for size, table in zip(sizes, self.tables, strict=True):
            bits = np.unpackbits(np.frombuffer(maps[:size], np.uint8), bitorder="little")
            zero(bits[table["rows"] :].tobytes(), "maps")
            self.hot.append(bits[: table["rows"]].astype(bool))
            maps = maps[size:]
        return stop

    def _read_tail(self) -> None:
        tail = self.data[-BLOCK:]
        ensure(tail[:8] == b"ngepoend", "the file is not whole")
        ensure(crc32c(tail[:-4]) == int.from_bytes(tail[-4:], "little"), "checksum of the tail")
        version, self.index_crc = struct.unpack_from("<II", tail, 8)
        numbers = struct.unpack_from("<QQQQQ", tail, 16)
        self.index_at, self.num_batches, self.longest, self.largest, tables = numbers
        ensure(version == 3 and tables == len(self.tables), "tail of another file")
        head_crc, self.hot_crc = struct.unpack_from("<II", tail, 56)
        ensure(crc32c(self.data[:32]) == head_crc, "head of another file")
        zero(tail[64 + 8 * tables : -4], "tail")
        self.rows_max = struct.unpack_from(f"<{tables}Q", tail, 64)

    def _read_hot_rows(self, start: int) -> int:
        self.hot_rows: list[list[bytes]] = []
        at = start
        for table, hot in zip(self.tables, self.hot, strict=True):
            if self.epoch != self.set.start:
                break
            width, count = table["row_bytes"], int(hot.sum())
            end = at + width * count
            stop = -(-end // BLOCK) * BLOCK
            ensure(stop <= self.index_at, "the hot rows are cut off")
            rows = self.data[at:end]
            self.hot_rows.append([rows[i * width : (i + 1) * width] for i in range(count)])
            zero(self.data[end:stop], "hot rows")
            at = stop
        part = self.data[start:at]
        ensure((_pieces_crc(part) if part else 0) == self.hot_crc, "checksum of the hot rows")
        return at

    def batch(self, number: int, node_types: Any, edge_types: Any) -> Batch:
        """Takes a record apart; the types are those of the store's catalog."""
        offset, length, crc, _ = self.records[number]
        data = self.data[offset : offset + length]
        ensure(_pieces_crc(data) == crc, f"checksum of batch {number}")
        return _Record(data).decode(number, self.tables, node_types, edge_types)


def _pieces_crc(data: bytes) -> int:
    pieces = [crc32c(data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
    return crc32c(b"".join(piece.to_bytes(4, "little") for piece in pieces))


class _Record:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def array(self, dtype: str, count: int) -> list[Any]:
        size = count * np.dtype(dtype).itemsize
        ensure(self.at + size <= len(self.data), "a record ends too early")
        self.at += size
        return np.frombuffer(self.data[self.at - size : self.at], dtype).tolist()

    def ids(self, count: int, bound: int) -> list[int]:
        ids = self.array("<u8" if bound > 1 << 32 else "<u4", count)
        ensure(all(number < bound for number in ids), f"a number that is not below {bound}")
        return ids

    def decode(self, number: int, tables: Any, node_types: Any, edge_types: Any) -> Batch:
        head = self.array("<u4", 3)
        ensure(head == [number, len(node_types), len(edge_types)], "a record of another batch")
        nodes, edges = [], []
        for _ in node_types:
            count, hops = self.array("<u4", 2)
            nodes.append({"count": count, "per_hop": self.array("<u4", hops)})
        for _ in edge_types:
            names = ("edges", "counts", "edge_ids", "times", "weights", "hops")
            block = dict(zip(names, self.array("<u4", 6), strict=True))
            edges.append({**block, "per_hop": self.array("<u4", block["hops"])})
        rows = self.array("<u4", len(tables))
        for block, meta in zip(nodes, node_types, strict=True):
            block["n_id"] = self.ids(block["count"], meta["num_nodes"])
        for block, meta in zip(edges, edge_types, strict=True):
            source, destination = nodes[meta["source"]], nodes[meta["destination"]]
            block["rows"] = self.ids(block["edges"], source["count"])
            counts = self.array("<u4", block["counts"])
            fits = len(counts) <= destination["count"] and sum(counts) == block["edges"]
            ensure(fits, "edges of destinations")
            block["cols"] = [i for i, many in enumerate(counts) for _ in range(many)]
            block["e_id"] = self.ids(block["edge_ids"], meta["num_edge_ids"])
            block["time"] = self.array("<i8", block["times"])
            block["weight"] = self.array("<f4", block["weights"])
        cold = []
        for table, count in zip(tables, rows, strict=True):
            zero(self.data[self.at : -(-self.at // 64) * 64], "record")
            self.at = -(-self.at // 64) * 64
            width = table["row_bytes"]
            raw = self.array(f"V{width}", count)
            cold.append([bytes(row) for row in raw])
        zero(self.data[self.at :], "record")
        return Batch(nodes, edges, cold)
