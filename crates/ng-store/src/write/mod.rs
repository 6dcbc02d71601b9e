//! The write side: operations on a transaction, the log that makes them durable, checkpoints that
//! put them in their place, recovery.
//!
//! What must not live here: how lists, trees and bitmaps are edited, which is pages alone. The
//! invariant: nothing is acknowledged before its record is durable, and nothing that a root or a
//! version reaches is overwritten.

pub(crate) mod add_tensor;
mod apply;
mod buckets;
pub(crate) mod checkpoint;
pub(crate) mod compact;
mod draft;
pub(crate) mod error;
pub(crate) mod keyed;
pub(crate) mod log;
pub(crate) mod log_files;
pub(crate) mod narrow;
pub(crate) mod op;
pub(crate) mod ops;
pub(crate) mod recover;
pub(crate) mod reorganize;
mod rows;
pub(crate) mod seen;
pub(crate) mod space;
pub(crate) mod table_edit;
pub(crate) mod transaction;
pub(crate) mod writer;
