//! From backups back to a store, and the same check without a store.

use std::path::Path;
use std::sync::Arc;

use ng_io::{Existing, StagingDir, Writer};
use serde::Serialize;

use crate::build::finish::PINS;
use crate::io::{BLOCK_BYTES, Disk, open_without_queue, sync_dir};
use crate::page::{Located, Placed, data_file, table_file};
use crate::verify::Progress;
use crate::version::root::SLOTS;
use crate::write::log::{LOG_STEP_BYTES, LOGS};

use super::error::BackupError;
use super::member::{Member, open_chain};
use super::part::Part;
use super::table::{Group, Walk};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Pages that are read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// The content of a restored store or of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// The number of the store's checkpoint.
    pub checkpoint_id: u64,
    /// The last commit that it contains.
    pub lsn: u64,
    /// Its fingerprint, 16 hexadecimal digits.
    pub fingerprint: String,
    /// How many backups hold it: the whole one, and those with later pages.
    pub backups: u64,
    /// Pages of the store.
    pub pages: u64,
    /// Bytes of the backups that were read.
    pub bytes_read: u64,
}

/// Restores a store into the new directory `target` from a backup and its chain of bases. Every
/// byte is checked before it is written. The store appears complete and durable, or not at all.
/// `progress` receives the done and the total blocks of the backups; returning `false` stops the
/// restore.
///
/// # Errors
/// [`BackupError::Damaged`] names the file and the block; [`BackupError::BaseMissing`],
/// [`BackupError::BaseExchanged`], [`BackupError::TargetExists`], and all others.
pub fn restore(
    backup: &Path,
    target: &Path,
    progress: &mut Progress<'_>,
) -> Result<RestoreReport, BackupError> {
    let chain = open_chain(backup)?;
    let staging = StagingDir::create(target, Existing::Refuse)?;
    let disk = open_without_queue(staging.path())
        .map_err(|error| BackupError::Unsupported { what: error.to_string() })?;
    let report = Restoring::new(&chain, Some(&disk), progress).run()?;
    if let Some(newest) = chain.last() {
        finish_store(&disk, newest)?;
    }
    staging.publish()?;
    Ok(report)
}

/// Reads a backup and all that it was made on as [`restore`] does, and writes nothing.
///
/// # Errors
/// Those of [`restore`] but for writing.
pub fn verify_backup(
    backup: &Path,
    progress: &mut Progress<'_>,
) -> Result<RestoreReport, BackupError> {
    Restoring::new(&open_chain(backup)?, None, progress).run()
}

/// The files of a segment of the new store.
struct Files {
    data: Writer,
    table: Writer,
}

impl Files {
    fn open(disk: &Arc<dyn Disk>, placed: &Placed) -> Result<Self, BackupError> {
        let open = |name: String| Writer::open_or_create(Arc::clone(disk), &name);
        let name = &placed.meta.name;
        Ok(Self { data: open(data_file(name))?, table: open(table_file(name))? })
    }

    /// Writes the blocks of a group to where the page table says that they are.
    fn write_table(&mut self, group: &Group) -> Result<(), BackupError> {
        for (block, bytes) in group.places.iter().zip(group.blocks.chunks_exact(BLOCK_BYTES)) {
            self.table.write_at(block * BLOCK, bytes)?;
        }
        Ok(())
    }

    /// What no page reaches at the end of a file is there all the same.
    fn lengthen(&mut self, placed: &Placed) -> Result<(), BackupError> {
        let meta = &placed.meta;
        let data_bytes = meta.physical_pages() * u64::from(meta.page_bytes);
        lengthen(&mut self.data, data_bytes)?;
        lengthen(&mut self.table, meta.map_blocks * BLOCK)
    }
}

fn lengthen(file: &mut Writer, len: u64) -> Result<(), BackupError> {
    if file.len() < len {
        file.write_at(len - BLOCK, &[0; BLOCK_BYTES])?;
    }
    Ok(())
}

/// Reading a chain of backups, into a new store if there is a disk.
struct Restoring<'a, 'p> {
    chain: &'a [Member],
    disk: Option<&'a Arc<dyn Disk>>,
    progress: &'a mut Progress<'p>,
    done: u64,
    total: u64,
    /// Pages that were found for the newest backup.
    found: u64,
    report: RestoreReport,
}

impl<'a, 'p> Restoring<'a, 'p> {
    fn new(
        chain: &'a [Member],
        disk: Option<&'a Arc<dyn Disk>>,
        progress: &'a mut Progress<'p>,
    ) -> Self {
        let bytes: u64 = chain.iter().map(Member::bytes).sum();
        let blocks = chain.iter().map(|member| member.manifest.pages_bytes / BLOCK).sum();
        let mut report = RestoreReport {
            backups: chain.len() as u64,
            bytes_read: bytes,
            ..RestoreReport::default()
        };
        if let Some(newest) = chain.last() {
            let snapshot = newest.manifest.snapshot.clone();
            (report.checkpoint_id, report.lsn) = (snapshot.checkpoint_id, snapshot.lsn);
            report.fingerprint = snapshot.fingerprint;
        }
        Self { chain, disk, progress, done: 0, total: blocks, found: 0, report }
    }

