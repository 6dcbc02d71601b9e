//! Checkpoints: changed pages go to free space, the page table follows them, then both roots.
//!
//! Order: pages and tables of every segment, sync; slot A, sync; slot B, sync; only then is the log
//! that the new root contains used again, and only then, and when no version reads them any more,
//! the places of the pages that were replaced. Transactions go on meanwhile, but for two short
//! moments.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use ng_io::WriteStats;
use ng_types::canary::planted;
use ng_types::checksum;

use crate::catalog::{Catalog, LogMeta, SegmentMeta};
use crate::error::{OpenError, ReadError};
use crate::io::{BLOCK_BYTES, Disk, WriteError};
use crate::page::{
    Found, Located, Page, PageMap, Placed, Segment, Slot, data_file, scan_table, table_file,
};
use crate::store::Inner;
use crate::tensor::layout::RowLayout;
use crate::version::base::{Base, Version};
use crate::version::root::{self, SLOTS};
use crate::write::error::UpdateError;
use crate::write::space::Space;
use crate::write::table_edit::{Moves, NewTable, TableEdit};
use crate::write::writer::{Head, Writer};

/// Pages written with one call.
const WRITE_BYTES: usize = 1 << 20;

/// A report of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckpointReport {
    /// The checkpoint of the root; the old one if nothing had changed.
    pub checkpoint_id: u64,
    /// The last commit that it contains.
    pub lsn: u64,
    /// Pages written.
    pub pages: u64,
    /// Blocks of page tables written.
    pub table_blocks: u64,
}

/// The files of one segment, open for writing.
struct SegmentFiles {
    data: ng_io::Writer,
    table: ng_io::Writer,
    pages: Space,
    blocks: Space,
}

/// What checkpoints write to.
pub(crate) struct CheckpointFiles {
    disk: Arc<dyn Disk>,
    stats: Arc<WriteStats>,
    roots: [ng_io::Writer; 2],
    segments: Vec<Option<SegmentFiles>>,
    /// The other log file holds records that no root contains: a checkpoint failed after it had
    /// turned to this one.
    rotated: bool,
    pub pages_written: u64,
    pub checkpoints: u64,
}

/// What will be written to one segment.
struct Plan {
    id: usize,
    pages: Vec<(u64, Arc<Page>)>,
    runs: Vec<Range<u64>>,
    table: NewTable,
    meta: SegmentMeta,
    /// Physical pages that only the old root reaches.
    retired: Vec<u64>,
}

/// A checkpoint that is on disk.
struct Written {
    catalog: Catalog,
    placed: Vec<Arc<Placed>>,
    plans: Vec<Plan>,
}

impl CheckpointFiles {
    /// Opens the root slots; segments are opened when they change.
    pub fn open(disk: &Arc<dyn Disk>, stats: &Arc<WriteStats>) -> Result<Self, WriteError> {
        let open = |name| {
            let file = ng_io::Writer::open_or_create(Arc::clone(disk), name)?;
            Ok::<_, WriteError>(file.counting_into(Arc::clone(stats)))
        };
        Ok(Self {
            disk: Arc::clone(disk),
            stats: Arc::clone(stats),
            roots: [open(SLOTS[0])?, open(SLOTS[1])?],
            segments: Vec::new(),
            rotated: false,
            pages_written: 0,
            checkpoints: 0,
        })
    }

    /// Pages that went where others had been.
    pub fn pages_reused(&self) -> u64 {
        self.segments.iter().flatten().map(|files| files.pages.reused).sum()
    }

    /// Writes both slots, one after the other.
    pub fn write_roots(&mut self, slot: &[u8]) -> Result<(), WriteError> {
        for file in &mut self.roots {
            file.write_at(0, slot)?;
            file.sync()?;
        }
        Ok(())
    }

