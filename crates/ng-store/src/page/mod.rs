//! Pages of segments: which physical page holds a logical one, reading verified blocks through the
//! cache, writing segments front to back, and pages that commits have changed.
//!
//! What must not live here: what the bytes of a page mean. The invariant: every byte that is read
//! has matched the checksum that stands with the pointer to it.

mod absent;
mod edit;
mod located;
mod map;
mod metadata;
mod reader;
mod scan;
mod segment;
mod set;
mod table;
mod table_scan;
mod writer;

pub(crate) use absent::Absent;
pub use edit::EditCounts;
pub(crate) use edit::{CleanPages, Edit};
pub(crate) use located::{Located, Place};
pub(crate) use map::{Page, PageMap, PagePool, Slot};
pub(crate) use metadata::Metadata;
pub(crate) use reader::{Beside, Pages};
pub use scan::VisitRows;
pub(crate) use scan::{Window, read_blocks, scan_blocks, scan_rows, scan_some_rows};
pub(crate) use segment::{Placed, Segment, data_file, segment_of, table_file, verify_blocks};
pub(crate) use set::PageSet;
pub(crate) use table::{
    Entries, FAN_CHILDREN, INNER_ENTRIES, Inner, Leaf, LeafSpec, empty_entries, encode_fan,
    encode_inner, encode_leaf, pages_per_child, pages_per_leaf, set_entry,
};
pub(crate) use table_scan::{Found, TableContent, decode_child, decode_leaf, scan_table};
pub(crate) use writer::{FinishedSegment, SegmentWriter};
