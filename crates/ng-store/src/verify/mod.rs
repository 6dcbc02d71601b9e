//! Checking a whole store: every root slot, every block, every structure, every cross reference,
//! and the log behind it.
//!
//! Works inside the budget: pages are read in windows, trees are walked with one page per level,
//! and what was seen is one bit a page. A problem does not stop the check; what depends on a
//! damaged page is left out, since the damage itself is reported. Nothing is written.

mod blocks;
mod dead;
mod dictionary;
mod gmap;
mod holds;
mod lists;
mod order;
mod roots;
mod scrub;
mod table;
mod topology;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use ng_types::{EdgeTypeId, NodeTypeId};
use serde::Serialize;

use crate::catalog::{TensorMeta, TensorRef};
use crate::error::{OpenError, ReadError};
use crate::io::Disk;
use crate::limits::PROBLEMS_MAX;
use crate::page::{Pages, Segment};
use crate::store::{Inner, OpenOptions, REPLACED_MAX, Snapshot, Store};
use crate::verify::scrub::Pace;
use crate::version::base::Version;
use crate::write::error::UpdateError;
use crate::write::recover::inspect_log;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Problem {
    /// File inside the store directory.
    pub file: String,
    /// Logical page, where it is known.
    pub page: Option<u64>,
    /// 4 KiB block of the file, where it is known.
    pub block: Option<u64>,
    /// The problem.
    pub what: String,
    /// The content of the file, where the catalog names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Data blocks read.
    pub blocks: u64,
    /// Topology pages checked.
    pub pages: u64,
    /// The problems; empty for a sound store.
    pub problems: Vec<Problem>,
    /// Problems beyond those listed.
    pub problems_omitted: u64,
    /// Deviations that do no harm and that the next writer repairs.
    pub notes: Vec<Problem>,
    /// Commits in the log that the root does not contain; the next writer puts them into the store.
    pub log_commits: u64,
    /// The log has blocks that belong to no commit, as a writer that was interrupted leaves them.
    pub log_torn: bool,
    /// The caller stopped the check, so part of the store was not looked at.
    #[serde(skip)]
    pub stopped: bool,
}

impl VerifyReport {
    /// Whether all was looked at and nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty() && !self.stopped
    }

    fn num_problems(&self) -> u64 {
        self.problems.len() as u64 + self.problems_omitted
    }

    fn add(&mut self, file: &str, page: Option<u64>, block: Option<u64>, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            let (file, what) = (file.into(), what.into());
            self.problems.push(Problem { file, page, block, what, holds: None });
        } else {
            self.problems_omitted += 1;
        }
    }

    fn note(&mut self, file: &str, block: Option<u64>, what: impl Into<String>) {
        let (file, what) = (file.into(), what.into());
        self.notes.push(Problem { file, page: None, block, what, holds: None });
    }

    fn add_error(&mut self, file: &str, error: &ReadError) {
        match error {
            ReadError::Checksum { file, page, block, expected, found } => {
                let what = format!("checksum {found:#010x}, expected {expected:#010x}");
                self.add(file, Some(*page), Some(*block), what);
            }
            ReadError::Damaged { file, page, what } => {
                self.add(file, Some(*page), None, what.as_str());
            }
            ReadError::Io(_)
            | ReadError::NodeOutOfRange { .. }
            | ReadError::RowOutOfRange { .. }
            | ReadError::PositionOutOfRange { .. }
            | ReadError::Missing { .. }
            | ReadError::OutputSize { .. }
            | ReadError::Decode { .. }
            | ReadError::Order { .. }
            | ReadError::Budget(_)
            | ReadError::NotYet
            | ReadError::NoMemory { .. } => self.add(file, None, None, error.to_string()),
        }
    }
}

/// Hears how many of how many blocks are done, several times a second; `false` stops the check.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// Why blocks are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Nobody writes.
    Verify,
    /// The store is in use.
    Scrub,
}

