//! String ids of a node type: names by id, and keys in byte order with the id of each.

pub(crate) mod page;
pub(crate) mod reader;
pub(crate) mod writer;
