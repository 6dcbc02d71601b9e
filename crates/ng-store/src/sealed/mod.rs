//! Sealed files: what is compiled from a snapshot into one file that never changes. All kinds share
//! the frame: a head (magic, version, text, maps), contents in whole blocks, and for some kinds a
//! last block that says that the file is whole.
//!
//! What must not live here: what the text, the maps and the contents mean. The invariants: the
//! final name leads to a file whose every byte is durable, or to none; one process writes into a
//! directory at a time; every byte of head, maps and last block is compared or under a checksum
//! when a file is opened.

mod error;
mod reader;
mod writer;

pub use error::SealedError;
pub use reader::Sealed;
pub use writer::SealedWriter;

use crate::io::BLOCK_BYTES;

/// Bytes before the text: magic (8), version, length of the text, its checksum, that of the maps
/// (4 each), zeros.
const PREFIX_BYTES: usize = 32;
/// Where the head has the checksum of the maps.
const MAPS_CRC_AT: usize = 20;
/// Where the last block has the checksum of the bytes before the text.
const PREFIX_CRC_AT: usize = 56;
/// Where the last block has that of itself.
const END_CRC_AT: usize = BLOCK_BYTES - 4;

/// What tells the files of one kind from all others.
#[derive(Debug)]
pub struct SealedKind {
    /// In messages: "FILE is not a whole NAME".
    pub name: &'static str,
    /// How the name of a whole file ends.
    pub suffix: &'static str,
    /// How a file begins.
    pub magic: &'static [u8; 8],
    /// How its last block begins, for kinds whose text does not say how long the file is. Such a
    /// block goes on with the version, and has the checksum of the prefix at byte 56 and its own at
    /// the end; the other bytes are for the kind.
    pub end_magic: Option<&'static [u8; 8]>,
    /// The version that is written, and the only one that is read.
    pub version: u32,
}

/// Bytes of a head with a text of `text_bytes`, without the maps.
pub(crate) fn head_bytes(text_bytes: usize) -> usize {
    (PREFIX_BYTES + text_bytes).next_multiple_of(BLOCK_BYTES)
}
