//! The one writer of a store: batches take turns on the head, their records share syncs.
//!
//! The *head* is the newest version, durable or not; a batch takes it out, and puts the next one
//! back when its record is queued. Whoever waits for durability and finds nobody syncing writes all
//! that is queued as one group. Only durable versions are published. Invariant: versions are
//! published in the order of their commits.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use ng_io::{Lock, WriteStats};
use ng_types::NodeTypeId;

use crate::edit::{CleanPages, Edit, EditCounts};
use crate::page_map::PagePool;
use crate::store::Inner;
use crate::version::Version;
use crate::write::batch::WriteBatch;
use crate::write::checkpoint::CheckpointFiles;
use crate::write::error::UpdateError;
use crate::write::log::{LOG_STEP_BYTES, Log, chain, encode_record, record_bytes};
use crate::write::recover::rebuild;
use crate::write::seen::Seen;

/// A checkpoint is started when changed pages take half of the budget, and waited for when they
/// take three quarters: quarters of the budget.
const START_QUARTERS: u64 = 2;
const WAIT_QUARTERS: u64 = 3;

/// What a writer did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateStats {
    /// Batches made durable.
    pub commits: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes that the operations carried: 8 for an id, and their rows.
    pub payload_bytes: u64,
    /// Bytes given to the device, of log, pages, page tables and roots.
    pub write_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes of the log among `write_bytes`.
    pub log_bytes: u64,
    /// Pages that a checkpoint put where others had been before.
    pub pages_reused: u64,
    /// Pages and blocks of page tables written by checkpoints.
    pub pages_written: u64,
    /// Bytes of changed pages in memory.
    pub changed_bytes: u64,
    /// Microseconds inside syncs.
    pub sync_us: u64,
    /// What happened to lists.
    pub lists: EditCounts,
}

impl UpdateStats {
    /// Bytes written for each byte of payload; 0 if there was none.
    pub fn write_amplification(&self) -> f64 {
        if self.payload_bytes == 0 {
            0.0
        } else {
            self.write_bytes as f64 / self.payload_bytes as f64
        }
    }
}

/// The newest version and what goes with it from batch to batch.
pub(crate) struct Head {
    pub version: Version,
    pub clean: CleanPages,
    pub totals: UpdateStats,
    /// Nodes that the open batch has deleted.
    pub deleted: HashSet<(NodeTypeId, u64)>,
}

/// The writer. Closing it is dropping it.
pub(crate) struct Writer {
    pub inner: Arc<Inner>,
    pub pool: Arc<PagePool>,
    pub stats: Arc<WriteStats>,
    pub current: Arc<RwLock<Arc<Version>>>,
    pub log: Mutex<Log>,
    pub files: Mutex<CheckpointFiles>,
    state: Mutex<State>,
    turn: Condvar,
    log_bytes_max: u64,
    lock: Mutex<Option<Lock>>,
}

struct State {
    head: Option<Head>,
    /// Records that wait for a sync, the first of them, and the version that they lead to.
    queue: Vec<u8>,
    group: u64,
    queued: Option<Version>,
    syncing: bool,
    durable_lsn: u64,
    /// Offset in the log behind everything queued, and the log's length.
    log_offset: u64,
    log_len: u64,
    log_bytes: u64,
    checkpoints_running: u32,
    checkpointer: Option<JoinHandle<()>>,
    poisoned: Option<Arc<str>>,
    /// Threads that wait for the head.
    waiting: u32,
}

