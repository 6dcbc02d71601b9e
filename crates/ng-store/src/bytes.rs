//! Little-endian fields of byte slices.
//!
//! Bytes that are read may be anybody's: past their end is 0, and decoders refuse what is too
//! short. Bytes that are written are our own: a field that does not fit is a bug, and stops.

use crate::error::Damage;

pub(crate) fn le_u16(bytes: &[u8], at: usize) -> u16 {
    field(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(crate) fn le_u32(bytes: &[u8], at: usize) -> u32 {
    field(bytes, at).map_or(0, u32::from_le_bytes)
}

pub(crate) fn le_u64(bytes: &[u8], at: usize) -> u64 {
    field(bytes, at).map_or(0, u64::from_le_bytes)
}

/// Overwrites the bytes at `at`, all of which there are.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// An error unless `condition` holds.
pub(crate) fn ensure(condition: bool, what: impl FnOnce() -> String) -> Result<(), Damage> {
    if condition { Ok(()) } else { Err(Damage::new(what())) }
}

/// Whether every byte is 0, as padding must be.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// Bytes of a number below `bound`.
pub(crate) fn width_below(bound: u64) -> usize {
    match bound {
        ..=0x100_0000 => 3,
        0x100_0001..=0x1_0000_0000 => 4,
        _ => 5,
    }
}
