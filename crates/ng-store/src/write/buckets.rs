//! Moving rows to other places with little memory: rows go into buckets by where they shall be, and
//! each bucket is put in order by itself.
//!
//! What lives here: buckets of records, in memory where all fit one, else in a temporary file that
//! is written once and read once, front to back but for the chunks of a bucket. What must not: what
//! a record holds. The invariant: rows come out in ascending order, each once.

use std::path::Path;

use ng_io::{ScratchError, ScratchFile};
use ng_types::{MemoryUser, Reservation};

use crate::bytes::le_u32;
use crate::error::ReadError;
use crate::store::Snapshot;
use crate::write::error::UpdateError;

/// Of a record: its row in the bucket and its length.
const HEADER_BYTES: u64 = 8;
/// For each row of the bucket that is put in order: where its record is.
const PLACE_BYTES: u64 = 8;
/// Most bytes that one bucket collects before they are written.
const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// What is known before the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    rows_per_bucket: u64,
    num_buckets: u64,
    /// Of the rows and what stands beside them.
    bytes: u64,
}

impl Plan {
    /// For `num_rows` rows with `row_bytes` on average, within a budget of `limit` bytes.
    pub fn new(num_rows: u64, row_bytes: u64, limit: u64) -> Self {
        let each = row_bytes.saturating_add(HEADER_BYTES + PLACE_BYTES);
        let bytes = num_rows.saturating_mul(each);
        let num_buckets =
            bytes.div_ceil(MemoryUser::Bucket.share(limit).max(1)).clamp(1, num_rows.max(1));
        // Buckets of whole rows, and no more of them than memory can be filled in parts for.
        let num_buckets = num_buckets.min(1 << 16);
        let rows_per_bucket = num_rows.div_ceil(num_buckets).max(1);
        Self { rows_per_bucket, num_buckets: num_rows.div_ceil(rows_per_bucket), bytes }
    }

    /// Bytes of the temporary file.
    pub fn scratch_bytes(&self) -> u64 {
        if self.num_buckets > 1 { self.bytes } else { 0 }
    }
}

/// One bucket.
#[derive(Default)]
struct Bucket {
    /// Records that are not written yet.
    filling: Vec<u8>,
    /// Where the others are in the file.
    chunks: Vec<(u64, usize)>,
    bytes: u64,
}

/// Rows on their way.
pub(crate) struct Buckets<'a> {
    snapshot: &'a Snapshot,
    plan: Plan,
    num_rows: u64,
    buckets: Vec<Bucket>,
    /// `None` where one bucket holds all, in memory.
    file: Option<ScratchFile>,
    chunk_bytes: usize,
    held: Reservation,
}

impl<'a> Buckets<'a> {
    /// For `num_rows` rows; the temporary file is in `directory`.
    pub fn new(
        snapshot: &'a Snapshot,
        directory: &Path,
        num_rows: u64,
        row_bytes: u64,
    ) -> Result<Self, UpdateError> {
        let limit = snapshot.budget().limit_bytes();
        let plan = Plan::new(num_rows, row_bytes, limit);
        let chunk_bytes =
            (MemoryUser::FilledBuckets.share(limit) / plan.num_buckets.max(1)).min(CHUNK_BYTES_MAX);
        let is_spilled = plan.num_buckets > 1;
        let filling = if is_spilled { chunk_bytes * plan.num_buckets } else { plan.bytes };
        let held = snapshot.reserve(filling).map_err(ReadError::from)?;
        let file = if is_spilled {
            Some(ScratchFile::create_in(directory).map_err(scratch_error)?)
        } else {
            None
        };
        let each = (filling / plan.num_buckets.max(1)) as usize;
        let bucket = |_| Bucket { filling: Vec::with_capacity(each), ..Bucket::default() };
        let buckets = (0..plan.num_buckets).map(bucket).collect();
        let chunk_bytes = chunk_bytes as usize;
        Ok(Self { snapshot, plan, num_rows, buckets, file, chunk_bytes, held })
    }

    /// Takes what shall be row `row`.
    pub fn push(&mut self, row: u64, record: &[u8]) -> Result<(), UpdateError> {
        let per_bucket = self.plan.rows_per_bucket;
        let Some(bucket) = self.buckets.get_mut((row / per_bucket) as usize) else {
            return Err(lost(row));
        };
        let len = bucket.filling.len() + HEADER_BYTES as usize + record.len();
        if let Some(file) = self.file.as_ref().filter(|_| len > self.chunk_bytes) {
            bucket.flush(file)?;
        }
        bucket.filling.extend(((row % per_bucket) as u32).to_le_bytes());
        bucket.filling.extend((record.len() as u32).to_le_bytes());
        bucket.filling.extend_from_slice(record);
        bucket.bytes += HEADER_BYTES + record.len() as u64;
        Ok(())
    }

