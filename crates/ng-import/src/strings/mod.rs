//! Nodes named by strings. A node's id is the rank of its name in byte order among all names of
//! its type, so it depends on nothing else; the names are kept in the store. Numbers are names of
//! eight bytes, the highest first, so that their ranks follow the numbers. Where a table of nodes
//! gives the names beforehand, the id is the row.
//!
//! While edges come in, names get provisional ids from a table of bounded size; a full table is
//! written out as a sorted run and forgotten, so a name may get several provisional ids. Merging
//! the runs gives the ranks; two sorts by the ends of the edges put them in place.

mod decimals;
mod intern;
mod merge;
mod relabel;
mod spool;

pub(crate) use intern::StringTable;
pub(crate) use merge::Ranks;
pub(crate) use relabel::{StringEdges, relabel};

/// The longest name of a node in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// What the names of a node type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// Strings of the edges.
    Text,
    /// Strings of a table, whose rows are the ids.
    Key,
    /// Integers of the edges below [`NUMBER_BOUND`].
    Number,
}

/// Integers that are names are below this.
pub(crate) const NUMBER_BOUND: u64 = 1 << 63;

/// Checks a name; says what is wrong with it.
pub(crate) fn check_name(name: &[u8]) -> Result<&str, String> {
    if name.is_empty() {
        return Err("a name is empty".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "a name has {} bytes; the longest may have {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    std::str::from_utf8(name).map_err(|_| "a name is not UTF-8 text".to_owned())
}