/// State of one run.
struct Run<'a> {
    inner: &'a Inner,
    version: &'a Version,
    /// Reads blocks, through a cache or not.
    pages: &'a Pages,
    report: VerifyReport,
    progress: &'a mut Progress<'a>,
    pace: Pace,
    /// No writer was interrupted, so files have their exact lengths.
    at_rest: bool,
    done: u64,
    total: u64,
    /// What `done` is when the segments so far are.
    segment_end: u64,
    stopped: bool,
}

/// Checks the store in directory `path` as the last checkpoint left it, and its log.
///
/// # Errors
/// [`OpenError`] if it cannot be opened at all; everything else is in the report.
pub fn verify(
    path: &Path,
    options: &OpenOptions,
    progress: &mut Progress<'_>,
) -> Result<VerifyReport, OpenError> {
    let mut tries = 1;
    loop {
        let store = Store::open(path, &as_it_is(options))?;
        let report = run(&store, progress);
        // What was not open yet when the store was replaced is missing, and no damage.
        let is_ok = report.as_ref().is_ok_and(|report| report.problems.is_empty());
        if is_ok || store.is_current() || tries == REPLACED_MAX {
            return report;
        }
        tries += 1;
    }
}

/// Checks a store on any disk.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(
    disk: Arc<dyn Disk>,
    options: &OpenOptions,
    progress: &mut Progress<'_>,
) -> Result<VerifyReport, OpenError> {
    run(&Store::open_on(disk, &as_it_is(options))?, progress)
}

/// Recovery would change the store, and nothing is read twice.
fn as_it_is(options: &OpenOptions) -> OpenOptions {
    OpenOptions { recover: false, ..options.passing() }
}

fn run(store: &Store, progress: &mut Progress<'_>) -> Result<VerifyReport, OpenError> {
    let snapshot = store.snapshot();
    let (inner, version) = (snapshot.inner.as_ref(), snapshot.version.as_ref());
    let mut progress = |done, total| progress(done, total);
    let mut run = Run::new(inner, version, &inner.pages, &mut progress);
    run.check_roots(Pass::Verify);
    run.check_log();
    run.check_segments(&snapshot)?;
    Ok(run.finish())
}

impl<'a> Run<'a> {
    fn new(
        inner: &'a Inner,
        version: &'a Version,
        pages: &'a Pages,
        progress: &'a mut Progress<'a>,
    ) -> Self {
        let blocks = |segment: &Segment| segment.meta.num_pages * segment.blocks_per_page();
        Self {
            inner,
            version,
            pages,
            report: VerifyReport::default(),
            progress,
            pace: Pace::default(),
            at_rest: false,
            done: 0,
            total: version.segments.iter().map(blocks).sum(),
            segment_end: 0,
            stopped: false,
        }
    }

    fn check_log(&mut self) {
        match inspect_log(self.inner, self.version) {
            Ok(recovery) => {
                self.report.log_commits = recovery.commits;
                self.report.log_torn = recovery.torn;
                self.at_rest = recovery.commits == 0;
            }
            Err(UpdateError::Stopped) => self.stopped = true,
            Err(UpdateError::Read(error)) => self.report.add_error("wal", &error),
            Err(ref error @ UpdateError::LogDamaged { ref file, .. }) => {
                self.report.add(file, None, None, error.to_string());
            }
            Err(
                error @ (UpdateError::Busy { .. }
                | UpdateError::NodeNotFound { .. }
                | UpdateError::EdgeNotFound { .. }
                | UpdateError::ReverseMissing { .. }
                | UpdateError::RowWidth { .. }
                | UpdateError::Sparse { .. }
                | UpdateError::Unsupported { .. }
                | UpdateError::Broken { .. }
                | UpdateError::Poisoned { .. }
                | UpdateError::Build(_)
                | UpdateError::Open(_)
                | UpdateError::Write(_)),
            ) => self.report.add("wal", None, None, error.to_string()),
        }
    }

