//! A backup that exists, and the chain of those that it was made on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_types::checksum;

use crate::catalog::{Catalog, SegmentMeta};
use crate::error::Damage;
use crate::io::{BLOCK_BYTES, FileId, Reader, open_without_queue};
use crate::limits::{BACKUPS_MAX, MANIFEST_BYTES_MAX};
use crate::page::Placed;
use crate::version::open_root::fingerprint_of;
use crate::version::root::{FORMAT_VERSION, RootHeader, decode_body};

use super::error::BackupError;
use super::manifest::{BACKUP_VERSION, Decoded, Identity, MANIFEST, Manifest, PAGES, ROOT, TABLES};
use super::part::{Part, is_absent};
use super::table::PageAt;

/// Whether a directory looks like a backup.
pub fn is_backup(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// An open backup: its description and its root are sound.
pub(super) struct Member {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub catalog: Catalog,
    /// The whole file.
    pub root: Vec<u8>,
    pub segments: Vec<Placed>,
    reader: Reader,
}

impl Member {
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let disk = open_without_queue(path).map_err(|error| match error {
            ng_io::OpenError::NotFound { .. } => BackupError::NotFound { path: path.to_owned() },
            ng_io::OpenError::NotADirectory { .. }
            | ng_io::OpenError::Unavailable { .. }
            | ng_io::OpenError::Io { .. } => {
                BackupError::NotABackup { path: path.to_owned(), what: error.to_string() }
            }
        })?;
        let reader = Reader::in_directory(Arc::clone(&disk), path);
        let manifest = read_manifest(path, &reader)?;
        let damaged = |what: String| BackupError::Damaged { file: path.join(ROOT), what };
        // The root of a store is bounded, whatever the description says.
        let mut part = Part::open(&reader, path, ROOT, manifest.root_bytes)?;
        let head = part.next_bytes(BLOCK_BYTES)?;
        let header = RootHeader::decode(&head).map_err(|damage| damaged(damage.to_string()))?;
        let (path_of, found) = (path.to_owned(), header.version);
        if found > FORMAT_VERSION {
            let supported = FORMAT_VERSION;
            return Err(BackupError::NewerVersion { path: path_of, found, supported });
        }
        if header.file_bytes() != manifest.root_bytes {
            return Err(damaged(format!(
                "the size in the header differs from the size of the file, {} bytes",
                manifest.root_bytes
            )));
        }
        let mut root = head;
        root.extend(part.next_bytes(manifest.root_bytes as usize - BLOCK_BYTES)?);
        let catalog = decode_body(&header, &root[BLOCK_BYTES..]);
        let catalog = catalog.map_err(|damage| damaged(damage.to_string()))?;
        let found = identity(&header, &catalog, &root);
        if found != manifest.snapshot {
            return Err(damaged(manifest.snapshot.compare(&found)));
        }
        let segments = (0..).zip(&catalog.segments).map(|(id, meta)| placed(id, meta)).collect();
        Ok(Self { path: path_of, manifest, catalog, root, segments, reader })
    }

    /// Its page tables, to be read front to back.
    pub fn tables(&self) -> Result<Part, BackupError> {
        Part::open(&self.reader, &self.path, TABLES, self.manifest.tables_bytes)
    }

    /// Its pages.
    pub fn pages(&self) -> Result<Part, BackupError> {
        Part::open(&self.reader, &self.path, PAGES, self.manifest.pages_bytes)
    }

    /// Whether it holds a page that its page table has, rather than a backup before it.
    pub fn holds(&self, page: &PageAt) -> bool {
        let base = self.manifest.base.as_ref();
        base.is_none_or(|base| u64::from(page.checkpoint_id) > base.snapshot.checkpoint_id)
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        let Manifest { root_bytes, tables_bytes, pages_bytes, .. } = &self.manifest;
        root_bytes + tables_bytes + pages_bytes
    }

    /// Segment `index`, if it is the one that `meta` describes, too, in an earlier state.
    pub fn is_continued_by(&self, catalog: &Catalog) -> Result<(), String> {
        for (id, older) in self.catalog.segments.iter().enumerate() {
            let is_same = |newer: &SegmentMeta| {
                (&newer.name, newer.page_bytes) == (&older.name, older.page_bytes)
                    && newer.num_pages >= older.num_pages
            };
            if !catalog.segments.get(id).is_some_and(is_same) {
                return Err(format!(
                    "segment {id} of the store is not a later state of {:?}",
                    older.name
                ));
            }
        }
        Ok(())
    }
}

/// Opens a backup and all that it was made on: the whole backup first.
pub(super) fn open_chain(path: &Path) -> Result<Vec<Member>, BackupError> {
    let mut chain = vec![Member::open(path)?];
    while let Some(base) = chain.last().and_then(|last| last.manifest.base.clone())
        && let Some(last) = chain.last()
    {
        let path = last.path.clone();
        let damaged = |what: &str| {
            let file = path.join(MANIFEST);
            BackupError::Damaged { file, what: format!("base {:?}: {what}", base.name) }
        };
        if Path::new(&base.name).file_name() != Some(base.name.as_ref()) {
            return Err(damaged("not a valid directory name"));
        }
        if chain.len() == BACKUPS_MAX {
            return Err(damaged("too many backups in its chain"));
        }
        let base_path = path.with_file_name(&base.name);
        let member = Member::open(&base_path).map_err(|error| match error {
            BackupError::NotFound { path: base } => {
                BackupError::BaseMissing { path: path.clone(), base }
            }
            error => error,
        })?;
        let exchanged = |what| {
            let base = base_path.clone();
            BackupError::BaseExchanged { path: path.clone(), base, what }
        };
        if member.manifest.snapshot != base.snapshot {
            return Err(exchanged(base.snapshot.compare(&member.manifest.snapshot)));
        }
        member.is_continued_by(&last.catalog).map_err(exchanged)?;
        chain.push(member);
    }
    chain.reverse();
    Ok(chain)
}

fn read_manifest(path: &Path, reader: &Reader) -> Result<Manifest, BackupError> {
    let file = reader.open(MANIFEST).map_err(|error| {
        let what = format!("the directory has no {MANIFEST}");
        if is_absent(&error) {
            return BackupError::NotABackup { path: path.to_owned(), what };
        }
        error.into()
    })?;
    let damaged = |what: String| BackupError::Damaged { file: path.join(MANIFEST), what };
    let len = reader.len(file)?;
    if len > MANIFEST_BYTES_MAX || !len.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(damaged(format!("{len} bytes is not a valid size")));
    }
    let bytes = reader.read_at(file, 0, len as usize)?;
    match Manifest::decode(&bytes).map_err(|Damage { what }| damaged(what.into_owned()))? {
        Decoded::Known(manifest) => Ok(manifest),
        Decoded::Newer(found) => {
            let (path, supported) = (path.to_owned(), BACKUP_VERSION);
            Err(BackupError::NewerVersion { path, found, supported })
        }
    }
}

/// Which version of a store a root stands for.
pub(super) fn identity(header: &RootHeader, catalog: &Catalog, root: &[u8]) -> Identity {
    Identity {
        checkpoint_id: header.checkpoint_id,
        lsn: header.lsn,
        fingerprint: format!("{:016x}", fingerprint_of(header.lsn, catalog, root)),
        root_crc32c: checksum::of(root),
    }
}

/// A segment without files of its own.
fn placed(id: u32, meta: &SegmentMeta) -> Placed {
    Placed { id, meta: meta.clone(), data: FileId(u32::MAX), table: FileId(u32::MAX) }
}