impl Writer {
    pub fn new(
        inner: Arc<Inner>,
        current: Arc<RwLock<Arc<Version>>>,
        mut log: Log,
        files: CheckpointFiles,
        stats: Arc<WriteStats>,
        head: Head,
        (lock, log_bytes_max, pool): (Lock, u64, Arc<PagePool>),
    ) -> Self {
        let state = State {
            queue: Vec::new(),
            group: 0,
            queued: None,
            syncing: false,
            durable_lsn: head.version.lsn,
            log_offset: log.place().offset,
            log_len: log.file_bytes(),
            log_bytes: 0,
            checkpoints_running: 0,
            checkpointer: None,
            poisoned: None,
            waiting: 0,
            head: Some(head),
        };
        Self {
            inner,
            pool,
            stats,
            current,
            log: Mutex::new(log),
            files: Mutex::new(files),
            state: Mutex::new(state),
            turn: Condvar::new(),
            log_bytes_max,
            lock: Mutex::new(Some(lock)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a batch when its turn comes.
    pub fn begin(self: &Arc<Self>) -> Result<WriteBatch, UpdateError> {
        self.make_room()?;
        let mut head = self.take_head()?;
        let mut edit = Edit::new(&self.inner, &self.pool, &head.version);
        edit.clean = std::mem::take(&mut head.clean);
        Ok(WriteBatch::new(Arc::clone(self), head, edit))
    }

    /// Waits for the head and takes it out.
    fn take_head(&self) -> Result<Head, UpdateError> {
        let mut state = self.lock();
        loop {
            check(&state)?;
            if let Some(head) = state.head.take() {
                return Ok(head);
            }
            state.waiting += 1;
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Puts the head back for the next one.
    pub fn give_back(&self, head: Head) {
        self.lock().head = Some(head);
        self.turn.notify_all();
    }

    /// Commits a batch that only checked its operations. If nobody else waits for a turn, its
    /// record is made durable first and its operations are done after, on the published version
    /// itself: only pages that a snapshot shares are copied. Else it is done on copies, so that the
    /// next batch can begin during the sync.
    pub fn commit_draft(
        &self,
        mut head: Head,
        mut edit: Edit,
        ops: &[u8],
    ) -> Result<u64, UpdateError> {
        edit.restart(&head.version);
        let is_alone = {
            let state = self.lock();
            state.waiting == 0 && state.queue.is_empty() && !state.syncing
        };
        let prepared = edit.prefetch_all(ops).and_then(|()| match is_alone {
            true => self.reserve(record_bytes(ops.len())),
            false => edit.replay_all(ops),
        });
        if let Err(error) = prepared {
            head.deleted.clear();
            head.clean = std::mem::take(&mut edit.clean);
            self.give_back(head);
            return Err(error);
        }
        if !is_alone {
            return self.commit(head, edit, ops);
        }
        let (lsn, before) = (head.version.lsn + 1, head.version.fingerprint);
        let bytes = record_bytes(ops.len());
        let mut record = Vec::with_capacity(bytes as usize);
        encode_record(lsn, lsn, self.lock().log_len, before, ops, &mut record);
        let written = match ng_types::canary::planted("ack_before_sync") {
            true => Ok(()),
            false => self.log.lock().unwrap_or_else(PoisonError::into_inner).append(&record),
        };
        if let Err(error) = written {
            self.poison(&error);
            self.give_back(head);
            return Err(error.into());
        }
        let clean = std::mem::take(&mut edit.clean);
        drop(edit);
        let done = self.apply_in_place(&mut head, clean, ops, chain(before, lsn, ops));
        self.seen().delete(lsn, std::mem::take(&mut head.deleted).into_iter());
        let mut state = self.lock();
        state.durable_lsn = lsn;
        state.log_offset += bytes;
        state.log_bytes += bytes;
        if let Err(error) = &done {
            poison(&mut state, error);
        }
        state.head = Some(head);
        self.turn.notify_all();
        done.map(|()| lsn)
    }

    /// Does the operations of a durable record on the published version.
    ///
    /// If that fails (a page that has to be read is damaged, say) the version is lost half way: then
    /// the one before it is made again from the log, nothing more can be written, and the next one
    /// to open the store does the record again.
    fn apply_in_place(
        &self,
        head: &mut Head,
        clean: CleanPages,
        ops: &[u8],
        fingerprint: u64,
    ) -> Result<(), UpdateError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let (base, lsn) = (Arc::clone(&head.version.base), head.version.lsn + 1);
        let catalog = Arc::clone(&head.version.catalog);
        // Nobody but the published version may share its pages.
        let fallback = base.version();
        head.version = fallback.clone();
        let published = std::mem::replace(&mut *current, Arc::new(fallback));
        let mut edit =
            Edit::owning(&self.inner, &self.pool, Arc::unwrap_or_clone(published), clean);
        edit.nodes_are_checked = true;
        if let Err(error) = edit.replay_all(ops) {
            drop(edit);
            let rebuilt = rebuild(&self.inner, &self.pool, &base, lsn - 1);
            // Old content must not pass for the newest; from a version without segments nothing
            // can be read.
            let lost = || Version { base, catalog, segments: vec![], lsn: lsn - 1, fingerprint: 0 };
            head.version = rebuilt.unwrap_or_else(|_| lost());
            let version = Arc::new(head.version.clone());
            self.inner.see(&version);
            *current = version;
            return Err(error);
        }
        let Edit { catalog, counts, segments, clean, .. } = edit;
        head.clean = clean;
        head.totals.commits += 1;
        head.totals.lists.add(&counts);
        head.version = Version { base, catalog: Arc::new(catalog), segments, lsn, fingerprint };
        let version = Arc::new(head.version.clone());
        *current = Arc::clone(&version);
        drop(current);
        self.inner.see(&version);
        Ok(())
    }

    /// Queues the record of a batch, puts the next head back, and waits until it is durable.
    pub fn commit(&self, mut head: Head, edit: Edit, ops: &[u8]) -> Result<u64, UpdateError> {
        let lsn = head.version.lsn + 1;
        if let Err(error) = self.reserve(record_bytes(ops.len())) {
            head.deleted.clear();
            self.give_back(head);
            return Err(error);
        }
        let Edit { catalog, counts, segments, clean, .. } = edit;
        let before = head.version.fingerprint;
        head.version = Version {
            base: Arc::clone(&head.version.base),
            catalog: Arc::new(catalog),
            segments,
            lsn,
            fingerprint: chain(before, lsn, ops),
        };
        head.clean = clean;
        head.totals.commits += 1;
        head.totals.lists.add(&counts);
        let mut state = self.lock();
        if let Err(error) = check(&state) {
            state.head = Some(head);
            return Err(error);
        }
        if state.queue.is_empty() {
            state.group = lsn;
        }
        let (group, file_bytes) = (state.group, state.log_len);
        encode_record(lsn, group, file_bytes, before, ops, &mut state.queue);
        state.log_offset += record_bytes(ops.len());
        state.log_bytes += record_bytes(ops.len());
        let deleted = std::mem::take(&mut head.deleted);
        if head.version.catalog.reuse_ids {
            self.seen().delete(lsn, deleted.into_iter());
        }
        state.queued = Some(head.version.clone());
        state.head = Some(head);
        self.turn.notify_all();
        if ng_types::canary::planted("ack_before_sync") {
            let early = state.queued.clone();
            if let Some(version) = early {
                self.publish(version);
            }
            return Ok(lsn);
        }
        self.wait_durable(state, lsn)?;
        Ok(lsn)
    }

    /// Makes room in the log for a record, while no other batch can queue one.
    fn reserve(&self, bytes: u64) -> Result<(), UpdateError> {
        {
            let state = self.lock();
            check(&state)?;
            if state.log_offset + bytes + LOG_STEP_BYTES <= state.log_len {
                return Ok(());
            }
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = self.lock().queue.len() as u64;
        let result = log.reserve(queued + bytes);
        let mut state = self.lock();
        state.log_len = log.file_bytes();
        result.map_err(|error| {
            if !matches!(error, ng_io::WriteError::DiskFull { offset: 0, .. }) {
                poison(&mut state, &error);
            }
            self.turn.notify_all();
            error.into()
        })
    }

    /// Waits until commit `lsn` is durable; syncs what is queued if nobody else does.
    fn wait_durable<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        lsn: u64,
    ) -> Result<(), UpdateError> {
        loop {
            if state.durable_lsn >= lsn {
                return Ok(());
            }
            check(&state)?;
            if state.syncing || state.queue.is_empty() {
                state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(version) = state.queued.take() else {
                state.queue.clear();
                continue;
            };
            state.syncing = true;
            let group = std::mem::take(&mut state.queue);
            drop(state);
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let result = log.append(&group);
            drop(log);
            state = self.lock();
            state.syncing = false;
            match result {
                Ok(()) => {
                    state.durable_lsn = version.lsn;
                    self.publish(version);
                }
                Err(error) => poison(&mut state, &error),
            }
            self.turn.notify_all();
        }
    }

    /// Lets new snapshots see a version.
    fn publish(&self, version: Version) {
        let version = Arc::new(version);
        self.inner.see(&version);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// Whether the id of a deleted node may be given out again: no snapshot sees it any more.
    pub fn may_reuse(&self, node_type: NodeTypeId, id: u64) -> bool {
        self.seen().may_reuse(node_type, id)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a checkpoint when much has changed since the last one, and waits for it when too much
    /// has.
    fn make_room(self: &Arc<Self>) -> Result<(), UpdateError> {
        let quarter = self.inner.budget.limit_bytes() / 4;
        let pressure = |state: &State, quarters: u64| {
            self.pool.bytes() > quarters * quarter
                || state.log_offset > quarters * self.log_bytes_max / START_QUARTERS
        };
        let mut state = self.lock();
        if !pressure(&state, START_QUARTERS) {
            return Ok(());
        }
        if state.checkpoints_running == 0 {
            state.checkpoints_running += 1;
            let writer = Arc::clone(self);
            let run = move || {
                // What went wrong is kept in the state, or comes again at the next attempt.
                let _ = writer.checkpoint();
                writer.lock().checkpoints_running -= 1;
                writer.turn.notify_all();
            };
            let started = std::thread::Builder::new().name("ng-checkpoint".into()).spawn(run);
            let Ok(started) = started else {
                state.checkpoints_running -= 1;
                drop(state);
                return self.checkpoint().map(drop);
            };
            state.checkpointer = Some(started);
        }
        while state.checkpoints_running > 0 && pressure(&state, WAIT_QUARTERS) {
            check(&state)?;
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Takes the head once everything before it is durable.
    pub fn take_durable_head(&self) -> Result<Head, UpdateError> {
        let head = self.take_head()?;
        let lsn = head.version.lsn;
        let result = self.wait_durable(self.lock(), lsn);
        match result {
            Ok(()) => Ok(head),
            Err(error) => {
                self.give_back(head);
                Err(error)
            }
        }
    }

    /// Puts a head back after a checkpoint: what it says is published.
    pub fn give_back_rebased(&self, head: Head) {
        let mut state = self.lock();
        self.publish(head.version.clone());
        state.head = Some(head);
        self.turn.notify_all();
    }

    /// Notes that the log goes on elsewhere.
    pub fn note_log(&self, log: &mut Log) {
        let mut state = self.lock();
        state.log_offset = log.place().offset;
        state.log_len = log.file_bytes();
    }

    /// After a failed write nothing is written any more.
    pub fn poison(&self, error: &dyn std::fmt::Display) {
        poison(&mut self.lock(), error);
        self.turn.notify_all();
    }

    /// Whether a batch is open.
    pub fn is_busy(&self) -> bool {
        self.lock().head.is_none()
    }

    /// Checkpoints, and lets another handle write whatever comes of that; batches that are still
    /// open cannot be committed any more.
    pub fn close(&self) -> Result<(), UpdateError> {
        self.settle();
        let done = self.checkpoint();
        self.retire();
        done.map(drop)
    }

    /// Takes no more commits and lets another handle write.
    pub fn retire(&self) {
        self.settle();
        self.poison(&"this handle does not write any more");
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Waits for a checkpoint that runs in the background.
    fn settle(&self) {
        let running = self.lock().checkpointer.take();
        if let Some(running) = running {
            // It does not panic, and nobody would be helped by another.
            let _ = running.join();
        }
    }

    /// Counters.
    pub fn update_stats(&self) -> UpdateStats {
        let counts = self.stats.counts();
        let reused = {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            (files.pages_reused(), files.pages_written, files.checkpoints)
        };
        let state = self.lock();
        let totals = state.head.as_ref().map(|head| head.totals).unwrap_or_default();
        UpdateStats {
            write_bytes: counts.write_bytes,
            writes: counts.writes,
            syncs: counts.syncs,
            log_bytes: state.log_bytes,
            pages_reused: reused.0,
            pages_written: reused.1,
            checkpoints: reused.2,
            changed_bytes: self.pool.bytes(),
            sync_us: counts.sync_us,
            ..totals
        }
    }
}

fn check(state: &State) -> Result<(), UpdateError> {
    match &state.poisoned {
        Some(cause) => Err(UpdateError::Poisoned { cause: Arc::clone(cause) }),
        None => Ok(()),
    }
}

fn poison(state: &mut State, error: &dyn std::fmt::Display) {
    if state.poisoned.is_none() {
        state.poisoned = Some(error.to_string().into());
    }
}
