//! Opening a store for writing: lock, make the root durable, read the log, do it again.
//!
//! What the log says after a crash may be in the page cache alone, so nothing that was read is
//! trusted to be on the device: both slots are written and synced before anything else, and what
//! was replayed is checkpointed before the first batch.

use std::io::ErrorKind;
use std::sync::{Arc, RwLock};

use ng_io::{Lock, WriteStats};

use crate::catalog::LogMeta;
use crate::edit::{CleanPages, Edit};
use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, FileId, Reader, WriteError, past_signals};
use crate::open_root::{self, open_slot};
use crate::page_map::PagePool;
use crate::root;
use crate::store::{Inner, load_base, load_version};
use crate::version::{Base, Version};
use crate::write::checkpoint::CheckpointFiles;
use crate::write::error::UpdateError;
use crate::write::log::{BlockHeader, LOG_STEP_BYTES, LOGS, Log, LogPlace, Record, chain, payload};
use crate::write::op::Op;
use crate::write::writer::{Head, Writer};

/// Blocks of a log that are read at once.
const WINDOW_BLOCKS: u64 = 64;
/// Blocks that are looked at to see whether a log goes on.
const LOOK_BLOCKS: u64 = 256;

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Commits that the root did not contain.
    pub commits: u64,
    /// Whether the end of the log was torn: a commit that was never acknowledged is gone.
    pub torn: bool,
}

/// Opens the one writer of a store, which `lock` is for.
pub(crate) fn open_writer(
    inner: &Arc<Inner>,
    current: &Arc<RwLock<Arc<Version>>>,
    log_bytes_max: u64,
    lock: Lock,
) -> Result<(Arc<Writer>, Recovery), UpdateError> {
    let reader = &inner.pages.reader;
    let disk = reader.disk();
    let stats: Arc<WriteStats> = Arc::default();
    let slot = open_slot(reader, &inner.path)?;
    let mut files = CheckpointFiles::open(disk, &stats)?;
    files.write_roots(&slot.bytes)?;
    let mut version = load_version(inner, current)?;
    if version.catalog.log.is_none() {
        version = upgrade(inner, current, &mut files, &slot)?;
    }
    let scans = scan_both(reader, &inner.path)?;
    let mut commits = 0;
    let mut replayed = loop {
        let done = replay(inner, &Arc::default(), &version, &scans, None)?;
        commits += done.recovery.commits;
        if done.is_whole {
            break done;
        }
        // The writer that left the log may have had more memory than this one.
        let LogPlace { file, offset } = done.place;
        let log = LogMeta { file, offset, chain: done.version.fingerprint };
        files.write_part(inner, &done.version, log)?;
        version = load_base(inner, &done.version)?;
    };
    replayed.recovery.commits = commits;
    let mut log = Log::open(disk, &stats, replayed.place)?;
    for (number, scan) in (0..).zip(&scans) {
        let is_stale = |(lsn, _): &&(u64, u64)| *lsn > replayed.version.lsn;
        let stale: Vec<u64> = scan.blocks.iter().filter(is_stale).map(|(_, at)| *at).collect();
        if !ng_types::canary::planted("keep_unacknowledged") {
            log.erase(number, &stale)?;
        }
    }
    let head = Head { version: replayed.version, clean: CleanPages::default() };
    let (inner, current) = (Arc::clone(inner), Arc::clone(current));
    let shared = (lock, log_bytes_max, replayed.pool);
    let writer = Writer::new(inner, current, log, files, stats, head, shared);
    if commits > 0 {
        writer.checkpoint()?;
        writer.show_head()?;
    }
    Ok((Arc::new(writer), replayed.recovery))
}

