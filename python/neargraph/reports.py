"""Types of the dictionaries that stores, backups and their maintenance return.

This module holds types only. Invariant: a key is listed here if and only if the compiled core or
`Store` sets it.
"""

from typing import Literal, TypedDict


class DiskRates(TypedDict):
    """Read rates of a disk, as `Store.measure_disk` returns them."""

    reads_per_s: float
    """Random reads of 4 KiB a second, with a full queue."""
    bytes_per_s: float
    """Bytes a second of long reads."""


class _TensorInfo(TypedDict):
    name: str
    dtype: str
    read_dtype: str
    scaled: bool
    sparse: bool
    shape: list[int]
    num_rows: int


class TensorInfo(_TensorInfo, total=False):
    """One tensor of a type; see `neargraph.schema.TensorMeta`."""

    class_names: list[str]
    """Names of the integers 0, 1, 2, ..., if known."""
    mask_width: int
    """Number of columns of PyG's masks, if a split was imported from [N, k] masks."""


class NodeTypeInfo(TypedDict):
    """One node type."""

    name: str
    num_nodes: int
    num_nodes_live: int
    has_dictionary: bool
    has_order: bool
    tensors: list[TensorInfo]


class EdgeTypeInfo(TypedDict):
    """One edge type, or the stored reverse of one."""

    source: str
    relation: str
    destination: str
    source_id: int
    destination_id: int
    num_edges: int
    num_edge_ids: int
    undirected: bool
    unique: bool
    reverse: int | None
    """Index of the edge type that is kept as the reverse of this one."""
    is_reverse_index: bool
    has_edge_ids: bool
    has_time: bool
    has_weight: bool
    tensors: list[TensorInfo]


class CatalogInfo(TypedDict):
    """The catalog of a store, without the layout of its files."""

    page_bytes: int
    checkpoint_id: int
    disk_bytes: int
    """Bytes of all pages and page tables."""
    reuse_ids: bool
    format_version: int
    node_types: list[NodeTypeInfo]
    edge_types: list[EdgeTypeInfo]


class StoreInfo(CatalogInfo):
    """The catalog and the state of a handle, as `Store.info` returns them."""

    reverse_types: list[EdgeTypeInfo]
    """Reverses that the import kept; they are not edge types of the graph."""
    path: str
    num_nodes: int
    num_nodes_live: int
    num_edges: int
    lsn: int
    """Number of the newest commit."""
    commits_waiting: int
    """Commits after the last checkpoint."""
    commits_recovered: int
    """Commits of a crashed writer that were recovered when the store was opened."""
    read_only_because: str | None
    """Why recovered commits are in memory only; None if they are not."""
    log_bytes: int
    backend: Literal["uring", "odirect", "pread", "mmap", "memory"]
    backend_note: str
    """Why this back end was chosen."""
    memory_bytes: int
    """The memory budget."""
    fingerprint: str


class MemoryShare(TypedDict):
    """The part of the memory budget that one consumer may take, and the part that it holds."""

    share: int
    held: int | None
    """None if the store does not know it."""


class StoreStats(TypedDict):
    """Counters of an open store, as `Store.stats` returns them."""

    reads: int
    """Read requests, including those to temporary files."""
    read_bytes: int
    useful_bytes: int
    """The part of `read_bytes` that callers used."""
    retries: int
    temporary_write_bytes: int
    rows_served: int
    rows_cached: int
    """The part of `rows_served` that needed no device read."""
    hit_rate: float
    block_cache_bytes: int
    row_cache_bytes: int
    budget_limit: int
    budget_used: int
    budget_peak: int
    memory: dict[str, MemoryShare]
    """The division of the memory budget, by consumer."""
    mean_queue_depth: float
    device_busy_seconds: float
    """Time with at least one read of the store's own files in flight."""


class UpdateStats(TypedDict):
    """Counters of a writer, as `Store.update_stats` returns them."""

    commits: int
    checkpoints: int
    payload_bytes: int
    """Bytes that the changes carry: 8 for each id, and their rows."""
    write_bytes: int
    """Bytes written to the device: log, pages, page tables and roots."""
    writes: int
    syncs: int
    log_bytes: int
    pages_reused: int
    pages_written: int
    changed_bytes: int
    """Bytes of changed pages in memory."""
    sync_us: int
    list_updates: int
    """Entries added to or removed from lists."""
    evictions: int
    """Updates of a full L-type page, each of which moved lists to other pages."""
    lists_evicted: int
    promotions: int
    """Lists that became H-type."""
    demotions: int
    """Lists that became L-type again."""
    write_amplification: float
    """`write_bytes` / `payload_bytes`; 0 without payload."""


class CheckpointReport(TypedDict):
    """The checkpoint that `Store.checkpoint` wrote."""

    checkpoint_id: int
    """The previous number if nothing had changed."""
    lsn: int
    """The last commit in it."""
    pages: int
    table_blocks: int


class BackupReport(TypedDict):
    """The backup that `Store.backup` made."""

    checkpoint_id: int
    lsn: int
    fingerprint: str
    base: str | None
    """Name of the backup that this one is based on; None if it is complete."""
    pages: int
    """Pages of the store."""
    pages_copied: int
    page_bytes_copied: int
    bytes: int
    """Bytes of all files of the backup."""
    log_goes_on: bool
    """Whether the log has later commits, which are not in the backup."""


class RestoreReport(TypedDict):
    """The store that `neargraph.restore` made, or that `neargraph.verify_backup` read."""

    checkpoint_id: int
    lsn: int
    fingerprint: str
    backups: int
    """Number of backups that hold its pages: the complete one and the later ones."""
    pages: int
    bytes_read: int


class CompactReport(TypedDict):
    """The files that `Store.compact` and `Store.reorganize` wrote."""

    bytes_before: int
    bytes_after: int
    checkpoint_id: int
    leftover: str | None
    """Why some old files could not be removed; None if all were removed."""


class PageCounts(TypedDict):
    """4 KiB blocks of a node type's widest tensor that batches read, before and after."""

    node_type: str
    tensor: str
    batches: int
    rows_per_batch: float
    pages_before: float
    pages_after: float
    pages_together_before: float
    """Blocks a batch, if `ReorganizeReport.batches_together` batches are read together."""
    pages_together_after: float


class ReorganizeReport(TypedDict):
    """The effect and cost of a new order of rows, as `Store.reorganize` returns them."""

    pages: list[PageCounts]
    batches_together: int
    space_bytes: int
    """Disk space needed during the rewrite."""
    written: CompactReport | None
    """None for a dry run."""


class _Problem(TypedDict):
    file: str
    what: str


class Problem(_Problem, total=False):
    """One finding of `Store.scrub`, with the place of the damage as far as it is known."""

    page: int | None
    block: int | None
    batch: int
    byte: int
    holds: str
    """The content of the file, such as a tensor; not given for all files."""


class _ScrubReport(TypedDict):
    ok: bool
    blocks: int
    pages: int
    problems: list[Problem]
    problems_omitted: int
    notes: list[Problem]
    log_commits: int
    log_torn: bool


class ScrubReport(_ScrubReport, total=False):
    """The findings of `Store.scrub`. The last three keys exist if ``STORE/compiled`` does."""

    compiled_epochs: int
    direct_layouts: int
    not_checked: list[Problem]
