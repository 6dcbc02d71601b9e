//! An open store: files, caches, budget.
//!
//! Opening reads the roots and compares the length of every file with the catalog; nothing else is
//! read before somebody asks. Invariant: caches and batches together never pass the budget.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ng_io::BackendChoice;
use ng_types::{Budget, BudgetExceeded, EdgeTypeId, NodeTypeId, Reservation};

use crate::cache::rows::{ROW_BYTES_MIN, RowCache};
use crate::cache::slots::{Share, SlotCache};
use crate::catalog::{
    Catalog, EdgeTypeMeta, NodeTypeMeta, Owner, SegmentMeta, TensorMeta, TensorRef,
};
use crate::error::{OpenError, ReadError};
use crate::io::{BLOCK_BYTES, Disk, Reader};
use crate::open_root::{OpenRoot, open_root};
use crate::pages::{Pages, Segment};
use crate::snapshot::Snapshot;
use crate::tensor::layout::RowLayout;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Memory budget in bytes; `None` is a quarter of the cgroup limit or of RAM.
    pub memory: Option<u64>,
    /// How files are read.
    pub backend: BackendChoice,
    /// Most reads in flight for each reading thread.
    pub queue_depth: usize,
    /// Threads that will read at the same time; their staging memory is set aside at once, as long
    /// as it stays below a quarter of the budget.
    pub reading_threads: usize,
    /// How long [`Store::reserve_batch`] waits for other batches.
    pub batch_timeout: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            memory: None,
            backend: BackendChoice::Auto,
            queue_depth: 64,
            reading_threads: 1,
            batch_timeout: Duration::from_secs(60),
        }
    }
}

/// Counters since open or the last [`Store::reset_stats`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreStats {
    /// Completed device requests.
    pub reads: u64,
    /// Bytes asked from the device.
    pub read_bytes: u64,
    /// Bytes that callers took from those.
    pub useful_bytes: u64,
    /// Reads that had to be issued again.
    pub retries: u64,
    /// Reads in flight, averaged over completions.
    pub mean_queue_depth: f64,
    /// Rows handed out by gathers.
    pub rows_served: u64,
    /// Rows handed out without a device read.
    pub rows_cached: u64,
    /// Bytes held by the block cache.
    pub block_cache_bytes: u64,
    /// Bytes held by the row cache.
    pub row_cache_bytes: u64,
    /// Which back end reads, and why.
    pub backend_note: String,
}

impl StoreStats {
    /// Rows served without a device read, as a share of all; 0 if there were none.
    pub fn hit_rate(&self) -> f64 {
        if self.rows_served == 0 { 0.0 } else { self.rows_cached as f64 / self.rows_served as f64 }
    }
}

/// An open store.
pub struct Store {
    snapshot: Arc<Snapshot>,
    counted_from: std::sync::Mutex<ng_io::IoCounts>,
}

/// What a store and its snapshots share.
pub(crate) struct Inner {
    pub catalog: Catalog,
    pub epoch: u64,
    pub fingerprint: u64,
    pub budget: Budget,
    pub pages: Pages,
    pub rows: RowCache,
    pub segments: Vec<Segment>,
    pub rows_served: AtomicU64,
    pub rows_cached: AtomicU64,
    note: String,
    batch_timeout: Duration,
    row_cap_bytes: u64,
    calm_batches: AtomicU64,
    /// Staging frames of the back end and slack, held as long as the store is open.
    staging: Reservation,
}

/// The least that caches and one batch need beside the staging memory.
const WORKING_BYTES_MIN: u64 = 4 << 20;
/// One part in so many of the budget is left to what nobody can reserve: stacks of reading threads
/// and memory that the allocator keeps between uses.
const SLACK_SHARE: u64 = 32;
/// How often a batch that waits for memory looks again. Such waits are rare and long.
const BATCH_POLL: Duration = Duration::from_millis(1);
/// Batches without shortage after which the row cache may grow again by a sixteenth.
const CALM_BATCHES: u64 = 16;

