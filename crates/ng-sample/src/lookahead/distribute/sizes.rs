//! How much is read, dealt out and written at a time.

use ng_io::BLOCK_BYTES;

/// Bytes of rows that are read together, if they are no longer than that each; and so many rows at
/// most.
const PART_BYTES: [u64; 2] = [64 << 10, 2 << 20];
const PART_ROWS: u64 = 8 << 10;

/// Parts in memory.
pub(super) const PARTS: u64 = 8;

/// What is written at a time.
const PIECE_BYTES: [u64; 2] = [BLOCK_BYTES as u64, 128 << 10];

/// Buffers may take this share of the memory of a stretch, and parts another.
const SHARE: u64 = 16;

/// Buffers that are being written while every batch has one.
pub(super) const SPARE: u64 = 32;

/// How much is read and written at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    batches: u64,
    part_bytes: u64,
    pub piece_bytes: u64,
}

impl Sizes {
    /// For `batches` batches with `bytes` for all.
    pub fn new(bytes: u64, batches: u64) -> Self {
        let part_bytes = (bytes / SHARE / PARTS).clamp(PART_BYTES[0], PART_BYTES[1]);
        let piece_bytes = bytes / SHARE / (batches + SPARE) / PIECE_BYTES[0] * PIECE_BYTES[0];
        let piece_bytes = piece_bytes.clamp(PIECE_BYTES[0], PIECE_BYTES[1]);
        Self { batches, part_bytes, piece_bytes }
    }

    /// Bytes to deal out `uses` rows of a table.
    pub fn num_bytes(&self, rows: u64, width: u64, uses: u64) -> u64 {
        let buffers = if uses == 0 { 0 } else { (self.batches + SPARE) * self.piece_bytes };
        rows * 4 + uses * 2 + buffers + PARTS * self.part_rows(width) * width
    }

    pub fn part_rows(&self, width: u64) -> u64 {
        (self.part_bytes / width.max(1)).clamp(1, PART_ROWS)
    }
}
