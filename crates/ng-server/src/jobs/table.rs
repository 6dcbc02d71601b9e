//! Jobs that wait, run and are kept, within bounds.

use std::collections::VecDeque;
use std::sync::Arc;

use ng_rpc::Problem;
use tokio::sync::{Notify, watch};

use super::bounds::JobBounds;
use super::{About, Found, Progress, full};
use crate::guard::shutting_down;

/// A job that has not been forgotten.
pub(super) struct Record {
    pub about: Arc<About>,
    pub progress: watch::Receiver<Progress>,
    pub cancel: Arc<Notify>,
    /// Of its targets, and of its result once it has ended.
    pub bytes: u64,
}

impl Record {
    pub fn found(&self) -> Found {
        Found { about: Arc::clone(&self.about), progress: self.progress.clone() }
    }
}

/// Jobs by age.
#[derive(Default)]
pub(super) struct Table {
    unfinished: VecDeque<Record>,
    /// The one that ended first comes first.
    ended: VecDeque<Record>,
    is_closed: bool,
}

impl Table {
    pub fn add(&mut self, record: Record, bounds: &JobBounds) -> Result<(), Problem> {
        if self.is_closed {
            return Err(shutting_down());
        }
        let count = self.unfinished.len();
        if count >= bounds.unfinished {
            return Err(full(format!("{count} jobs are waiting or running, which is the limit")));
        }
        let bytes = record.bytes + self.unfinished.iter().map(|one| one.bytes).sum::<u64>();
        if bytes > bounds.target_bytes {
            let most = bounds.target_bytes;
            return Err(full(format!(
                "the targets of all unfinished jobs need {bytes} bytes, and the limit is {most}"
            )));
        }
        self.unfinished.push_back(record);
        Ok(())
    }

    pub fn get(&self, id: &str) -> Option<&Record> {
        self.all().find(|record| record.about.id == id)
    }

    /// Those that have ended come first.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.ended.iter().chain(&self.unfinished)
    }

    /// A job has ended with a result of `bytes`; older ones make room for it.
    pub fn end(&mut self, id: &str, bytes: u64, bounds: &JobBounds) {
        let Some(at) = self.unfinished.iter().position(|one| one.about.id == id) else { return };
        let Some(mut record) = self.unfinished.remove(at) else { return };
        record.bytes = bytes;
        self.ended.push_back(record);
        let mut kept: u64 = self.ended.iter().map(|one| one.bytes).sum();
        while self.ended.len() > 1 && (kept > bounds.kept_bytes || self.ended.len() > bounds.kept) {
            kept -= self.ended.pop_front().map_or(0, |gone| gone.bytes);
        }
    }

    pub fn forget(&mut self, id: &str) {
        self.ended.retain(|one| one.about.id != id);
    }

    /// Takes no more jobs, and cancels those that there are.
    pub fn close(&mut self) {
        self.is_closed = true;
        for record in &self.unfinished {
            record.cancel.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, bytes: u64) -> Record {
        let (_tell, progress) = watch::channel(Progress::default());
        let about = About {
            id: id.into(),
            graph: String::new(),
            model: String::new(),
            targets: 0,
            owner: None,
        };
        Record { about: Arc::new(about), progress, cancel: Arc::default(), bytes }
    }

    #[test]
    fn jobs_are_bounded_by_number_and_bytes_before_and_after_their_end() {
        let bounds = JobBounds {
            unfinished: 3,
            target_bytes: 100,
            kept: 2,
            kept_bytes: 1000,
            ..JobBounds::default()
        };
        let mut table = Table::default();
        table.add(record("a", 60), &bounds).expect("room");
        let refused = table.add(record("b", 41), &bounds).expect_err("too many bytes");
        assert_eq!(refused.reason, "JOBS_FULL");
        assert!(refused.retry_after.is_some());
        table.add(record("b", 40), &bounds).expect("room");
        table.add(record("c", 0), &bounds).expect("room");
        assert!(table.add(record("d", 0), &bounds).is_err());
        let ids = |table: &Table| {
            table.all().map(|one| one.about.id.clone()).collect::<Vec<_>>().join("")
        };
        table.end("b", 600, &bounds);
        assert_eq!(ids(&table), "bac");
        table.end("a", 400, &bounds);
        assert_eq!(ids(&table), "bac");
        table.end("c", 1, &bounds);
        // Both by bytes and by number the oldest result had to go.
        assert_eq!(ids(&table), "ac");
        table.add(record("e", 100), &bounds).expect("all have ended");
        table.end("e", 5000, &bounds);
        assert_eq!(ids(&table), "e");
        table.forget("e");
        assert_eq!(ids(&table), "");
        table.close();
        assert!(table.add(record("f", 0), &bounds).is_err());
    }
}
