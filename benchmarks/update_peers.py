"""The same updates in neargraph, RocksDB and SQLite, behind one face.

Peers keep one key per edge and direction (node, number of the edge) -> other end, and one per row;
so lists keep their order and parallel edges stay apart.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from update_traces import WIDTH, Batch, rows_of

CACHE_BYTES = 256_000_000


def preloaded(name: str) -> int:
    """A counter of sync_time.c, if it is in this process; else 0."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return 0
    function.restype = ctypes.c_longlong
    return int(function())


class Neargraph:
    """This project."""

    def __init__(self, path: Path) -> None:
        self.path = path / "graph.ng"
        self.store: Any = None

    def build(self, nodes: int, edges: np.ndarray | None) -> None:
        """An initial graph: `nodes` nodes with rows, `edges` [n, 2]."""
        from neargraph import _core

        importer = _core.Importer(str(self.path), overwrite=True)
        node = importer.node_type("node", nodes)
        kind = importer.edge_type("node", "edge", "node", undirected=True)
        if edges is not None:
            importer.push_edges(kind, *(np.ascontiguousarray(end) for end in edges.T))
        x = importer.begin_tensor("node", node, "x", "f32", [WIDTH])
        importer.build_topology()
        for first in range(0, nodes, 1 << 16):
            count = min(1 << 16, nodes - first)
            importer.push_rows(x, np.zeros((count, WIDTH), np.float32))
        importer.finish()

    def open(self) -> None:
        import neargraph as ng

        self.store = ng.open(self.path, memory=2 * CACHE_BYTES)

    def apply(self, batch: Batch, step: int) -> None:
        with self.store.write() as write:
            if batch.added:
                write.add_nodes("node", count=batch.added)
            if batch.row_ids:
                write.update_features("node", batch.row_ids, "x", rows_of(batch.row_ids, step))
            if batch.edges:
                ends = np.asarray(batch.edges, np.int64)
                write.add_edges(None, ends[:, 0], ends[:, 1])
            for node in batch.deleted:
                write.delete_node("node", node)

    def finish(self) -> None:
        """All that was written is in its place."""
        self.store.checkpoint()

    def compact(self) -> None:
        self.store.compact()

    def sync_seconds(self) -> float:
        stats = self.store.update_stats()
        return stats["sync_us"] / 1e6 if stats else 0.0

    def read(self, nodes: list[int]) -> int:
        """GetNeighbors and GetEmbed of `nodes`; returns how many neighbours there were."""
        snapshot = self.store.snapshot()
        found = 0
        for first in range(0, len(nodes), 1000):
            some = nodes[first : first + 1000]
            found += len(snapshot.neighbors(None, some).indices)
            snapshot.features("node", some, "x")
        return found

    def neighbors(self, node: int) -> list[int]:
        return self.store.snapshot().neighbors(None, [node]).indices.tolist()

    def close(self) -> None:
        self.store.close()


class RocksDB:
    """RocksDB by rocksdict."""

    def __init__(self, path: Path) -> None:
        self.path = path / "rocksdb"
        self.edge_number = 0

    def _options(self) -> Any:
        from rocksdict import BlockBasedOptions, Cache, Options

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        table = BlockBasedOptions()
        table.set_block_cache(Cache(CACHE_BYTES))
        options.set_block_based_table_factory(table)
        return options

    def build(self, nodes: int, edges: np.ndarray | None) -> None:
        import shutil

        from rocksdict import Transaction

        shutil.rmtree(self.path, ignore_errors=True)
        self.open()
        batch = Transaction(raw_mode=True)
        row = bytes(4 * WIDTH)
        for node in range(nodes):
            batch.put(b"x" + node.to_bytes(8, "big"), row)
            if node % 10_000 == 9_999:
                self.db.write(batch)
                batch = Transaction(raw_mode=True)
        for place, (a, b) in enumerate(edges.tolist() if edges is not None else []):
            self._put_edge(batch, a, b)
            if place % 10_000 == 9_999:
                self.db.write(batch)
                batch = Transaction(raw_mode=True)
        self.db.write(batch)
        self.finish()
        self.compact()
        self.close()

    def open(self) -> None:
        from rocksdict import Rdict, WriteOptions

        self.db = Rdict(str(self.path), self._options())
        self.synced = WriteOptions()
        self.synced.sync = True

    def _put_edge(self, batch: Any, a: int, b: int) -> None:
        number = self.edge_number.to_bytes(8, "big")
        self.edge_number += 1
        first, second = a.to_bytes(8, "big"), b.to_bytes(8, "big")
        batch.put(b"e" + first + number, second)
        batch.put(b"e" + second + number, first)

    def _edges(self, node: bytes) -> Iterator[tuple[bytes, bytes]]:
        prefix = b"e" + node
        iterator = self.db.iter()
        iterator.seek(prefix)
        while iterator.valid():
            key = iterator.key()
            if not key.startswith(prefix):
                break
            yield key[9:], iterator.value()
            iterator.next()

    def apply(self, batch: Batch, step: int) -> None:
        from rocksdict import Transaction

        write = Transaction(raw_mode=True)
        if batch.row_ids:
            rows = rows_of(batch.row_ids, step)
            for node, row in zip(batch.row_ids, rows, strict=True):
                write.put(b"x" + node.to_bytes(8, "big"), row.tobytes())
        first_number = self.edge_number
        for a, b in batch.edges:
            self._put_edge(write, a, b)
        for node in batch.deleted:
            key = node.to_bytes(8, "big")
            ends = list(self._edges(key))
            for place, (a, b) in enumerate(batch.edges):
                if node in (a, b):
                    other = b if node == a else a
                    number = (first_number + place).to_bytes(8, "big")
                    ends.append((number, other.to_bytes(8, "big")))
            for number, other in ends:
                write.delete(b"e" + key + number)
                write.delete(b"e" + other + number)
            write.delete(b"x" + key)
        self.db.write(write, self.synced)

    def finish(self) -> None:
        self.db.flush()

    def compact(self) -> None:
        self.db.compact_range(None, None)

    def sync_seconds(self) -> float:
        return preloaded("sync_nanoseconds") / 1e9

    def read(self, nodes: list[int]) -> int:
        found = 0
        for first in range(0, len(nodes), 1000):
            some = [node.to_bytes(8, "big") for node in nodes[first : first + 1000]]
            found += sum(sum(1 for _ in self._edges(key)) for key in some)
            self.db.get([b"x" + key for key in some])
        return found

    def neighbors(self, node: int) -> list[int]:
        edges = self._edges(node.to_bytes(8, "big"))
        return [int.from_bytes(other, "big") for _, other in edges]

    def close(self) -> None:
        self.db.close()


