//! The end of an import: everything checked, synced and published, and what it took.

use std::time::{Duration, Instant};

use crate::background::Topology;
use crate::failure::store_error;
use crate::importer::Stage;
use crate::{ImportError, ImportReport, Importer, OnProgress, Progress};

/// How often the progress callback is called while the topology is written.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);
/// What is shown meanwhile.
const STAGE: &str = "sort and write edges";

impl Importer {
    /// Waits for the topology, checks and writes the rest, syncs it, and renames the store to its
    /// path. `progress` is called several times per second; `false` stops the import.
    ///
    /// # Errors
    /// Errors of the input that were not found before, [`ImportError::Store`] for tensors with a
    /// wrong number of rows, [`ImportError::Cancelled`], and [`ImportError::Strict`] for notes if
    /// the import is strict. The path of the store is not changed then.
    pub fn finish(mut self, progress: &mut OnProgress<'_>) -> Result<ImportReport, ImportError> {
        self.check_sound()?;
        let result = self.end(progress);
        self.note(result)
    }

    /// Waits until the topology is written and the runs of its sort are removed. If this is called
    /// before the first row, the disk needs room for the larger of runs and rows instead of their
    /// sum, but sorting does not overlap with writing rows.
    ///
    /// # Errors
    /// Those of the sort, as [`Importer::finish`] has them.
    pub fn wait_for_topology(&mut self, progress: &mut OnProgress<'_>) -> Result<(), ImportError> {
        self.check_sound()?;
        let result = self.take_topology(progress);
        let topology = self.note(result)?;
        self.stage = Stage::Built(topology);
        Ok(())
    }

    /// The topology once it is written.
    fn take_topology(&mut self, progress: &mut OnProgress<'_>) -> Result<Topology, ImportError> {
        if matches!(self.stage, Stage::Edges) {
            self.build_topology()?;
        }
        if let Stage::Topology(job) = &self.stage {
            while !job.is_finished() {
                std::thread::sleep(PROGRESS_EVERY);
                if !progress(Progress { stage: STAGE, done: job.done(), total: job.total }) {
                    return Err(ImportError::Cancelled);
                }
            }
        }
        match std::mem::replace(&mut self.stage, Stage::Edges) {
            Stage::Topology(mut job) => job.join(),
            Stage::Built(topology) => Ok(topology),
            Stage::Edges => Err(ImportError::spec("the topology is not built")),
        }
    }

    fn end(&mut self, progress: &mut OnProgress<'_>) -> Result<ImportReport, ImportError> {
        let topology = self.take_topology(progress)?;
        let publishing = Instant::now();
        for (index, repeats) in topology.repeats {
            self.note_repeats(index, repeats);
        }
        let tensors = self.finish_tensors()?;
        let notes = self.take_notes()?;
        let mut builder = self
            .builder
            .take()
            .ok_or_else(|| ImportError::spec("the import has ended; start a new one"))?;
        for part in topology.parts {
            builder.add(part).map_err(store_error)?;
        }
        for part in tensors {
            builder.add(part).map_err(store_error)?;
        }
        let tensors = std::mem::take(&mut self.tensors);
        let summary = builder.commit().map_err(store_error)?;
        let place = self
            .place
            .take()
            .ok_or_else(|| ImportError::spec("the import has ended; start a new one"))?;
        let leftover = place.publish()?;
        let total = topology.total;
        progress(Progress { stage: STAGE, done: total, total });
        let seconds = |(from, to): (Instant, Instant)| (to - from).as_secs_f64();
        Ok(ImportReport {
            rows: self.edge_types.iter().map(|edge_type| edge_type.rows).sum(),
            entries: topology.entries,
            seconds: self.started.elapsed().as_secs_f64(),
            topology_seconds: seconds(topology.span),
            tensor_seconds: tensors.span.map_or(0.0, seconds),
            hidden_share: tensors.span.map_or(0.0, |span| overlap(topology.span, span)),
            publish_seconds: publishing.elapsed().as_secs_f64(),
            temp_bytes: self.slots.peak_bytes(),
            temp_written_bytes: self.slots.written_bytes(),
            disk_bytes: summary.disk_bytes,
            peak_rss_bytes: ng_io::peak_rss_bytes(),
            threads: self.plan.threads,
            notes,
            leftover,
            fingerprint: format!("{:016x}", summary.fingerprint),
        })
    }
}

/// The share of `span` that lies inside `other`.
fn overlap(span: (Instant, Instant), other: (Instant, Instant)) -> f64 {
    let from = span.0.max(other.0);
    let to = span.1.min(other.1);
    let whole = (span.1 - span.0).as_secs_f64();
    let shared = to.saturating_duration_since(from).as_secs_f64();
    if whole > 0.0 { shared / whole } else { 0.0 }
}
