//! Reading verified blocks: through the block cache, the page table and one queue of reads.
//!
//! Every byte that leaves this module matched the checksum that stands with the pointer to it, now
//! or when it entered the cache. The blocks of a batch are probed first; what is missing goes to
//! the device in one call, neighbours merged, so the queue stays full. The only barriers are the
//! levels of the page table: data, leaf, inner block. Pages that a commit has changed and no
//! checkpoint has written come from memory.

use crate::cache::slots::{Share, SlotCache};
use crate::error::{Damage, ReadError};
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp, Reader};
use crate::page::absent::AbsentBlocks;
use crate::page::{
    Entries, INNER_ENTRIES, Leaf, Located, Metadata, Place, Placed, Segment, pages_per_leaf,
    verify_blocks,
};
use std::sync::Arc;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The slot directory of an L-type page is at its end.
const TAIL_BYTES: usize = 256;
const BLOCKS_PER_READ: usize = READ_BYTES_MAX / BLOCK_BYTES;

/// Takes the bytes of request `index`; may run while a part of the cache is locked.
pub(crate) type Visit<'a> = dyn FnMut(usize, &[u8]) -> Result<(), ReadError> + 'a;

/// The block cache over one reader.
pub(crate) struct Pages {
    pub reader: Reader,
    pub share: Arc<Share>,
    pub cache: Option<Arc<SlotCache>>,
    /// Indexes and page tables that are in memory as a whole.
    pub metadata: Option<Arc<Metadata>>,
    /// Where what is not in the cache is noted instead of being read.
    pub absent: Option<AbsentBlocks>,
    /// Reads that go along with the next ones, through their queue.
    pub beside: Option<Arc<dyn Beside>>,
}

/// Reads that somebody has asked for and that wait for a queue.
pub(crate) trait Beside: Send + Sync {
    /// The next read; its tag is below [`BESIDE`].
    fn next(&self) -> Option<ReadOp>;
    /// Takes its answer.
    fn done(&self, op: ReadOp, result: Result<&[u8], crate::io::ReadError>);
}

/// Marks the tags of reads that go along.
const BESIDE: u64 = 1 << 63;

impl Pages {
    pub fn new(reader: Reader, share: Share, cache: Option<SlotCache>) -> Self {
        let (share, cache) = (Arc::new(share), cache.map(Arc::new));
        Self { reader, share, cache, metadata: None, absent: None, beside: None }
    }

    /// The same, with these indexes and page tables in memory.
    pub fn with_metadata(self, metadata: Option<Metadata>) -> Self {
        Self { metadata: metadata.map(Arc::new), ..self }
    }

    /// The same cache, and what `beside` has to read goes along with the next reads.
    pub fn with_beside(&self, beside: Arc<dyn Beside>) -> Self {
        Self { beside: Some(beside), ..self.alike() }
    }

    /// The same cache.
    pub(super) fn alike(&self) -> Self {
        let Self { reader, share, cache, metadata, .. } = self;
        Self {
            reader: reader.clone(),
            share: Arc::clone(share),
            cache: cache.clone(),
            metadata: metadata.clone(),
            absent: None,
            beside: None,
        }
    }

    /// Lends those of the logical `blocks`, which ascend, that are in memory; returns which are
    /// not, and where they are.
    pub fn find(
        &self,
        segment: &Segment,
        blocks: &[u64],
        visit: &mut Visit<'_>,
    ) -> Result<(Vec<usize>, Vec<Located>), ReadError> {
        let (mut places, mut rest) = (Vec::with_capacity(blocks.len()), Vec::new());
        for (index, block) in blocks.iter().enumerate() {
            let page = block / segment.blocks_per_page();
            match segment.changed_page(page)? {
                None => {
                    places.push(index);
                    rest.push(*block);
                }
                Some(held) => {
                    let start = (block % segment.blocks_per_page()) as usize * BLOCK_BYTES;
                    let bytes = held.bytes().get(start..start + BLOCK_BYTES);
                    visit(index, bytes.ok_or_else(|| segment.nowhere(page))?)?;
                }
            }
        }
        let located = self.resolve(segment, &rest)?;
        if let Some(at) = located.iter().position(|place| *place == Located::NOWHERE) {
            return Err(segment.nowhere(rest[at] / segment.blocks_per_page()));
        }
        let mut visit = |at: usize, bytes: &[u8]| visit(places[at], bytes);
        let missing = self.probe(segment, Place::Data, &located, 1, &mut visit)?;
        let places = missing.iter().map(|at| places[*at]).collect();
        Ok((places, missing.iter().map(|at| located[*at]).collect()))
    }

