//! Making a backup of a store while others read it and write to it.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use ng_io::{Existing, StagingDir};
use ng_types::canary::planted;
use serde::Serialize;

use crate::bytes::put;
use crate::cache::slots::Share;
use crate::error::{Damage, ReadError};
use crate::io::{Appender, BLOCK_BYTES, Disk, open_without_queue, sync_dir};
use crate::page::{Located, Pages, Placed, Window};
use crate::store::{Inner, Store};
use crate::verify::Progress;
use crate::version::base::Base;
use crate::version::open_root::{Slot, fingerprint_of, read_slot};
use crate::version::root::{self, RootHeader, SLOTS, clear_padding};
use crate::write::log_files::log_goes_on;

use super::error::BackupError;
use super::manifest::{BACKUP_VERSION, BaseOf, MANIFEST, Manifest, PAGES, ROOT, TABLES};
use super::member::{Member, identity, open_chain};
use super::table::{Group, TableSource, Walk};

/// Files that get longer do not stay in the page cache.
const LEAVES_CACHE_BYTES: u64 = 256 << 20;
/// What two page tables take while they are compared: blocks, pages and checksums of a group.
const TABLES_HELD_BYTES: u64 = 3 << 20;

/// The content of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackupReport {
    /// The number of the checkpoint.
    pub checkpoint_id: u64,
    /// The last commit that it contains.
    pub lsn: u64,
    /// The fingerprint of the store at that commit, 16 hexadecimal digits.
    pub fingerprint: String,
    /// The name of the backup that it was made on, if only later pages were copied.
    pub base: Option<String>,
    /// Pages of the store at that commit.
    pub pages: u64,
    /// Pages that were copied.
    pub pages_copied: u64,
    /// Bytes of the pages that were copied.
    pub page_bytes_copied: u64,
    /// Bytes of all files of the backup.
    pub bytes: u64,
    /// There are later commits in the log, of another process that writes or that was interrupted:
    /// they are not in the backup.
    pub log_goes_on: bool,
}

/// Copies the newest checkpoint of `store` into the new directory `target`. If this handle writes
/// to the store, it makes a checkpoint first. So the backup contains all commits that were
/// acknowledged before the call. Transactions continue meanwhile. With `base`, a backup of an
/// earlier state in the same directory as `target`, it copies only the pages that were written
/// since.
///
/// Each page is compared with its checksum as it is copied. The directory appears as a whole and
/// durable, or not at all. What a process that was killed has left of it is removed by the next one
/// that makes a backup of this name. `progress` hears how many of how many blocks are done; `false`
/// stops it.
///
/// # Errors
/// [`BackupError::Read`] names the file and the page of the store that is damaged;
/// [`BackupError::NotABase`] if the store does not continue `base`; [`BackupError::TargetExists`];
/// and all others.
pub fn backup(
    store: &Store,
    target: &Path,
    base: Option<&Path>,
    progress: &mut Progress<'_>,
) -> Result<BackupReport, BackupError> {
    let base = base.map(|path| open_base(path, target)).transpose()?;
    let staging = StagingDir::create(target, Existing::Refuse)?;
    let writes = store.update_stats().is_some();
    if writes {
        store.checkpoint()?;
    }
    // As long as it is alive, no page that the checkpoint reaches is overwritten.
    let snapshot = store.snapshot();
    let (inner, version) = (snapshot.inner.as_ref(), &snapshot.version.base);
    let goes_on = !writes && log_goes_on(&inner.pages.reader, &version.version())?;
    let root = root_of(inner, version)?;
    if let Some(base) = &base {
        check_continued(base, version)?;
    }
    let disk = open_without_queue(staging.path())
        .map_err(|error| BackupError::Unsupported { what: error.to_string() })?;
    let mut copying = Copying::new(inner, version, &disk, base.as_ref(), progress)?;
    copying.run()?;
    let report = BackupReport { log_goes_on: goes_on, ..copying.finish(&root)? };
    staging.publish()?;
    Ok(report)
}

fn open_base(path: &Path, target: &Path) -> Result<Member, BackupError> {
    let parent = |path: &Path| std::path::absolute(path).ok()?.parent().map(Path::to_owned);
    let name = path.file_name().and_then(OsStr::to_str);
    if name.is_none() || parent(path) != parent(target) {
        let what = format!(
            "{}: an incremental backup must lie in the same directory as its base, and the name \
             of the base must be UTF-8",
            target.display()
        );
        return Err(BackupError::Unsupported { what });
    }
    let no_chain = || BackupError::NotFound { path: path.to_owned() };
    open_chain(path)?.pop().ok_or_else(no_chain)
}

/// That the store can be a later state of the one in `base`; page tables tell for sure.
fn check_continued(base: &Member, version: &Base) -> Result<(), BackupError> {
    let older = &base.manifest.snapshot;
    let at = |checkpoint_id, lsn| format!("checkpoint {checkpoint_id}, commit {lsn}");
    let (then, now) = (at(older.checkpoint_id, older.lsn), at(version.checkpoint_id, version.lsn));
    let is_later = older.checkpoint_id <= version.checkpoint_id && older.lsn <= version.lsn;
    let has_changed = older.fingerprint != format!("{:016x}", version.fingerprint);
    if !is_later || (older.checkpoint_id == version.checkpoint_id && has_changed) {
        return Err(not_a_base(base, format!("the backup has {then}, and the store has {now}")));
    }
    base.is_continued_by(&version.catalog).map_err(|what| not_a_base(base, what))
}

