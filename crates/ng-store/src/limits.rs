//! Every limit of the format and of a store, each with its reason.
//!
//! `docs/reference/format.md`, `docs/reference/direct.md` and `docs/reference/compiled.md` name the
//! same figures; a format that gets another limit gets another version. Ids of nodes and edges are
//! below [`ng_types::NODE_ID_BOUND`], 40 bits.

use crate::io::BLOCK_BYTES;

/// Sizes of pages: whole blocks, and offsets in a page have 16 bits.
pub const PAGE_SIZES: [u32; 5] = [4096, 8192, 16_384, 32_768, PAGE_BYTES_MAX as u32];
/// The largest page, and the longest run of pages that holds one section of the direct layout.
pub(crate) const PAGE_BYTES_MAX: usize = 65_536;
/// Pages of a segment are fewer: its blocks are numbered in 46 bits of a cache key.
pub(crate) const PAGES_BOUND: u64 = 1 << 42;
/// Segments are numbered in 16 bits of a cache key.
pub(crate) const SEGMENTS_MAX: usize = 1 << 16;
/// Node types, edge types, tensors of one owner: their numbers have 16 bits, and fewer are plenty.
pub(crate) const TYPES_MAX: usize = 1 << 15;
/// The catalog is read as a whole before anything else is.
pub(crate) const CATALOG_BYTES_MAX: u64 = 64 << 20;
/// The text of a sealed file's head, which is read as a whole, too.
pub(crate) const HEAD_TEXT_BYTES_MAX: usize = 16 << 20;
/// No tree is higher: 255^6 records are more than 2^40 nodes.
pub(crate) const TREE_LEVELS_MAX: u8 = 6;
/// The widest row: a row is read as a whole.
pub const ROW_BYTES_MAX: u64 = 1 << 30;
/// Names of classes of a tensor, which lie in the catalog.
pub(crate) const CLASS_NAMES_MAX: usize = 1 << 16;
/// Entries of a sparse tensor: their numbers have 40 bits.
pub(crate) const SPARSE_ENTRIES_MAX: u64 = 1 << 40;
/// Entries of a sparse row: their count has 24 bits.
pub(crate) const SPARSE_ROW_ENTRIES_MAX: u64 = (1 << 24) - 1;
/// The longest string id in bytes: two of them fit into a page of a dictionary.
pub const STRING_BYTES_MAX: usize = 2000;
/// The longest record of the log: recovery looks no further for the block that goes on.
pub(crate) const RECORD_BYTES_MAX: u64 = 1 << 30;
/// The description of a backup, which is read as a whole.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Backups that one restoring reads: the longer a chain, the likelier that a link of it is lost.
pub(crate) const BACKUPS_MAX: usize = 1000;
/// Keys of transactions that a store remembers, the bytes of one, those of its note, and of all of
/// them: they lie in the catalog.
pub(crate) const KEYS_MAX: usize = 4096;
pub const KEY_BYTES_MAX: usize = 64;
pub const KEY_NOTE_BYTES_MAX: usize = 4096;
pub(crate) const KEYED_BYTES_MAX: usize = 4 << 20;
/// Problems that a report of `verify` lists; it counts more.
pub(crate) const PROBLEMS_MAX: usize = 10_000;

const _: () = assert!(PAGE_SIZES[0] as usize == BLOCK_BYTES);

/// Whether pages may have this size.
pub(crate) fn is_page_bytes(bytes: u32) -> bool {
    PAGE_SIZES.contains(&bytes)
}
