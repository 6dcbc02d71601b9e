//! Blocks of a segment against their checksums, with all damage reported.

use crate::bytes::put;
use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp};
use crate::page::{Located, PageSet, Placed, data_file, table_file};
use crate::verify::Run;
use crate::verify::table::Table;
use ng_types::{Reservation, checksum};

/// Bytes of pages that are in memory at a time.
const WINDOW_BYTES: u64 = 2 << 20;

/// What was found where a page should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    /// The page table gives it no place.
    Absent,
    /// Not all of its blocks can be read; that is reported.
    Damaged,
    /// All of its blocks are what they were.
    Sound,
}

/// Room for some pages.
pub(super) struct Window {
    pub bytes: Vec<u8>,
    /// How many.
    pub pages: usize,
    _held: Reservation,
}

impl Run<'_> {
    /// Checks lengths, page table and all pages of a segment, each of which must be there.
    pub(super) fn check_whole(&mut self, segment: &Placed) -> Result<(), ReadError> {
        self.check_lengths(segment);
        let table = self.check_table(segment)?;
        let (found, expected) = (table.present.len(), segment.meta.num_pages);
        if table.sound && found != expected {
            let what = format!("{found} pages have a physical page, expected {expected}");
            self.report.add(&table_file(&segment.meta.name), None, None, what);
        }
        self.check_blocks(segment, &table.present)
    }

    /// Checks lengths, page table and those pages of a segment that are there.
    pub(super) fn check_present(&mut self, segment: &Placed) -> Result<Table, ReadError> {
        self.check_lengths(segment);
        let table = self.check_table(segment)?;
        self.check_blocks(segment, &table.present)?;
        Ok(table)
    }

    /// Reads some pages of a segment. All pages that are not among them count as done.
    pub(super) fn check_blocks(
        &mut self,
        segment: &Placed,
        pages: &PageSet,
    ) -> Result<(), ReadError> {
        let mut window = self.window(segment)?;
        let mut from = 0;
        while !self.stopped {
            let some = pages.take(from, window.pages);
            let Some(last) = some.last() else { break };
            self.read_pages(segment, &some, &mut window);
            from = last + 1;
        }
        self.advance_to(self.segment_end);
        Ok(())
    }

    /// Memory for the pages of `segment`.
    pub(super) fn window(&self, segment: &Placed) -> Result<Window, ReadError> {
        let page_bytes = u64::from(segment.meta.page_bytes);
        let best = WINDOW_BYTES.min(segment.meta.num_pages.max(1) * page_bytes);
        let held = self.inner.budget.reserve(best);
        let held = held.or_else(|_| self.inner.reserve_batch(page_bytes))?;
        let pages = (held.bytes() / page_bytes) as usize;
        let bytes = vec![0; pages * page_bytes as usize];
        Ok(Window { bytes, pages, _held: held })
    }

    pub(super) fn check_lengths(&mut self, segment: &Placed) {
        self.segment_end += segment.meta.num_pages * segment.blocks_per_page();
        let reader = &self.pages.reader;
        let (meta, block) = (&segment.meta, BLOCK_BYTES as u64);
        // Room that a checkpoint has taken stays with the file.
        let exact = meta.physical_pages.is_none() && self.at_rest;
        for (file, name, expected) in [
            (
                segment.data,
                data_file(&meta.name),
                meta.physical_pages() * u64::from(meta.page_bytes),
            ),
            (segment.table, table_file(&meta.name), meta.map_blocks * block),
        ] {
            match reader.len(file) {
                Ok(len) if len == expected || (len > expected && !exact) => {}
                Ok(len) => {
                    let what = format!("it has {len} bytes, expected {expected}");
                    self.report.add(&name, None, None, what);
                }
                Err(error) => self.report.add(&name, None, None, error.to_string()),
            }
        }
    }

    fn advance_to(&mut self, done: u64) {
        if done > self.done && !self.stopped {
            self.done = done;
            self.stopped |= !(self.progress)(self.done, self.total);
        }
    }

    /// Reads pages, which ascend, into the window, one after the other.
    pub(super) fn read_pages(
        &mut self,
        segment: &Placed,
        pages: &[u64],
        window: &mut Window,
    ) -> Vec<PageState> {
        let per_page = segment.blocks_per_page();
        self.advance_to(self.done + pages.len() as u64 * per_page);
        let located = self.resolve(segment, pages);
        let mut to_read: Vec<(usize, Located)> = Vec::new();
        let mut states = Vec::with_capacity(pages.len());
        for ((page, place), step) in pages.iter().zip(located).zip(0_usize..) {
            states.push(match place {
                None => PageState::Damaged,
                Some(blocks) if blocks.contains(&Located::NOWHERE) => PageState::Absent,
                Some(blocks) => {
                    let at = step * per_page as usize;
                    to_read.extend((at..).zip(blocks));
                    PageState::Sound
                }
            });
            debug_assert!(*page < segment.meta.num_pages);
        }
        self.report.blocks += to_read.len() as u64;
        to_read.sort_unstable_by_key(|(_, located)| located.block);
        let number = |at: usize| pages.get(at / per_page as usize).copied();
        for at in self.read_blocks(segment, &to_read, &number, &mut window.bytes) {
            if let Some(state) = states.get_mut(at / per_page as usize) {
                *state = PageState::Damaged;
            }
        }
        self.pace.after(to_read.len() * BLOCK_BYTES);
        states
    }

    /// Where the blocks of each page are; `None` where the page table cannot be read, which is
    /// reported.
    fn resolve(&mut self, segment: &Placed, pages: &[u64]) -> Vec<Option<Vec<Located>>> {
        let per_page = segment.blocks_per_page();
        let blocks = |page: &u64| page * per_page..(page + 1) * per_page;
        let all: Vec<u64> = pages.iter().flat_map(blocks).collect();
        if let Ok(located) = self.pages.resolve(segment, &all) {
            return located.chunks(per_page as usize).map(|page| Some(page.to_vec())).collect();
        }
        let mut found = Vec::with_capacity(pages.len());
        for page in pages {
            let located = self.pages.resolve(segment, &blocks(page).collect::<Vec<_>>());
            if let Err(error) = &located {
                self.report.add_error(&table_file(&segment.meta.name), error);
            }
            found.push(located.ok());
        }
        found
    }

    /// Reads blocks, which ascend by place, to where they belong in the window; returns those that
    /// are damaged.
    fn read_blocks(
        &mut self,
        segment: &Placed,
        blocks: &[(usize, Located)],
        page_of: &dyn Fn(usize) -> Option<u64>,
        window: &mut [u8],
    ) -> Vec<usize> {
        let name = data_file(&segment.meta.name);
        let (report, mut damaged) = (&mut self.report, Vec::new());
        let mut at = 0;
        let per_read = READ_BYTES_MAX / BLOCK_BYTES;
        let mut next = || {
            let (_, first) = blocks.get(at)?;
            let rest = blocks[at..].iter().zip(first.block..);
            let run = rest.take(per_read).take_while(|((_, place), block)| place.block == *block);
            let (tag, count) = (at as u64, run.count());
            at += count;
            let (offset, len) = (first.block * BLOCK_BYTES as u64, (count * BLOCK_BYTES) as u32);
            Some(ReadOp { tag, file: segment.data, offset, len })
        };
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            let here = &blocks[op.tag as usize..];
            let here = here.iter().take(op.len as usize / BLOCK_BYTES);
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(error) => {
                    damaged.extend(here.map(|(to, _)| *to));
                    return report.add_error(&name, &ReadError::from(error));
                }
            };
            for ((to, place), block) in here.zip(bytes.chunks_exact(BLOCK_BYTES)) {
                put(window, to * BLOCK_BYTES, block);
                let found = checksum::of(block);
                if found != place.crc {
                    damaged.push(*to);
                    let expected = place.crc;
                    let what = format!("checksum {found:#010x}, expected {expected:#010x}");
                    report.add(&name, page_of(*to), Some(place.block), what);
                }
            }
        };
        let result = self.pages.reader.read(&mut next, &mut done);
        if let Err(error) = result {
            self.report.add_error(&name, &error.into());
            return blocks.iter().map(|(to, _)| *to).collect();
        }
        damaged
    }
}