    fn open_segment(
        &mut self,
        inner: &Inner,
        base: &Base,
        placed: &Placed,
    ) -> Result<&mut SegmentFiles, UpdateError> {
        let index = placed.id as usize;
        if self.segments.len() <= index {
            self.segments.resize_with(index + 1, || None);
        }
        if self.segments.get(index).is_some_and(Option::is_none) {
            let open = |name: String| {
                let file = ng_io::Writer::open_or_create(Arc::clone(&self.disk), &name)?;
                Ok::<_, WriteError>(file.counting_into(Arc::clone(&self.stats)))
            };
            let meta = &placed.meta;
            let (data, table) = (open(data_file(&meta.name))?, open(table_file(&meta.name))?);
            let mut pages = Space::new(meta.physical_pages());
            let mut blocks = Space::new(meta.map_blocks);
            scan_table(&inner.pages, placed, &mut |found| match found {
                Found::Block(block) => drop(blocks.mark(block)),
                Found::Page { physical, .. } => drop(pages.mark(physical)),
            })?;
            // Snapshots of this process, too, when an earlier writer of it was closed.
            if inner.is_read_below(base.checkpoint_id) {
                pages.withhold_free(base.checkpoint_id);
                blocks.withhold_free(base.checkpoint_id);
            }
            let files = SegmentFiles { data, table, pages, blocks };
            self.segments[index] = Some(files);
        }
        let missing = || ReadError::Missing { what: format!("segment {index}") };
        let found = self.segments.get_mut(index).and_then(Option::as_mut);
        Ok(found.ok_or_else(missing)?)
    }

    /// Works out where everything goes, and reserves the room for it. Nothing is written yet.
    fn plan(
        &mut self,
        inner: &Inner,
        version: &Version,
        checkpoint_id: u64,
    ) -> Result<Vec<Plan>, UpdateError> {
        let mut plans = Vec::new();
        for segment in &version.segments {
            if segment.changed.is_empty() && segment.num_pages == segment.placed.meta.num_pages {
                continue;
            }
            let planned = self
                .open_segment(inner, &version.base, segment)
                .and_then(|files| files.plan(inner, segment, checkpoint_id));
            let plan = planned.inspect_err(|_| self.abandon(&plans))?;
            plans.push(plan);
        }
        Ok(plans)
    }

    /// Gives back the room of plans that were not carried out.
    fn abandon(&mut self, plans: &[Plan]) {
        for plan in plans {
            if let Some(Some(files)) = self.segments.get_mut(plan.id) {
                files.pages.give_back(&plan.runs);
                files.blocks.give_back(&plan.table.block_runs());
            }
        }
    }

    fn carry_out(
        &mut self,
        inner: &Inner,
        version: &Version,
        plans: &[Plan],
    ) -> Result<(), WriteError> {
        let mut created = false;
        for plan in plans {
            let (Some(Some(files)), Some(segment)) =
                (self.segments.get_mut(plan.id), version.segments.get(plan.id))
            else {
                continue;
            };
            created |= segment.placed.data.0 == u32::MAX;
            files.carry_out(inner, segment, plan)?;
            self.pages_written += (plan.pages.len() + plan.table.blocks.len()) as u64;
        }
        if created {
            crate::io::sync_dir(self.disk.as_ref())?;
        }
        Ok(())
    }

    /// Writes pages, tables and roots of a version; returns its segments as they are on disk now.
    /// Tells `poison` of failures after which nothing more may be written.
    fn write(
        &mut self,
        inner: &Inner,
        version: &Version,
        checkpoint_id: u64,
        log: LogMeta,
        poison: &dyn Fn(&dyn std::fmt::Display),
    ) -> Result<Written, UpdateError> {
        let plans = self.plan(inner, version, checkpoint_id)?;
        let mut catalog = Catalog::clone(&version.catalog);
        catalog.log = Some(log);
        for plan in &plans {
            if let Some(meta) = catalog.segments.get_mut(plan.id) {
                meta.clone_from(&plan.meta);
            }
        }
        let encoded = catalog.check().map_err(|damage| damage.to_string());
        let encoded = encoded.and_then(|()| {
            root::encode(&catalog, checkpoint_id, version.lsn).map_err(|error| error.to_string())
        });
        let encoded = encoded.map_err(|what| UpdateError::Unsupported { what });
        let slot = encoded.inspect_err(|_| self.abandon(&plans))?;
        let room = self.roots.iter_mut().try_for_each(|file| file.allocate(slot.len() as u64));
        room.inspect_err(|_| self.abandon(&plans))?;
        let early = if planted("root_before_pages") { self.write_roots(&slot) } else { Ok(()) };
        let carried_out = early.and_then(|()| self.carry_out(inner, version, &plans));
        carried_out.inspect_err(|error| poison(error))?;
        let placed = place(inner, version, &catalog).inspect_err(|_| self.abandon(&plans))?;
        self.write_roots(&slot).inspect_err(|error| poison(error))?;
        Ok(Written { catalog, placed, plans })
    }