    fn run(mut self) -> Result<RestoreReport, BackupError> {
        let Some((newest, older)) = self.chain.split_last() else { return Ok(self.report) };
        for member in older {
            self.read_member(member, Some(newest))?;
        }
        self.read_member(newest, None)?;
        if self.found != self.report.pages {
            let (pages, found) = (self.report.pages, self.found);
            let what = format!(
                "the page tables list {pages} pages, but the backup and its bases hold {found}"
            );
            return Err(newest.tables()?.error(what));
        }
        Ok(self.report)
    }

    /// Checks all pages of a backup, and writes those that `newest` still has; `None` is itself.
    fn read_member(&mut self, member: &Member, newest: Option<&Member>) -> Result<(), BackupError> {
        let (mut tables, mut pages) = (member.tables()?, member.pages()?);
        let mut newer = newest.map(Member::tables).transpose()?;
        for (id, placed) in member.segments.iter().enumerate() {
            let mut files = self.disk.map(|disk| Files::open(disk, placed)).transpose()?;
            let mut walk = Walk::new(placed, &mut tables);
            let newer_placed = newest.and_then(|newest| newest.segments.get(id));
            let mut newer = match (&mut newer, newer_placed) {
                (Some(part), Some(placed)) => Some(Walk::new(placed, part)),
                _ => None,
            };
            while let Some(group) = walk.next()? {
                let keep = match &mut newer {
                    Some(walk) => {
                        let newer = walk.next()?.unwrap_or_default();
                        group.is_also_in(&newer)
                    }
                    None => {
                        self.report.pages += group.pages.len() as u64;
                        files.as_mut().map_or(Ok(()), |files| files.write_table(&group))?;
                        vec![true; group.pages.len()]
                    }
                };
                self.read_pages(member, placed, &group, &keep, (&mut pages, files.as_mut()))?;
            }
            // What the newest one has beyond, so that its next segment begins where it should.
            while let Some(walk) = &mut newer
                && walk.next()?.is_some()
            {}
            match &mut files {
                Some(files) if newest.is_none() => files.lengthen(placed)?,
                _ => {}
            }
        }
        tables.finish()?;
        pages.finish()
    }

    fn read_pages(
        &mut self,
        member: &Member,
        placed: &Placed,
        group: &Group,
        keep: &[bool],
        (pages, mut files): (&mut Part, Option<&mut Files>),
    ) -> Result<(), BackupError> {
        let held = |index: &usize| group.pages.get(*index).is_some_and(|page| member.holds(page));
        let held: Vec<usize> = (0..group.pages.len()).filter(held).collect();
        let page_bytes = placed.meta.page_bytes as usize;
        let mut window = Vec::with_capacity(WINDOW_BYTES);
        for some in held.chunks(WINDOW_BYTES / page_bytes) {
            window.clear();
            // Runs of pages that stand next to each other in the store, too.
            let mut runs: Vec<(u64, std::ops::Range<usize>)> = Vec::new();
            for index in some {
                let Some(page) = group.pages.get(*index) else { continue };
                let of = || format!("page {} of {}", page.logical, placed.meta.name);
                let start = window.len();
                let crcs = group.located(*index).map(|at: Located| at.crc);
                pages.take(crcs, &mut window, &of)?;
                if !keep[*index] {
                    continue;
                }
                self.found += 1;
                let offset = page.physical * page_bytes as u64;
                match runs.last_mut() {
                    Some((first, run))
                        if run.end == start && *first + run.len() as u64 == offset =>
                    {
                        run.end = window.len();
                    }
                    _ => runs.push((offset, start..window.len())),
                }
            }
            if let Some(files) = &mut files {
                runs.into_iter()
                    .try_for_each(|(offset, run)| files.data.write_at(offset, &window[run]))?;
            }
            self.done += (window.len() / BLOCK_BYTES) as u64;
            if !(self.progress)(self.done.min(self.total), self.total) {
                return Err(BackupError::Stopped);
            }
        }
        Ok(())
    }
}

/// Roots, an empty log and the file of locks.
fn finish_store(disk: &Arc<dyn Disk>, newest: &Member) -> Result<(), BackupError> {
    let create = |name| Writer::open_or_create(Arc::clone(disk), name);
    for (number, name) in (0..).zip(LOGS) {
        // Version 0 has no log.
        let Some(log) = newest.catalog.log else { continue };
        let offset = if log.file == number { log.offset } else { 0 };
        lengthen(&mut create(name)?, offset + LOG_STEP_BYTES)?;
    }
    create(PINS)?;
    for name in SLOTS {
        create(name)?.write_at(0, &newest.root)?;
    }
    Ok(sync_dir(disk.as_ref())?)
}