    /// Lends runs of `span` blocks, each starting at one of the logical blocks `firsts` and inside
    /// of one page, to `visit`: once each, in any order. `firsts` ascends. Returns which needed the
    /// device.
    pub fn fetch(
        &self,
        segment: &Segment,
        firsts: &[u64],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let bound = segment.num_pages * segment.blocks_per_page();
        if let Some(last) = firsts.last().filter(|last| last.saturating_add(span as u64) > bound) {
            let page = *last / segment.blocks_per_page();
            return Err(segment.damaged(page, &Damage::new("a pointer leads past the last page")));
        }
        if segment.changed.is_empty() {
            return self.fetch_placed(segment, firsts, span, visit);
        }
        let (mut places, mut rest) = (Vec::new(), Vec::new());
        for (index, first) in firsts.iter().enumerate() {
            let page = first / segment.blocks_per_page();
            let Some(held) = segment.changed_page(page)? else {
                places.push(index);
                rest.push(*first);
                continue;
            };
            let start = (first % segment.blocks_per_page()) as usize * BLOCK_BYTES;
            let run = held.bytes().get(start..start + span * BLOCK_BYTES);
            visit(index, run.ok_or_else(|| segment.nowhere(page))?)?;
        }
        let place = |index: usize| places[index];
        let mut visit = |index: usize, bytes: &[u8]| visit(place(index), bytes);
        let missed = self.fetch_placed(segment, &rest, span, &mut visit)?;
        Ok(missed.into_iter().map(place).collect())
    }

    fn fetch_placed(
        &self,
        segment: &Segment,
        firsts: &[u64],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        if firsts.is_empty() {
            return Ok(Vec::new());
        }
        let located = if span == 1 {
            self.resolve(segment, firsts)?
        } else {
            let blocks: Vec<u64> =
                firsts.iter().flat_map(|first| *first..*first + span as u64).collect();
            self.resolve(segment, &blocks)?
        };
        if let Some(at) = located.iter().position(|place| *place == Located::NOWHERE) {
            return Err(segment.nowhere(firsts[at / span] / segment.blocks_per_page()));
        }
        self.cached(segment, Place::Data, &located, span, visit)
    }

    /// Finds the physical place and the checksum of logical blocks, which ascend, as the last
    /// checkpoint left them; [`Located::NOWHERE`] where it has none.
    pub fn resolve(&self, segment: &Placed, blocks: &[u64]) -> Result<Vec<Located>, ReadError> {
        let mut found = vec![Located::NOWHERE; blocks.len()];
        let end = segment.meta.num_pages * segment.blocks_per_page();
        let blocks = &blocks[..blocks.partition_point(|block| *block < end)];
        let groups = Groups::of(blocks, segment.blocks_per_page(), segment.meta.page_bytes);
        let leaves = self.locate_leaves(segment, &groups.leaves)?;
        // Which group each leaf that exists belongs to, and the leaves of moved pages.
        let (mut present, mut places) = (Vec::new(), Vec::new());
        for (group, located) in leaves.iter().enumerate() {
            if *located != Located::NOWHERE {
                present.push(group);
                places.push(*located);
            }
        }
        let mut children: Vec<(Located, u64, std::ops::Range<usize>)> = Vec::new();
        let mut visit = |index: usize, bytes: &[u8]| {
            let (leaf, range) = groups.get(present[index]);
            let spec = segment.leaf_spec(leaf);
            let wrong = |damage: &Damage| segment.damaged(spec.first_logical, damage);
            match Leaf::decode(bytes, &spec).map_err(|damage| wrong(&damage))? {
                Leaf::Run(run) => {
                    for (block, place) in pairs(blocks, &mut found, range) {
                        *place = run.block(*block);
                    }
                }
                Leaf::Fan(fan) => {
                    for (child, range) in fan.split(blocks, range, segment.blocks_per_page()) {
                        if let Some(located) = fan.child(child) {
                            let first = fan.first_logical(child);
                            children.push((located, first, range));
                        }
                    }
                }
            }
            Ok(())
        };
        self.cached(segment, Place::Table, &places, 1, &mut visit)?;
        if children.is_empty() {
            return Ok(found);
        }
        let places: Vec<Located> = children.iter().map(|child| child.0).collect();
        let mut visit = |index: usize, bytes: &[u8]| {
            let (_, first, range) = &children[index];
            let wrong = |damage: Damage| segment.damaged(*first, &damage);
            let spec = segment.leaf_spec_of(*first);
            let child = Entries::decode(bytes, &spec, *first).map_err(wrong)?;
            for (block, place) in pairs(blocks, &mut found, range.clone()) {
                *place = child.block(*block);
            }
            Ok(())
        };
        self.cached(segment, Place::Table, &places, 1, &mut visit)?;
        Ok(found)
    }

