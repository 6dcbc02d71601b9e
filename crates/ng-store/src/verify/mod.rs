//! Checking a whole store: every root slot, every block, every structure, every cross reference.
//!
//! Works inside the budget: segments are scanned in windows, trees are walked with one page per
//! level. A problem does not stop the check; what depends on a damaged page is left out, since the
//! damage itself is reported.

mod blocks;
mod dictionary;
mod gmap;
mod roots;
mod topology;
mod tree_cursor;

use std::path::Path;
use std::sync::Arc;

use ng_types::{EdgeTypeId, NodeTypeId};

use crate::error::{OpenError, ReadError};
use crate::io::Disk;
use crate::store::{Inner, OpenOptions, Store};

/// Problems that a report holds at most; more are only counted.
const PROBLEMS_MAX: usize = 10_000;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File inside the store directory.
    pub file: String,
    /// Logical page, where it is known.
    pub page: Option<u64>,
    /// 4 KiB block of the file, where it is known.
    pub block: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Data blocks read.
    pub blocks: u64,
    /// Topology pages checked.
    pub pages: u64,
    /// What is wrong; empty for a sound store.
    pub problems: Vec<Problem>,
    /// Problems beyond those listed.
    pub problems_omitted: u64,
    /// The caller stopped the check, so part of the store was not looked at.
    pub stopped: bool,
}

impl VerifyReport {
    /// Whether all was looked at and nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty() && !self.stopped
    }

    fn add(&mut self, file: &str, page: Option<u64>, block: Option<u64>, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { file: file.into(), page, block, what: what.into() });
        } else {
            self.problems_omitted += 1;
        }
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
            other => self.add(file, None, None, other.to_string()),
        }
    }
}

/// Hears how many of how many blocks are done, several times a second; `false` stops the check.
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// State of one run.
struct Run<'a> {
    inner: &'a Inner,
    report: VerifyReport,
    progress: &'a mut Progress<'a>,
    done: u64,
    total: u64,
    stopped: bool,
}

/// Checks the store in directory `path`.
///
/// # Errors
/// [`OpenError`] if it cannot be opened at all; everything else is in the report.
pub fn verify(
    path: &Path,
    options: &OpenOptions,
    progress: &mut Progress<'_>,
) -> Result<VerifyReport, OpenError> {
    run(&Store::open(path, options)?, progress)
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
    run(&Store::open_on(disk, options)?, progress)
}

fn run(store: &Store, progress: &mut Progress<'_>) -> Result<VerifyReport, OpenError> {
    let snapshot = store.snapshot();
    let inner = snapshot.inner.as_ref();
    let catalog = &inner.catalog;
    let blocks =
        |segment: &crate::pages::Segment| segment.meta.num_pages * segment.blocks_per_page();
    let total = inner.segments.iter().map(blocks).sum();
    let mut progress = |done, total| progress(done, total);
    let report = VerifyReport::default();
    let mut run = Run { inner, report, progress: &mut progress, done: 0, total, stopped: false };
    run.check_roots();
    let mut topologies = vec![false; inner.segments.len()];
    for index in 0..catalog.edge_types.len() {
        let id = EdgeTypeId(index as u16);
        let (meta, topo, tree) = inner.topology(id)?;
        for segment in [topo, tree] {
            if let Some(flag) = topologies.get_mut(segment.id as usize) {
                *flag = true;
            }
        }
        run.check_blocks(tree, &mut |_, _, _, _| {});
        run.check_topology(id, meta, topo, tree);
    }
    for (segment, checked) in inner.segments.iter().zip(&topologies) {
        if !checked {
            run.check_blocks(segment, &mut |_, _, _, _| {});
        }
    }
    for index in 0..catalog.node_types.len() {
        if run.stopped {
            break;
        }
        run.check_dictionary(&snapshot, NodeTypeId(index as u16));
    }
    run.report.stopped = run.stopped;
    Ok(run.report)
}
