"""The open store: opening, closing, reading, writing and statistics.

No code here reads a file. The compiled core does, without the GIL and within the memory budget.
Invariant: each process opens its own handle. A handle sees the commits made through it; commits of
other handles only as of the last checkpoint.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from neargraph import _core
from neargraph._process import ProcessLocal, workers_of_this_process
from neargraph._room import minimum_of
from neargraph.exceptions import NeargraphError, StoreClosed, UnsupportedArgument
from neargraph.reader import as_ids
from neargraph.reports import (
    BackupReport,
    CatalogInfo,
    CheckpointReport,
    CompactReport,
    DiskRates,
    ReorganizeReport,
    ScrubReport,
    StoreInfo,
    StoreStats,
    UpdateStats,
)
from neargraph.schema import Schema, parse_catalog
from neargraph.snapshot import PygReader, Snapshot
from neargraph.units import format_bytes, parse_bytes
from neargraph.update.tensor import add_tensor
from neargraph.update.transaction import Transaction
from neargraph.update.turn import Turn

Backend = Literal["auto", "uring", "odirect", "pread", "mmap", "memory"]
"""`backend=` of `open`."""

_LOG_FILES = ("wal.a", "wal.b")


class Store(PygReader):
    """An open store. Threads can share it, and it can be sent to worker processes.

    Methods read the newest commit. A snapshot, loader or sampler is pinned to the commit that was
    the newest when it was created. A child process, forked or spawned, opens the store again on
    first use and sees the last checkpoint. Call `checkpoint` first if it must see later commits.
    In a torch DataLoader with n workers, each worker uses 1 / (n + 1) of the memory budget.
    PyG's loaders accept a store as their ``data``, because it unpacks into
    (feature_store, graph_store).

    Args:
        path: The store directory, such as ``"papers.ng"``.
        memory: Budget for caches, buffers and batches together: bytes, or a text such as
            ``"256MB"`` (10^6) or ``"1GiB"`` (2^30). None: a quarter of the machine's memory or of
            the cgroup's limit.
        backend: How bytes are read from the disk. ``"auto"`` takes the fastest one that the
            machine allows. ``"memory"`` loads all topologies and dense tensors once, in the
            background, and keeps them; its default budget is the size of the store plus an eighth
            of the machine's memory. Compiled epochs are read through the same back end.
        queue_depth: Number of reads in flight. None: 64.
        recover: Whether to recover the commits that a crashed writer left in the log. If false,
            the store reads the last checkpoint, even if the log is damaged.
        busy_timeout: Seconds to wait for another writing handle or process before `StoreBusy` is
            raised. Opening and reading never wait for a writer.

    Raises:
        StoreNotFound: `path` does not exist.
        NotAStore: `path` is not a neargraph store.
        NewerVersion: A newer neargraph wrote the store.
        StoreDamaged: Both roots are damaged.
        LogDamaged: Commits of a crashed writer cannot be read, and `recover` is true.
        BudgetTooSmall: `memory` is below the minimum. The message gives the minimum.

    Example:
        >>> with ng.open("cora.ng", memory="256MB") as store:
        ...     print(store.info()["num_nodes"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        memory: str | int | None = None,
        backend: Backend = "auto",
        *,
        queue_depth: int | None = None,
        recover: bool = True,
        busy_timeout: float = 5.0,
    ) -> None:
        wanted = None if memory is None else parse_bytes(memory)
        handle = _core.open_store(
            os.path.abspath(path), wanted, backend, queue_depth, recover, busy_timeout
        )
        self._state = _State(
            path=os.path.abspath(path),
            memory_bytes=handle.memory_bytes,
            backend=backend,
            queue_depth=queue_depth,
            recover=recover,
            busy_timeout=busy_timeout,
        )
        self._closed = False
        self._parsed = ((-1, -1), parse_catalog(handle.snapshot().catalog()))
        self._local: ProcessLocal[_core.Store] = ProcessLocal(self._state.reopen, handle)
        self._turn: ProcessLocal[Turn] = ProcessLocal(Turn)

    # Description

    @property
    def path(self) -> str:
        """The store directory, absolute."""
        return self._state.path

    @property
    def checkpoint_id(self) -> int:
        """The number of the last checkpoint."""
        return self.core.snapshot().checkpoint_id

    @property
    def lsn(self) -> int:
        """The number of the newest commit; 0 if there is none."""
        return self.core.snapshot().lsn

    @property
    def fingerprint(self) -> str:
        """A digest of the content. Stores with equal fingerprints give equal batches."""
        return self.core.snapshot().fingerprint

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def schema(self) -> Schema:
        """Node types, edge types and tensors, with their ids, shapes, dtypes and counts."""
        return self._parsed[1] if self._closed else self.schema_of(self.core.snapshot())

    @property
    def types(self) -> Schema:
        """Types and tensors of the newest version. Counts may be those of an older version."""
        schema = self._parsed[1]
        if self._closed or schema.num_tensors == self.core.snapshot().num_tensors:
            return schema
        return self.schema

    def schema_of(self, handle: _core.Snapshot) -> Schema:
        """Returns the schema of a version. The last one is cached."""
        key, schema = self._parsed
        wanted = (handle.checkpoint_id, handle.lsn)
        if key != wanted:
            schema = parse_catalog(handle.catalog())
            self._parsed = (wanted, schema)
        return schema

    @property
    def read_only_because(self) -> str | None:
        """Why the commits of a crashed writer are in memory only; None if they are not.

        This happens if nothing can be written when the store is opened, because the disk is full
        or read-only. All data can be read. The first transaction tries again to write these
        commits to the store.
        """
        return self.core.read_only_because

    def info(self) -> StoreInfo:
        """Returns the catalog and the state of this handle as plain data.

        `StoreInfo` describes the keys. The list ``node_types`` has an entry for each node type,
        with its tensors; ``edge_types`` and ``reverse_types`` do the same for edges.
        """
        core, snap = self.core, self.snapshot()
        raw = cast(CatalogInfo, snap.schema.raw)
        return {
            **raw,
            "edge_types": [raw["edge_types"][t.index] for t in snap.schema.edge_types],
            "reverse_types": [raw["edge_types"][t.index] for t in snap.schema.reverse_types],
            "path": self.path,
            "num_nodes": snap.num_nodes,
            "num_nodes_live": snap.num_nodes_live,
            "num_edges": snap.num_edges,
            "lsn": snap.lsn,
            "commits_waiting": snap.lsn - snap.version.checkpoint_lsn,
            "commits_recovered": core.recovery()[0],
            "read_only_because": core.read_only_because,
            "log_bytes": sum(_file_bytes(os.path.join(self.path, name)) for name in _LOG_FILES),
            "backend": core.backend,
            "backend_note": core.backend_note,
            "memory_bytes": core.memory_bytes,
            "fingerprint": snap.fingerprint,
        }

    def stats(self) -> StoreStats:
        """Returns the counters of this process since `open` or `reset_stats`.

        `StoreStats` describes the keys, such as ``reads``, ``read_bytes``, ``hit_rate`` and
        ``budget_peak``. Reads of temporary files are counted, too. ``memory`` gives, for each
        consumer of the memory budget, the bytes of its ``share`` and the bytes ``held`` now. A
        share is the most that a consumer may take. Shares add up to more than the budget, because
        not all consumers exist at the same time.
        """
        return cast(StoreStats, self.core.stats())

    @contextmanager
    def log_reads(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Logs every device request of a ``with`` block to a file.

        The file starts with 16 bytes: ``ngreads1`` and zeros. Each request is a record of 16
        bytes: offset (u64), bytes read (u32), number of the file (u32). The highest bit of the
        number is set if the request begins where the previous one ended. Requests to compiled
        epochs and temporary files are not logged.
        """
        self.core.log_reads(os.path.abspath(path))
        try:
            yield
        finally:
            self.core.end_read_log()

    def measure_disk(self) -> DiskRates | None:
        """Measures the read rates of the store's disk and caches them for a day.

        The rates are cached by device and back end, in ``neargraph/`` of the user's cache
        directory. Every look-ahead that is planned from now on starts from them, in this process
        and in others.

        Returns:
            ``reads_per_s`` (random reads of 4 KiB with a full queue) and ``bytes_per_s`` (long
            reads); None if no file of the store has 64 MiB.
        """
        found = self.core.measure_disk()
        return None if found is None else {"reads_per_s": found[0], "bytes_per_s": found[1]}

    def set_disk_rates(self, reads_per_s: float, bytes_per_s: float) -> None:
        """Sets the read rates of the store's disk, instead of measuring them.

        Use it for volumes with guaranteed or limited rates, where a short measurement may see a
        burst. The rates are cached for a day, as by `measure_disk`. Every look-ahead that is
        planned from now on starts from them. One that is running keeps its plan.

        Args:
            reads_per_s: Random reads of 4 KiB a second, with a full queue.
            bytes_per_s: Bytes a second of long reads.

        Raises:
            ValueError: A disk cannot have these rates.

        Example:
            >>> store.set_disk_rates(16_000, 1e9)  # doctest: +SKIP
        """
        self.core.set_disk_rates(reads_per_s, bytes_per_s)

    def reset_stats(self) -> None:
        """Sets the counters to zero."""
        self.core.reset_stats()

    def __repr__(self) -> str:
        if self._closed:
            return f"Store({self.path!r}, closed)"
        return (
            f"Store({self.path!r}, nodes={self.num_nodes:,}, edges={self.num_edges:,}, "
            f"memory={format_bytes(self._state.memory_bytes)}, checkpoint={self.checkpoint_id})"
        )

    # Opening and closing

    @property
    def core(self) -> _core.Store:
        """The compiled handle of this process. It is opened on first use."""
        if self._closed:
            raise StoreClosed(f"{self.path} is closed; open it again with neargraph.open")
        return self._local.get()

    def close(self) -> None:
        """Writes a checkpoint of new commits, and releases memory and file descriptors.

        Arrays that were handed out stay valid. If the checkpoint fails, the store is closed all
        the same. Nothing is lost: the log has all commits, and the next `open` recovers them. A
        store that is garbage-collected without `close` does the same, but reports an error only
        to ``sys.unraisablehook``.

        Raises:
            StoreBusy: A transaction of this thread is open.
            IoFailed: The checkpoint failed.
            StorePoisoned: A write failed before.
        """
        if not self._closed:
            self._turn.get().refuse_own_transaction("close the store")
        self._closed = True
        handle = self._local.take()
        if handle is not None:
            handle.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except NeargraphError as error:
            # The exception of the block says more, and callers catch that one.
            if kind is None:
                raise
            warnings.warn(f"closing {self.path} also failed: {error}", stacklevel=2)

    # Reading and writing

    def snapshot(self) -> Snapshot:
        """Returns a read-only handle on the newest commit. Later commits do not change it."""
        return Snapshot(self, self.core.snapshot())

    def write(self) -> Transaction:
        """Returns a transaction for a ``with`` block. It is durable when the block ends.

        Snapshots created afterwards see its changes. An exception that leaves the block undoes all
        of them. One transaction is open at a time: other threads wait when they enter the block,
        and share the syncs of their commits. The first transaction makes this handle the only
        writer of the store until it is closed. It waits up to ``busy_timeout`` seconds for another
        writer. Errors are raised when the block is entered.

        Raises:
            StoreBusy: Another process or handle writes, or this thread has an open transaction.
            StorePoisoned: A write failed before.
            LogDamaged: The log cannot be read.

        Example:
            >>> with store.write() as tx:
            ...     paper = tx.add_node("paper", features={"x": row}, label=3)
            ...     tx.add_edge(("paper", "cites", "paper"), paper, 17)
        """
        return Transaction(self)

    def add_tensor(
        self,
        name: str,
        rows: Any,
        node_type: str | None = None,
        *,
        of: Snapshot | None = None,
    ) -> int:
        """Adds a node tensor, such as embeddings, labels or masks, in one commit.

        Other processes see it as soon as they open the store. Rows are read and written a few
        megabytes at a time, so a memory-mapped array may be larger than memory. Transactions of
        other threads wait until the tensor is durable. After a crash or on a full disk, the store
        has the whole tensor or none of it. Existing snapshots and loaders do not see it. A tensor
        cannot be replaced, but `Transaction.update_features` changes its rows.

        Args:
            name: A name that no other tensor of the node type has. Names that begin with
                ``split_`` are reserved for splits.
            rows: [num_nodes, *shape]: a NumPy array, a torch tensor, nested lists, or the path of a
                ``.npy`` file. One row for each id, including the ids of deleted nodes. The dtype is
                kept: bool, int8, uint8, int16, int32, int64, float16, float32, float64 or
                torch.bfloat16.
            node_type: May be left out if the store has one node type.
            of: The snapshot that the rows were computed from; None: the newest commit. Nodes that
                were added later get rows of zeros.

        Returns:
            The number of the commit.

        Raises:
            UnsupportedArgument: The name is taken, the number of rows or the dtype does not fit, a
                row has no bytes or more than 1 GiB, or `of` is older than the newest commit and
                the store reuses the ids of deleted nodes.
            NameNotFound: The store has no such node type.
            StoreBusy: Another process or handle writes, or this thread has an open transaction.
            IoFailed: The disk is full or failed.

        Example:
            >>> store.add_tensor("embedding", "embedding.npy")            # doctest: +SKIP
            >>> store.snapshot().features(None, [3, 17], "embedding")     # doctest: +SKIP
        """
        return add_tensor(self, name, rows, node_type, of)

    def checkpoint(self) -> CheckpointReport:
        """Writes all commits into the store's own files, and restarts the log.

        Processes that open the store afterwards see these commits. A checkpoint is also written
        when the log is long, and by `close`.

        Returns:
            ``checkpoint_id``, ``lsn``, and the numbers of ``pages`` and ``table_blocks`` written.

        Raises:
            StoreBusy: Another process writes, or this thread has an open transaction.
            StorePoisoned: A write failed before.
        """
        self._turn.get().refuse_own_transaction("checkpoint")
        return cast(CheckpointReport, self.core.checkpoint())

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        base: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> BackupReport:
        """Copies the newest checkpoint into a new directory, while readers and writers continue.

        If this handle writes to the store, it writes a checkpoint first. The backup then contains
        every commit that was acknowledged before the call. If another process writes, the backup
        contains the commits up to the checkpoint that this handle sees, and ``log_goes_on`` is
        true. Each page is compared with its checksum while it is copied. After a crash or on a
        full disk, the backup is complete or absent. Files in ``STORE/compiled`` are not copied.
        See ``docs/how-to/backup.md``.

        Args:
            target: The directory to create. It must not exist.
            base: A backup of an earlier state, in the same directory as `target`. Only pages
                written since then are copied, and restoring needs both backups.
            progress: Called with (blocks done, blocks in total).

        Returns:
            ``checkpoint_id``, ``lsn`` and ``fingerprint`` of the checkpoint, the name of the
            ``base``, the sizes of the store and of the backup, and ``log_goes_on``: whether the
            log has later commits, which are not in the backup.

        Raises:
            StoreDamaged: A page of the store, or the base, is damaged.
            UnsupportedArgument: `target` exists, or the store is not a later state of `base`: it
                was compacted, reorganised or imported again since, or is another store.
            StoreBusy: This thread has an open transaction.
            IoFailed: The disk is full or failed.

        Example:
            >>> store.backup("backups/monday")                                # doctest: +SKIP
            >>> store.backup("backups/tuesday", base="backups/monday")        # doctest: +SKIP
            >>> ng.restore("backups/tuesday", "restored.ng")                  # doctest: +SKIP
        """
        self._turn.get().refuse_own_transaction("make a backup")
        base = None if base is None else os.fspath(base)
        return cast(BackupReport, self.core.backup(os.fspath(target), base, progress))

    def compact(self, progress: Callable[[int, int], None] | None = None) -> CompactReport:
        """Rewrites the store like a new import: lists in order, without unused space.

        Ids, the order of lists and the content stay the same. The rewrite needs disk space for a
        second store. A crash leaves the old store or the new one. Existing snapshots and loaders
        keep reading the old files. Files in ``STORE/compiled`` belong to the old files and are
        removed with them; a warning says so before the rewrite begins.

        Args:
            progress: Called with (lists and rows done, lists and rows in total).

        Returns:
            ``bytes_before``, ``bytes_after``, the new ``checkpoint_id``, and ``leftover``: why
            some old files could not be removed, or None. A warning reports these files, too.

        Raises:
            StoreBusy: Another process writes, or this thread has an open transaction.
        """
        self._turn.get().refuse_own_transaction("compact")
        state = self._state
        half = self._rewrite_bytes()
        before, after, checkpoint_id, leftover = self._rewrite(
            lambda: _core.compact(state.path, half, state.backend, progress, state.busy_timeout)
        )
        _warn_of(leftover)
        return {
            "bytes_before": before,
            "bytes_after": after,
            "checkpoint_id": checkpoint_id,
            "leftover": leftover,
        }

    def _rewrite_bytes(self) -> int:
        return self.stats()["memory"]["rewrite"]["share"]

    def _rewrite(self, rewrite: Callable[[], Any], dry_run: bool = False) -> Any:
        """Runs a function that replaces the files of this handle, which then opens the new ones.

        `rewrite` uses half of the memory. This handle keeps the other half, because snapshots
        still read the old files. It reopens the store after an error, too: the files may have been
        replaced before it.
        """
        with minimum_of(lambda minimum: 2 * minimum):
            if dry_run:
                return rewrite()
            _warn_of_compiled(self._state.path)
            self.core.close_writer()
            self._local.take()
            try:
                return rewrite()
            finally:
                self._local = ProcessLocal(self._state.reopen, None)

    def reorganize(
        self,
        by: Literal["heat", "locality"] = "heat",
        *,
        num_neighbors: Any = (15, 10),
        batch_size: int = 1024,
        input_nodes: Any = None,
        visits: Any = None,
        batches: int = 32,
        dry_run: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> ReorganizeReport:
        """Rewrites the store with the rows of node tensors in an order that lets batches read less.

        Ids and batches stay the same, byte for byte. Costs and effects are those of `compact`, with
        up to half of the store's memory. See ``docs/explanation/reading.md``.

        Args:
            by: ``"heat"`` (most used rows first) or ``"locality"`` (rows of neighbours together).
            num_neighbors: Fanouts of the batches to optimise for, as in a loader.
            batch_size: Seeds of such a batch.
            input_nodes: The seed nodes, as in a loader; None: all nodes.
            visits: Node ids of the type of the seeds, in the order in which batches used them.
                The most frequent ones come first. Only with ``by="heat"``.
            batches: Number of batches to sample, to count the blocks that they read.
            dry_run: Only count, and leave the store unchanged.
            progress: Called with (phase, done, total).

        Returns:
            ``pages``: for each node type, the 4 KiB blocks of its widest tensor that a batch reads
            before and after, alone and together with 15 others. ``space_bytes``: disk space needed
            during the rewrite. ``written``: the report of `compact`; None for a dry run.

        Raises:
            StoreBusy: Another process writes, or this thread has an open transaction.
            BudgetTooSmall: Memory cannot hold a few bytes for each node.
            UnsupportedArgument: The order is not known, or there are no seeds or no batches.
        """
        self._turn.get().refuse_own_transaction("reorganize")
        from neargraph.loader.fanouts import resolve_fanouts
        from neargraph.loader.seeds import resolve_input_nodes

        inputs = resolve_input_nodes(self, input_nodes)
        seeds = inputs.ids
        if seeds is None and inputs.dead is not None:
            seeds = inputs.nodes(np.arange(len(inputs)))
        nodes = None if visits is None else as_ids(visits)
        if nodes is not None and by != "heat":
            raise UnsupportedArgument(
                f"by={by!r} cannot be combined with visits=; leave one of them out"
            )
        state = self._state
        run = partial(
            _core.reorganize,
            state.path,
            by if nodes is None else "visits",
            inputs.node_type.index,
            resolve_fanouts(self.schema, num_neighbors),
            batch_size,
            seeds,
            nodes,
            batches,
            dry_run,
            *(self._rewrite_bytes(), state.backend, progress, state.busy_timeout),
        )
        found: dict[str, Any] = json.loads(self._rewrite(run, dry_run))
        for counts in found["pages"]:
            counts["node_type"] = self.schema.node_types[counts["node_type"]].name
        _warn_of((found["written"] or {}).get("leftover"))
        return cast(ReorganizeReport, found)

    def scrub(
        self,
        max_rate: str | int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ScrubReport:
        """Compares every block of the last checkpoint with its checksum.

        It also reads the compiled epochs and direct layouts in ``STORE/compiled``. Readers and
        writers continue meanwhile.

        Args:
            max_rate: Largest read rate in bytes a second, such as ``"200MB"``. None: no limit.
            progress: Called with (blocks of the store done, blocks in total).

        Returns:
            ``ok``, ``blocks``, and ``problems`` with the file, page and block of each damage. If
            ``STORE/compiled`` exists, also the numbers of ``compiled_epochs`` and
            ``direct_layouts`` that were read, and ``not_checked``: unfinished files and files of
            other versions, which were not read.
        """
        from neargraph.loader.verify import verify_compiled

        rate = None if max_rate is None else parse_bytes(max_rate)
        report: dict[str, Any] = json.loads(self.core.scrub(rate, progress))
        verify_compiled(report, self.path, self.snapshot(), lambda *_: None, rate)
        return cast(ScrubReport, report)

    def update_stats(self) -> UpdateStats:
        """Returns the counters of this handle since it became the writer; 0 if it is not.

        `UpdateStats` describes the keys, such as ``commits``, ``syncs``, ``write_bytes`` and
        ``write_amplification``.
        """
        return cast(UpdateStats, self.core.update_stats())

    @property
    def turn(self) -> Turn:
        """The lock that admits one transaction of this process at a time."""
        return self._turn.get()


open = Store
"""`neargraph.open` is the class `Store` and takes the same arguments."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """The arguments with which another process opens the same store."""

    path: str
    memory_bytes: int
    backend: Backend
    queue_depth: int | None
    recover: bool
    busy_timeout: float

    def reopen(self) -> _core.Store:
        parts = workers_of_this_process() + 1
        share = self.memory_bytes // parts
        with minimum_of(lambda minimum: parts * minimum):
            return _core.open_store(
                self.path, share, self.backend, self.queue_depth, self.recover, self.busy_timeout
            )


def _warn_of(leftover: str | None) -> None:
    if leftover is not None:
        warnings.warn(
            f"the store was rewritten, but some old files could not be removed: {leftover}; the "
            "next compact or reorganize removes them",
            RuntimeWarning,
            stacklevel=3,
        )


def _warn_of_compiled(path: str) -> None:
    from neargraph.loader.compiled import default_directory

    directory = default_directory(path)
    size = sum(_file_bytes(str(file)) for file in directory.rglob("*") if file.is_file())
    if size and not directory.is_symlink():
        warnings.warn(
            "rewriting the store removes the files that were compiled from it "
            f"({format_bytes(size)} in {directory}); compile these files again afterwards",
            RuntimeWarning,
            stacklevel=4,
        )


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