    /// Notes what nobody reaches from `checkpoint_id` on, once `base` is not read any more.
    fn retire(&mut self, base: &Arc<Base>, checkpoint_id: u64, plans: Vec<Plan>) {
        for plan in plans {
            if let Some(Some(files)) = self.segments.get_mut(plan.id) {
                files.pages.retire(Arc::downgrade(base), checkpoint_id, plan.retired);
                files.blocks.retire(Arc::downgrade(base), checkpoint_id, plan.table.retired);
            }
        }
    }

    /// Writes what a recovery has done so far; `log` is where it goes on.
    pub fn write_part(
        &mut self,
        inner: &Inner,
        version: &Version,
        log: LogMeta,
    ) -> Result<(), UpdateError> {
        let checkpoint_id = version.base.checkpoint_id + 1;
        // Whoever recovers gives up at any error, so there is nothing to poison.
        let Written { plans, .. } = self.write(inner, version, checkpoint_id, log, &|_| {})?;
        self.retire(&version.base, checkpoint_id, plans);
        self.checkpoints += 1;
        Ok(())
    }
}

/// The segments of `version` as `catalog` places them. Nothing may fail once a root says so.
fn place(
    inner: &Inner,
    version: &Version,
    catalog: &Catalog,
) -> Result<Vec<Arc<Placed>>, OpenError> {
    let (reader, path) = (&inner.pages.reader, &inner.path);
    let place = |(segment, meta): (&Segment, &SegmentMeta)| {
        let (id, old) = (segment.id, &segment.placed);
        Ok(if old.data.0 == u32::MAX {
            Arc::new(Placed::open(reader, path, id, meta)?)
        } else if old.meta == *meta {
            Arc::clone(old)
        } else {
            let (data, table) = (old.data, old.table);
            Arc::new(Placed { id, meta: meta.clone(), data, table })
        })
    };
    version.segments.iter().zip(&catalog.segments).map(place).collect()
}

impl SegmentFiles {
    fn plan(
        &mut self,
        inner: &Inner,
        segment: &Segment,
        checkpoint_id: u64,
    ) -> Result<Plan, UpdateError> {
        let is_pinned = &mut |checkpoint_id| inner.is_read_below(checkpoint_id);
        self.pages.free_retired(is_pinned);
        self.blocks.free_retired(is_pinned);
        let (mut pages, mut logical) = (Vec::new(), Vec::new());
        segment.changed.for_each(&mut |page, slot| {
            logical.push(page);
            if let Slot::Changed(held) = slot {
                pages.push((page, Arc::clone(held)));
            }
        });
        let retired = old_places(inner, segment, &logical)?;
        let runs = self.pages.take(pages.len() as u64);
        let moves = moves(segment, &pages, &runs);
        let edit = TableEdit {
            pages: &inner.pages,
            placed: &segment.placed,
            num_pages: segment.num_pages,
            checkpoint_id: checkpoint_id as u32,
            space: &mut self.blocks,
            out: NewTable::default(),
        };
        let page_bytes = u64::from(segment.meta.page_bytes);
        let table = edit.apply(&moves).inspect_err(|_| self.pages.give_back(&runs))?;
        let room = self.data.allocate(self.pages.len() * page_bytes);
        let room = room.and_then(|()| self.table.allocate(self.blocks.len() * BLOCK_BYTES as u64));
        room.inspect_err(|_| {
            self.pages.give_back(&runs);
            self.blocks.give_back(&table.block_runs());
        })?;
        let meta = SegmentMeta {
            num_pages: segment.num_pages,
            physical_pages: Some(self.pages.len()),
            map_blocks: self.blocks.len(),
            table: table.table.clone(),
            ..segment.placed.meta.clone()
        };
        Ok(Plan { id: segment.id as usize, pages, runs, table, meta, retired })
    }

