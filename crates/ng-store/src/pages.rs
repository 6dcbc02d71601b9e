//! Reading verified blocks: through the block cache, the page table and one queue of reads.
//!
//! Every byte that leaves this module matched the checksum that stands with the pointer to it, now
//! or when it entered the cache. The blocks of a batch are probed first; what is missing goes to
//! the device in one call, neighbours merged, so the queue stays full. The only barriers are the
//! levels of the page table: data, leaf, inner block.

use crate::cache::slots::{Share, SlotCache};
use crate::catalog::SegmentMeta;
use crate::error::{Damage, OpenError, ReadError};
use crate::io::{BLOCK_BYTES, FileId, READ_BYTES_MAX, ReadOp, Reader};
use crate::page_table::{INNER_ENTRIES, Inner, Leaf, LeafSpec, pages_per_leaf};
use crate::segment::{data_file, table_file};
use ng_types::canary::planted;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The slot directory of an L-type page is at its end.
const TAIL_BYTES: usize = 256;
const BLOCKS_PER_READ: usize = READ_BYTES_MAX / BLOCK_BYTES;

/// Which of a segment's structures a cached block is; part of its cache key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Data = 0,
    Leaf = 1,
    Inner = 2,
}

/// Where a block is on disk and what it must sum up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub block: u64,
    pub crc: u32,
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub id: u32,
    pub meta: SegmentMeta,
    pub data: FileId,
    pub table: FileId,
}

impl Segment {
    /// Opens both files and compares their lengths with the catalog.
    pub fn open(
        reader: &Reader,
        path: &str,
        id: u32,
        meta: &SegmentMeta,
    ) -> Result<Self, OpenError> {
        let open = |file: String, expected: u64| {
            let id = reader.open(&file).map_err(ReadError::from)?;
            let found = reader.len(id).map_err(ReadError::from)?;
            if found < expected {
                let path = path.into();
                return Err(OpenError::Truncated { path, file, expected, found });
            }
            Ok(id)
        };
        let data_bytes = meta.num_pages * u64::from(meta.page_bytes);
        let data = open(data_file(&meta.name), data_bytes)?;
        let table = open(table_file(&meta.name), meta.map_blocks * BLOCK)?;
        Ok(Self { id, meta: meta.clone(), data, table })
    }

    /// 4 KiB blocks of a page.
    pub fn blocks_per_page(&self) -> u64 {
        u64::from(self.meta.page_bytes) / BLOCK
    }

    /// What is known about leaf `index` before it is read.
    pub fn leaf_spec(&self, index: u64) -> LeafSpec {
        let first_logical = index * pages_per_leaf(self.meta.page_bytes);
        let left = self.meta.num_pages.saturating_sub(first_logical);
        LeafSpec {
            segment: self.id,
            first_logical,
            num_pages: left.min(pages_per_leaf(self.meta.page_bytes)),
            blocks_per_page: self.blocks_per_page(),
            physical_pages: self.meta.num_pages,
        }
    }

    /// Types inner block `index`.
    pub fn inner<'a>(&self, bytes: &'a [u8], index: u64) -> Result<Inner<'a>, Damage> {
        let first = index * INNER_ENTRIES as u64;
        let count = self.meta.num_leaves().saturating_sub(first).min(INNER_ENTRIES as u64);
        Inner::decode(bytes, self.id, index as u32, count as usize, self.meta.map_blocks)
    }

    fn key(&self, place: Place, number: u64) -> u64 {
        u64::from(self.id) << 48 | (place as u64) << 46 | number
    }

    fn file(&self, place: Place) -> (FileId, String) {
        match place {
            Place::Data => (self.data, data_file(&self.meta.name)),
            Place::Leaf | Place::Inner => (self.table, table_file(&self.meta.name)),
        }
    }

    /// An error about a page of this segment.
    pub fn damaged(&self, page: u64, damage: &Damage) -> ReadError {
        let file = data_file(&self.meta.name);
        ReadError::Damaged { file, page, what: damage.to_string() }
    }
}

/// Takes the bytes of request `index`; may run while a part of the cache is locked.
pub(crate) type Visit<'a> = dyn FnMut(usize, &[u8]) -> Result<(), ReadError> + 'a;

