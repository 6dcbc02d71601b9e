//! Opening a store for writing: lock, make the root durable, read the log, do it again.
//!
//! What the log says after a crash may be in the page cache alone, so nothing that was read is
//! trusted to be on the device: both slots are written and synced before anything else, and what
//! was replayed is checkpointed before the first transaction.

use std::io::ErrorKind;
use std::sync::{Arc, PoisonError, RwLock};

use ng_io::{Lock, WriteStats};

use ng_types::MemoryUser;

use crate::catalog::LogMeta;
use crate::error::OpenError;
use crate::io::{WriteError, past_signals};
use crate::page::{CleanPages, Edit, PagePool};
use crate::store::{Inner, load_base, load_version};
use crate::version::base::Version;
use crate::version::open_root::{self, open_slot};
use crate::version::root;
use crate::write::add_tensor::remove_leftovers;
use crate::write::checkpoint::CheckpointFiles;
use crate::write::error::UpdateError;
use crate::write::log::{LOG_STEP_BYTES, LOGS, Log, LogPlace, chain};
pub(crate) use crate::write::log_files::log_goes_on;
use crate::write::log_files::{Found, LogFiles, Survey};
use crate::write::op::Op;
use crate::write::writer::{Head, Writer};

/// A report of a recovery.
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
    let mut slot = open_slot(reader, &inner.path)?;
    root::clear_padding(&slot.header, &mut slot.bytes);
    let mut files = CheckpointFiles::open(disk, &stats)?;
    files.write_roots(&slot.bytes)?;
    let mut version = load_version(inner, current)?;
    if version.catalog.log.is_none() {
        version = upgrade(inner, current, &mut files, &slot)?;
    }
    let logs = LogFiles::open(reader, &inner.path, inner.go_on)?;
    let survey = logs.survey(log_place(&version))?;
    let mut commits = 0;
    let (replayed, end, pool) = loop {
        let pool: Arc<PagePool> = Arc::default();
        let mut is_enough = |_| pool.bytes() > inner.budget.share(MemoryUser::Recovery);
        let (done, end) = replay(inner, &pool, &version, &logs, &survey, &mut is_enough)?;
        commits += end.recovery.commits;
        if end.is_whole {
            break (done, end, pool);
        }
        // The writer that left the log may have had more memory than this one.
        let LogPlace { file, offset } = end.place;
        let log = LogMeta { file, offset, chain: done.fingerprint };
        files.write_part(inner, &done, log)?;
        version = load_base(inner, &done)?;
    };
    let mut log = Log::open(disk, &stats, end.place)?;
    if !ng_types::canary::planted("keep_unacknowledged") {
        erase_after(replayed.lsn, &logs, &survey, &mut log)?;
    }
    // A file that stays is in nobody's way: whoever adds a tensor removes it, or says why not.
    let _ = remove_leftovers(disk.as_ref(), &replayed.catalog);
    let head = Head { version: replayed, clean: CleanPages::default() };
    let (inner, current) = (Arc::clone(inner), Arc::clone(current));
    let shared = (lock, log_bytes_max, pool);
    let writer = Writer::new(inner, current, log, files, stats, head, shared);
    if commits > 0 {
        writer.checkpoint()?;
        writer.show_head()?;
    }
    Ok((Arc::new(writer), Recovery { commits, ..end.recovery }))
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

/// Does what the log holds in memory, for new snapshots of a store that cannot be written to
/// (`cause`). `None` if somebody writes to it all the same, who does that.
pub(crate) fn replay_in_memory(
    inner: &Arc<Inner>,
    current: &Arc<RwLock<Arc<Version>>>,
    cause: &str,
) -> Result<Option<Recovery>, OpenError> {
    let disk = inner.pages.reader.disk();
    let held = past_signals(|| disk.hold_off_writer()).map_err(|error| OpenError::Backend {
        path: inner.path.clone(),
        what: format!("cannot find out whether another process writes: {error}"),
    })?;
    if held.is_none() {
        return Ok(None);
    }
    let version = load_version(inner, current)?;
    let failed = |error| {
        let path = inner.path.clone();
        OpenError::Recovery { path, source: Box::new(error) }
    };
    let logs = LogFiles::open(&inner.pages.reader, &inner.path, inner.go_on).map_err(failed)?;
    let survey = logs.survey(log_place(&version)).map_err(failed)?;
    let (pool, limit) = (Arc::<PagePool>::default(), inner.budget.limit_bytes());
    let mut is_enough = |_| pool.bytes() > MemoryUser::Recovery.share(limit);
    let replayed = replay(inner, &pool, &version, &logs, &survey, &mut is_enough);
    let (replayed, done) = replayed.map_err(failed)?;
    let is_charged = pool.settle(|bytes| inner.try_reserve(bytes)).is_ok();
    if done.is_whole && is_charged {
        let version = Arc::new(replayed);
        inner.see(&version);
        *current.write().unwrap_or_else(PoisonError::into_inner) = version;
        return Ok(Some(done.recovery));
    }
    let all = follow(&version, &logs, &survey, &mut |_| Ok(()), &mut |_| false).map_err(failed)?;
    // Operations are much alike, and the more there are, the more of them share pages.
    let part = pool.bytes().saturating_mul(all.ops) / done.ops.max(1);
    let most = part.max(MemoryUser::Recovery.share(limit));
    let minimum_bytes = MemoryUser::Recovery.budget_for(most + most / 8).next_multiple_of(1 << 20);
    let (path, cause) = (inner.path.clone(), cause.to_owned());
    let commits = all.recovery.commits;
    Err(OpenError::CommitsTooLarge { path, commits, cause, limit_bytes: limit, minimum_bytes })
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
    let encoded = root::encode(&catalog, slot.header.checkpoint_id + 1, 0);
    let encoded = encoded.map_err(|error| UpdateError::Unsupported { what: error.to_string() })?;
    files.write_roots(&encoded)?;
    Ok(load_version(inner, current)?)
}