fn not_a_base(base: &Member, what: String) -> BackupError {
    BackupError::NotABase { base: base.path.clone(), what }
}

/// The bytes of the root of a checkpoint.
fn root_of(inner: &Inner, version: &Base) -> Result<Vec<u8>, BackupError> {
    for name in SLOTS {
        if let Slot::Valid(slot) = read_slot(&inner.pages.reader, name)
            && slot.header.checkpoint_id == version.checkpoint_id
            && slot.catalog == *version.catalog
        {
            let mut bytes = slot.bytes;
            clear_padding(&slot.header, &mut bytes);
            return Ok(bytes);
        }
    }
    // A later checkpoint has replaced it on disk.
    let bytes = root::encode(&version.catalog, version.checkpoint_id, version.lsn);
    let bytes = bytes.map_err(|error| BackupError::Unsupported { what: error.to_string() })?;
    if fingerprint_of(version.lsn, &version.catalog, &bytes) != version.fingerprint {
        let what = "the store has changed since it was opened; open it again".into();
        return Err(BackupError::Unsupported { what });
    }
    Ok(bytes)
}

/// Page tables of the store.
struct FromStore<'a>(&'a Pages);

impl TableSource for FromStore<'_> {
    fn read(
        &mut self,
        placed: &Placed,
        places: &[Located],
        into: &mut Vec<u8>,
    ) -> Result<(), BackupError> {
        let start = into.len();
        into.resize(start + places.len() * BLOCK_BYTES, 0);
        let mut visit = |index: usize, bytes: &[u8]| {
            put(into, start + index * BLOCK_BYTES, bytes);
            Ok(())
        };
        Ok(self.0.table_blocks(placed, places, &mut visit)?)
    }

    fn damaged(&self, placed: &Placed, page: u64, damage: &Damage) -> BackupError {
        placed.damaged(page, damage).into()
    }
}

/// A backup under way.
struct Copying<'a, 'p> {
    inner: &'a Inner,
    version: &'a Base,
    base: Option<&'a Member>,
    /// Reads past the caches, so that rot is seen and caches stay what they are.
    source: Arc<Pages>,
    disk: &'a Arc<dyn Disk>,
    tables: Appender,
    pages: Appender,
    report: BackupReport,
    progress: &'a mut Progress<'p>,
    done: u64,
    total: u64,
}

impl<'a, 'p> Copying<'a, 'p> {
    fn new(
        inner: &'a Inner,
        version: &'a Base,
        disk: &'a Arc<dyn Disk>,
        base: Option<&'a Member>,
        progress: &'a mut Progress<'p>,
    ) -> Result<Self, BackupError> {
        let create = |name| Appender::create(Arc::clone(disk), name);
        let share = Share::new(inner.budget.clone(), 0);
        let blocks = |placed: &Arc<Placed>| placed.meta.num_pages * placed.blocks_per_page();
        Ok(Self {
            inner,
            version,
            base,
            source: Arc::new(Pages::new(inner.pages.reader.clone(), share, None)),
            disk,
            tables: create(TABLES)?.leaving_cache(LEAVES_CACHE_BYTES),
            pages: create(PAGES)?.leaving_cache(LEAVES_CACHE_BYTES),
            report: BackupReport::default(),
            progress,
            done: 0,
            total: version.placed.iter().map(blocks).sum(),
        })
    }

    fn run(&mut self) -> Result<(), BackupError> {
        let _held = self.inner.reserve_batch(TABLES_HELD_BYTES).map_err(BackupError::Read)?;
        let version = self.version;
        let mut older = self.base.map(Member::tables).transpose()?;
        for (id, placed) in version.placed.iter().enumerate() {
            let num_pages = placed.meta.num_pages;
            let mut window =
                Window::reserve(self.inner, placed.meta.page_bytes as usize, num_pages)?;
            let (mut at, width) = (self.done, placed.blocks_per_page());
            let end = at + num_pages * width;
            let source = Arc::clone(&self.source);
            let mut from_store = FromStore(&source);
            let mut walk = Walk::new(placed, &mut from_store);
            let before = self.base.and_then(|base| base.segments.get(id));
            let mut before = match (&mut older, before) {
                (Some(part), Some(placed)) => Some(Walk::new(placed, part)),
                _ => None,
            };
            while let Some(group) = walk.next()? {
                let older = before.as_mut().map(Walk::next).transpose()?.flatten();
                self.tables.write(&group.blocks)?;
                let copied = self.choose(placed, &group, older.as_ref())?;
                self.copy_pages(placed, &group, &copied, &mut window)?;
                at += group.pages.len() as u64 * width;
                self.advance_to(at)?;
            }
            self.advance_to(end)?;
        }
        Ok(())
    }