    /// Lends all rows in their new order.
    pub fn finish(
        mut self,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        let buckets = std::mem::take(&mut self.buckets);
        let mut first = 0;
        for mut bucket in buckets {
            let rows = self.plan.rows_per_bucket.min(self.num_rows - first);
            let more = match self.file {
                Some(_) => bucket.bytes + rows * PLACE_BYTES,
                None => (bucket.bytes + rows * PLACE_BYTES).saturating_sub(self.held.bytes()),
            };
            let _held = self.snapshot.reserve(more).map_err(ReadError::from)?;
            let records = bucket.take(self.file.as_ref())?;
            let mut places = vec![None; rows as usize];
            let mut at = 0;
            while at < records.len() {
                let (row, len) = (le_u32(&records, at), le_u32(&records, at + 4) as usize);
                let start = at + HEADER_BYTES as usize;
                if let Some(place @ None) = places.get_mut(row as usize) {
                    *place = Some((start, len));
                }
                at = start + len;
            }
            for (row, place) in (first..).zip(&places) {
                let record = place.and_then(|(start, len)| records.get(start..start + len));
                visit(record.ok_or_else(|| lost(row))?)?;
            }
            first += rows;
        }
        Ok(())
    }
}

impl Bucket {
    fn flush(&mut self, file: &ScratchFile) -> Result<(), UpdateError> {
        if !self.filling.is_empty() {
            let at = file.append(&self.filling).map_err(scratch_error)?;
            self.chunks.push((at, self.filling.len()));
            self.filling.clear();
        }
        Ok(())
    }

    /// All records.
    fn take(&mut self, file: Option<&ScratchFile>) -> Result<Vec<u8>, UpdateError> {
        let mut records = std::mem::take(&mut self.filling);
        let Some(file) = file else { return Ok(records) };
        let mut at = records.len();
        records.resize(self.bytes as usize, 0);
        for (offset, len) in self.chunks.drain(..) {
            let target = &mut records[at..at + len];
            file.read_exact_at(offset, target).map_err(scratch_error)?;
            file.discard(offset..offset + len as u64);
            at += len;
        }
        Ok(records)
    }
}

fn lost(row: u64) -> UpdateError {
    ReadError::Order { what: format!("no node has row {row}") }.into()
}

fn scratch_error(error: ScratchError) -> UpdateError {
    UpdateError::Unsupported { what: error.to_string() }
}

/// A sparse row as a record: columns, then values.
pub(crate) fn encode_sparse(columns: &[u32], values: &[f32], out: &mut Vec<u8>) {
    out.clear();
    out.extend(columns.iter().flat_map(|column| column.to_le_bytes()));
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

/// The row of a record.
pub(crate) fn decode_sparse(record: &[u8], columns: &mut Vec<u32>, values: &mut Vec<f32>) {
    let (first, second) = record.split_at(record.len() / 2);
    columns.clear();
    columns.extend(first.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
    values.clear();
    values.extend(second.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_as_few_as_memory_allows_and_hold_every_row() {
        for (rows, width, limit, expected) in [
            (0, 4, 1 << 20, 0),
            (1, 1 << 20, 1 << 20, 1),
            (1000, 16, 1 << 20, 1),
            (1000, 1008, 1 << 20, 4),
            (1_000_003, 1008, 1 << 20, 3907),
        ] {
            let plan = Plan::new(rows, width, limit);
            assert!(plan.num_buckets.abs_diff(expected) <= 1, "{plan:?}, {expected}");
            assert!(plan.num_buckets * plan.rows_per_bucket >= rows, "{plan:?}");
            assert_eq!(plan.scratch_bytes() > 0, expected > 1);
        }
    }

    #[test]
    fn a_sparse_row_comes_back_from_its_record() {
        let (columns, values) = (vec![0, 7, 1 << 20], vec![1.0, -0.5, f32::INFINITY]);
        let (mut record, mut c, mut v) = (vec![9], Vec::new(), Vec::new());
        encode_sparse(&columns, &values, &mut record);
        decode_sparse(&record, &mut c, &mut v);
        assert_eq!((c, v), (columns, values));
        encode_sparse(&[], &[], &mut record);
        assert!(record.is_empty());
    }
}
