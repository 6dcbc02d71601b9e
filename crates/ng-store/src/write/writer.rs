//! The one writer of a store: transactions take turns on the head, their records share syncs.
//!
//! The *head* is the newest version, durable or not; a transaction takes it out, and puts the next
//! one back when its record is queued. Whoever waits for durability and finds nobody syncing writes
//! all that is queued as one group. Only durable versions are published. Invariant: versions are
//! published in the order of their commits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::thread::JoinHandle;

use ng_io::{Lock, WriteStats};
use ng_types::{MemoryUser, NodeTypeId};
use serde::Serialize;

use crate::page::{CleanPages, Edit, EditCounts, PagePool, Segment};
use crate::store::Inner;
use crate::version::base::Version;
use crate::write::checkpoint::CheckpointFiles;
use crate::write::error::UpdateError;
use crate::write::log::{LOG_STEP_BYTES, Log, chain, encode_record, record_bytes};
use crate::write::ops::Ops;
use crate::write::seen::Seen;

/// A checkpoint is started when the log has its length, and waited for when it has half more.
const START_HALVES: u64 = 2;
const WAIT_HALVES: u64 = 3;

/// The counters of a writer since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpdateStats {
    /// Transactions made durable.
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
    #[serde(flatten)]
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

/// The newest version and what goes with it from transaction to transaction.
pub(crate) struct Head {
    pub version: Version,
    pub clean: CleanPages,
}

impl Head {
    /// Whether commits hold memory that a checkpoint would give back.
    pub fn holds_memory(&self) -> bool {
        self.version.lsn > self.version.base.lsn
    }

    /// What a transaction has made of a head with fingerprint `before`; `inner` learns what it
    /// changed.
    pub fn advance(
        &mut self,
        inner: &Inner,
        edit: Edit,
        (before, fingerprint): (u64, u64),
    ) -> EditCounts {
        let Edit { catalog, counts, touched, segments, clean, .. } = edit;
        inner.lock_changes().push(before, fingerprint, touched);
        let (base, lsn) = (Arc::clone(&self.version.base), self.version.lsn + 1);
        self.version = Version { base, catalog: Arc::new(catalog), segments, lsn, fingerprint };
        self.clean = clean;
        counts
    }
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
    pub(super) turn: Condvar,
    log_bytes_max: u64,
    lock: Mutex<Option<Lock>>,
}

#[derive(Default)]
pub(super) struct State {
    pub head: Option<Head>,
    /// A transaction has lent the head to checkpoints, and no other transaction may have it.
    is_lent: bool,
    /// Records that wait for a sync, the first of them, and the version that they lead to.
    queue: Vec<u8>,
    group: u64,
    queued: Option<Version>,
    syncing: bool,
    pub durable_lsn: u64,
    /// Offset in the log behind everything queued, and the log's length.
    pub log_offset: u64,
    pub log_len: u64,
    checkpoints_running: u32,
    checkpointer: Option<JoinHandle<()>>,
    poisoned: Option<Arc<str>>,
    /// Threads that wait for the head.
    waiting: u32,
    /// Bytes of pages that the head has changed.
    changed_bytes: u64,
    totals: UpdateStats,
}

impl State {
    /// Counts a commit whose record has so many bytes.
    pub fn count(&mut self, payload_bytes: u64, record_bytes: u64, lists: &EditCounts) {
        self.log_offset += record_bytes;
        self.totals.log_bytes += record_bytes;
        self.totals.commits += 1;
        self.totals.payload_bytes += payload_bytes;
        self.totals.lists.add(lists);
    }