class SQLite:
    """SQLite: tables WITHOUT ROWID, write-ahead log, synchronous=FULL."""

    def __init__(self, path: Path) -> None:
        self.path = path / "sqlite.db"
        self.edge_number = 0

    def build(self, nodes: int, edges: np.ndarray | None) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self.open()
        db = self.db
        db.execute(
            "create table edge (node integer, number integer, other integer, "
            "primary key (node, number)) without rowid"
        )
        db.execute("create table row (node integer primary key, x blob) without rowid")
        row = bytes(4 * WIDTH)
        db.execute("begin")
        db.executemany("insert into row values (?, ?)", ((node, row) for node in range(nodes)))
        if edges is not None:
            numbers = np.arange(len(edges))
            both = np.concatenate([edges, edges[:, ::-1]])
            table = np.column_stack([both[:, 0], np.tile(numbers, 2), both[:, 1]])
            table = table[np.lexsort((table[:, 1], table[:, 0]))]
            db.executemany("insert into edge values (?, ?, ?)", map(tuple, table.tolist()))
            self.edge_number = len(edges)
        db.execute("commit")
        self.finish()
        self.close()

    def open(self) -> None:
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute("pragma synchronous = full")
        self.db.execute(f"pragma cache_size = -{2 * CACHE_BYTES // 1000}")

    def apply(self, batch: Batch, step: int) -> None:
        db = self.db
        db.execute("begin")
        if batch.row_ids:
            rows = rows_of(batch.row_ids, step)
            pairs = zip(batch.row_ids, (row.tobytes() for row in rows), strict=True)
            db.executemany("insert or replace into row values (?, ?)", pairs)
        if batch.edges:
            entries = []
            for a, b in batch.edges:
                entries.append((a, self.edge_number, b))
                if a != b:
                    entries.append((b, self.edge_number, a))
                self.edge_number += 1
            db.executemany("insert into edge values (?, ?, ?)", entries)
        for node in batch.deleted:
            ends = db.execute("select other, number from edge where node = ?", (node,)).fetchall()
            db.executemany("delete from edge where node = ? and number = ?", ends)
            db.execute("delete from edge where node = ?", (node,))
            db.execute("delete from row where node = ?", (node,))
        db.execute("commit")

    def finish(self) -> None:
        self.db.execute("pragma wal_checkpoint(truncate)")

    def compact(self) -> None:
        self.db.execute("vacuum")
        self.finish()

    def sync_seconds(self) -> float:
        return preloaded("sync_nanoseconds") / 1e9

    def read(self, nodes: list[int]) -> int:
        found = 0
        for node in nodes:
            found += len(self.neighbors(node))
            self.db.execute("select x from row where node = ?", (node,)).fetchone()
        return found

    def neighbors(self, node: int) -> list[int]:
        query = "select other from edge where node = ? order by number"
        return [other for (other,) in self.db.execute(query, (node,))]

    def close(self) -> None:
        self.db.close()


PEERS = {"neargraph": Neargraph, "rocksdb": RocksDB, "sqlite": SQLite}
