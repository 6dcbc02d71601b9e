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

use std::str::Utf8Error;

use ng_types::Remedy;

use crate::error::Fault;

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
pub(crate) fn check_name(name: &[u8]) -> Result<&str, Fault> {
    if name.is_empty() {
        return Err("a string id is empty".into());
    }
    if name.len() > NAME_BYTES_MAX {
        let len = name.len();
        return Err(format!(
            "a string id has {len} bytes, more than the limit of {NAME_BYTES_MAX}"
        )
        .into());
    }
    std::str::from_utf8(name).map_err(|error| not_utf8("the string id", name, error))
}

/// The fault of a text with a byte that is not UTF-8.
pub(crate) fn not_utf8(what: &str, text: &[u8], error: Utf8Error) -> Fault {
    let at = error.valid_up_to();
    let byte = text[at];
    let what = format!("byte {} of {what}, 0x{byte:02X}, is not valid UTF-8", at + 1);
    Fault::with(what, Remedy::GiveEncoding)
}