/// The version that the log makes of a checkpoint by commit `lsn`.
pub(crate) fn rebuild(
    inner: &Arc<Inner>,
    pool: &Arc<PagePool>,
    base: &Arc<Base>,
    lsn: u64,
) -> Result<Version, UpdateError> {
    let scans = scan_both(&inner.pages.reader, &inner.path)?;
    let version = replay(inner, pool, &base.version(), &scans, Some(lsn))?.version;
    if version.lsn == lsn { Ok(version) } else { Err(log_damaged(0, version.lsn + 1, &version)) }
}

/// The right to write; `None` if somebody has it.
pub(crate) fn lock_writer(inner: &Inner) -> Result<Option<Lock>, UpdateError> {
    match past_signals(|| inner.pages.reader.disk().lock_writer()) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => {
            Err(UpdateError::Unsupported { what: error.to_string() })
        }
        Err(source) => {
            let file = format!("{}/pins", inner.path).into();
            Err(WriteError::Open { file, source: Arc::new(source) }.into())
        }
    }
}

/// Gives a store of version 0 its logs, and a root that knows of them.
fn upgrade(
    inner: &Arc<Inner>,
    current: &Arc<RwLock<Arc<Version>>>,
    files: &mut CheckpointFiles,
    slot: &open_root::ValidSlot,
) -> Result<Version, UpdateError> {
    let disk = inner.pages.reader.disk();
    for name in LOGS {
        // It may be there in part, if this was interrupted before.
        let mut file = ng_io::Writer::open_or_create(Arc::clone(disk), name)?;
        file.write_at(0, &[0; LOG_STEP_BYTES as usize])?;
        file.sync()?;
    }
    crate::io::sync_dir(disk.as_ref())?;
    let mut catalog = slot.catalog.clone();
    catalog.log = Some(LogMeta::default());
    let encoded = root::encode(&catalog, slot.header.epoch + 1, 0);
    let encoded = encoded.map_err(|error| UpdateError::Unsupported { what: error.to_string() })?;
    files.write_roots(&encoded)?;
    Ok(load_version(inner, current)?)
}

/// One record that a log file holds: where its blocks begin, and how many.
#[derive(Clone, Copy, Debug)]
struct Place {
    lsn: u64,
    offset: u64,
    blocks: u32,
}

/// What a log file holds.
struct Scan {
    file: FileId,
    len: u64,
    /// Whole records, by offset; those of older rounds of the file among them.
    records: Vec<Place>,
    /// Commit and place of each sound block.
    blocks: Vec<(u64, u64)>,
    /// The largest group of any of them.
    last_group: u64,
    /// Blocks that are neither sound nor empty.
    spoiled: bool,
}

fn scan_both(reader: &Reader, path: &str) -> Result<[Scan; 2], UpdateError> {
    Ok([scan(reader, path, 0)?, scan(reader, path, 1)?])
}

fn scan(reader: &Reader, path: &str, number: u8) -> Result<Scan, UpdateError> {
    let name = LOGS[usize::from(number)];
    let file = reader.open(name).map_err(ReadError::from)?;
    let len = reader.len(file).map_err(ReadError::from)?;
    if is_cut(len, 0) {
        return Err(cut(path, name, len, LOG_STEP_BYTES));
    }
    // Power that is lost while the log grows leaves any part of what it would have grown by.
    let whole = len - len % BLOCK_BYTES as u64;
    let mut found =
        Scan { file, len, records: Vec::new(), blocks: Vec::new(), last_group: 0, spoiled: false };
    let mut open: Option<(BlockHeader, u64)> = None;
    let mut at = 0;
    while at < whole {
        let window = (WINDOW_BLOCKS * BLOCK_BYTES as u64).min(whole - at) as usize;
        let bytes = reader.read_at(file, at, window).map_err(ReadError::from)?;
        for block in bytes.chunks_exact(BLOCK_BYTES) {
            let header = BlockHeader::decode(block).ok();
            found.spoiled |= header.is_none() && !crate::bytes::is_zero(block);
            open = header.and_then(|header| {
                found.last_group = found.last_group.max(header.group);
                found.blocks.push((header.lsn, at));
                let start = match open {
                    _ if header.index == 0 => at,
                    Some((before, start))
                        if BlockHeader { index: header.index, ..before } == header
                            && before.index + 1 == header.index =>
                    {
                        start
                    }
                    _ => return None,
                };
                if header.index + 1 == header.blocks {
                    let (lsn, blocks) = (header.lsn, header.blocks);
                    found.records.push(Place { lsn, offset: start, blocks });
                    return None;
                }
                Some((header, start))
            });
            at += BLOCK_BYTES as u64;
        }
    }
    Ok(found)
}

