//! An open store: files, caches, budget, and the version that new snapshots see.
//!
//! Opening reads the roots, pins their checkpoint, compares the length of every file with the
//! catalog and looks at the heads of the log; nothing else is read before somebody asks. Invariant:
//! caches and batches together never pass the budget.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use ng_io::{BackendChoice, NamedDir};
use ng_types::{Budget, MemoryUser, Reservation};

use crate::cache::rows::RowCache;
use crate::cache::slots::{Share, SlotCache};
use crate::catalog::Catalog;
use crate::costs::kept::KeptCosts;
use crate::direct::PageCaches;
use crate::error::{OpenError, ReadError};
use crate::io::{BLOCK_BYTES, Disk, Reader, device_name};
use crate::page::{Metadata, Pages};
use crate::rows::order::HeldOrders;
use crate::store::hold::limit_to_hold;
use crate::store::load::pin_version;
use crate::store::memory::{WORKING_BYTES_MIN, divide, slack_bytes};
use crate::store::{Inner, OpenOptions, Snapshot, StoreStats, Tenants, load_version};
use crate::tensor::held::HeldTables;
use crate::tensor::layout::RowLayout;
use crate::topology::HeldTopologies;
use crate::version::base::Version;
use crate::write::add_tensor::{NewTensor, NextRows, add_tensor};
use crate::write::checkpoint::CheckpointReport;
use crate::write::error::UpdateError;
use crate::write::recover::{Recovery, lock_writer, log_goes_on, open_writer, replay_in_memory};
use crate::write::transaction::Transaction;
use crate::write::writer::{UpdateStats, Writer};

/// An open store.
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    current: Arc<RwLock<Arc<Version>>>,
    /// The writer of this handle; the lock is never held while a log is read or written.
    writer: Mutex<Option<Arc<Writer>>>,
    /// One thread at a time makes the handle the writer.
    becoming: Mutex<()>,
    log_bytes_max: u64,
    pub(crate) busy_timeout: Duration,
    recovery: Mutex<Recovery>,
    /// Why what the log holds is in memory alone, if it is.
    read_only_because: Mutex<Option<String>>,
    counted_from: Mutex<ng_io::IoCounts>,
}

/// How often opening starts over because the directory was replaced: each time somebody else has
/// written a whole store meanwhile.
pub(crate) const REPLACED_MAX: u32 = 100;

/// Reads in flight of a thread take this share of the budget; at least the first of these bytes,
/// unless the queue is short, and at most the second.
const STAGING_SHARE: u64 = 256;
const STAGING_BYTES: [u64; 2] = [2 << 20, 16 << 20];
const BYTES_PER_READ: u64 = 32 << 10;

/// Why nothing is written where somebody shares the writer's lock and does not write.
const KEPT_AWAY: &str =
    "another process, such as an import that replaces the store, blocks writers";