    /// Which pages of a group are copied: those written after the base. All others are in the base,
    /// unless the store does not continue it.
    fn choose(
        &mut self,
        placed: &Placed,
        group: &Group,
        older: Option<&Group>,
    ) -> Result<Vec<usize>, BackupError> {
        self.report.pages += group.pages.len() as u64;
        let all = 0..group.pages.len();
        let Some(base) = self.base else { return Ok(all.collect()) };
        let empty = Group::default();
        let known = group.is_also_in(older.unwrap_or(&empty));
        let since =
            base.manifest.snapshot.checkpoint_id + u64::from(planted("backup_skips_a_checkpoint"));
        let is_new = |index: &usize| {
            group.pages.get(*index).is_some_and(|page| u64::from(page.checkpoint_id) > since)
        };
        let copied: Vec<usize> = all.clone().filter(is_new).collect();
        let lost = all.filter(|index| !is_new(index)).find(|index| !known[*index]);
        match lost.and_then(|index| group.pages.get(index)) {
            None => Ok(copied),
            Some(page) => {
                let (name, logical) = (&placed.meta.name, page.logical);
                let what = format!(
                    "page {logical} of {name} differs from the backup, but no commit changed it"
                );
                Err(not_a_base(base, what))
            }
        }
    }

    fn copy_pages(
        &mut self,
        placed: &Placed,
        group: &Group,
        copied: &[usize],
        window: &mut Window,
    ) -> Result<(), BackupError> {
        let page_bytes = placed.meta.page_bytes as usize;
        for some in copied.chunks((window.bytes.len() / page_bytes).max(1)) {
            let all = some.iter().flat_map(|index| group.located(*index)).zip(0_usize..);
            let mut blocks: Vec<(Located, usize)> = all.collect();
            // The device reads neighbours together.
            blocks.sort_unstable_by_key(|(at, _)| at.block);
            let places: Vec<Located> = blocks.iter().map(|(at, _)| *at).collect();
            let mut take = |from: usize, bytes: &[u8]| {
                for (block, (_, to)) in bytes.chunks_exact(BLOCK_BYTES).zip(&blocks[from..]) {
                    put(&mut window.bytes, to * BLOCK_BYTES, block);
                }
                Ok(())
            };
            let read = self.source.read_data(placed, &places, &mut take);
            read.map_err(|error| with_logical(error, group))?;
            let bytes = some.len() * page_bytes;
            self.pages.write(&window.bytes[..bytes])?;
            self.report.pages_copied += some.len() as u64;
            self.report.page_bytes_copied += bytes as u64;
            self.advance_to((self.done + places.len() as u64).min(self.total))?;
        }
        Ok(())
    }

    fn advance_to(&mut self, done: u64) -> Result<(), BackupError> {
        self.done = self.done.max(done);
        if (self.progress)(self.done, self.total) { Ok(()) } else { Err(BackupError::Stopped) }
    }

    /// Writes root and description, and makes all durable.
    fn finish(mut self, root: &[u8]) -> Result<BackupReport, BackupError> {
        let header = RootHeader::decode(&root[..BLOCK_BYTES]);
        let header =
            header.map_err(|damage| BackupError::Unsupported { what: damage.to_string() })?;
        let (pages_bytes, tables_bytes) = (self.pages.finish()?, self.tables.finish()?);
        let name = |base: &Member| base.path.file_name().and_then(OsStr::to_str).map(str::to_owned);
        let base = self.base.and_then(|base| {
            Some(BaseOf { name: name(base)?, snapshot: base.manifest.snapshot.clone() })
        });
        let manifest = Manifest {
            version: BACKUP_VERSION,
            snapshot: identity(&header, &self.version.catalog, root),
            base,
            root_bytes: root.len() as u64,
            tables_bytes,
            pages_bytes,
        };
        let json = manifest.encode();
        let json = json.map_err(|error| BackupError::Unsupported { what: error.to_string() })?;
        let mut bytes = pages_bytes + tables_bytes;
        for (name, content) in [(ROOT, root), (MANIFEST, json.as_slice())] {
            let mut file = Appender::create(Arc::clone(self.disk), name)?;
            file.write(content)?;
            bytes += file.finish()?;
        }
        sync_dir(self.disk.as_ref())?;
        let Manifest { snapshot, base, .. } = manifest;
        self.report.bytes = bytes;
        (self.report.checkpoint_id, self.report.lsn) = (snapshot.checkpoint_id, snapshot.lsn);
        self.report.fingerprint = snapshot.fingerprint;
        self.report.base = base.map(|base| base.name);
        Ok(self.report)
    }
}

/// The error with the logical number of its page, as `verify` names it.
fn with_logical(error: ReadError, group: &Group) -> ReadError {
    match error {
        ReadError::Checksum { file, page: physical, block, expected, found } => {
            let at = group.pages.iter().find(|page| page.physical == physical);
            let page = at.map_or(physical, |page| page.logical);
            ReadError::Checksum { file, page, block, expected, found }
        }
        error => error,
    }
}