    /// Segments by what they belong to; that every one belongs to something, the catalog says.
    fn check_segments(&mut self, snapshot: &Snapshot) -> Result<(), ReadError> {
        let version: &'a Version = self.version;
        let (nodes, edges) = (&version.catalog.node_types, &version.catalog.edge_types);
        for index in 0..edges.len() {
            if !self.stopped {
                let id = EdgeTypeId(index as u16);
                self.check_topology(id, version.topology(id)?)?;
            }
        }
        for meta in edges {
            let back = meta.reverse.and_then(|reverse| edges.get(usize::from(reverse.0)));
            if let Some(back) = back.filter(|back| back.num_edges != meta.num_edges) {
                let (relation, other) = (&meta.relation, &back.relation);
                let what = format!(
                    "edge types {relation:?} and {other:?} differ in their number of edges"
                );
                self.report.add("root.a", None, None, what);
            }
        }
        let ids = || (0..nodes.len()).map(|index| NodeTypeId(index as u16));
        for id in ids() {
            if !self.stopped
                && let Err(error) = self.check_dead(id)
            {
                self.report.add_error("root.a", &error);
            }
        }
        let dictionaries = nodes.iter().filter_map(|owner| owner.dictionary);
        let dictionaries = dictionaries.flat_map(|d| [d.names, d.names_index, d.keys]);
        let entries = |t: &TensorMeta| t.sparse.map(|sparse| sparse.entries);
        let tensors = version.catalog.all_tensors();
        let tensors = tensors.flat_map(|t| [Some(t.segment), t.scales, entries(t)]).flatten();
        let orders = nodes.iter().filter_map(|owner| owner.order).map(|order| order.segment);
        for segment in dictionaries.chain(orders).chain(tensors) {
            if !self.stopped {
                self.check_whole(&version.segment(segment)?.placed)?;
            }
        }
        for tensor in version.catalog.tensor_refs() {
            if let (false, Err(error)) = (self.stopped, snapshot.scales(tensor)) {
                self.report.add_error("root.a", &error);
            }
            if !self.stopped {
                self.check_sparse(snapshot, tensor);
            }
        }
        for check in [Self::check_order, Self::check_dictionary] {
            for id in ids() {
                if !self.stopped {
                    check(self, snapshot, id);
                }
            }
        }
        Ok(())
    }

    /// That the entries of sparse rows are what rows can have, and no more than the catalog says.
    fn check_sparse(&mut self, snapshot: &Snapshot, tensor: TensorRef) {
        let sparse = self.version.catalog.tensor(tensor).and_then(|meta| meta.sparse);
        let Some(sparse) = sparse else { return };
        let mut count = 0;
        let scanned = snapshot.scan_sparse(tensor, &mut |_, found| {
            count += found.columns.len() as u64;
            Ok(())
        });
        match scanned {
            Ok(()) if count > sparse.num_entries => {
                let (file, whole) = (format!("t{}.dat", sparse.entries), sparse.num_entries);
                self.report.add(
                    &file,
                    None,
                    None,
                    format!("the rows have {count} entries, and the catalog says {whole}"),
                );
            }
            Ok(()) => {}
            Err(error) => self.report.add_error("root.a", &error),
        }
    }

    /// The report, without what was seen twice: by its checksum and by what it is part of.
    fn finish(mut self) -> VerifyReport {
        self.report.stopped = self.stopped;
        let mut seen = HashSet::new();
        self.report.problems.retain(|problem| {
            let place = (problem.file.clone(), problem.block);
            let rest = problem.block.is_none().then(|| (problem.page, problem.what.clone()));
            seen.insert((place, rest))
        });
        for problem in &mut self.report.problems {
            problem.holds = holds::content_of(&self.version.catalog, &problem.file);
        }
        self.report
    }
}