/// Finds the blocks of the requests that the cache does not have.
type Locate<'a> = dyn FnMut(&[u64]) -> Result<Vec<Located>, ReadError> + 'a;

/// The block cache over one reader.
pub(crate) struct Pages {
    pub reader: Reader,
    pub share: Share,
    pub cache: Option<SlotCache>,
}

impl Pages {
    /// Lends runs of `span` blocks, each starting at one of the logical blocks `firsts`, to
    /// `visit`: once each, in any order. `firsts` ascends. Returns which needed the device.
    pub fn fetch(
        &self,
        segment: &Segment,
        firsts: &[u64],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let bound = segment.meta.num_pages * segment.blocks_per_page();
        if let Some(last) = firsts.last().filter(|last| last.saturating_add(span as u64) > bound) {
            let page = *last / segment.blocks_per_page();
            return Err(segment.damaged(page, &Damage::new("a pointer is past the end")));
        }
        let mut locate = |missing: &[u64]| {
            if span == 1 {
                return self.resolve(segment, missing);
            }
            let blocks: Vec<u64> =
                missing.iter().flat_map(|first| *first..*first + span as u64).collect();
            self.resolve(segment, &blocks)
        };
        self.cached(segment, Place::Data, firsts, span, &mut locate, visit)
    }

    /// Finds the physical place and the checksum of logical blocks, which ascend.
    pub fn resolve(&self, segment: &Segment, blocks: &[u64]) -> Result<Vec<Located>, ReadError> {
        let blocks_per_page = segment.blocks_per_page();
        let blocks_per_leaf = pages_per_leaf(segment.meta.page_bytes) * blocks_per_page;
        let mut leaves: Vec<u64> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            let leaf = block / blocks_per_leaf;
            if leaves.last() != Some(&leaf) {
                leaves.push(leaf);
                starts.push(place);
            }
        }
        starts.push(blocks.len());
        let mut found = vec![Located { block: 0, crc: 0 }; blocks.len()];
        let mut visit = |index: usize, bytes: &[u8]| {
            let (Some(leaf), Some([from, to])) = (leaves.get(index), starts.get(index..index + 2))
            else {
                return Ok(());
            };
            let wrong = |damage: &Damage| segment.damaged(leaf * blocks_per_leaf, damage);
            let typed = Leaf::decode(bytes, &segment.leaf_spec(*leaf)).map_err(|d| wrong(&d))?;
            let wanted = blocks.get(*from..*to).unwrap_or_default();
            let places = found.get_mut(*from..*to).unwrap_or_default();
            for (block, place) in wanted.iter().zip(places) {
                let page = block / blocks_per_page;
                let (block, crc) = typed
                    .block(page, block % blocks_per_page)
                    .ok_or_else(|| wrong(&Damage::new("page table leaf: page is missing")))?;
                *place = Located { block, crc };
            }
            Ok(())
        };
        let mut locate = |missing: &[u64]| self.locate_leaves(segment, missing);
        self.cached(segment, Place::Leaf, &leaves, 1, &mut locate, &mut visit)?;
        Ok(found)
    }

    fn locate_leaves(&self, segment: &Segment, leaves: &[u64]) -> Result<Vec<Located>, ReadError> {
        let mut inners: Vec<u64> = leaves.iter().map(|leaf| leaf / INNER_ENTRIES as u64).collect();
        inners.dedup();
        let mut found = vec![Located { block: 0, crc: 0 }; leaves.len()];
        let mut visit = |index: usize, bytes: &[u8]| {
            let Some(inner) = inners.get(index) else {
                return Ok(());
            };
            let first = inner * INNER_ENTRIES as u64;
            let wrong = |damage: Damage| segment.damaged(first, &damage);
            let typed = segment.inner(bytes, *inner).map_err(wrong)?;
            let start = leaves.partition_point(|leaf| *leaf < first);
            let end = leaves.partition_point(|leaf| *leaf < first + INNER_ENTRIES as u64);
            let places = found.get_mut(start..end).unwrap_or_default();
            for (leaf, place) in leaves.get(start..end).unwrap_or_default().iter().zip(places) {
                let missing = || wrong(Damage::new("page table inner block: leaf is missing"));
                let (block, crc) = typed.leaf((leaf - first) as usize).ok_or_else(missing)?;
                *place = Located { block, crc };
            }
            Ok(())
        };
        let mut locate = |missing: &[u64]| {
            let table = &segment.meta.table;
            let pointers = missing.iter().map(|inner| table.get(*inner as usize));
            let located = pointers.map(|p| p.map(|p| Located { block: p.block, crc: p.crc }));
            located.collect::<Option<Vec<_>>>().ok_or_else(|| {
                segment.damaged(0, &Damage::new("the catalog lacks a page table block"))
            })
        };
        self.cached(segment, Place::Inner, &inners, 1, &mut locate, &mut visit)?;
        Ok(found)
    }

    /// Probes the cache for every request, then reads the rest.
    fn cached(
        &self,
        segment: &Segment,
        place: Place,
        numbers: &[u64],
        span: usize,
        locate: &mut Locate<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let missing = self.probe(segment, place, numbers, span, visit)?;
        if missing.is_empty() {
            return Ok(missing);
        }
        let wanted: Vec<u64> =
            missing.iter().filter_map(|index| numbers.get(*index).copied()).collect();
        let located = locate(&wanted)?;
        let mut take = |from: usize, bytes: &[u8]| {
            for (step, run) in bytes.chunks_exact(span * BLOCK_BYTES).enumerate() {
                let at = from / span + step;
                let (Some(index), Some(number)) = (missing.get(at), wanted.get(at)) else {
                    continue;
                };
                for (block, bytes) in run.chunks_exact(BLOCK_BYTES).enumerate() {
                    self.keep(segment.key(place, number + block as u64), bytes);
                }
                visit(*index, run)?;
            }
            Ok(())
        };
        self.read_located(segment, place, &located, span, &mut take)?;
        Ok(missing)
    }

    fn keep(&self, key: u64, bytes: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.insert(&self.share, key, bytes);
        }
    }

    /// Lends the runs that are wholly in the cache; returns which are not.
    fn probe(
        &self,
        segment: &Segment,
        place: Place,
        numbers: &[u64],
        span: usize,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<usize>, ReadError> {
        let Some(cache) = &self.cache else {
            return Ok((0..numbers.len()).collect());
        };
        let keys: Vec<u64> = numbers.iter().map(|number| segment.key(place, *number)).collect();
        if span == 1 {
            return cache.with_each(&keys, TAIL_BYTES, visit);
        }
        let mut missing = Vec::new();
        let mut run = vec![0; span * BLOCK_BYTES];
        for (index, key) in keys.into_iter().enumerate() {
            let parts = run.chunks_exact_mut(BLOCK_BYTES).zip(key..);
            let mut copied =
                parts.map(|(part, key)| cache.with(key, |bytes| part.copy_from_slice(bytes)));
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
        segment: &Segment,
        located: &[Located],
        take: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        self.read_located(segment, Place::Data, located, 1, take)
    }

    /// Reads blocks, physically adjacent ones in one request, never splitting a run of `span`.
    fn read_located(
        &self,
        segment: &Segment,
        place: Place,
        located: &[Located],
        span: usize,
        take: &mut Visit<'_>,
    ) -> Result<(), ReadError> {
        let (file, name) = segment.file(place);
        let limit = BLOCKS_PER_READ / span * span;
        let mut at = 0;
        let failure = std::cell::RefCell::new(None);
        let mut next = || {
            if failure.borrow().is_some() {
                return None;
            }
            let first = *located.get(at)?;
            let follows = |(step, other): (usize, &Located)| {
                step < limit && other.block == first.block + step as u64
            };
            let rest = located.get(at..).unwrap_or_default().iter().enumerate();
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
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            if failure.borrow().is_some() {
                return;
            }
            let from = op.tag as usize;
            let outcome = result.map_err(ReadError::from).and_then(|bytes| {
                let expected = located.get(from..).unwrap_or_default();
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

fn verify_blocks(
    segment: &Segment,
    file: &str,
    expected: &[Located],
    bytes: &[u8],
) -> Result<(), ReadError> {
    if planted("skip_checksum") {
        return Ok(());
    }
    for (located, block) in expected.iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
        let found = crc32c::crc32c(block);
        if found != located.crc {
            return Err(ReadError::Checksum {
                file: file.into(),
                page: located.block / segment.blocks_per_page(),
                block: located.block,
                expected: located.crc,
                found,
            });
        }
    }
    Ok(())
}
