//! The vocabulary that every other crate shares: ids, dtypes, counter-based randomness and the
//! memory budget.
//!
//! Nothing here does I/O, allocates in proportion to a graph, or knows a file format. The invariant
//! this crate keeps: a draw is a pure function of (seed, stream, edge type, destination, draw
//! index), so a mini-batch depends on nothing else (`docs/reference/format.md`, section 11).
#![forbid(unsafe_code)]

mod bits;
mod budget;
mod bytes;
pub mod canary;
pub mod checksum;
mod dtype;
mod hash;
mod ids;
mod order;
mod places;
mod remedy;
mod rng;
mod shares;
mod trace;

pub use bits::Bits;
pub use budget::{Budget, BudgetExceeded, Reservation};
pub use bytes::{format_bytes, format_bytes_up};
pub use dtype::Dtype;
pub use hash::{IdHash, IdHasher};
pub use ids::{CheckpointId, EdgeTypeId, NODE_ID_BOUND, NodeId, NodeTypeId, PageId};
pub use order::SeedOrder;
pub use places::Places;
pub use remedy::{ErrorKind, Explain, Remedy};
pub use rng::{DrawKey, Draws, Purpose, SourceKey, philox4x32_10};
pub use shares::MemoryUser;
pub use trace::{Trace, TraceError};