fn cut(path: &str, name: &str, found: u64, expected: u64) -> UpdateError {
    let (path, file) = (path.to_owned(), name.to_owned());
    crate::error::OpenError::Truncated { path, file, expected, found }.into()
}

struct Replayed {
    version: Version,
    place: LogPlace,
    recovery: Recovery,
    pool: Arc<PagePool>,
    /// The log has no more records.
    is_whole: bool,
}

/// What the log holds behind the root of `version`, for verify: records are read, not done.
pub(crate) fn inspect_log(
    reader: &Reader,
    path: &str,
    version: &Version,
) -> Result<Recovery, UpdateError> {
    if version.catalog.log.is_none() {
        return Ok(Recovery::default());
    }
    let scans = scan_both(reader, path)?;
    let mut pass = |_: &Op<'_>| Ok(());
    Ok(follow(reader, path, version, &scans, &mut pass, &mut |_| false)?.recovery)
}

/// Does again what the root does not contain: up to commit `last`, or else as far as half of the
/// budget goes.
fn replay(
    inner: &Arc<Inner>,
    pool: &Arc<PagePool>,
    version: &Version,
    scans: &[Scan; 2],
    last: Option<u64>,
) -> Result<Replayed, UpdateError> {
    let (pool, limit) = (Arc::clone(pool), inner.budget.limit_bytes());
    let mut edit = Edit::owning(inner, &pool, version.clone(), CleanPages::default());
    let mut apply = |op: &Op<'_>| edit.replay(op);
    let mut is_enough = |lsn| last.map_or(pool.bytes() > limit / 2, |last| lsn >= last);
    let Followed { place, lsn, chained, recovery, is_whole } =
        follow(&inner.pages.reader, &inner.path, version, scans, &mut apply, &mut is_enough)?;
    let Edit { catalog, segments, .. } = edit;
    let base = Arc::clone(&version.base);
    let version = Version { base, catalog: Arc::new(catalog), segments, lsn, fingerprint: chained };
    Ok(Replayed { version, place, recovery, pool, is_whole })
}

/// The end of the log.
struct Followed {
    place: LogPlace,
    lsn: u64,
    chained: u64,
    recovery: Recovery,
    is_whole: bool,
}

