//! Tensors: fixed-width rows of node or edge attributes, by id.

pub(crate) mod decode;
pub(crate) mod held;
pub(crate) mod layout;
pub(crate) mod reader;
pub(crate) mod sparse;
pub(crate) mod sparse_reader;
pub(crate) mod sparse_writer;
pub(crate) mod table;
pub(crate) mod writer;
