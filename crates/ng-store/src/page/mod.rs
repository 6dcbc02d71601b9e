//! Pages of segments: which physical page holds a logical one, reading verified blocks through the
//! cache, writing segments front to back, and pages that commits have changed.
//!
//! What must not live here: what the bytes of a page mean. The invariant: every byte that is read
//! has matched the checksum that stands with the pointer to it.

pub(crate) mod absent;
pub(crate) mod edit;
pub(crate) mod located;
pub(crate) mod map;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod set;
pub(crate) mod table;
pub(crate) mod table_scan;
pub(crate) mod writer;
