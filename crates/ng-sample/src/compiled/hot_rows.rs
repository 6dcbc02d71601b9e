//! The hot rows of a set in the file of its first epoch: written once, in the order of their ids,
//! and read from front to back by every replay.
//!
//! What must not live here: which rows are hot. The invariant: a reader gives no rows away as sound
//! before the checksum of all of them held.

use std::cell::RefCell;
use std::sync::Arc;

use ng_io::{BLOCK_BYTES, ReadError, ReadOp};
use ng_store::{Merge, Owner, Planned, RowPart, RowPlan, SealedError, SealedWriter, Snapshot};
use ng_types::checksum;

use super::error::CompiledError;
use super::file::EpochFile;
use super::format::PIECE_BYTES;
use super::hot::{HotSet, PackedTable};
use super::write::Record;
use crate::SampleError;

/// Bytes of rows that are read together before they are written.
const CHUNK_BYTES: usize = 8 << 20;

/// Rows that are read together.
struct Part {
    plan: RowPlan,
    /// The place in the chunk of each.
    places: Vec<u32>,
}

impl Planned for Part {
    fn plan(&self) -> &RowPlan {
        &self.plan
    }
}

/// Appends the hot rows to a file that has a head and nothing else; gives their checksum.
pub(super) fn write_hot(
    snapshot: &Snapshot,
    hot: &HotSet,
    file: &mut SealedWriter,
) -> Result<u32, SampleError> {
    if hot.num_rows() == 0 {
        return Ok(0);
    }
    let mut part = Record { file, crcs: Vec::new(), bytes: 0 };
    for table in &hot.tables {
        write_table(snapshot, table, &mut part)?;
        part.pad(BLOCK_BYTES)?;
    }
    Ok(checksum::of_pieces(&part.crcs))
}

fn write_table(
    snapshot: &Snapshot,
    table: &PackedTable,
    part: &mut Record<'_>,
) -> Result<(), SampleError> {
    let (tensor, width) = (table.tensor, table.width as usize);
    let order = match tensor.owner {
        Owner::Node(node_type) => snapshot.load_order(node_type)?,
        Owner::Edge(_) => None,
    };
    let rows = (CHUNK_BYTES / width.max(1)).clamp(1, table.hot.len().max(1) as usize);
    let _held = snapshot.reserve((rows * width) as u64)?;
    let mut chunk = vec![0; rows * width];
    let merge = Merge::Gaps(snapshot.disk_costs(tensor)?.gap_blocks());
    let mut ids = table.hot.iter().peekable();
    while ids.peek().is_some() {
        let row = |id| order.as_ref().map_or(id, |order| order.row(id));
        let mut wanted: Vec<(u64, u32)> = ids.by_ref().take(rows).map(row).zip(0..).collect();
        wanted.sort_unstable();
        let count = wanted.len();
        let (of_file, places): (Vec<u64>, Vec<u32>) = wanted.into_iter().unzip();
        let plan = snapshot.plan_rows(tensor, &of_file, merge)?;
        let mut plans = Some(Arc::new(Part { plan, places }));
        let mut take = |part: &Part, rows: &mut [RowPart<'_>]| {
            for RowPart { row, skip, bytes } in rows {
                let at = part.places[*row] as usize * width + *skip;
                chunk[at..at + bytes.len()].copy_from_slice(bytes);
            }
        };
        snapshot.read_plans(&mut || plans.take(), &mut take, &mut |_| ())?;
        part.put(&chunk[..count * width])?;
    }
    Ok(())
}

impl EpochFile {
    /// Bytes of the hot rows in this file, with the zeros behind them.
    pub fn hot_bytes(&self) -> u64 {
        if self.id().has_hot_rows() { self.hot().part_bytes() } else { 0 }
    }

    /// Reads the hot rows that are in this file from front to back. `take` gets bytes of a table
    /// and where they belong among its hot rows, in any order. Returns whether all was read:
    /// `goes_on` is asked many times.
    ///
    /// # Errors
    /// [`SealedError::NotWhole`] if they are damaged; those of reading.
    pub(crate) fn read_hot(
        &self,
        mut goes_on: impl FnMut() -> bool,
        take: &mut dyn FnMut(usize, usize, &[u8]),
    ) -> Result<bool, CompiledError> {
        let (bytes, places) = (self.hot_bytes(), self.hot().places());
        let mut crcs = vec![0; (bytes as usize).div_ceil(PIECE_BYTES)];
        let failure: RefCell<Option<ReadError>> = RefCell::default();
        let (mut at, mut is_whole, mut padding) = (0, true, false);
        let mut next = || {
            is_whole &= goes_on();
            let len = (PIECE_BYTES as u64).min(bytes - at);
            if len == 0 || !is_whole || failure.borrow().is_some() {
                return None;
            }
            let op = ReadOp { tag: at, file: self.file, offset: self.start + at, len: len as u32 };
            at += len;
            Some(op)
        };
        let mut done = |op: ReadOp, result: Result<&[u8], ReadError>| match result {
            Ok(found) => {
                crcs[op.tag as usize / PIECE_BYTES] = checksum::of(found);
                let piece = op.tag..op.tag + found.len() as u64;
                let of = |start: u64, end: u64| {
                    let (start, end) = (start.max(piece.start), end.min(piece.end));
                    if start >= end {
                        return &[][..];
                    }
                    &found[(start - piece.start) as usize..(end - piece.start) as usize]
                };
                for (table, place) in places.iter().enumerate() {
                    let rows = of(place.start, place.end);
                    if !rows.is_empty() {
                        take(table, (op.tag.max(place.start) - place.start) as usize, rows);
                    }
                    let zeros = of(place.end, place.end.next_multiple_of(BLOCK_BYTES as u64));
                    padding |= zeros.iter().any(|byte| *byte != 0);
                }
            }
            Err(error) => drop(failure.borrow_mut().get_or_insert(error)),
        };
        self.reader.read(&mut next, &mut done).map_err(SealedError::from)?;
        if let Some(error) = failure.into_inner() {
            return Err(SealedError::from(error).into());
        }
        if !is_whole {
            return Ok(false);
        }
        let (found, expected) = (checksum::of_pieces(&crcs), self.tail.hot_crc);
        if bytes > 0 && found != expected {
            let what = format!("checksum {found:#010x}, expected {expected:#010x}");
            return Err(self.hot_damaged(&what));
        }
        if padding {
            return Err(self.hot_damaged("their padding is not 0"));
        }
        self.reader.stats().add_useful(self.hot().row_bytes());
        Ok(true)
    }
}