    fn carry_out(
        &mut self,
        inner: &Inner,
        segment: &Segment,
        plan: &Plan,
    ) -> Result<(), WriteError> {
        let page_bytes = segment.meta.page_bytes as usize;
        let mut pages = plan.pages.iter();
        let mut buffer = Vec::with_capacity(WRITE_BYTES);
        for run in &plan.runs {
            let mut at = run.start;
            while at < run.end {
                let count = (run.end - at).min((WRITE_BYTES / page_bytes).max(1) as u64);
                buffer.clear();
                for (_, page) in pages.by_ref().take(count as usize) {
                    buffer.extend_from_slice(page.bytes());
                }
                (at..at + count).for_each(|page| forget(inner, segment, page));
                self.data.write_at(at * page_bytes as u64, &buffer)?;
                at += count;
            }
        }
        let mut blocks: Vec<&(u64, Vec<u8>)> = plan.table.blocks.iter().collect();
        blocks.sort_unstable_by_key(|(block, _)| *block);
        for group in blocks.chunk_by(|a, b| a.0 + 1 == b.0) {
            buffer.clear();
            for (block, bytes) in group {
                inner.pages.forget_table_block(segment, *block);
                buffer.extend_from_slice(bytes);
            }
            let first = group.first().map_or(0, |(block, _)| *block);
            self.table.write_at(first * BLOCK_BYTES as u64, &buffer)?;
        }
        // A file must not be shorter than the catalog says, though a page that an aborted
        // checkpoint took may be its last.
        extend(&mut self.data, self.pages.len() * page_bytes as u64)?;
        extend(&mut self.table, self.blocks.len() * BLOCK_BYTES as u64)?;
        if !planted("skip_page_sync") {
            self.data.sync()?;
        }
        self.table.sync()
    }
}

fn extend(file: &mut ng_io::Writer, len: u64) -> Result<(), WriteError> {
    if file.len() >= len {
        return Ok(());
    }
    file.write_at(len - BLOCK_BYTES as u64, &[0; BLOCK_BYTES])
}

/// Forgets what caches hold of a physical page.
fn forget(inner: &Inner, segment: &Segment, page: u64) {
    if planted("keep_stale_cache") {
        return;
    }
    inner.pages.forget_page(segment, page);
    let layout = inner.row_layouts.get(segment.id as usize).copied().flatten();
    if let Some((layout, width)) = layout.map(|layout: RowLayout| (layout, layout.row_bytes()))
        && let Some(pool) = inner.rows.pool(segment.id as usize, width)
    {
        layout.cache_keys(page).for_each(|key| pool.forget(key));
    }
}

/// Where the pages of a segment are that will be replaced.
fn old_places(inner: &Inner, segment: &Segment, logical: &[u64]) -> Result<Vec<u64>, ReadError> {
    let per_page = segment.blocks_per_page();
    let firsts: Vec<u64> = logical.iter().map(|page| page * per_page).collect();
    let located = inner.pages.resolve(segment, &firsts)?;
    let there = located.into_iter().filter(|place| *place != Located::NOWHERE);
    Ok(there.map(|place| place.block / per_page).collect())
}

fn moves(segment: &Segment, pages: &[(u64, Arc<Page>)], runs: &[Range<u64>]) -> Moves {
    let mut places = runs.iter().cloned().flatten();
    let mut held = pages.iter().peekable();
    let width = segment.blocks_per_page() as usize;
    let mut moves = Moves::default();
    segment.changed.for_each(&mut |logical, _| {
        let page = held.next_if(|(page, _)| *page == logical);
        moves.pages.push((logical, page.and_then(|_| places.next())));
        match page {
            Some((_, page)) => {
                let crcs = page.bytes().chunks(BLOCK_BYTES).map(|b| checksum::of(b).to_le_bytes());
                moves.crcs.extend(crcs);
            }
            None => moves.crcs.resize(moves.crcs.len() + width, [0; 4]),
        }
    });
    moves
}

impl Writer {
    /// Writes all that is durable into the store's own files and starts the log anew.
    pub fn checkpoint(&self) -> Result<CheckpointReport, UpdateError> {
        let files = &mut *self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.checkpoint_into(files);
        self.count_checkpoint(files);
        // Pages that no version holds any more are others' to use.
        let _ = self.pool.settle(|bytes| self.inner.try_reserve(bytes));
        done
    }

    fn checkpoint_into(
        &self,
        files: &mut CheckpointFiles,
    ) -> Result<CheckpointReport, UpdateError> {
        let head = self.take_durable_head()?;
        let version = head.version.clone();
        let (base, chain) = (Arc::clone(&version.base), version.fingerprint);
        if version.lsn == base.lsn {
            self.give_back(head);
            return Ok(CheckpointReport {
                checkpoint_id: base.checkpoint_id,
                lsn: base.lsn,
                ..Default::default()
            });
        }
        let log = self.turn_log(files, chain);
        self.give_back(head);
        let (new_base, plans) = self.write_base(files, &version, log)?;
        let mut head = self.take_durable_head()?;
        rebase(&mut head.version, &version, &new_base, log);
        head.clean.clear();
        self.give_back_rebased(head);
        Ok(files.settle(&base, &new_base, plans))
    }

