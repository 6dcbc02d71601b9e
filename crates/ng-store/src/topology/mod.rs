//! Topology of one edge type: neighbour lists by destination in L-type and H-type pages
//! (HolisticGNN, section 4.1), and the trees that find them.

mod edit;
#[cfg(test)]
mod edit_tests;
mod entry;
mod expansion;
mod h_edit;
mod h_page;
mod held;
mod l_edit;
mod l_lists;
mod l_page;
mod load;
mod page;
mod reader;
mod resident;
mod scan;
mod streaming;
mod unpack;
mod writer;

pub(crate) use edit::TopologyEdit;
pub use entry::Entry;
pub(crate) use entry::EntryLayout;
pub use expansion::{Draw, Expansion};
pub(crate) use h_page::{HLayout, ROOM_BIT, check_h_page, degree_of};
pub(crate) use held::HeldTopologies;
pub(crate) use l_page::LPage;
pub(crate) use load::topology_bytes;
pub(crate) use page::PageHeader;
pub(crate) use reader::TopologyReader;
pub(crate) use resident::Column;
pub use resident::{Packed, ResidentTopology, from_three};
pub use scan::VisitLists;
pub use streaming::{DrawList, ListRequest, NextRequests, STREAM_BYTES_PER_REQUEST, TakeList};
pub use writer::{TopologyPart, TopologyWriter};
pub(crate) use writer::{TopologySpec, TopologyTotals};

/// Nodes in one gmap page: a bit each.
pub(crate) const GMAP_NODES: u64 = 8 * crate::io::BLOCK_BYTES as u64;
