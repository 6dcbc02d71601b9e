//! From nodes to rows: orders of rows, nodes that are deleted, rows read by plan, rows that
//! are asked for ahead, and rows that a newer version has changed.
//!
//! What must not live here: the bytes of a row (`tensor`), and which order is a good one.

pub(crate) mod changes;
pub(crate) mod dead_nodes;
pub(crate) mod order;
pub(crate) mod order_file;
pub(crate) mod plan;
pub(crate) mod queue;