    /// Puts the head back for the next transaction.
    pub fn give_back(&mut self, head: Head) {
        let changed = |s: &Segment| s.changed.len() as u64 * u64::from(s.meta.page_bytes);
        self.changed_bytes = head.version.segments.iter().map(changed).sum();
        self.head = Some(head);
    }
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
            durable_lsn: head.version.lsn,
            log_offset: log.place().offset,
            log_len: log.file_bytes(),
            head: Some(head),
            ..State::default()
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends the head, and an edit of it, when the turn of a transaction comes.
    pub fn begin(self: &Arc<Self>) -> Result<(Head, Edit), UpdateError> {
        self.make_room()?;
        self.inner.pay_changes();
        let mut head = self.take_head(|state| !state.is_lent)?;
        let mut edit = Edit::new(&self.inner, &self.pool, &head.version);
        edit.clean = std::mem::take(&mut head.clean);
        Ok((head, edit))
    }

    /// Waits for the head and takes it out, when it is there and `may_take` says so.
    fn take_head(&self, may_take: impl Fn(&State) -> bool) -> Result<Head, UpdateError> {
        let mut state = self.lock();
        loop {
            check(&state)?;
            if may_take(&state)
                && let Some(head) = state.head.take()
            {
                return Ok(head);
            }
            state.waiting += 1;
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Puts the head back for the next one.
    pub fn give_back(&self, head: Head) {
        self.lock().give_back(head);
        self.turn.notify_all();
    }

    /// Queues the record of a transaction, puts the next head back, and waits until it is durable.
    pub fn commit(&self, mut head: Head, edit: Edit, ops: Ops) -> Result<(u64, u64), UpdateError> {
        let bytes = record_bytes(ops.bytes.len());
        if let Err(error) = self.reserve(bytes) {
            self.give_back(head);
            return Err(error);
        }
        let (lsn, before) = (head.version.lsn + 1, head.version.fingerprint);
        let mut state = self.lock();
        if let Err(error) = check(&state) {
            state.give_back(head);
            return Err(error);
        }
        let fingerprint = chain(before, lsn, &ops.bytes);
        let counts = head.advance(&self.inner, edit, (before, fingerprint));
        if state.queue.is_empty() {
            state.group = lsn;
        }
        let (group, file_bytes) = (state.group, state.log_len);
        encode_record(lsn, group, file_bytes, before, &ops.bytes, &mut state.queue);
        state.count(ops.payload_bytes, bytes, &counts);
        self.note_deleted(&head, ops);
        state.queued = Some(head.version.clone());
        state.give_back(head);
        self.turn.notify_all();
        if ng_types::canary::planted("ack_before_sync") {
            let early = state.queued.clone();
            if let Some(version) = early {
                self.publish(version);
            }
            return Ok((lsn, fingerprint));
        }
        self.wait_durable(state, lsn)?;
        Ok((lsn, fingerprint))
    }

    /// Notes the ids that are free once nobody sees their nodes.
    pub(super) fn note_deleted(&self, head: &Head, ops: Ops) {
        if head.version.catalog.reuse_ids {
            self.seen().delete(head.version.lsn, ops.deleted.into_iter());
        }
    }

    /// Makes room in the log for a record, while no other transaction can queue one.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), UpdateError> {
        let end = {
            let state = self.lock();
            check(&state)?;
            let end = state.log_offset + bytes;
            if end + LOG_STEP_BYTES <= state.log_len {
                return Ok(());
            }
            end
        };
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let result = log.reserve(end);
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

    /// Writes records behind the log and makes them durable; fails if the writer has been retired
    /// meanwhile, whose place another one may have taken.
    pub(super) fn append(&self, records: &[u8]) -> Result<(), UpdateError> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        check(&self.lock())?;
        Ok(log.append(records)?)
    }

    /// Waits until a commit that was queued is durable.
    pub fn wait_for(&self, lsn: u64) -> Result<(), UpdateError> {
        self.wait_durable(self.lock(), lsn)
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
            let result = self.append(&group);
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
    pub(super) fn publish(&self, version: Version) {
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
        let budget = &self.inner.budget;
        let is_long =
            |state: &State, halves: u64| state.log_offset > halves * self.log_bytes_max / 2;
        let mut state = self.lock();
        // What only older versions hold, which snapshots see, would not go away.
        let is_much = state.changed_bytes > budget.share(MemoryUser::ChangedPages);
        if !is_much && !is_long(&state, START_HALVES) {
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
        while state.checkpoints_running > 0
            && (self.pool.bytes() > budget.share(MemoryUser::ChangedPagesAtMost)
                || is_long(&state, WAIT_HALVES))
        {
            check(&state)?;
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Takes the head once everything before it is durable.
    pub fn take_durable_head(&self) -> Result<Head, UpdateError> {
        let head = self.take_head(|_| true)?;
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

    /// Lets new snapshots see what a recovery has found.
    pub fn show_head(&self) -> Result<(), UpdateError> {
        self.give_back_rebased(self.take_head(|_| true)?);
        Ok(())
    }

    /// Checkpoints for a transaction that has the head: earlier commits give back the memory that
    /// they hold. There is no head any more if the writer was closed or poisoned.
    pub fn make_room_for(&self, head: Head) -> (Option<Head>, Result<(), UpdateError>) {
        let mut state = self.lock();
        state.is_lent = true;
        state.give_back(head);
        drop(state);
        self.turn.notify_all();
        let done = self.checkpoint();
        let taken = self.take_head(|_| true);
        self.lock().is_lent = false;
        match taken {
            Ok(head) => (Some(head), done.map(drop)),
            Err(error) => (None, Err(error)),
        }
    }

    /// Puts a head back after a checkpoint: what it says is published.
    pub fn give_back_rebased(&self, head: Head) {
        let mut state = self.lock();
        self.publish(head.version.clone());
        state.give_back(head);
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

    /// An error if nothing may be written any more.
    pub fn check(&self) -> Result<(), UpdateError> {
        check(&self.lock())
    }

    /// Whether a transaction is open.
    pub fn is_busy(&self) -> bool {
        self.lock().head.is_none()
    }

    /// Checkpoints, and lets another handle write whatever comes of that; transactions that are
    /// still open cannot be committed any more.
    pub fn close(&self) -> Result<(), UpdateError> {
        self.settle();
        let done = self.checkpoint();
        self.retire();
        done.map(drop)
    }

    /// Takes no more commits and lets another handle write.
    pub fn retire(&self) {
        self.poison(&"the store was closed, or its writer was stopped");
        self.settle();
        // An append that is under way ends first, and so does what writes a root; later ones see
        // that they may not.
        drop(self.log.lock().unwrap_or_else(PoisonError::into_inner));
        drop(self.files.lock().unwrap_or_else(PoisonError::into_inner));
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
        let totals = self.lock().totals;
        self.counted(totals)
    }

    /// The same; `None` while a commit is made.
    pub fn try_update_stats(&self) -> Option<UpdateStats> {
        let totals = match self.state.try_lock() {
            Ok(state) => state.totals,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().totals,
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.counted(totals))
    }

    fn counted(&self, totals: UpdateStats) -> UpdateStats {
        let counts = self.stats.counts();
        UpdateStats {
            write_bytes: counts.write_bytes,
            writes: counts.writes,
            syncs: counts.syncs,
            changed_bytes: self.pool.bytes(),
            sync_us: counts.sync_us,
            ..totals
        }
    }

    /// Counts a checkpoint.
    pub fn count_checkpoint(&self, files: &CheckpointFiles) {
        let totals = &mut self.lock().totals;
        totals.checkpoints = files.checkpoints;
        totals.pages_written = files.pages_written;
        totals.pages_reused = files.pages_reused();
    }
}

fn check(state: &State) -> Result<(), UpdateError> {
    match &state.poisoned {
        Some(cause) => Err(UpdateError::Poisoned { cause: Arc::clone(cause) }),
        None => Ok(()),
    }
}

pub(super) fn poison(state: &mut State, error: &dyn std::fmt::Display) {
    if state.poisoned.is_none() {
        state.poisoned = Some(error.to_string().into());
    }
}
