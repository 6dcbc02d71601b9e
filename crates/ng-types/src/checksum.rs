//! The one checksum of everything that lies on disk: CRC-32C.
//!
//! What must not live here: what a checksum covers, but for the one pattern that several formats
//! share, a block that holds its own.

use std::ops::Range;

/// The checksum of a block, or of anything else that is read as a whole.
#[inline]
pub fn of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The checksum of one more part; `before` is that of all parts before it, 0 for none.
#[inline]
pub fn extended(before: u32, part: &[u8]) -> u32 {
    crc32c::crc32c_append(before, part)
}

/// The checksum of a record from those of its pieces, which can be had in any order.
pub fn of_pieces(pieces: &[u32]) -> u32 {
    pieces.iter().fold(0, |before, piece| extended(before, &piece.to_le_bytes()))
}

/// Puts the checksum of the bytes `covered` of a block to its byte `at`.
///
/// # Panics
/// If the block is too short for either.
pub fn seal(block: &mut [u8], covered: Range<usize>, at: usize) {
    let sum = of(&block[covered]);
    block[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the bytes `covered` of a block match the checksum at its byte `at`; not if it is too
/// short for either.
pub fn is_sealed(block: &[u8], covered: Range<usize>, at: usize) -> bool {
    let stored = block.get(at..).and_then(<[u8]>::first_chunk).map(|sum| u32::from_le_bytes(*sum));
    stored.is_some() && block.get(covered).map(of) == stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_documents_and_parts_add_up() {
        assert_eq!(of(b"123456789"), 0xE306_9283);
        assert_eq!(extended(of(b"1234"), b"56789"), of(b"123456789"));
        let mut block = *b"....123456789";
        seal(&mut block, 4..13, 0);
        assert_eq!(block[..4], 0xE306_9283_u32.to_le_bytes());
        assert!(is_sealed(&block, 4..13, 0) && !is_sealed(&block, 4..12, 0));
        assert!(!is_sealed(&block, 4..14, 0) && !is_sealed(&block, 4..13, 10));
    }
}
