"""An open store: opening, closing, writing, and its counters.

Nothing here reads a file itself: the compiled core does, with the GIL released and inside the
memory budget. The invariant: every process opens its own handle, which sees the commits made with
it, or else the last checkpoint.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from neargraph import _core
from neargraph._process import ProcessLocal, workers_of_this_process
from neargraph._room import minimum_of
from neargraph.exceptions import NeargraphError, StoreClosed, UnsupportedArgument
from neargraph.reader import as_ids
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
    """One open store. Safe to use from many threads; cheap to send to workers.

    Everything that is asked of a store is answered from its newest commit; `snapshot`, loaders and
    samplers stay at the commit that was the newest when they were made. A child process, forked or
    spawned, opens the store again on first use, and sees the last checkpoint: call `checkpoint`
    before if it shall see what was written since. In a worker of a torch DataLoader with n workers
    it takes 1 / (n + 1) of the memory. PyG's loaders accept a store as their ``data``, since it
    unpacks into (feature_store, graph_store).

    Args:
        path: The directory, such as ``"papers.ng"``.
        memory: What caches, buffers and batches may take together: bytes or a text such as
            ``"256MB"`` (10^6) or ``"1GiB"`` (2^30). None is a quarter of the machine's memory
            or of the cgroup's limit.
        backend: ``"auto"``, ``"uring"``, ``"odirect"``, ``"pread"``, ``"mmap"`` or ``"memory"``.
            ``"memory"`` reads all topologies and dense tensors once, in the background, and keeps
            them: within ``memory``, or within what the store takes and an eighth of the machine's
            memory. Compiled epochs of the store are read with it, too.
        queue_depth: How many reads are kept in flight.
        recover: Whether commits that a crashed writer has left in the log are put into the store.
            If not, the last checkpoint is what is read, even where the log is damaged.
        busy_timeout: Seconds that writing waits for another handle or process that writes, before
            it raises `StoreBusy`. Opening and reading never wait for a writer.

    Raises:
        StoreNotFound: There is nothing at `path`.
        NotAStore: It is no store.
        NewerVersion: It was written by a newer neargraph.
        StoreDamaged: Both roots are damaged.
        LogDamaged: A crashed writer has left commits that cannot be read, and `recover` is true.
        BudgetTooSmall: `memory` is below the minimum, which the message gives.

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

    # What it is

    @property
    def path(self) -> str:
        """The store directory, absolute."""
        return self._state.path

    @property
    def checkpoint_id(self) -> int:
        """The last checkpoint; every one has its own number."""
        return self.core.snapshot().checkpoint_id

    @property
    def lsn(self) -> int:
        """The newest commit; 0 in a store that was never written to."""
        return self.core.snapshot().lsn

    @property
    def fingerprint(self) -> str:
        """A digest of the content; two stores with equal digests give equal batches."""
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
        """Types and tensors of the newest version; counts may be those of an older one."""
        schema = self._parsed[1]
        if self._closed or schema.num_tensors == self.core.snapshot().num_tensors:
            return schema
        return self.schema

    def schema_of(self, handle: _core.Snapshot) -> Schema:
        """The schema of a version; the last one is kept."""
        key, schema = self._parsed
        wanted = (handle.checkpoint_id, handle.lsn)
        if key != wanted:
            schema = parse_catalog(handle.catalog())
            self._parsed = (wanted, schema)
        return schema

    @property
    def read_only_because(self) -> str | None:
        """Why the commits that a crashed writer has left are in memory alone; None if they are not.

        So it is where nothing can be written when the store is opened: on a disk that is full or
        read-only. Everything can be read. The first transaction tries again to put them into the
        store.
        """
        return self.core.read_only_because

    def info(self) -> dict[str, Any]:
        """The catalog as plain data, with path, back end, memory, log and fingerprint beside it.

        ``reverse_types`` has the reverses that the import kept, which are not types of the graph.
        ``commits_waiting`` counts commits after the last checkpoint, ``commits_recovered`` those
        that opening took over from a writer that crashed; ``read_only_because`` says why these are
        in memory alone, if they are.
        """
        core, snap = self.core, self.snapshot()
        raw = snap.schema.raw
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

    def stats(self) -> dict[str, Any]:
        """Counters of this process since `open` or `reset_stats`: reads, read_bytes,
        useful_bytes, rows_served, rows_cached, hit_rate, budget_used, budget_peak,
        device_busy_seconds (in which a read of the store's own files was in flight),
        mean_queue_depth, temporary_write_bytes, ... Temporary files count among the reads.

        ``memory`` says how the memory budget is divided: for each user its ``share`` in bytes, and
        the bytes ``held`` now, or None where the store does not know. A share is the most that a
        user takes; not all of them exist at one time, so shares add up to more than the budget.
        """
        return self.core.stats()

    @contextmanager
    def log_reads(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Writes every device request of a ``with`` block to a file, for studies of what was read.

        The file has 16 bytes for each: offset (u64), bytes that arrived (u32), and the file's
        number (u32), whose highest bit says that the request begins where the one before it ended.
        The first 16 bytes are ``ngreads1`` and zeros. Files beside the store are not in it:
        compiled epochs and temporary files.
        """
        self.core.log_reads(os.path.abspath(path))
        try:
            yield
        finally:
            self.core.end_read_log()

    def measure_disk(self) -> dict[str, float] | None:
        """Measures what reads cost on the disk of the store, and keeps it for a day.

        Returns:
            ``reads_per_s`` (random reads of 4 KiB with a full queue) and ``bytes_per_s`` (of long
            reads); None if no file of the store has 64 MiB. Rates are kept for other processes in
            ``neargraph/`` of the user's cache folder, by device and back end; plans for reading
            ahead that are made from now on start from them, also those of this store.
        """
        found = self.core.measure_disk()
        return None if found is None else {"reads_per_s": found[0], "bytes_per_s": found[1]}

    def set_disk_rates(self, reads_per_s: float, bytes_per_s: float) -> None:
        """Tells what reads cost on the disk of the store, instead of measuring it.

        For volumes whose rates somebody guarantees or limits: a short measurement may see a burst.
        Kept for a day, as by `measure_disk`. Plans that are made from now on start from these
        rates; a look-ahead that is under way finishes what it has planned.

        Args:
            reads_per_s: Random reads of 4 KiB with a full queue.
            bytes_per_s: Of long reads.

        Raises:
            ValueError: if no disk can be like that.

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

    # Life

    @property
    def core(self) -> _core.Store:
        """The compiled handle of this process, opened if this process has none yet."""
        if self._closed:
            raise StoreClosed(f"{self.path} was closed; open it again with neargraph.open")
        return self._local.get()

    def close(self) -> None:
        """Checkpoints what was written, and gives memory and descriptors back.

        Arrays already handed out stay valid. A checkpoint that fails loses nothing: the next one
        to open the store finds all commits in the log. The store is closed even then. A store that
        is not closed does the same when it is collected, where an error only reaches
        ``sys.unraisablehook``.

        Raises:
            StoreBusy: A transaction of this thread is open.
            IoFailed: The checkpoint failed.
            StorePoisoned: A write failed before.
        """
        if not self._closed:
            self._turn.get().refuse_own_batch("close the store")
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
            # What is raised already says more, and is what callers catch.
            if kind is None:
                raise
            warnings.warn(f"closing {self.path} failed, too: {error}", stacklevel=2)

    # Reading and writing

    def snapshot(self) -> Snapshot:
        """The newest commit, to read rows and neighbours by id; it stays while writers go on."""
        return Snapshot(self, self.core.snapshot())

    def write(self) -> Transaction:
        """A transaction, for a ``with`` block: all of it is durable when the block ends.

        Snapshots taken after that see it. An exception that leaves the block undoes all of it.
        There is one transaction at a time; other threads wait for their turn when they enter the
        block, and share the syncs of their commits. The first transaction makes this handle the
        store's one writer, until it is closed; while another one writes, it waits up to
        ``busy_timeout``.

        Raises (on entering the block):
            StoreBusy: Another process or handle writes, or a transaction of this thread is open.
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
        """Adds a node tensor: embeddings, labels, masks. One commit, which other processes see as
        soon as they open the store.

        Rows are read and written some megabytes at a time, so an array that is mapped from a file
        may be larger than memory. Transactions of other threads wait meanwhile. A crash or a full
        disk leaves the store without the tensor, or with all of it. Snapshots and loaders that are
        alive go on without it. A tensor is never replaced; `Transaction.update_features` changes
        rows of it.

        Args:
            name: What no other tensor of the node type is called; ``split_...`` is for splits.
            rows: [num_nodes, *shape]: NumPy, torch or lists, or the path of a ``.npy`` file. The
                row of each id, those of deleted nodes among them. Elements are stored as they are:
                bool, int8, uint8, int16, int32, int64, float16, float32, float64, and
                torch.bfloat16.
            node_type: May be left out if there is one type.
            of: The snapshot that the rows were computed from; None is the newest commit. Nodes that
                were added since have rows of zeros, as if they had come after the tensor.

        Returns:
            The number of the commit.

        Raises:
            UnsupportedArgument: The name is taken; there are not as many rows as nodes; another
                dtype; a row of no bytes or of more than 1 GiB; `of` is older than the newest
                commit, and the store gives ids of deleted nodes out again.
            NameNotFound: No such node type.
            StoreBusy: Another process or handle writes, or a transaction of this thread is open.
            IoFailed: The disk is full, or failed.

        Example:
            >>> store.add_tensor("embedding", "embedding.npy")            # doctest: +SKIP
            >>> store.snapshot().features(None, [3, 17], "embedding")     # doctest: +SKIP
        """
        return add_tensor(self, name, rows, node_type, of)

    def checkpoint(self) -> dict[str, int]:
        """Writes all commits into the store's own files, so that other processes see them and the
        log starts anew. It happens by itself when the log is long, and on `close`.

        Returns:
            ``checkpoint_id``, ``lsn``, and the ``pages`` and ``table_blocks`` that were written.

        Raises:
            StoreBusy: Another process writes, or a transaction of this thread is open.
            StorePoisoned: A write failed before.
        """
        self._turn.get().refuse_own_batch("checkpoint")
        return self.core.checkpoint()

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        base: str | os.PathLike[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Copies the newest checkpoint into a new directory, while readers and writers go on.

        If this handle writes to the store, it makes a checkpoint first, so the backup has every
        commit that was acknowledged before the call. While another process writes, it has the
        commits up to the checkpoint that this handle sees, and ``log_goes_on`` is true. Each page
        is compared with its checksum as it is copied. A crash or a full disk leaves the whole
        backup or none. What is in ``STORE/compiled`` is left out. See ``docs/how-to/backup.md``.

        Args:
            target: The directory to make; it must not exist.
            base: A backup of an earlier state, in the same directory as `target`: only pages that
                were written since are copied, and restoring needs both.
            progress: Called with how many of how many blocks are done.

        Returns:
            ``checkpoint_id``, ``lsn`` and ``fingerprint`` of the checkpoint; the name of the
            ``base``; ``pages`` of the store, ``pages_copied`` and ``page_bytes_copied``; ``bytes``
            of the backup; ``log_goes_on``: whether the log has later commits, which are not in it.

        Raises:
            StoreDamaged: A page of the store, or the backup given as base, is damaged.
            UnsupportedArgument: `target` exists; the store is not a later state of `base`: it was
                compacted or imported anew since, or is another one.
            StoreBusy: A transaction of this thread is open.
            IoFailed: The disk is full, or failed.

        Example:
            >>> store.backup("backups/monday")                                # doctest: +SKIP
            >>> store.backup("backups/tuesday", base="backups/monday")        # doctest: +SKIP
            >>> ng.restore("backups/tuesday", "restored.ng")                  # doctest: +SKIP
        """
        self._turn.get().refuse_own_batch("backup")
        base = None if base is None else os.fspath(base)
        return self.core.backup(os.fspath(target), base, progress)

    def compact(self, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """Rewrites the store as an import would lay it out: lists in order, nothing unused between.

        Ids, the order of lists and the content stay. It needs room for a second store on the disk
        while it works; a crash leaves the old one or the new one. Snapshots and loaders that are
        alive go on with the old files. Files in ``STORE/compiled`` belong to the old files and are
        removed with them, of which it warns before it begins.

        Args:
            progress: Called with how many of how many lists and rows are done.

        Returns:
            ``bytes_before``, ``bytes_after``, the new ``checkpoint_id``, and as ``leftover`` why
            old files could not be removed, of which it warns, or None.

        Raises:
            StoreBusy: Another process writes, or a transaction of this thread is open.
        """
        self._turn.get().refuse_own_batch("compact")
        state = self._state
        half = self._rewrite_bytes()
        before, after, checkpoint_id, leftover = self._rewrite(
            lambda: _core.compact(state.path, half, state.backend, progress, state.busy_timeout)
        )
        _warn_of(leftover)
        sizes = {"bytes_before": before, "bytes_after": after}
        return {**sizes, "checkpoint_id": checkpoint_id, "leftover": leftover}

    def _rewrite_bytes(self) -> int:
        share: int = self.stats()["memory"]["rewrite"]["share"]
        return share

    def _rewrite(self, rewrite: Callable[[], Any], dry_run: bool = False) -> Any:
        """Runs what replaces the files of this handle, which opens the new ones after that.

        It has half of the memory; this handle, which goes on with the old files, has the other.
        This handle opens what is there after an error, too: the files may have been replaced
        before it.
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
    ) -> dict[str, Any]:
        """Rewrites the store with the rows of node tensors in an order that batches reward.

        Ids stay, and so does every batch, byte for byte. It needs room for a second store on the
        disk, and may use half of the store's memory; a crash leaves the old store or the new one.
        Snapshots and loaders that are alive go on with the old files. Files in ``STORE/compiled``
        are removed with them, after a warning (``docs/explanation/reading.md``).

        Args:
            by: ``"heat"`` (what most batches want first) or ``"locality"`` (neighbours together).
            num_neighbors: Fanouts of the batches that the order is made for, as of a loader.
            batch_size: Their seeds.
            input_nodes: Which nodes are seeds, as of a loader; None for all.
            visits: Node ids in the order in which batches had them, of the type of the seeds: the
                rows of the most frequent ones come first. With ``by="heat"`` only.
            batches: Batches that are sampled to count the blocks that they touch.
            dry_run: Only count, and leave the store as it is.
            progress: Called with a phase, and how much of how much of it is done.

        Returns:
            ``pages``: for each node type the 4 KiB blocks of its widest tensor that a batch
            touches, before and after, alone and with 15 others that are read with it;
            ``space_bytes``: disk space needed for a while; ``written``: ``bytes_before``,
            ``bytes_after``, ``checkpoint_id`` and ``leftover`` as of `compact`, None of a dry run.

        Raises:
            StoreBusy: Another process writes, or a transaction of this thread is open.
            BudgetTooSmall: Memory does not hold some bytes for each node; the message says how
                much is needed.
            UnsupportedArgument: An unknown order, no seeds, no batches.
        """
        self._turn.get().refuse_own_batch("reorganize")
        from neargraph.loader.fanouts import resolve_fanouts
        from neargraph.loader.seeds import resolve_input_nodes

        inputs = resolve_input_nodes(self, input_nodes)
        seeds = inputs.ids
        if seeds is None and inputs.dead is not None:
            seeds = inputs.nodes(np.arange(len(inputs)))
        nodes = None if visits is None else as_ids(visits)
        if nodes is not None and by != "heat":
            raise UnsupportedArgument(
                f"by={by!r} has no effect on an order by visits; leave one of them out"
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
        return found

    def scrub(
        self,
        max_rate: str | int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Compares every block of the last checkpoint, and every compiled epoch and direct layout
        inside the store, with its checksum; readers and writers go on.

        Args:
            max_rate: Bytes a second that it may read at most, such as ``"200MB"``.
            progress: Called with how many of how many blocks of the store are done.

        Returns:
            ``ok``, ``blocks``, and ``problems`` with file, page and block of each damage. Where
            there is ``STORE/compiled``, also ``compiled_epochs`` and ``direct_layouts`` that were
            read, and ``not_checked``: files of other versions and unfinished ones, which are not.
        """
        from neargraph.loader.verify import verify_compiled

        rate = None if max_rate is None else parse_bytes(max_rate)
        report: dict[str, Any] = json.loads(self.core.scrub(rate, progress))
        verify_compiled(report, self.path, self.snapshot(), lambda *_: None, rate)
        return report

    def update_stats(self) -> dict[str, Any]:
        """What writing did since this handle became the writer: commits, checkpoints, syncs,
        payload_bytes, write_bytes, write_amplification, list_updates, evictions, ..."""
        return self.core.update_stats()

    @property
    def turn(self) -> Turn:
        """Whose transaction is open in this process."""
        return self._turn.get()


open = Store
"""`neargraph.open` is the class itself, whose arguments are those of opening."""


@dataclass(frozen=True, kw_only=True)
class _State:
    """What another process needs to open the same store."""

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
            f"the store was rewritten, but old files are left: {leftover}; the next compact or "
            "reorganize removes them",
            RuntimeWarning,
            stacklevel=3,
        )


def _warn_of_compiled(path: str) -> None:
    from neargraph.loader.compiled import default_directory

    directory = default_directory(path)
    size = sum(_file_bytes(str(file)) for file in directory.rglob("*") if file.is_file())
    if size and not directory.is_symlink():
        warnings.warn(
            "the store is rewritten, and what was compiled from its old files is removed with "
            f"them: {format_bytes(size)} in {directory}; compile again afterwards",
            RuntimeWarning,
            stacklevel=4,
        )


def _file_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
