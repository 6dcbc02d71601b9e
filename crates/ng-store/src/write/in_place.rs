//! Committing a draft by itself: its record is made durable first, and its operations are done on
//! the published version, where only pages that a snapshot shares have to be copied.
//!
//! What must not live here: records that share a sync, which are those of `writer.rs`. The
//! invariant: a version that an operation has left half done is seen by nobody.

use std::sync::{Arc, PoisonError};

use crate::page::{CleanPages, Edit, EditCounts};
use crate::version::base::Version;
use crate::write::error::UpdateError;
use crate::write::log::{chain, encode_record, record_bytes};
use crate::write::ops::Ops;
use crate::write::recover::rebuild;
use crate::write::writer::{Head, Writer};

impl Writer {
    /// Commits a batch that only checked its operations: in place if nobody else waits for a turn,
    /// else on copies, so that the next batch can begin during the sync.
    pub fn commit_draft(
        &self,
        mut head: Head,
        mut edit: Edit,
        ops: Ops,
    ) -> Result<(u64, u64), UpdateError> {
        let is_alone = loop {
            let is_alone = self.lock().is_alone();
            let prepared = edit.prefetch_all(&ops).and_then(|()| match is_alone {
                true => self.reserve(record_bytes(ops.bytes.len())),
                false => {
                    edit.restart(&head.version);
                    edit.replay_all(&ops.bytes)
                }
            });
            let Err(error) = prepared else { break is_alone };
            if !error.is_shortage() || !head.holds_memory() {
                head.clean = std::mem::take(&mut edit.clean);
                self.give_back(head);
                return Err(error);
            }
            drop(edit);
            let (found, done) = self.make_room_for(head);
            let Some(found) = found else { return done.map(|()| (0, 0)) };
            head = found;
            if let Err(error) = done {
                self.give_back(head);
                return Err(error);
            }
            edit = Edit::new(&self.inner, &self.pool, &head.version);
        };
        if !is_alone {
            return self.commit(head, edit, ops);
        }
        let clean = std::mem::take(&mut edit.clean);
        drop(edit);
        let (lsn, before) = (head.version.lsn + 1, head.version.fingerprint);
        let bytes = record_bytes(ops.bytes.len());
        let mut record = Vec::with_capacity(bytes as usize);
        encode_record(lsn, lsn, self.lock().log_len, before, &ops.bytes, &mut record);
        let written = match ng_types::canary::planted("ack_before_sync") {
            true => Ok(()),
            false => self.append(&record),
        };
        if let Err(error) = written {
            self.poison(&error);
            self.give_back(head);
            return Err(error);
        }
        let done = self.apply_in_place(&mut head, clean, &ops.bytes);
        match &done {
            Ok(counts) => {
                let mut state = self.lock();
                state.durable_lsn = lsn;
                state.count(ops.payload_bytes, bytes, counts);
                self.note_deleted(&head, ops);
            }
            Err(_) => self.take_back(bytes),
        }
        let fingerprint = head.version.fingerprint;
        self.give_back(head);
        done.map(|_| (lsn, fingerprint))
    }

    /// Does the operations of a durable record on the published version.
    ///
    /// If that fails (a page that has to be read is damaged, say) the version is lost half way:
    /// then the one before it is made again from the log.
    fn apply_in_place(
        &self,
        head: &mut Head,
        clean: CleanPages,
        ops: &[u8],
    ) -> Result<EditCounts, UpdateError> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let (base, catalog) = (Arc::clone(&head.version.base), Arc::clone(&head.version.catalog));
        let (lsn, before) = (head.version.lsn, head.version.fingerprint);
        // Nobody but the published version may share its pages.
        let fallback = base.version();
        head.version = Version { lsn, ..fallback.clone() };
        let published = std::mem::replace(&mut *current, Arc::new(fallback));
        let mut edit =
            Edit::owning(&self.inner, &self.pool, Arc::unwrap_or_clone(published), clean);
        edit.nodes_are_checked = true;
        let done = edit.replay_all(ops);
        let (mut counts, mut rebuilt) = (EditCounts::default(), Ok(()));
        if done.is_ok() {
            counts = head.advance(&self.inner, edit, (before, chain(before, lsn + 1, ops)));
        } else {
            // Old content must not pass for the newest: without segments nothing can be read.
            let segments = Vec::new();
            head.version =
                Version { base: Arc::clone(&base), catalog, segments, lsn, fingerprint: before };
            rebuilt = rebuild(&self.inner, &self.pool, &base, lsn).map(|found| {
                head.version = found;
            });
        }
        let version = Arc::new(head.version.clone());
        *current = Arc::clone(&version);
        drop(current);
        self.inner.see(&version);
        if let Err(error) = rebuilt {
            self.poison(&error);
        }
        done.map(|()| counts)
    }

    /// Takes the last record, which nobody was told of, out of the log again: it cannot be done,
    /// and the next one to open the store would fail at it, too.
    fn take_back(&self, bytes: u64) {
        let taken = self.log.lock().unwrap_or_else(PoisonError::into_inner).take_back(bytes);
        if let Err(error) = taken {
            self.poison(&error);
        }
    }
}
