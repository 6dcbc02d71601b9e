//! The dealing thread: rows of a part into memory if they are hot, else into the buffers of their
//! batches. What must not live here: reading, writing. The invariant: rows are dealt in the order
//! of the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use ng_io::{AnonMap, BLOCK_BYTES};

use super::deal::{Deal, Part, Piece, lock};
use super::memory::region_bytes;
use super::sizes::SPARE;
use super::{Place, Table};
use crate::SampleError;
use crate::buffer::region;
use crate::lookahead::state::AheadShared;

/// The dealing thread's work.
pub(super) struct Dealer<'a> {
    pub table: &'a Table,
    pub deal: &'a Deal,
    pub piece_bytes: usize,
    pub pieces: Sender<Piece>,
    pub clean: Receiver<AnonMap>,
    /// Buffers that were made.
    pub made: u64,
}

/// A buffer that is being filled.
struct Open {
    memory: AnonMap,
    filled: usize,
    offset: u64,
    /// Where the region of its batch ends.
    end: u64,
}

impl Dealer<'_> {
    /// Deals parts out in the order of the file, whatever order they come in, until there are no
    /// more.
    pub fn run(
        mut self,
        shared: &AheadShared,
        parts: &Receiver<Arc<Part>>,
        memory: &Sender<AnonMap>,
        hot: &mut AnonMap,
    ) -> Result<(), SampleError> {
        let width = self.table.width as usize;
        let opens = self.table.regions.iter();
        let mut opens: Vec<Open> = opens
            .map(|Place { offset, rows }| {
                let end = offset + region_bytes(*rows, self.table.width);
                Ok(Open { memory: region(0)?, filled: 0, offset: *offset, end })
            })
            .collect::<Result<_, SampleError>>()?;
        let hot = hot.as_mut_slice();
        let (mut early, mut next) = (BTreeMap::new(), 0);
        while let Ok(part) = parts.recv() {
            // Reads end in any order, but a region has its rows in the order of the file: that is
            // how they are found again, by their rank among the cold rows of the batch.
            early.insert(part.number, part);
            while let Some(part) = early.remove(&next) {
                next += 1;
                let mut bytes = lock(&part.memory);
                for (row, bytes) in part.rows.iter().zip(bytes.as_slice().chunks_exact(width)) {
                    if let Some(place) = self.table.hot.place(*row) {
                        hot[place as usize * width..][..width].copy_from_slice(bytes);
                        continue;
                    }
                    for batch in self.deal.batches_of(*row as usize) {
                        if !self.put(&mut opens[usize::from(*batch)], bytes)? {
                            return Ok(());
                        }
                    }
                }
                // The reader may have read its last part.
                let _ = memory.send(std::mem::replace(&mut *bytes, region(0)?));
            }
            if shared.is_stopping() {
                return Ok(());
            }
        }
        // Only now: a buffer that goes out before it is full ends its region.
        for open in &mut opens {
            self.flush(open);
        }
        Ok(())
    }

    /// Appends a row to a batch's buffer; false if the writers have gone, because everything stops.
    fn put(&mut self, open: &mut Open, mut bytes: &[u8]) -> Result<bool, SampleError> {
        debug_assert_eq!(bytes.len() as u64, self.table.width, "rows are dealt whole");
        // A row may end one buffer and begin the next: buffers are pieces of the file, not of rows.
        while !bytes.is_empty() {
            if open.memory.as_slice().is_empty() {
                let Some(memory) = self.buffer()? else { return Ok(false) };
                open.memory = memory;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.piece_bytes - open.filled));
            open.memory.as_mut_slice()[open.filled..][..part.len()].copy_from_slice(part);
            open.filled += part.len();
            bytes = rest;
            if open.filled == self.piece_bytes {
                self.flush(open);
            }
        }
        Ok(true)
    }

    /// An empty buffer; `None` if the writers have gone because everything stops.
    fn buffer(&mut self) -> Result<Option<AnonMap>, SampleError> {
        if let Ok(clean) = self.clean.try_recv() {
            return Ok(Some(clean));
        }
        // Every batch may hold one that is half full, so with fewer the dealer would wait for the
        // writers while they have nothing to write.
        if self.made < self.table.regions.len() as u64 + SPARE {
            self.made += 1;
            return region(self.piece_bytes).map(Some);
        }
        Ok(self.clean.recv().ok())
    }

    fn flush(&self, open: &mut Open) {
        let bytes = std::mem::take(&mut open.filled).next_multiple_of(BLOCK_BYTES);
        let Ok(none) = AnonMap::new(0) else { return };
        if bytes == 0 {
            return;
        }
        // Regions stand one behind the other: what passes the end would be the next batch's rows.
        let past = open.offset + bytes as u64;
        assert!(past <= open.end, "rows up to byte {past} of a region that ends at {}", open.end);
        let memory = std::mem::replace(&mut open.memory, none);
        // Writers go only if everything stops.
        let _ = self.pieces.send(Piece { offset: open.offset, bytes, memory });
        open.offset += bytes as u64;
    }
}