/// A handle that waits for the right to write asks this often, ever less.
const PAUSE_MIN: Duration = Duration::from_millis(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Store {
    /// Opens the store in directory `path`. If another store replaces it meanwhile, as by `compact`
    /// or `reorganize`, it opens the new one.
    ///
    /// # Errors
    /// Every variant of [`OpenError`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let failed = |error| open_error(path, error);
        let mut tries = 1;
        loop {
            let place = NamedDir::open(path).map_err(failed)?;
            let opened = Self::open_named(path, &place, options);
            if place.is_current() || tries == REPLACED_MAX {
                return opened;
            }
            tries += 1;
        }
    }

    /// Opens a store whose directory is open: all of its files, so that reading goes on when they
    /// are removed.
    fn open_named(
        path: &Path,
        place: &Arc<NamedDir>,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let limit = options.memory.unwrap_or_else(|| ng_io::usable_memory_bytes() / 4);
        // Long reads fill a device only if many of them are in flight.
        let least = (options.queue_depth as u64 * BYTES_PER_READ).min(STAGING_BYTES[0]);
        let staging_bytes = (limit / STAGING_SHARE).clamp(least, STAGING_BYTES[1]) as usize;
        let io_options = ng_io::OpenOptions {
            queue_depth: options.queue_depth,
            staging_bytes,
            ..Default::default()
        };
        let opened = ng_io::open_named(place, options.passing().backend, &io_options);
        let opened = opened.map_err(|error| open_error(path, error))?;
        let reader = Reader::in_directory(opened.disk, path);
        let staging = opened.staging_bytes_per_queue;
        let kept = device_name(path).and_then(|device| {
            KeptCosts::of(&device, reader.disk().backend(), options.queue_depth)
        });
        let place = Some(Arc::clone(place));
        let note = match options.backend {
            BackendChoice::Memory => {
                format!("memory: requested; all files are held in RAM, read with {}", opened.note)
            }
            _ => opened.note,
        };
        Self::open_reader(reader, &name, options, staging, (note, place), kept)
    }

    /// Opens the store on any disk, as tests do; staging memory is not counted.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: &OpenOptions) -> Result<Self, OpenError> {
        let note = disk.backend().to_owned();
        Self::open_reader(Reader::new(disk), "store", options, 0, (note, None), None)
    }

    fn open_reader(
        reader: Reader,
        path: &str,
        options: &OpenOptions,
        staging_per_thread: u64,
        (note, place): (String, Option<Arc<NamedDir>>),
        kept_costs: Option<KeptCosts>,
    ) -> Result<Self, OpenError> {
        let limit = options.memory.unwrap_or_else(|| ng_io::usable_memory_bytes() / 4);
        let minimum_bytes = staging_per_thread + WORKING_BYTES_MIN;
        if limit < minimum_bytes {
            return Err(OpenError::BudgetTooSmall { limit_bytes: limit, minimum_bytes });
        }
        let version = pin_version(&reader, path, &[])?;
        let holds_all = options.backend == BackendChoice::Memory;
        let limit = match options.memory {
            None if holds_all => limit_to_hold(&version, limit),
            _ => limit,
        };
        let catalog = &version.catalog;
        let budget = Budget::new(limit);
        let threads = (budget.share(MemoryUser::Staging) / staging_per_thread.max(1))
            .min(options.reading_threads as u64);
        let set_aside = staging_per_thread * threads.max(1) + slack_bytes(&budget);
        let staging = budget.reserve(set_aside).map_err(ReadError::from)?;
        let metadata = Metadata::reserve(catalog, &budget);
        let set_aside = metadata.as_ref().map_or(0, Metadata::held_bytes);
        let division = divide(catalog, limit - staging.bytes() - set_aside);
        let share = Share::new(budget.clone(), division.blocks.start);
        let cache = SlotCache::new(BLOCK_BYTES, division.blocks);
        let pages = Pages::new(reader, share, cache).with_metadata(metadata);
        let inner = Inner {
            path: path.to_owned(),
            rows: RowCache::new(budget.clone(), division.rows, catalog.segments.len()),
            direct: PageCaches::default(),
            row_layouts: row_layouts(catalog),
            budget,
            pages,
            rows_served: AtomicU64::new(0),
            rows_cached: AtomicU64::new(0),
            seen: Mutex::default(),
            changes: Mutex::default(),
            costs: Mutex::default(),
            kept_costs,
            orders: HeldOrders::default(),
            topologies: HeldTopologies::default(),
            tables: HeldTables::new(holds_all),
            tenants: Tenants::default(),
            note,
            place,
            batch_timeout: options.batch_timeout,
            go_on: options.go_on,
            division: Mutex::new(division),
            calm_batches: AtomicU64::new(0),
            staging,
            staging_per_thread,
        };
        let counted_from = inner.pages.reader.stats().counts();
        let goes_on = options.recover && log_goes_on(&inner.pages.reader, &version)?;
        let version = Arc::new(version);
        inner.see(&version);
        let store = Self {
            inner: Arc::new(inner),
            current: Arc::new(RwLock::new(version)),
            writer: Mutex::new(None),
            becoming: Mutex::default(),
            log_bytes_max: options.log_bytes_max,
            busy_timeout: options.busy_timeout,
            recovery: Mutex::default(),
            read_only_because: Mutex::default(),
            counted_from: counted_from.into(),
        };
        store.begin(goes_on, holds_all)?;
        Ok(store)
    }

    /// Does what a store that was opened begins with.
    fn begin(&self, goes_on: bool, holds_all: bool) -> Result<(), OpenError> {
        if goes_on {
            self.recover()?;
        }
        if holds_all {
            self.snapshot().hold_everything()?;
        }
        Ok(())
    }

    /// Puts what a crashed writer has left in the log into the store. A live writer does that
    /// itself; where nothing can be written, or somebody keeps writers away, it is done in memory.
    fn recover(&self) -> Result<(), OpenError> {
        match self.try_writer(true) {
            Ok(Some(_)) => self.close_writer(),
            Ok(None) => return self.recover_in_memory(KEPT_AWAY),
            Err(UpdateError::Write(error)) if error.is_no_room() => {
                return self.recover_in_memory(&error.to_string());
            }
            Err(error) => Err(error),
        }
        .map_err(|error| {
            let path = self.inner.path.clone();
            OpenError::Recovery { path, source: Box::new(error) }
        })
    }

    fn recover_in_memory(&self, cause: &str) -> Result<(), OpenError> {
        let found = replay_in_memory(&self.inner, &self.current, cause)?;
        let Some(recovery) = found else { return Ok(()) };
        *self.recovery.lock().unwrap_or_else(PoisonError::into_inner) = recovery;
        if recovery.commits > 0 {
            self.set_read_only(Some(cause.to_owned()));
        }
        Ok(())
    }

    fn set_read_only(&self, cause: Option<String>) {
        *self.read_only_because.lock().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    /// Why the commits that a crashed writer has left in the log are in memory alone, as they are
    /// where nothing can be written; `None` if they are in the store, or there are none. The first
    /// transaction tries again to put them there.
    pub fn read_only_because(&self) -> Option<String> {
        self.read_only_because.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The writer of this handle, without waiting; `None` if somebody else writes. One that is to
    /// recover has nothing to do, either, if the log ends where the newest checkpoint does.
    fn try_writer(&self, to_recover: bool) -> Result<Option<Arc<Writer>>, UpdateError> {
        if let Some(writer) = self.own_writer() {
            return Ok(Some(writer));
        }
        let _turn = self.becoming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = self.own_writer() {
            return Ok(Some(writer));
        }
        let Some(lock) = lock_writer(&self.inner)? else {
            return Ok(None);
        };
        if to_recover {
            // Whoever was writing when this store was opened may have checkpointed since.
            let newest = load_version(&self.inner, &self.current)?;
            if !log_goes_on(&self.inner.pages.reader, &newest)? {
                return Ok(None);
            }
        }
        let opened = open_writer(&self.inner, &self.current, self.log_bytes_max, lock)?;
        let (writer, recovery) = opened;
        *self.recovery.lock().unwrap_or_else(PoisonError::into_inner) = recovery;
        let mut slot = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(Arc::clone(&writer));
        drop(slot);
        self.set_read_only(None);
        Ok(Some(writer))
    }

    fn own_writer(&self) -> Option<Arc<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The writer of this handle, which has none from now on. One that is about to become it does
    /// so first.
    fn take_writer(&self) -> Option<Arc<Writer>> {
        let _turn = self.becoming.lock().unwrap_or_else(PoisonError::into_inner);
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn writer(&self) -> Result<Arc<Writer>, UpdateError> {
        self.wait_for_writer(&mut || (self.inner.go_on)())
    }

    /// The writer of this handle. No lock is held while it waits for others to end.
    fn wait_for_writer(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Arc<Writer>, UpdateError> {
        let (start, mut pause) = (Instant::now(), PAUSE_MIN);
        loop {
            if let Some(writer) = self.try_writer(false)? {
                return Ok(writer);
            }
            let left = self.busy_timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                let (path, waited) = (self.inner.path.clone(), self.busy_timeout);
                return Err(UpdateError::Busy { path, waited });
            }
            if !go_on() {
                return Err(UpdateError::Stopped);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Makes this handle the store's only writer, as the first [`Store::write`] does. While another
    /// writer exists, it waits up to [`OpenOptions::busy_timeout`] and calls `go_on` many times per
    /// second; returning `false` stops the wait.
    ///
    /// # Errors
    /// [`UpdateError::Stopped`] and those of [`Store::write`].
    pub fn become_writer(&self, go_on: &mut dyn FnMut() -> bool) -> Result<(), UpdateError> {
        self.wait_for_writer(go_on).map(drop)
    }

    /// Starts a transaction. The first call makes this handle the store's only writer until
    /// [`Store::close_writer`] is called or the store is dropped. Transactions of several threads
    /// take turns, and their commits share syncs.
    ///
    /// # Errors
    /// [`UpdateError::Busy`] if another handle or process writes and does not end within
    /// [`OpenOptions::busy_timeout`], [`UpdateError::LogDamaged`], [`UpdateError::Poisoned`],
    /// [`UpdateError::Read`], [`UpdateError::Write`].
    pub fn write(&self) -> Result<Transaction, UpdateError> {
        Transaction::begin(self.writer()?)
    }

    /// Returns whether the name of the store still leads to its files. It does not after `compact`,
    /// `reorganize` or an import that replaces the store, or if the directory was removed or
    /// renamed. Reads then continue with the old files, and writes would be lost.
    pub fn is_current(&self) -> bool {
        self.inner.place.as_ref().is_none_or(|place| place.is_current())
    }

    /// Returns whether both are handles of one store, even if opened by different names.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.inner.place, &other.inner.place) {
            (Some(one), Some(other)) => one.is_same_as(other),
            _ => false,
        }
    }

    /// Writes all commits into the store's own files, so that other processes see them, and
    /// restarts the log. Does nothing if there are no commits.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn checkpoint(&self) -> Result<CheckpointReport, UpdateError> {
        self.writer()?.checkpoint()
    }

    /// Adds a tensor to a node type as one commit, which other processes see immediately. `next`
    /// returns the rows in the order of ids. If it fails, the store is unchanged. Transactions and
    /// checkpoints wait meanwhile, so `next` must not write to this store.
    ///
    /// Only stores that are opened later cache wide rows of the tensor in the row cache. This one
    /// caches their blocks.
    ///
    /// # Errors
    /// Those of [`Store::write`] and of `next`, [`UpdateError::Unsupported`] for a name that is
    /// taken, another number of rows than there are nodes, rows of no or too many bytes, and more
    /// than the format has room for, [`UpdateError::Build`] if rows cannot be written,
    /// [`ReadError::Budget`] if memory does not hold the order of rows of the type.
    pub fn add_tensor<E: From<UpdateError>>(
        &self,
        new: &NewTensor,
        next: &mut NextRows<'_, E>,
    ) -> Result<CheckpointReport, E> {
        let writer = self.writer()?;
        add_tensor(&writer, new, next)
    }

    /// Checkpoints and lets another handle write. Snapshots stay as they are.
    ///
    /// # Errors
    /// As [`Store::write`]; the store is free for other writers even then.
    pub fn close_writer(&self) -> Result<(), UpdateError> {
        self.take_writer().map_or(Ok(()), |writer| writer.close())
    }

    /// Returns the counters of updates since this handle became the writer; `None` if it is not the
    /// writer.
    pub fn update_stats(&self) -> Option<UpdateStats> {
        self.own_writer().map(|writer| writer.update_stats())
    }

    /// Like [`Store::update_stats`], but returns `None` instead of waiting for a recovery, the
    /// opening of the writer or a commit. All counters are 0 if nothing was written.
    pub fn try_update_stats(&self) -> Option<UpdateStats> {
        let slot = match self.writer.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        slot.as_ref().map_or(Some(UpdateStats::default()), |writer| writer.try_update_stats())
    }

    /// Returns what recovery found in the log when this handle last became the writer.
    pub fn recovery(&self) -> Recovery {
        *self.recovery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version: all commits that are durable.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let version = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        Arc::new(Snapshot { inner: Arc::clone(&self.inner), version })
    }

    /// The name of the back end that reads: `uring`, `pread`, ...; `memory` where everything is
    /// held in memory.
    pub fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    /// The memory budget that caches and batches share.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Counters since open or the last reset.
    pub fn stats(&self) -> StoreStats {
        let inner = &self.inner;
        let start = self.counted_from.lock().unwrap_or_else(PoisonError::into_inner);
        let io = inner.pages.reader.stats().counts().since(&start);
        StoreStats {
            reads: io.reads,
            read_bytes: io.read_bytes,
            useful_bytes: io.useful_bytes,
            retries: io.retries,
            mean_queue_depth: io.mean_depth(),
            device_busy_us: io.busy_us,
            scratch_write_bytes: io.scratch_write_bytes,
            rows_served: inner.rows_served.load(Ordering::Relaxed),
            rows_cached: inner.rows_cached.load(Ordering::Relaxed),
            block_cache_bytes: inner.pages.share.used_bytes(),
            row_cache_bytes: inner.rows.bytes(),
            backend_note: inner.note.clone(),
            memory: MemoryUser::all().map(|user| inner.memory_of(user)).collect(),
        }
    }

    /// Resets the counters.
    pub fn reset_stats(&self) {
        let inner = &self.inner;
        let mut start = self.counted_from.lock().unwrap_or_else(PoisonError::into_inner);
        *start = inner.pages.reader.stats().counts();
        inner.rows_served.store(0, Ordering::Relaxed);
        inner.rows_cached.store(0, Ordering::Relaxed);
    }

    /// Writes every device request from now on to a new file, see [`Reader::log_to`]; for
    /// studies.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn log_reads(&self, path: &Path) -> std::io::Result<()> {
        self.inner.pages.reader.log_to(path)
    }

    /// Ends the log of reads and returns its number of requests.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn end_read_log(&self) -> std::io::Result<u64> {
        self.inner.pages.reader.end_log()
    }

    /// Gives at least `bytes` of cache memory back to the budget and the system, rows first, if the
    /// caches hold that much. Returns how much it gave.
    pub fn reclaim(&self, bytes: u64) -> u64 {
        self.inner.reclaim(bytes)
    }

    /// Reserves `bytes` for a batch: first from free memory, then from the row cache, then from the
    /// block cache. Otherwise it waits for other batches up to [`OpenOptions::batch_timeout`].
    ///
    /// # Errors
    /// [`ReadError::Budget`].
    pub fn reserve_batch(&self, bytes: u64) -> Result<Reservation, ReadError> {
        self.inner.reserve_batch(bytes)
    }
}

