//! From nodes to rows: orders of rows, nodes that are deleted, and rows read by plan.
//!
//! What must not live here: the bytes of a row (`tensor`), and which order is a good one.

pub(crate) mod dead_nodes;
pub(crate) mod order;
pub(crate) mod order_file;
pub(crate) mod plan;