impl Store {
    /// Opens the store in directory `path`.
    ///
    /// # Errors
    /// Every variant of [`OpenError`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let io_options =
            ng_io::OpenOptions { queue_depth: options.queue_depth, ..Default::default() };
        let opened = ng_io::open_dir(path, options.backend, &io_options).map_err(|error| {
            let path = name.clone();
            match error {
                ng_io::OpenError::NotFound { .. } => OpenError::NotFound { path },
                ng_io::OpenError::NotADirectory { .. } => OpenError::NotADirectory { path },
                other => OpenError::Backend { path, what: other.to_string() },
            }
        })?;
        let reader = Reader::in_directory(opened.disk, path);
        let staging = opened.staging_bytes_per_queue;
        Self::open_reader(reader, &name, options, staging, opened.note)
    }

    /// Opens the store on any disk, as tests do; staging memory is not counted.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: &OpenOptions) -> Result<Self, OpenError> {
        let note = disk.backend().to_owned();
        Self::open_reader(Reader::new(disk), "store", options, 0, note)
    }

    fn open_reader(
        reader: Reader,
        path: &str,
        options: &OpenOptions,
        staging_per_thread: u64,
        note: String,
    ) -> Result<Self, OpenError> {
        let limit = options.memory.unwrap_or_else(|| ng_io::usable_memory_bytes() / 4);
        let minimum_bytes = staging_per_thread + WORKING_BYTES_MIN;
        if limit < minimum_bytes {
            return Err(OpenError::BudgetTooSmall { limit_bytes: limit, minimum_bytes });
        }
        let OpenRoot { catalog, epoch, fingerprint } = open_root(&reader, path)?;
        let segments = open_segments(&reader, path, &catalog)?;
        let budget = Budget::new(limit);
        let threads = (limit / 4 / staging_per_thread.max(1)).min(options.reading_threads as u64);
        let set_aside = staging_per_thread * threads.max(1) + limit / SLACK_SHARE;
        let staging = budget.reserve(set_aside).map_err(ReadError::from)?;
        let (blocks, rows) = cache_caps(&catalog, limit - staging.bytes());
        let pages = Pages {
            reader,
            share: Share::new(budget.clone(), blocks),
            cache: SlotCache::new(BLOCK_BYTES, blocks),
        };
        let inner = Inner {
            rows: RowCache::new(budget.clone(), rows, segments.len()),
            catalog,
            epoch,
            fingerprint,
            budget,
            pages,
            segments,
            rows_served: AtomicU64::new(0),
            rows_cached: AtomicU64::new(0),
            note,
            batch_timeout: options.batch_timeout,
            row_cap_bytes: rows,
            calm_batches: AtomicU64::new(0),
            staging,
        };
        let counted_from = inner.pages.reader.stats().counts();
        let snapshot = Arc::new(Snapshot { inner: Arc::new(inner) });
        Ok(Self { snapshot, counted_from: counted_from.into() })
    }

    /// The version that is open.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// The name of the back end that reads: `uring`, `pread`, ...
    pub fn backend(&self) -> &'static str {
        self.snapshot.inner.pages.reader.disk().backend()
    }

    /// The memory budget that caches and batches share.
    pub fn budget(&self) -> &Budget {
        &self.snapshot.inner.budget
    }

    /// Counters since open or the last reset.
    pub fn stats(&self) -> StoreStats {
        let inner = &self.snapshot.inner;
        let start = self.counted_from.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let io = inner.pages.reader.stats().counts().since(&start);
        StoreStats {
            reads: io.reads,
            read_bytes: io.read_bytes,
            useful_bytes: io.useful_bytes,
            retries: io.retries,
            mean_queue_depth: io.mean_depth(),
            rows_served: inner.rows_served.load(Ordering::Relaxed),
            rows_cached: inner.rows_cached.load(Ordering::Relaxed),
            block_cache_bytes: inner.pages.share.used_bytes(),
            row_cache_bytes: inner.rows.bytes(),
            backend_note: inner.note.clone(),
        }
    }

    /// Starts the counters anew.
    pub fn reset_stats(&self) {
        let inner = &self.snapshot.inner;
        let mut start = self.counted_from.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *start = inner.pages.reader.stats().counts();
        inner.rows_served.store(0, Ordering::Relaxed);
        inner.rows_cached.store(0, Ordering::Relaxed);
    }

    /// Gives at least `bytes` of cache memory back to the budget and the system, rows first, if the
    /// caches hold that much. Returns how much it gave.
    pub fn reclaim(&self, bytes: u64) -> u64 {
        self.snapshot.inner.reclaim(bytes)
    }

    /// Reserves `bytes` for a batch: from what is free, else from the row cache, then from the
    /// block cache, else it waits for other batches up to [`OpenOptions::batch_timeout`].
    ///
    /// # Errors
    /// [`ReadError::Budget`].
    pub fn reserve_batch(&self, bytes: u64) -> Result<Reservation, ReadError> {
        self.snapshot.inner.reserve_batch(bytes)
    }
}

fn open_segments(
    reader: &Reader,
    path: &str,
    catalog: &Catalog,
) -> Result<Vec<Segment>, OpenError> {
    let segments = catalog.segments.iter().enumerate();
    segments.map(|(id, meta)| Segment::open(reader, path, id as u32, meta)).collect()
}