impl Store {
    /// Closes the store, as dropping it does, and returns the error of its last checkpoint, if any.
    /// Nothing is lost then, because the log contains all commits. An open transaction can no
    /// longer be committed.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn close(self) -> Result<(), UpdateError> {
        self.end_writer()
    }

    fn end_writer(&self) -> Result<(), UpdateError> {
        match self.take_writer() {
            // Whoever holds the open transaction may be waiting for this.
            Some(writer) if writer.is_busy() => {
                writer.retire();
                Ok(())
            }
            Some(writer) => writer.close(),
            None => Ok(()),
        }
    }
}

fn open_error(path: &Path, error: ng_io::OpenError) -> OpenError {
    let path = path.display().to_string();
    match error {
        ng_io::OpenError::NotFound { .. } => OpenError::NotFound { path },
        ng_io::OpenError::NotADirectory { .. } => OpenError::NotADirectory { path },
        ng_io::OpenError::Unavailable { .. } => {
            OpenError::BackendUnavailable { path, what: error.to_string() }
        }
        ng_io::OpenError::Io { .. } => OpenError::Backend { path, what: error.to_string() },
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // `close_writer` reports a failed checkpoint; dropping cannot.
        let _ = self.end_writer();
    }
}

fn row_layouts(catalog: &Catalog) -> Vec<Option<RowLayout>> {
    let mut layouts = vec![None; catalog.segments.len()];
    for tensor in catalog.all_tensors() {
        if let Some(layout) = layouts.get_mut(tensor.segment as usize) {
            *layout = Some(tensor.layout());
        }
    }
    layouts
}
