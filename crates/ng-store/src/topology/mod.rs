//! Topology of one edge type: neighbour lists by destination in L-type and H-type pages
//! (HolisticGNN, section 4.1), and the trees that find them.

pub(crate) mod edit;
#[cfg(test)]
mod edit_tests;
pub(crate) mod entry;
pub(crate) mod expansion;
mod h_edit;
pub(crate) mod h_page;
mod l_edit;
mod l_lists;
pub(crate) mod l_page;
mod load;
pub(crate) mod page;
pub(crate) mod reader;
pub(crate) mod resident;
pub(crate) mod scan;
pub(crate) mod streaming;
pub(crate) mod writer;

/// Nodes in one gmap page: a bit each.
pub(crate) const GMAP_NODES: u64 = 8 * crate::io::BLOCK_BYTES as u64;
