//! Every block of a segment against its checksum, front to back, with all damage reported.

use crate::bytes::put;
use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, READ_BYTES_MAX, ReadOp};
use crate::page_table::pages_per_leaf;
use crate::pages::{Located, Segment};
use crate::segment::{data_file, table_file};
use crate::verify::{Run, VerifyReport};

/// Pages in the window at a time.
const WINDOW_BYTES: u64 = 2 << 20;

/// Takes a page: its number, its bytes, whether all of its blocks are sound.
pub(super) type VisitPage<'a> = dyn FnMut(&mut VerifyReport, u64, &[u8], bool) + 'a;

impl Run<'_> {
    /// Reads all of `segment`; `visit` gets its pages in order.
    pub(super) fn check_blocks(&mut self, segment: &Segment, visit: &mut VisitPage<'_>) {
        self.check_lengths(segment);
        let page_bytes = u64::from(segment.meta.page_bytes);
        let best = WINDOW_BYTES.min(segment.meta.num_pages.max(1) * page_bytes);
        let held =
            self.inner.budget.reserve(best).or_else(|_| self.inner.reserve_batch(page_bytes));
        let held = match held {
            Ok(held) => held,
            Err(error) => {
                return self.report.add_error(&data_file(&segment.meta.name), &error);
            }
        };
        let mut window = vec![0; (held.bytes() / page_bytes * page_bytes) as usize];
        let per_window = window.len() as u64 / page_bytes;
        let per_leaf = pages_per_leaf(segment.meta.page_bytes);
        let mut page = 0;
        while page < segment.meta.num_pages && !self.stopped {
            let leaf_end = (page / per_leaf + 1) * per_leaf;
            let end = segment.meta.num_pages.min(leaf_end).min(page + per_window);
            self.check_window(segment, page, end, &mut window, visit);
            page = end;
        }
    }

    fn check_lengths(&mut self, segment: &Segment) {
        let reader = &self.inner.pages.reader;
        let (meta, block) = (&segment.meta, BLOCK_BYTES as u64);
        for (file, name, expected) in [
            (segment.data, data_file(&meta.name), meta.num_pages * u64::from(meta.page_bytes)),
            (segment.table, table_file(&meta.name), meta.map_blocks * block),
        ] {
            match reader.len(file) {
                Ok(len) if len == expected => {}
                Ok(len) => {
                    let what = format!("{len} bytes, expected {expected}");
                    self.report.add(&name, None, None, what);
                }
                Err(error) => self.report.add(&name, None, None, error.to_string()),
            }
        }
    }

    /// Checks pages `first..end`, which one leaf of the page table covers.
    fn check_window(
        &mut self,
        segment: &Segment,
        first: u64,
        end: u64,
        window: &mut [u8],
        visit: &mut VisitPage<'_>,
    ) {
        let per_page = segment.blocks_per_page();
        let blocks: Vec<u64> = (first * per_page..end * per_page).collect();
        self.done += blocks.len() as u64;
        self.stopped |= !(self.progress)(self.done, self.total);
        let located = match self.inner.pages.resolve(segment, &blocks) {
            Ok(located) => located,
            Err(error) => {
                self.report.add_error(&table_file(&segment.meta.name), &error);
                let empty = vec![0; segment.meta.page_bytes as usize];
                (first..end).for_each(|page| visit(&mut self.report, page, &empty, false));
                return;
            }
        };
        let moved = located.iter().zip(&blocks).any(|(place, block)| place.block != *block);
        if moved {
            let what = "an imported page is not where version 0 puts it";
            self.report.add(&table_file(&segment.meta.name), Some(first), None, what);
        }
        let sound = self.read_window(segment, &located, window);
        self.report.blocks += blocks.len() as u64;
        let pages = window.chunks_exact(segment.meta.page_bytes as usize);
        let sound = sound.chunks(per_page as usize);
        for ((page, bytes), sound) in (first..end).zip(pages).zip(sound) {
            visit(&mut self.report, page, bytes, sound.iter().all(|sound| *sound));
        }
    }

    /// Fills the window; says of each block whether it is sound.
    fn read_window(
        &mut self,
        segment: &Segment,
        located: &[Located],
        window: &mut [u8],
    ) -> Vec<bool> {
        let mut sound = vec![false; located.len()];
        let name = data_file(&segment.meta.name);
        let report = &mut self.report;
        let mut at = 0;
        let per_read = READ_BYTES_MAX / BLOCK_BYTES;
        let mut next = || {
            let first = located.get(at)?;
            let rest = located.get(at..).unwrap_or_default().iter().zip(first.block..);
            let run = rest.take(per_read).take_while(|(place, block)| place.block == *block);
            let (tag, count) = (at as u64, run.count());
            at += count;
            let (offset, len) = (first.block * BLOCK_BYTES as u64, (count * BLOCK_BYTES) as u32);
            Some(ReadOp { tag, file: segment.data, offset, len })
        };
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            let first = op.tag as usize;
            let bytes = match result {
                Ok(bytes) => bytes,
                Err(error) => return report.add_error(&name, &ReadError::from(error)),
            };
            put(window, first * BLOCK_BYTES, bytes);
            let places = located.iter().zip(&mut sound).skip(first);
            for ((place, sound), block) in places.zip(bytes.chunks_exact(BLOCK_BYTES)) {
                let found = crc32c::crc32c(block);
                *sound = found == place.crc;
                if !*sound {
                    let page = place.block / segment.blocks_per_page();
                    let expected = place.crc;
                    let what = format!("checksum {found:#010x}, expected {expected:#010x}");
                    report.add(&name, Some(page), Some(place.block), what);
                }
            }
        };
        let result = self.inner.pages.reader.read(&mut next, &mut done);
        if let Err(error) = result {
            self.report.add_error(&data_file(&segment.meta.name), &error.into());
        }
        sound
    }
}