    /// Finds the blocks of leaves of the page table, which ascend.
    pub fn locate_leaves(
        &self,
        segment: &Placed,
        leaves: &[u64],
    ) -> Result<Vec<Located>, ReadError> {
        let mut inners: Vec<u64> = leaves.iter().map(|leaf| leaf / INNER_ENTRIES as u64).collect();
        inners.dedup();
        let table = &segment.meta.table;
        let located = inners.iter().map(|inner| table.get(*inner as usize).copied());
        let located = located.collect::<Option<Vec<_>>>().ok_or_else(|| {
            segment.damaged(0, &Damage::new("the catalog lacks a page table block"))
        })?;
        let mut found = vec![Located::NOWHERE; leaves.len()];
        let mut visit = |index: usize, bytes: &[u8]| {
            let inner = inners[index];
            let first = inner * INNER_ENTRIES as u64;
            let wrong = |damage: Damage| segment.damaged(first, &damage);
            let typed = segment.inner(bytes, inner).map_err(wrong)?;
            let start = leaves.partition_point(|leaf| *leaf < first);
            let end = leaves.partition_point(|leaf| *leaf < first + INNER_ENTRIES as u64);
            for (leaf, place) in pairs(leaves, &mut found, start..end) {
                let missing = || wrong(Damage::new("page table inner block: a leaf is missing"));
                *place = typed.leaf((leaf - first) as usize).ok_or_else(missing)?;
            }
            Ok(())
        };
        self.cached(segment, Place::Table, &located, 1, &mut visit)?;
        Ok(found)
    }

    /// Lends blocks of the page table to `visit`.
    pub fn table_blocks(
        &self,
        segment: &Placed,
        located: &[Located],
        visit: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.cached(segment, Place::Table, located, 1, visit).map(drop)
    }

    /// Forgets what is cached of a physical page that will be written anew.
    pub fn forget_page(&self, segment: &Placed, page: u64) {
        let blocks = page * segment.blocks_per_page()..(page + 1) * segment.blocks_per_page();
        blocks.for_each(|block| self.forget(segment, Place::Data, block));
    }

    /// Forgets what is cached of a block of the page table that will be written anew.
    pub fn forget_table_block(&self, segment: &Placed, block: u64) {
        self.forget(segment, Place::Table, block);
    }

    fn forget(&self, segment: &Placed, place: Place, block: u64) {
        if let Some(cache) = &self.cache {
            cache.remove(segment.key(place, block));
        }
        if let Some(metadata) = &self.metadata {
            metadata.forget(segment.id, place, block);
        }
    }

    /// Lends runs of `span` located blocks: from files that are in memory, from the cache, or read.
    fn cached(
        &self,
        segment: &Placed,
        place: Place,
        located: &[Located],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        if located.is_empty() {
            return Ok(Vec::new());
        }
        // Pages of indexes and blocks of page tables are single blocks.
        let resident = if span == 1 { self.resident(segment, place) } else { None };
        let Some(resident) = resident else {
            return self.cached_or_read(segment, place, located, span, visit);
        };
        let mut rest = Vec::new();
        for (index, at) in located.iter().enumerate() {
            match resident.block(at.block) {
                Some(bytes) => visit(index, bytes)?,
                None => rest.push(index),
            }
        }
        drop(resident);
        if rest.is_empty() {
            return Ok(rest);
        }
        let others: Vec<Located> = rest.iter().map(|index| located[*index]).collect();
        let mut visit = |index: usize, bytes: &[u8]| visit(rest[index], bytes);
        let missed = self.cached_or_read(segment, place, &others, 1, &mut visit)?;
        Ok(missed.into_iter().map(|index| rest[index]).collect())
    }

    /// Probes the cache for every run of `span` located blocks, then reads the rest.
    fn cached_or_read(
        &self,
        segment: &Placed,
        place: Place,
        located: &[Located],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let missing = self.probe(segment, place, located, span, visit)?;
        if missing.is_empty() {
            return Ok(missing);
        }
        if let Some(metadata) = &self.metadata {
            metadata.count(segment.id, place, missing.len() * span);
        }
        let runs = missing.iter().map(|index| &located[index * span..(index + 1) * span]);
        if let Some(absent) = &self.absent {
            absent.note(segment, place, runs);
            return Err(ReadError::NotYet);
        }
        let wanted: Vec<Located> = runs.flatten().copied().collect();
        let mut take = |from: usize, bytes: &[u8]| {
            for (step, run) in bytes.chunks_exact(span * BLOCK_BYTES).enumerate() {
                let places = &wanted[from + step * span..];
                for (located, bytes) in places.iter().zip(run.chunks_exact(BLOCK_BYTES)) {
                    self.keep(segment.key(place, located.block), bytes);
                }
                visit(missing[from / span + step], run)?;
            }
            Ok(())
        };
        self.read_located(segment, place, &wanted, span, &mut take)?;
        Ok(missing)
    }

