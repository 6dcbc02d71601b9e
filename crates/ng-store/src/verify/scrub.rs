//! Looking for rot in a store that is in use.

use std::time::{Duration, Instant};

use crate::cache::slots::Share;
use crate::error::ReadError;
use crate::page::Pages;
use crate::store::Store;
use crate::verify::{Pass, Progress, Run, VerifyReport};

/// Keeps reading below a rate.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes a second, and since when.
    limit: Option<(u64, Instant)>,
    bytes: u64,
}

impl Pace {
    fn new(bytes_per_second: Option<u64>) -> Self {
        let limit = bytes_per_second.map(|limit| (limit.max(1), Instant::now()));
        Self { limit, bytes: 0 }
    }

    /// Sleeps as long as more was read than the rate allows.
    pub fn after(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some((limit, start)) = self.limit {
            let due = Duration::from_secs_f64(self.bytes as f64 / limit as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
}

impl Store {
    /// Reads every block of the last checkpoint and both root slots, and compares them with their
    /// checksums, while readers and writers continue. It bypasses the caches. `bytes_per_second`
    /// limits its rate. It does not check structures; [`verify`](crate::verify()) does.
    ///
    /// # Errors
    /// [`ReadError::Budget`] if there is no memory to work with; damage is in the report.
    pub fn scrub(
        &self,
        progress: &mut Progress<'_>,
        bytes_per_second: Option<u64>,
    ) -> Result<VerifyReport, ReadError> {
        let snapshot = self.snapshot();
        let (inner, version) = (snapshot.inner.as_ref(), snapshot.version.as_ref());
        let reader = inner.pages.reader.clone();
        let pages = Pages::new(reader, Share::new(inner.budget.clone(), 0), None);
        let mut progress = |done, total| progress(done, total);
        let mut run = Run::new(inner, version, &pages, &mut progress);
        run.pace = Pace::new(bytes_per_second);
        run.check_roots(Pass::Scrub);
        for segment in &version.segments {
            // A segment that came into being after the checkpoint has no files.
            if segment.meta.num_pages > 0 && !run.stopped {
                run.check_present(&segment.placed)?;
            }
        }
        Ok(run.finish())
    }
}