    /// Publishes `next`, which the log knows nothing of, as a checkpoint; `head` is the version
    /// before it, and nothing else was committed since it was taken out.
    pub(super) fn publish_as_checkpoint(
        &self,
        files: &mut CheckpointFiles,
        head: &mut Head,
        next: Version,
    ) -> Result<CheckpointReport, UpdateError> {
        self.check()?;
        let log = self.turn_log(files, next.fingerprint);
        let (new_base, plans) = self.write_base(files, &next, log)?;
        let base = Arc::clone(&next.base);
        head.version = next.clone();
        rebase(&mut head.version, &next, &new_base, log);
        head.clean.clear();
        self.lock().durable_lsn = next.lsn;
        Ok(files.settle(&base, &new_base, plans))
    }

    /// Lets further commits go to the other log file, unless a checkpoint that failed has done so;
    /// where that is, for the root that contains the commit with `chain`.
    fn turn_log(&self, files: &mut CheckpointFiles, chain: u64) -> LogMeta {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut files.rotated, true) {
            log.rotate();
        }
        self.note_log(&mut log);
        let place = log.place();
        LogMeta { file: place.file, offset: place.offset, chain }
    }

    /// Writes a version with its root, and opens what was written.
    fn write_base(
        &self,
        files: &mut CheckpointFiles,
        version: &Version,
        log: LogMeta,
    ) -> Result<(Arc<Base>, Vec<Plan>), UpdateError> {
        let checkpoint_id = version.base.checkpoint_id + 1;
        // Before a root says so: without a pin, a later writer would take our snapshots' pages.
        let pinned = crate::io::past_signals(|| self.inner.pages.reader.disk().pin(checkpoint_id));
        let pin = pinned.map_err(|error| UpdateError::Unsupported {
            what: format!("{}: cannot pin checkpoint {checkpoint_id}: {error}", self.inner.path),
        })?;
        let poison = |error: &dyn std::fmt::Display| self.poison(error);
        let Written { catalog, placed, plans } =
            files.write(&self.inner, version, checkpoint_id, log, &poison)?;
        let (lsn, fingerprint, catalog) = (version.lsn, log.chain, Arc::new(catalog));
        Ok((Arc::new(Base { checkpoint_id, lsn, catalog, placed, fingerprint, _pin: pin }), plans))
    }
}

impl CheckpointFiles {
    /// Notes that a root has been written: what it replaces is free once nobody reads it.
    fn settle(&mut self, base: &Arc<Base>, new_base: &Base, plans: Vec<Plan>) -> CheckpointReport {
        self.rotated = false;
        self.checkpoints += 1;
        let (checkpoint_id, lsn) = (new_base.checkpoint_id, new_base.lsn);
        let mut report = CheckpointReport { checkpoint_id, lsn, ..Default::default() };
        for plan in &plans {
            report.pages += plan.pages.len() as u64;
            report.table_blocks += plan.table.blocks.len() as u64;
        }
        self.retire(base, checkpoint_id, plans);
        report
    }
}

/// Puts a version onto a new checkpoint: what `written` had changed is on disk now, unless it was
/// changed again.
fn rebase(version: &mut Version, written: &Version, base: &Arc<Base>, log: LogMeta) {
    let mut catalog = Catalog::clone(&version.catalog);
    catalog.log = Some(log);
    version.base = Arc::clone(base);
    for ((segment, placed), meta) in
        version.segments.iter_mut().zip(&base.placed).zip(&mut catalog.segments)
    {
        segment.placed = Arc::clone(placed);
        *meta = SegmentMeta { num_pages: segment.num_pages, ..placed.meta.clone() };
        if let Some(written) = written.segments.get(placed.id as usize) {
            subtract(&mut segment.changed, &written.changed);
        }
    }
    version.catalog = Arc::new(catalog);
}

/// Forgets the pages of `map` that are as in `written`.
fn subtract(map: &mut PageMap, written: &PageMap) {
    let mut same = Vec::new();
    written.for_each(&mut |page, slot| match (map.get(page), slot) {
        (Some(Slot::Changed(now)), Slot::Changed(then)) if Arc::ptr_eq(now, then) => {
            same.push(page)
        }
        (Some(Slot::Dead), Slot::Dead) => same.push(page),
        _ => {}
    });
    if same.len() == map.len() {
        *map = PageMap::default();
        return;
    }
    same.into_iter().for_each(|page| map.unset(page));
}