/// Shows `apply` every operation of the log, in order, that the root does not contain, until
/// `is_enough` says so of a commit.
fn follow(
    reader: &Reader,
    path: &str,
    version: &Version,
    scans: &[Scan; 2],
    apply: &mut dyn FnMut(&Op<'_>) -> Result<(), UpdateError>,
    is_enough: &mut dyn FnMut(u64) -> bool,
) -> Result<Followed, UpdateError> {
    let log = version.catalog.log.unwrap_or_default();
    let mut place = LogPlace { file: log.file, offset: log.offset };
    let (mut lsn, mut chained) = (version.lsn, version.fingerprint);
    let skip = u64::from(ng_types::canary::planted("replay_off_by_one"));
    let len = scans[usize::from(place.file & 1)].len;
    if is_cut(len, place.offset) {
        let name = LOGS[usize::from(place.file & 1)];
        return Err(cut(path, name, len, place.offset + LOG_STEP_BYTES));
    }
    loop {
        if is_enough(lsn) {
            let recovery = Recovery { commits: lsn - version.lsn, torn: false };
            return Ok(Followed { place, lsn, chained, recovery, is_whole: false });
        }
        let Some((file, found)) = next_record(scans, place, lsn + 1) else {
            break;
        };
        let scan = &scans[usize::from(file)];
        let record = read_record(reader, scan, found)?;
        let damaged = || log_damaged(file, found.lsn, version);
        let record = record.filter(|record| record.chain == chained).ok_or_else(damaged)?;
        if record.file_bytes > scan.len {
            return Err(cut(path, LOGS[usize::from(file)], scan.len, record.file_bytes));
        }
        let mut ops = record.ops.as_slice();
        while !ops.is_empty() && lsn >= skip {
            apply(&Op::decode(&mut ops).map_err(|_| damaged())?)?;
        }
        lsn += 1;
        chained = chain(chained, lsn, &record.ops);
        place = LogPlace { file, offset: found.offset + u64::from(found.blocks) * 4096 };
    }
    // A group is written when the one before it is durable: if a later one is there, what is
    // missing was acknowledged and is lost.
    let last_group = scans.iter().map(|scan| scan.last_group).max().unwrap_or(0);
    if last_group > lsn + 1 {
        return Err(log_damaged(place.file, lsn + 1, version));
    }
    let recovery = Recovery {
        commits: lsn - version.lsn,
        torn: scans.iter().any(|scan| scan.spoiled) || last_group == lsn + 1,
    };
    Ok(Followed { place, lsn, chained, recovery, is_whole: true })
}

fn log_damaged(file: u8, lsn: u64, version: &Version) -> UpdateError {
    let file = LOGS[usize::from(file)].to_owned();
    UpdateError::LogDamaged { file, lsn, epoch: version.base.epoch }
}

/// The record of commit `lsn`: at `place`, or at the start of the other file.
fn next_record(scans: &[Scan; 2], place: LogPlace, lsn: u64) -> Option<(u8, Place)> {
    let other = LogPlace { file: 1 - place.file, offset: 0 };
    [place, other].into_iter().find_map(|place| {
        let records = &scans[usize::from(place.file)].records;
        let index = records.binary_search_by_key(&place.offset, |record| record.offset).ok()?;
        let found = records.get(index).filter(|record| record.lsn == lsn)?;
        Some((place.file, *found))
    })
}

fn read_record(reader: &Reader, scan: &Scan, place: Place) -> Result<Option<Record>, UpdateError> {
    let len = place.blocks as usize * BLOCK_BYTES;
    let bytes = reader.read_at(scan.file, place.offset, len).map_err(ReadError::from)?;
    let joined: Vec<u8> = bytes.chunks_exact(BLOCK_BYTES).flat_map(payload).copied().collect();
    Ok(Record::decode(&joined).ok())
}

/// Whether the log goes on after the root of `version`, or may do so, looked up without reading all
/// of it. The first block of a record may be damaged, so some that follow are looked at, too.
pub(crate) fn log_goes_on(reader: &Reader, version: &Version) -> Result<bool, ReadError> {
    let Some(log) = version.catalog.log else {
        return Ok(false);
    };
    for (file, offset) in [(log.file, log.offset), (1 - log.file, 0)] {
        let file = reader.open(LOGS[usize::from(file)])?;
        let len = reader.len(file)?;
        let left = len.saturating_sub(offset) / BLOCK_BYTES as u64;
        let blocks = left.min(LOOK_BLOCKS) as usize * BLOCK_BYTES;
        let blocks = reader.read_at(file, offset, blocks)?;
        let mut headers = blocks.chunks_exact(BLOCK_BYTES).map(BlockHeader::decode);
        let goes_on = headers.any(|header| header.is_ok_and(|header| header.lsn > version.lsn));
        if goes_on || is_cut(len, offset) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a log is shorter than it was when the next record was to go to `offset`. It may have any
/// length beyond that: power may be lost while it grows.
fn is_cut(len: u64, offset: u64) -> bool {
    len < offset.saturating_add(LOG_STEP_BYTES)
}