    pub fn keep(&self, key: u64, bytes: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.insert(&self.share, key, bytes);
        }
    }

    /// Lends the runs that are wholly in the cache; returns which are not.
    fn probe(
        &self,
        segment: &Placed,
        place: Place,
        located: &[Located],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let Some(cache) = &self.cache else {
            return Ok((0..located.len() / span).collect());
        };
        let keys: Vec<u64> = located.iter().map(|at| segment.key(place, at.block)).collect();
        if span == 1 {
            return cache.with_each(&keys, TAIL_BYTES, visit);
        }
        let mut missing = Vec::new();
        let mut run = vec![0; span * BLOCK_BYTES];
        for (index, keys) in keys.chunks_exact(span).enumerate() {
            let parts = run.chunks_exact_mut(BLOCK_BYTES).zip(keys);
            let mut copied =
                parts.map(|(part, key)| cache.with(*key, |bytes| part.copy_from_slice(bytes)));
            if copied.all(|part| part.is_some()) {
                visit(index, &run)?;
            } else {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    /// Reads data blocks past the cache; `take` gets runs of blocks by their place in `located`.
    pub fn read_data(
        &self,
        segment: &Placed,
        located: &[Located],
        take: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.read_located(segment, Place::Data, located, 1, take)
    }

    /// Reads blocks, physically adjacent ones in one request, never splitting a run of `span`.
    fn read_located(
        &self,
        segment: &Placed,
        place: Place,
        located: &[Located],
        span: usize,
        take: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let (file, name) = segment.file(place);
        let limit = BLOCKS_PER_READ / span * span;
        let mut at = 0;
        let failure = std::cell::RefCell::new(None);
        let mut own = || {
            if failure.borrow().is_some() {
                return None;
            }
            let first = *located.get(at)?;
            let follows = |(step, other): (usize, &Located)| {
                step < limit && other.block == first.block + step as u64
            };
            let rest = located[at..].iter().enumerate();
            let len = rest.take_while(|item| follows(*item)).count() / span * span;
            let len = len.max(1);
            let op = ReadOp {
                tag: at as u64,
                file,
                offset: first.block * BLOCK,
                len: (len * BLOCK_BYTES) as u32,
            };
            at += len;
            Some(op)
        };
        let beside = self.beside.as_deref();
        // What is waited for goes first.
        let mut next =
            || own().or_else(|| beside?.next().map(|op| ReadOp { tag: op.tag | BESIDE, ..op }));
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            if let Some(beside) = beside.filter(|_| op.tag & BESIDE != 0) {
                return beside.done(ReadOp { tag: op.tag & !BESIDE, ..op }, result);
            }
            if failure.borrow().is_some() {
                return;
            }
            let from = op.tag as usize;
            let outcome = result.map_err(ReadError::from).and_then(|bytes| {
                let expected = &located[from..];
                verify_blocks(segment, &name, expected, bytes)?;
                take(from, bytes)
            });
            if let Err(error) = outcome {
                *failure.borrow_mut() = Some(error);
            }
        };
        self.reader.read(&mut next, &mut done)?;
        failure.into_inner().map_or(Ok(()), Err)
    }
}

/// Logical blocks by the leaf of the page table that covers them.
struct Groups {
    leaves: Vec<u64>,
    starts: Vec<usize>,
}

impl Groups {
    fn of(blocks: &[u64], blocks_per_page: u64, page_bytes: u32) -> Self {
        let per_leaf = pages_per_leaf(page_bytes) * blocks_per_page;
        let (mut leaves, mut starts) = (Vec::new(), Vec::new());
        let mut end = 0;
        for (place, block) in blocks.iter().enumerate() {
            if *block >= end {
                let leaf = block / per_leaf;
                end = (leaf + 1) * per_leaf;
                leaves.push(leaf);
                starts.push(place);
            }
        }
        starts.push(blocks.len());
        Self { leaves, starts }
    }

    fn get(&self, group: usize) -> (u64, std::ops::Range<usize>) {
        (self.leaves[group], self.starts[group]..self.starts[group + 1])
    }
}

/// The numbers of a range with the places for what is found of them.
fn pairs<'a>(
    numbers: &'a [u64],
    found: &'a mut [Located],
    range: std::ops::Range<usize>,
) -> impl Iterator<Item = (&'a u64, &'a mut Located)> {
    let places = &mut found[range.clone()];
    numbers[range].iter().zip(places)
}