/// Makes zeros of what commits after `lsn` have left, which were never acknowledged.
fn erase_after(
    lsn: u64,
    logs: &LogFiles<'_>,
    survey: &Survey,
    log: &mut Log,
) -> Result<(), UpdateError> {
    for (file, last) in (0..).zip(survey.last_lsn) {
        if last <= lsn {
            continue;
        }
        let place = log.place();
        logs.walk(file, place, &mut |at, header, _| match header
            .filter(|header| header.lsn > lsn && !header.is_note())
        {
            Some(_) => Ok(log.erase(file, at)?),
            None => Ok(()),
        })?;
        log.sync(file)?;
    }
    Ok(())
}

/// Where the commit after a checkpoint goes.
fn log_place(version: &Version) -> LogPlace {
    let LogMeta { file, offset, .. } = version.catalog.log.unwrap_or_default();
    LogPlace { file, offset }
}

/// What the log holds behind the root of `version`, for verify: records are read, not done.
pub(crate) fn inspect_log(inner: &Inner, version: &Version) -> Result<Recovery, UpdateError> {
    if version.catalog.log.is_none() {
        return Ok(Recovery::default());
    }
    let logs = LogFiles::open(&inner.pages.reader, &inner.path, inner.go_on)?;
    let survey = logs.survey(log_place(version))?;
    Ok(follow(version, &logs, &survey, &mut |_| Ok(()), &mut |_| false)?.recovery)
}

/// Does again what the root does not contain, until `is_enough` says so of a commit.
fn replay(
    inner: &Arc<Inner>,
    pool: &Arc<PagePool>,
    version: &Version,
    logs: &LogFiles<'_>,
    survey: &Survey,
    is_enough: &mut dyn FnMut(u64) -> bool,
) -> Result<(Version, Followed), UpdateError> {
    let mut edit = Edit::owning(inner, pool, version.clone(), CleanPages::default());
    let done = follow(version, logs, survey, &mut |op| edit.replay(op), is_enough)?;
    let Edit { catalog, segments, .. } = edit;
    let (base, catalog) = (Arc::clone(&version.base), Arc::new(catalog));
    let (lsn, fingerprint) = (done.lsn, done.chained);
    Ok((Version { base, catalog, segments, lsn, fingerprint }, done))
}

/// The end of the log.
struct Followed {
    place: LogPlace,
    lsn: u64,
    chained: u64,
    recovery: Recovery,
    /// Operations that were shown.
    ops: u64,
    /// The log has no more records.
    is_whole: bool,
}

/// Shows `apply` every operation of the log, in order, that the root does not contain, until
/// `is_enough` says so of a commit.
fn follow(
    version: &Version,
    logs: &LogFiles<'_>,
    survey: &Survey,
    apply: &mut dyn FnMut(&Op<'_>) -> Result<(), UpdateError>,
    is_enough: &mut dyn FnMut(u64) -> bool,
) -> Result<Followed, UpdateError> {
    let mut place = log_place(version);
    let (mut lsn, mut chained, mut ops) = (version.lsn, version.fingerprint, 0);
    let skip = u64::from(ng_types::canary::planted("replay_off_by_one"));
    logs.check_len(place)?;
    loop {
        logs.go_on()?;
        if is_enough(lsn) {
            let recovery = Recovery { commits: lsn - version.lsn, torn: false };
            return Ok(Followed { place, lsn, chained, recovery, ops, is_whole: false });
        }
        let Some(Found { file, end, record }) = logs.next_record(place, lsn + 1)? else {
            break;
        };
        let damaged = || log_damaged(file, lsn + 1, version);
        let record = record.ok().filter(|record| record.chain == chained).ok_or_else(damaged)?;
        if record.file_bytes > logs.len(file) {
            return Err(logs.cut(file, logs.len(file), record.file_bytes));
        }
        let mut rest = record.ops.as_slice();
        while !rest.is_empty() && lsn >= skip {
            ops += 1;
            apply(&Op::decode(&mut rest).map_err(|_| damaged())?)?;
        }
        lsn += 1;
        chained = chain(chained, lsn, &record.ops);
        place = LogPlace { file, offset: end };
    }
    // Whoever wrote that commits were durable had acknowledged them: what is missing is lost.
    if survey.durable_below > lsn + 1 {
        return Err(log_damaged(place.file, lsn + 1, version));
    }
    let is_torn = survey.is_spoiled || survey.last_lsn.into_iter().any(|last| last > lsn);
    let recovery = Recovery { commits: lsn - version.lsn, torn: is_torn };
    Ok(Followed { place, lsn, chained, recovery, ops, is_whole: true })
}

fn log_damaged(file: u8, lsn: u64, version: &Version) -> UpdateError {
    let file = LOGS[usize::from(file)].to_owned();
    UpdateError::LogDamaged { file, lsn, checkpoint_id: version.base.checkpoint_id }
}
