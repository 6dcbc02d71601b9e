//! The external-memory sort: records of an edge list in, the same records in order out.
//!
//! What lives here: record types, the radix sort of what fits in memory, the distribution into
//! partitions on a scratch file and the ordered stream over them. What must not: what an edge
//! means, pages, text. The invariant: the output is the sorted multiset of the input, whatever the
//! memory, the number of threads and the order of arrival.

mod blocks;
mod ordered;
mod partition;
mod radix;
mod record;
mod sorter;
mod splitters;

pub(crate) use blocks::SlotFile;
pub(crate) use record::{BySource, Full, Layout, Record, pair, triple};
pub(crate) use sorter::{Sizes, Sorted, Sorter};

#[cfg(test)]
mod tests;