/// What the block cache and the row cache may take: at most a quarter and a half of the budget, and
/// what one cannot use goes to the other. Batches have the rest for themselves and may take more.
fn cache_caps(catalog: &Catalog, bytes: u64) -> (u64, u64) {
    let size =
        |s: &SegmentMeta| s.num_pages * u64::from(s.page_bytes) + s.map_blocks * BLOCK_BYTES as u64;
    let nodes = catalog.node_types.iter().flat_map(|t| &t.tensors);
    let edges = catalog.edge_types.iter().flat_map(|t| &t.tensors);
    let wide = nodes.chain(edges).filter(|t| t.row_bytes() >= ROW_BYTES_MIN as u64);
    let wide_bytes: u64 =
        wide.filter_map(|t| catalog.segments.get(t.segment as usize)).map(size).sum();
    let all_bytes: u64 = catalog.segments.iter().map(size).sum();
    // Shards fill unevenly and rows carry some bookkeeping, so allow more than the bare data.
    let (wide_bytes, other_bytes) = (wide_bytes / 2 * 3, (all_bytes - wide_bytes) / 2 * 3);
    let table_bytes = wide_bytes / 512;
    let other_bytes = other_bytes.saturating_add(table_bytes).max(WORKING_BYTES_MIN);
    let both = bytes / 4 * 3;
    let blocks = other_bytes.min(bytes / 4);
    let rows = wide_bytes.min(both - blocks);
    (other_bytes.min(both - rows), rows)
}

impl Inner {
    pub fn reclaim(&self, bytes: u64) -> u64 {
        let mut given = 0;
        while given < bytes {
            let from_rows = self.rows.drop_chunk();
            let from_blocks = || {
                let cache = self.pages.cache.as_ref();
                cache.map_or(0, |cache| cache.drop_chunk(&self.pages.share))
            };
            let chunk = if from_rows > 0 { from_rows } else { from_blocks() };
            if chunk == 0 {
                break;
            }
            given += chunk;
        }
        // What was taken for a batch must not be taken back by the next row.
        if given > 0 {
            self.rows.share().set_cap_bytes(self.rows.bytes());
            self.calm_batches.store(0, Ordering::Relaxed);
        }
        given
    }

    pub fn reserve_batch(&self, bytes: u64) -> Result<Reservation, ReadError> {
        let possible = bytes <= self.budget.limit_bytes() - self.staging.bytes();
        let deadline = Instant::now() + self.batch_timeout;
        loop {
            match self.try_reserve(bytes) {
                // Every look reclaims anew: readers may have cached into what was just freed.
                Err(_) if possible && Instant::now() < deadline => std::thread::sleep(BATCH_POLL),
                result => return Ok(result?),
            }
        }
    }

    /// Reserves from what is free, else from the caches, without waiting for anybody.
    pub fn try_reserve(&self, bytes: u64) -> Result<Reservation, BudgetExceeded> {
        match self.budget.reserve(bytes) {
            Ok(reservation) => {
                self.count_calm_batch();
                Ok(reservation)
            }
            Err(shortage) if bytes > self.budget.limit_bytes() - self.staging.bytes() => {
                Err(shortage)
            }
            Err(shortage) => {
                self.reclaim(bytes.saturating_sub(shortage.free_bytes));
                self.budget.reserve(bytes)
            }
        }
    }

    fn count_calm_batch(&self) {
        let calm = self.calm_batches.fetch_add(1, Ordering::Relaxed) + 1;
        if calm.is_multiple_of(CALM_BATCHES) {
            let share = self.rows.share();
            let grown = share.cap_bytes() + self.row_cap_bytes / 16;
            share.set_cap_bytes(grown.min(self.row_cap_bytes));
        }
    }

    pub fn segment(&self, id: u32) -> Result<&Segment, ReadError> {
        let missing = || ReadError::Missing { what: format!("segment {id}") };
        self.segments.get(id as usize).ok_or_else(missing)
    }

    pub fn node_type(&self, id: NodeTypeId) -> Result<&NodeTypeMeta, ReadError> {
        let missing = || ReadError::Missing { what: format!("node type {}", id.0) };
        self.catalog.node_types.get(usize::from(id.0)).ok_or_else(missing)
    }

    pub fn edge_type(&self, id: EdgeTypeId) -> Result<&EdgeTypeMeta, ReadError> {
        let missing = || ReadError::Missing { what: format!("edge type {}", id.0) };
        self.catalog.edge_types.get(usize::from(id.0)).ok_or_else(missing)
    }

    /// An edge type with its page and index segments.
    pub fn topology(
        &self,
        id: EdgeTypeId,
    ) -> Result<(&EdgeTypeMeta, &Segment, &Segment), ReadError> {
        let meta = self.edge_type(id)?;
        Ok((meta, self.segment(meta.topology.pages)?, self.segment(meta.topology.index)?))
    }

    /// A tensor with its segment and layout.
    pub fn tensor(
        &self,
        tensor: TensorRef,
    ) -> Result<(&TensorMeta, &Segment, RowLayout), ReadError> {
        let tensors = match tensor.owner {
            Owner::Node(id) => &self.node_type(id)?.tensors,
            Owner::Edge(id) => &self.edge_type(id)?.tensors,
        };
        let missing = || ReadError::Missing { what: format!("tensor {tensor:?}") };
        let meta = tensors.get(usize::from(tensor.index)).ok_or_else(missing)?;
        let segment = self.segment(meta.segment)?;
        let layout = RowLayout::new(meta.row_bytes().max(1), segment.meta.page_bytes);
        Ok((meta, segment, layout))
    }
}
